"""Calls of BladeCluster with the programs of tests/cc/programs.py, and their fallbacks."""

from __future__ import annotations

import functools

import tensorflow as tf

from tests.cc.programs import ADD, DENSE, executable
from tf_blade import library


@functools.cache
def add_fallback(dtype: tf.DType = tf.float32):
    @tf.function(input_signature=[tf.TensorSpec(None, dtype)] * 2)
    def fallback(a, b):
        return a + b, tf.reshape(a, [-1])

    return fallback.get_concrete_function()


@functools.cache
def dense_fallback():
    @tf.function(input_signature=[tf.TensorSpec(None, tf.float32)] * 3)
    def fallback(x, w, bias):
        return tf.nn.relu(tf.matmul(x, w) + bias)

    return fallback.get_concrete_function()


def add(a, b, *, cluster: str, container: bytes | None = None, fallback=None, **attrs):
    """[a + b, a as one row] through the op."""
    return library.load_ops().blade_cluster(
        inputs=[a, b],
        Tout=[a.dtype] * 2,
        fallback=fallback or add_fallback(),
        executable=executable(ADD) if container is None else container,
        cluster=cluster,
        **attrs,
    )


def dense(x, w, bias, *, cluster: str, constant_inputs=(1,), **attrs):
    """relu(x * w + bias) through the op; w is a constant."""
    (y,) = library.load_ops().blade_cluster(
        inputs=[x, w, bias],
        Tout=[tf.float32],
        fallback=dense_fallback(),
        executable=executable(DENSE),
        constant_inputs=list(constant_inputs),
        cluster=cluster,
        **attrs,
    )
    return y


def counts(cluster: str) -> library.ClusterCounters:
    return library.counters().clusters[cluster]
