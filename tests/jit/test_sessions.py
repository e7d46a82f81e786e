"""TF1 sessions: feeds, fetches, control flow, what is only run."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

import tf_blade
from tests.jit.since import Since

v1 = tf.compat.v1
X = np.random.default_rng(0).normal(size=(3, 24)).astype(np.float32)


def weights() -> np.ndarray:
    return np.linspace(-1, 1, 240, dtype=np.float32).reshape(24, 10)


def assert_equal(got, wanted) -> None:
    for a, b in zip(tf.nest.flatten(got), tf.nest.flatten(wanted), strict=True):
        if b is not None:
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def run(build, runs, config=None) -> list:
    """What a new session gives for runs of (fetches, feeds) by name; compiled if there is a config.

    The first run of all is that of the initialiser.
    """
    with tf.Graph().as_default() as graph:
        build()
        init = v1.global_variables_initializer()
        with v1.Session(graph=graph) as session:
            if config is None:
                session.run(init)
                return [session.run(*one) for one in runs]
            with tf_blade.jit(wait=True, config=config):
                session.run(init)
                return [session.run(*one) for one in runs]


def model() -> None:
    x = v1.placeholder(tf.float32, [None, 24], "x")
    w = v1.get_variable("w", initializer=weights(), use_resource=True)
    b = v1.get_variable("b", initializer=weights()[0], use_resource=False)
    logits = tf.tanh(x @ w + b, name="logits")
    tf.nn.softmax(tf.exp(logits) * 2.0, name="scores")
    v1.assign(w, w * 2.0 + 1.0, name="assign")


def test_every_set_of_fetches_answers_as_before(config):
    runs = [
        ("scores:0", {"x:0": X}),
        (["logits:0", "scores:0"], {"x:0": X[:1]}),
        (["scores:0", "assign"], {"x:0": X}),
        ("scores:0", {"x:0": X}),
        ("w/Read/ReadVariableOp:0",),
    ]
    since = Since()
    assert_equal(run(model, runs, config), run(model, runs))
    assert since.compiled_calls >= 4 and since.fallback_calls == {}
    assert any("for its effects only" in reason for reason in since.left_alone)


def test_a_run_that_is_fed_an_inner_result_is_left_alone(config):
    runs = [("scores:0", {"logits:0": X[:, :10]}), ("scores:0", {"x:0": X})]
    since = Since()
    assert_equal(run(model, runs, config), run(model, runs))
    assert {"it is fed the result of 'logits' (Tanh)": 1}.items() <= since.left_alone.items()


def test_a_partial_run_does_not_wait_for_inputs_of_later_parts(config):
    since = Since()
    with tf.Graph().as_default(), tf_blade.jit(wait=True, config=config), v1.Session() as session:
        x, y = (v1.placeholder(tf.float32, [None, 24]) for _ in range(2))
        first = tf.tanh(tf.exp(x * 0.1) * 2.0 + 1.0)
        second = tf.nn.softmax(tf.exp(y * 0.1) * first + tf.tanh(first))
        handle = session.partial_run_setup([first, second], [x, y])
        between = session.partial_run(handle, first, {x: X})
        got = session.partial_run(handle, second, {y: between})
        assert since.graphs == 0
        wanted = session.run([first, second], {x: X, y: between})
        assert since.compiled_calls > 0
    assert_equal([between, got], wanted)


@pytest.mark.parametrize("functional", [True, False])
def test_control_flow(config, functional):
    def build():
        x = v1.placeholder(tf.float32, [None, 24], "x")

        def body(i, y):
            return i + 1, tf.tanh(y * 0.5 + x) * 2.0 + 1.0

        y = v1.while_loop(lambda i, _: i < 3, body, [0, x])[1]
        z = v1.cond(
            tf.reduce_mean(x) > 0,
            lambda: tf.exp(tf.tanh(y) * 2.0) + 1.0,
            lambda: tf.cos(tf.tanh(y)) + 1.0,
        )
        tf.sqrt(z, name="z")

    was_on = v1.control_flow_v2_enabled()
    (v1.enable_control_flow_v2 if functional else v1.disable_control_flow_v2)()
    try:
        runs = [("z:0", {"x:0": X + 2}), ("z:0", {"x:0": X - 2})]
        since = Since()
        assert_equal(run(build, runs, config), run(build, runs))
    finally:
        (v1.enable_control_flow_v2 if was_on else v1.disable_control_flow_v2)()
    assert since.compiled_calls == 4 and since.fallback_calls == {}  # a loop and a branch each


def test_control_dependencies_keep_their_order(config):
    def build():
        v = v1.get_variable("v", initializer=np.float32([1, 2, 3]), use_resource=True)
        before = tf.exp(v.read_value() * 0.1) * 2.0 - 1.0
        with tf.control_dependencies([before]):
            added = v1.assign_add(v, tf.tanh(before) * 3.0)
        with tf.control_dependencies([added]):
            after = tf.exp(v.read_value() * 0.1) * 2.0 - 1.0
        tf.stack([before, after], name="both")

    runs = [("both:0",)] * 3
    since = Since()
    assert_equal(run(build, runs, config), run(build, runs))
    assert since.compiled_calls > 0


def test_embedding_columns_on_kernels_that_need_no_compiler(config):
    config = dataclasses.replace(config, lookups="library")

    def build():
        words = v1.placeholder(tf.string, [None, 2], "words")
        found = []
        for i in range(3):
            table = v1.get_variable(f"t{i}", initializer=weights()[:, :8] + i, use_resource=True)
            ids = tf.sparse.from_dense(tf.strings.to_hash_bucket_fast(words, 24))
            found.append(tf.nn.safe_embedding_lookup_sparse(table, ids, combiner="sum"))
        tf.concat(found, 1, name="out")

    runs = [("out:0", {"words:0": [["a", "b"], ["c", "a"]]}), ("out:0", {"words:0": [["d", "d"]]})]
    since = Since()
    assert_equal(run(build, runs, config), run(build, runs))
    assert since.lookups == 1 and since.compiled == 0 and since.compiled_calls == 2
