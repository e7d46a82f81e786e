"""What models write as many ops becomes one kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from tests.compiler.harness import prepare
from tests.compiler.values import Arg, Case, anything, finite
from tf_blade.compiler.fuse.plan import plan
from tf_blade.compiler.rewrite import rewrite

Tensor = Any


def floats(*dims: str | int) -> Arg:
    return Arg("f32", dims, finite)


def cosine_of_normalised(x: Tensor, y: Tensor) -> Tensor:
    return tf.reduce_sum(tf.math.l2_normalize(x, -1) * tf.math.l2_normalize(y, -1), -1)


def cosine_over_norms(x: Tensor, y: Tensor) -> Tensor:
    return tf.reduce_sum(x * y, -1) / (tf.norm(x, axis=-1) * tf.norm(y, axis=-1))


def log_sum_exp(x: Tensor) -> Tensor:
    return tf.reduce_logsumexp(x, -1)


def masked_scores(scores: Tensor, mask: Tensor) -> Tensor:
    masked = (1.0 - tf.cast(mask, tf.float32)[:, None, None, :]) * -1e4
    return tf.nn.softmax(scores * 0.125 + masked)


def group_norm(x: Tensor) -> Tensor:
    groups = tf.reshape(x, [tf.shape(x)[0], -1, 4, 8])
    mean, variance = tf.nn.moments(groups, [1, 3], keepdims=True)
    return tf.reshape((groups - mean) * tf.math.rsqrt(variance + 1e-3), tf.shape(x))


def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    weights = tf.cast(mask, tf.float32)
    count = tf.maximum(tf.reduce_sum(weights, 1, keepdims=True), 1e-9)
    return tf.reduce_sum(x * weights[..., None], 1) / count


def masked_mean_of_a_spread_mask(x: Tensor, mask: Tensor) -> Tensor:
    weights = tf.cast(tf.broadcast_to(mask[..., None], tf.shape(x)), tf.float32)
    return tf.reduce_sum(x * weights, 1) / tf.maximum(tf.reduce_sum(weights, 1), 1e-9)


def masked_max(x: Tensor, mask: Tensor) -> Tensor:
    return tf.reduce_max(x + (1.0 - tf.cast(mask, tf.float32)[..., None]) * -1e9, 1)


@pytest.mark.parametrize(
    "function,args",
    [
        (cosine_of_normalised, (floats("n", 16), floats("n", 16))),
        (cosine_over_norms, (floats("n", 16), floats("n", 16))),
        (log_sum_exp, (floats("n", "t"),)),
        (masked_scores, (floats("n", 4, "t", "t"), Arg("i32", ("n", "t"), anything))),
        (group_norm, (floats("n", "h", "w", 32),)),
        (masked_mean, (floats("n", "t", "c"), Arg("i32", ("n", "t"), anything))),
        (masked_mean, (floats(1, "t", 384), Arg("i32", (1, "t"), anything))),
        (masked_mean_of_a_spread_mask, (floats("n", "t", 384), Arg("i32", ("n", "t"), anything))),
        (masked_max, (floats("n", "t", 384), Arg("i32", ("n", "t"), anything))),
    ],
)
def test_is_one_kernel(function: Callable[..., Tensor], args: tuple[Arg, ...]):
    program = rewrite(prepare(Case(function.__name__, function, args)).program)
    (group,) = plan(program).groups
    assert group.is_reduction
