"""On, off, and off for a while."""

from __future__ import annotations

import tensorflow as tf

import tf_blade
from tests.jit.since import Since
from tf_blade.just_in_time.switch import Switch


def test_a_pause_ends_as_it_was_or_as_it_was_turned_meanwhile():
    states: list[bool] = []
    switch = Switch()
    with switch.paused():
        pass  # nothing is connected yet
    switch.connect(states.append)
    switch.turn(True)
    with switch.paused(), switch.paused():
        assert states[-1] is False
    assert states[-1] is True
    with switch.paused():
        switch.turn(False)
        switch.turn(True)
        assert states[-1] is False
    assert states[-1] is True
    with switch.paused():
        switch.turn(False)
    assert states[-1] is False


def test_a_forked_process_stays_off_whatever_ends_or_is_turned_there():
    states: list[bool] = []
    switch = Switch()
    switch.connect(states.append)
    switch.turn(True)
    with switch.paused():
        with switch._lock:  # another thread's, which is not in the new process
            switch.end_in_fork()
        switch.turn(True)
    switch.turn(True)
    assert states[-1] is False


def test_optimize_runs_the_original_as_it_is(config, tmp_path):
    @tf.function(input_signature=[tf.TensorSpec([None, 8], tf.float32, name="x")])
    def score(x):
        return {"y": tf.nn.softmax(tf.tanh(x) * 2.0 + 1.0)}

    since = Since()
    with tf_blade.jit(config=config):
        tf_blade.optimize(
            score,
            tmp_path / "out",
            config=tf_blade.Config(cache_dir=config.cache_dir, timing_seconds=0),
        )
    assert since.graphs == 0
