"""Sizes that tracing made constants of are computed from the arguments again."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

import tf_blade
from tests.jit.since import Since
from tests.passes.graphs import function_graph, show
from tf_blade.just_in_time.sizes import free_sizes


def graph_of(function, *shape: int):
    return function_graph(function, tf.TensorSpec(shape, tf.float32, name="x"))


def reshape(*target: int):
    return lambda x: tf.reshape(tf.exp(x, name="e"), target, name="r")


def freed(function, here, common) -> str:
    """The node that gives the shape, as a line; "" if nothing changed."""
    graph = graph_of(function, *here)
    if not free_sizes(graph, {"x": here}, {"x": common}):
        return ""
    return next(line for line in show(graph).splitlines() if "Pack" in line)


def test_a_size_of_an_argument_that_may_differ_is_read_from_it():
    line = freed(reshape(8, 5, 2, 3), (8, 5, 6), (None, None, 6))
    assert line.count("StridedSlice") == 2 and line.count("Const") == 2


def test_a_product_of_two_sizes():
    line = freed(reshape(40, 6), (8, 5, 6), (None, None, 6))
    assert line.count("Mul") == 1 and line.count("Const") == 1


def test_sizes_that_other_traces_share_stay():
    assert freed(reshape(8, 30), (8, 5, 6), (8, 5, 6)) == ""
    assert freed(reshape(2, 4, 30), (8, 5, 6), (None, 5, 6)) == ""
    assert freed(reshape(1, 30), (1, 5, 6), (None, 5, 6)) == ""


def test_what_is_in_a_loop_can_not_read_from_outside():
    tf.compat.v1.disable_control_flow_v2()
    try:

        def function(x):
            return tf.compat.v1.while_loop(
                lambda i, _: i < 3, lambda i, y: (i + 1, tf.reshape(y, [8, 30])), [0, x]
            )[1]

        assert freed(function, (8, 30), (None, 30)) == ""
    finally:
        tf.compat.v1.enable_control_flow_v2()


def test_traces_that_reshape_by_static_sizes_share_their_code(config):
    def attend(x):
        batch, length, _ = x.shape
        heads = tf.transpose(tf.reshape(x, [batch, length, 4, 8]), [0, 2, 1, 3])
        scores = tf.nn.softmax(tf.matmul(heads, heads, transpose_b=True) * 0.3)
        return tf.reshape(tf.transpose(scores @ heads, [0, 2, 1, 3]), [batch * length, 32])

    function = tf.function(attend)
    since = Since()
    with tf_blade.jit(wait=True, config=config):
        for batch, length in ((2, 5), (3, 7), (5, 9), (4, 8), (6, 11)):
            x = tf.random.stateless_normal([batch, length, 32], seed=(batch, length))
            np.testing.assert_allclose(function(x), attend(x), rtol=1e-5, atol=1e-5)
    # For a length of 5; for any; and where the sizes look like those of the heads.
    assert since.compiled == 3
    assert since.compiled_calls == 5 and since.fallback_calls == {}
