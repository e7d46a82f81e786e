"""Loops of running functions: compiled as a whole where they can be, right in any case."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import tf_blade
from tests.jit.since import Since, until

RNG = np.random.default_rng(0)


def floats(*shape: int) -> tf.Tensor:
    return tf.constant((RNG.normal(size=shape) * 0.5).astype(np.float32))


W = floats(8, 8)


def steps(x, n):
    return tf.while_loop(
        lambda i, h: i < n, lambda i, h: (i + 1, tf.tanh(h @ W) + x), [0, x * 2.0]
    )[1]


def test_a_loop_is_one_call_at_every_length_and_size(config):
    function = tf.function(steps)
    since = Since()
    with tf_blade.jit(wait=True, config=config):
        for rows, n in ((4, 10), (2, 3), (5, 0), (1, -2)):
            x, count = floats(rows, 8), tf.constant(n)
            np.testing.assert_allclose(function(x, count), steps(x, count), rtol=1e-4, atol=1e-5)
    # A size of 1 is known to the code.
    assert since.graphs == since.optimized == 4 and since.compiled == 2
    assert since.compiled_calls == 4 and since.fallback_calls == {}


def test_a_loop_in_a_loop_is_part_of_its_code(config):
    def outer(x, n):
        def body(i, h):
            inner = tf.while_loop(lambda k, g: k < i, lambda k, g: (k + 1, tf.sin(g) + x), [0, h])
            return i + 1, inner[1] * 0.5

        return tf.while_loop(lambda i, h: i < n, body, [0, x])[1]

    function, x, n = tf.function(outer), floats(3, 8), tf.constant(5)
    since = Since()
    with tf_blade.jit(wait=True, config=config):
        np.testing.assert_allclose(function(x, n), outer(x, n), rtol=1e-4, atol=1e-5)
    assert since.compiled_calls == 1 and since.fallback_calls == {}


def test_until_its_code_is_there_tensorflow_runs_the_loop(config):
    """The fallback calls functions of its own."""

    def fresh(x):
        return tf.while_loop(
            lambda i, h: i < 7, lambda i, h: (i + 1, tf.sin(h @ W) * 0.75 + x), [0, x]
        )[1]

    function, x = tf.function(fresh), floats(3, 8)
    since = Since()
    with tf_blade.jit(config=config):
        for _ in range(3):
            np.testing.assert_allclose(function(x), fresh(x), rtol=1e-4, atol=1e-5)
    until(lambda: since.pending == 0)
    np.testing.assert_allclose(function(x), fresh(x), rtol=1e-4, atol=1e-5)
    assert since.compiled_calls >= 1


def test_map_fn_is_one_call(config):
    def score(x):
        return tf.map_fn(lambda row: tf.nn.softmax(row) * 2.0 + 1.0, x)

    function, x = tf.function(score), floats(6, 8)
    since = Since()
    with tf_blade.jit(wait=True, config=config):
        np.testing.assert_allclose(function(x), score(x), rtol=1e-5)
    assert since.compiled_calls == 1


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_a_recurrent_layer_is_one_call_and_follows_its_weights(config, kind: str):
    import keras

    layer = getattr(keras.layers, kind)(5, return_sequences=True)
    x = floats(3, 7, 4)
    layer(x)
    function = tf.function(layer)
    since = Since()
    with tf_blade.jit(wait=True, config=config):
        np.testing.assert_allclose(function(x), layer(x), rtol=1e-4, atol=1e-6)
        for weight in layer.trainable_weights:
            weight.assign(weight * 0.5 + 0.1)
        np.testing.assert_allclose(function(x), layer(x), rtol=1e-4, atol=1e-6)
    assert since.clusters == 1
    assert since.compiled_calls == 2 and since.fallback_calls == {}


def test_an_error_in_an_iteration_is_tensorflows(config):
    def picked(x, n):
        return tf.while_loop(
            lambda i, h: i < n,
            lambda i, h: (i + 1, tf.tanh(h) + tf.gather(x, i * 2) * tf.gather(x, i)),
            [0, x[0]],
        )[1]

    function, x = tf.function(picked), floats(6, 8)
    since = Since()
    with tf_blade.jit(wait=True, config=config):
        got = function(x, tf.constant(3))
        np.testing.assert_allclose(got, picked(x, tf.constant(3)), rtol=1e-5)
        assert since.compiled_calls == 1
        with pytest.raises(tf.errors.InvalidArgumentError, match="is not in"):
            function(x, tf.constant(4))


def test_a_loop_that_writes_a_variable_stays_and_is_right(config):
    seen = tf.Variable(0.0)

    @tf.function
    def counting(x):
        h = x
        for _ in tf.range(4):
            seen.assign_add(1.0)
            h = tf.nn.softmax(tf.tanh(h * 2.0) + 1.0)
        return h

    x = floats(3, 8)
    with tf_blade.jit(wait=True, config=config):
        got = counting(x)
    want = x
    for _ in range(4):
        want = tf.nn.softmax(tf.tanh(want * 2.0) + 1.0)
    np.testing.assert_allclose(got, want, rtol=1e-5)
    assert seen.numpy() == 4.0


def test_a_variable_written_before_and_behind_a_loop_that_reads_it(config):
    scale = tf.Variable(1.0)

    @tf.function
    def scaled(x):
        scale.assign(2.0)
        h = x
        for _ in tf.range(5):
            h = tf.tanh(h * scale) + x
        scale.assign(3.0)
        return tf.nn.softmax(h), scale.read_value()

    x = floats(3, 8)
    since = Since()
    with tf_blade.jit(wait=True, config=config):
        for _ in range(20):
            got, last = scaled(x)
            want = x
            for _ in range(5):
                want = tf.tanh(want * 2.0) + x
            np.testing.assert_allclose(got, tf.nn.softmax(want), rtol=1e-4)
            assert last.numpy() == 3.0
    assert since.optimized == 1


def test_a_branch_inside_keeps_the_loop(config):
    @tf.function
    def walk(x):
        h = x
        for i in tf.range(6):
            if tf.reduce_sum(h) > 0.0:
                h = tf.tanh(h) - x * 0.5
            else:
                h = tf.sin(h) * 2.0 + tf.cast(i, tf.float32)
        return tf.nn.softmax(h)

    x = floats(3, 8)
    plain = tf.function(walk.python_function)(x)
    with tf_blade.jit(wait=True, config=config):
        np.testing.assert_allclose(walk(x), plain, rtol=1e-4)


def test_gradients_through_a_loop(config):
    """The loop forward and the one backward keep lists that grow: they stay."""
    w = tf.Variable(W)

    def loss(x):
        with tf.GradientTape() as tape:
            h = x
            for _ in tf.range(4):
                h = tf.tanh(h @ w) + x
            value = tf.reduce_mean(tf.square(h))
        return value, tape.gradient(value, w)

    x = floats(3, 8)
    value, gradient = tf.function(loss)(x)
    with tf_blade.jit(wait=True, config=config):
        got, ours = tf.function(loss)(x)
    np.testing.assert_allclose(got, value, rtol=1e-5)
    np.testing.assert_allclose(ours, gradient, rtol=1e-4, atol=1e-6)


def test_a_session_of_tensorflow_1_with_a_loop(config):
    v1, fed, weights = tf.compat.v1, floats(3, 8).numpy(), W.numpy()
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [None, 8], "x")
        h = tf.while_loop(
            lambda i, h: i < 6, lambda i, h: (i + 1, tf.tanh(h @ weights) + x), [0, x]
        )[1]
        y = tf.nn.softmax(h)
        feeds = {x: fed}
        with v1.Session() as session:
            want = session.run(y, feeds)
        since = Since()
        with tf_blade.jit(wait=True, config=config), v1.Session() as session:
            np.testing.assert_allclose(session.run(y, feeds), want, rtol=1e-4)
    assert since.compiled_calls == 1
