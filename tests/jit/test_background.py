"""Compiling in the background: right answers before, while and after; errors; many threads."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest
import tensorflow as tf

import tf_blade
from tests.jit.since import Since, until
from tf_blade.just_in_time import compile_graph, service


@pytest.fixture
def gate(tmp_path):
    """A compiler that begins when a file appears."""
    command = tmp_path / "gated_g++"
    opened = tmp_path / "open"
    command.write_text(
        f'#!/bin/sh\ncase "$*" in *-c*) while [ ! -e {opened} ]; do sleep 0.02; done;; esac\n'
        f'exec {shutil.which("g++")} "$@"\n'
    )
    command.chmod(0o755)
    return command, opened


def test_calls_before_and_after_the_code_is_there_are_right(gate, tmp_path):
    def score(x):
        return tf.nn.softmax(tf.exp(x * 0.3) * 2.0 + 1.0) * 3.0

    compiler, opened = gate
    function = tf.function(score)
    since = Since()
    config = tf_blade.Config(compiler=str(compiler), cache_dir=str(tmp_path / "cache"))
    x = tf.random.stateless_normal([5, 9], seed=(1, 2))
    with tf_blade.jit(config=config):
        for batch in (5, 3):  # a second trace wants the same code
            np.testing.assert_allclose(function(x[:batch]), score(x[:batch]), rtol=1e-5)
    assert since.pending == 1 and since.compiled_calls == 0
    assert since.fallback_calls == {"it is being compiled": 2}
    opened.touch()
    until(lambda: since.compiled == 1)
    for batch in (5, 3):
        np.testing.assert_allclose(function(x[:batch]), score(x[:batch]), rtol=1e-5)
    assert since.compiled_calls == 2 and since.pending == 0


def test_calls_from_many_threads_are_right_while_the_code_arrives(gate, tmp_path):
    def score(x, add):
        return tf.nn.softmax(tf.exp(x * 0.2) * 2.0 + add) * 3.0 - tf.tanh(x)

    compiler, opened = gate
    config = tf_blade.Config(compiler=str(compiler), cache_dir=str(tmp_path / "cache"))
    wrong: list[object] = []
    since = Since()

    def work(seed: int) -> None:
        try:
            function = tf.function(lambda x: score(x, float(seed % 2)))
            for call in range(60):
                x = tf.random.stateless_normal([2 + call % 3, 8], seed=(seed, call))
                wanted = score(x, float(seed % 2))
                np.testing.assert_allclose(function(x), wanted, rtol=1e-5, atol=1e-6)
                if call == 20:
                    opened.touch()
        except Exception as error:
            wrong.append(error)

    with tf_blade.jit(config=config):
        threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert since.graphs == since.optimized == 18
    until(lambda: since.pending == 0)
    assert since.compiled == 2


def test_a_thread_that_waits_for_its_code_holds_up_no_other(gate, config, tmp_path):
    def slow(x):
        return tf.nn.softmax(tf.exp(x * 0.6) * 2.0 + 1.0) * 3.0

    def quick(x):
        return tf.tanh(tf.exp(x * 0.8) * 2.0 + 1.0) * 3.0

    compiler, opened = gate
    x = tf.random.stateless_normal([5, 9], seed=(1, 2))
    since = Since()
    gated = tf_blade.Config(compiler=str(compiler), cache_dir=str(tmp_path / "cache"))
    answers: list[tf.Tensor] = []
    tf_blade.enable(wait=True, config=gated)
    thread = threading.Thread(target=lambda: answers.append(tf.function(slow)(x)))
    thread.start()
    until(lambda: since.pending == 1)
    tf_blade.enable(wait=True, config=dataclasses.replace(config, jobs=2))
    np.testing.assert_allclose(tf.function(quick)(x), quick(x), rtol=1e-5)
    assert since.compiled_calls == 1 and since.pending == 1 and answers == []
    opened.touch()
    thread.join()
    np.testing.assert_allclose(answers[0], slow(x), rtol=1e-5)
    assert since.compiled_calls == 2 and since.fallback_calls == {}


def test_code_that_does_not_compile_leaves_the_original(tmp_path):
    broken = tmp_path / "broken_g++"
    broken.write_text(
        '#!/bin/sh\ncase "$*" in *-c*) echo "error: no" >&2; exit 1;; esac\nexec g++ "$@"\n'
    )
    broken.chmod(0o755)

    def score(x):
        return tf.tanh(tf.exp(x * 0.1) * 2.0 + 1.0) * 5.0

    x = tf.constant([0.5, 1.5])
    since = Since()
    config = tf_blade.Config(compiler=str(broken), cache_dir=str(tmp_path / "cache"))
    with tf_blade.jit(wait=True, config=config):
        np.testing.assert_allclose(tf.function(score)(x), score(x), rtol=1e-6)
    ((reason, count),) = since.failed.items()
    assert "error: no" in reason and count == 1
    ((cause, calls),) = since.fallback_calls.items()
    assert "did not compile" in cause and calls == 1


def test_an_error_inside_the_compiler_leaves_the_graph_and_is_said_once(
    config, monkeypatch, caplog
):
    def fail(*args, **kwargs):
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr(compile_graph, "find_clusters", fail)

    def score(x, add):
        return tf.tanh(tf.exp(x * 0.4) * 2.0 + add) * 5.0

    x = tf.constant([0.5, 1.5])
    since = Since()
    with tf_blade.jit(wait=True, config=config):
        for add in (1.0, 2.0):
            function = tf.function(lambda x, add=add: score(x, add))
            np.testing.assert_allclose(function(x), score(x, add), rtol=1e-6)
    assert since.left_alone == {"ZeroDivisionError inside tf-blade: on purpose": 2}
    assert [r.levelname for r in caplog.records if "on purpose" in r.message] == ["WARNING"]


def test_where_no_thread_can_be_started_nobody_waits_for_code_and_later_it_is_compiled(tmp_path):
    """In a process of its own, without any thread that compiles."""
    code = f"""if True:
        import threading, tensorflow as tf, tf_blade
        def score(x): return tf.nn.softmax(tf.exp(x * 0.1) * 2.0 + 1.0) * 3.0
        def fail(thread): raise RuntimeError("can't start new thread")
        tf_blade.enable(wait=True, config=tf_blade.Config(cache_dir={str(tmp_path)!r}))
        x, start = tf.ones([8, 64]), threading.Thread.start
        threading.Thread.start = fail
        tf.function(score)(x)
        print(tf_blade.jit_stats().left_alone, tf_blade.jit_stats().pending)
        threading.Thread.start = start
        tf.function(score)(x)
        print(tf_blade.jit_stats().compiled_calls)
    """
    command = [sys.executable, "-c", code]
    out = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
    reason = "RuntimeError inside tf-blade: can't start new thread"
    assert out.splitlines() == [f"{ {reason: 1} } 0", "1"]


def test_too_many_executables_leave_further_graphs_alone(config, monkeypatch):
    monkeypatch.setattr("tf_blade.just_in_time.executables.MAX_EXECUTABLES", 0)

    def score(x):
        return tf.tanh(tf.exp(x * 0.7) * 2.0 + 1.0) * 5.0

    x = tf.constant([0.5, 1.5])
    since = Since()
    with tf_blade.jit(wait=True, config=config):
        np.testing.assert_allclose(tf.function(score)(x), score(x), rtol=1e-6)
    assert since.optimized == 0
    assert list(since.left_alone) == [f"the process holds {service.MAX_EXECUTABLES} executables"]


def test_the_stats_can_be_read(config):
    def score(x):
        return tf.tanh(tf.exp(x * 0.9) * 2.0 + 1.0) * 5.0

    with tf_blade.jit(wait=True, config=config):
        tf.function(score)(tf.constant([0.5, 1.5]))
    text = str(tf_blade.jit_stats())
    assert "have compiled ops" in text and "executables: " in text and "calls: " in text
    with pytest.raises(AttributeError):
        tf_blade.jit_stats().graphs = 0
