"""Functions that write variables: the same steps as without the compiler."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

import tf_blade
from tests.jit.since import Since


def train() -> list[np.ndarray]:
    """Losses of ten steps, then the variables."""
    w = tf.Variable(tf.random.stateless_normal([20, 8], seed=(1, 2)) * 0.1)
    u = tf.Variable(tf.fill([8, 1], 0.1))
    momentum = [tf.Variable(tf.zeros_like(w)), tf.Variable(tf.zeros_like(u))]
    steps = tf.Variable(0)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            p = tf.sigmoid(tf.nn.softplus(x @ w) @ u)
            loss = tf.reduce_mean(tf.square(p - y) * 2.0 + tf.abs(p) * 0.1)
        for variable, m, gradient in zip(
            [w, u], momentum, tape.gradient(loss, [w, u]), strict=True
        ):
            m.assign(m * 0.9 + tf.clip_by_value(gradient, -1.0, 1.0) * 0.1)
            variable.assign_sub(m * 0.5)
        steps.assign_add(1)
        if steps > 5:
            loss *= 2.0
        return loss

    xs = tf.random.stateless_normal([10, 32, 20], seed=(3, 4))
    ys = tf.cast(tf.reduce_sum(xs, -1, keepdims=True) > 0, tf.float32)
    losses = [step(x, y).numpy() for x, y in zip(xs, ys, strict=True)]
    return [*losses, w.numpy(), u.numpy(), steps.numpy()]


def test_training_goes_the_same_way(config):
    wanted = train()
    since = Since()
    with tf_blade.jit(wait=True, config=config):
        got = train()
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert since.compiled_calls >= 10 and since.fallback_calls == {}


def test_what_is_read_before_and_after_an_assignment_differs(config):
    v = tf.Variable(tf.fill([4], 1.0))

    @tf.function
    def step(x):
        before = tf.exp(v * x) * 2.0 - 1.0
        v.assign_add(tf.tanh(before) * 0.5)
        after = tf.exp(v * x) * 2.0 - 1.0
        v.assign(v * 2.0)
        return before, after, tf.exp(v * x) * 2.0 - 1.0

    x = tf.constant([0.1, 0.2, 0.3, 0.4])
    wanted = [step.python_function(x), step.python_function(x)]
    v.assign(tf.fill([4], 1.0))
    since = Since()
    with tf_blade.jit(wait=True, config=config):
        got = [step(x), step(x)]
    np.testing.assert_allclose(got, wanted, rtol=1e-5)
    assert since.compiled_calls > 0
