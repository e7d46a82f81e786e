import numpy as np
import pytest
import tensorflow as tf

from tests.passes.graphs import main_graph, ops, run, show, v1
from tf_blade.passes import PassContext
from tf_blade.passes.fold_batch_norms import fold_batch_norms

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 7, 6, 4)).astype(np.float32)


def constant(*shape, low=-1.0):
    return tf.constant(RNG.uniform(low, 1.0, shape).astype(np.float32))


def normalised(y, channels, *, read=0, training=False):
    """The normalisation of y in inference."""
    parameters = [constant(channels) for _ in range(3)] + [constant(channels, low=0.01)]
    results = tf.raw_ops.FusedBatchNormV3(
        x=y,
        scale=parameters[0],
        offset=parameters[1],
        mean=parameters[2],
        variance=parameters[3],
        epsilon=1e-3,
        is_training=training,
    )
    return results[read]


def conv(x):
    return tf.nn.conv2d(x, constant(3, 3, 4, 5), 1, "SAME")


def depthwise(x):
    return tf.nn.depthwise_conv2d(x, constant(3, 3, 4, 2), [1, 1, 1, 1], "SAME")


def with_bias(x):
    return tf.nn.bias_add(conv(x), constant(5))


def build(make, channels=5, **how):
    def graph():
        x = v1.placeholder(tf.float32, [None, 7, 6, 4], "x")
        tf.identity(normalised(make(x), channels, **how), name="y")

    return main_graph(graph, ["y"])


@pytest.mark.parametrize("make,channels", [(conv, 5), (with_bias, 5), (depthwise, 8)])
def test_a_batch_norm_becomes_part_of_the_convolution(make, channels):
    before = build(make, channels)
    ctx = PassContext()
    after = fold_batch_norms(before, ctx)
    assert ctx.counts["fold_batch_norms"] == 1
    assert not [op for op in ops(after) if op.startswith("FusedBatchNorm")]
    np.testing.assert_allclose(run(after, x=X)[0], run(before, x=X)[0], rtol=1e-4, atol=1e-5)
    assert show(fold_batch_norms(after, PassContext())) == show(after)


def test_in_three_dims():
    def graph():
        x = v1.placeholder(tf.float32, [None, 3, 7, 6, 4], "x")
        y = tf.nn.conv3d(x, constant(2, 3, 3, 4, 5), [1, 1, 1, 1, 1], "SAME")
        parameters = [constant(5) for _ in range(3)] + [constant(5, low=0.01)]
        names = dict(zip(("scale", "offset", "mean", "variance"), parameters, strict=True))
        results = tf.raw_ops.FusedBatchNormV3(x=y, **names, is_training=False, data_format="NDHWC")
        tf.identity(results[0], name="y")

    before = main_graph(graph, ["y"])
    after = fold_batch_norms(before, PassContext())
    assert "BiasAdd" in ops(after)
    x = RNG.standard_normal((2, 3, 7, 6, 4)).astype(np.float32)
    np.testing.assert_allclose(run(after, x=x)[0], run(before, x=x)[0], rtol=1e-4, atol=1e-5)


def unknown_filter(x):
    return tf.nn.conv2d(
        x, tf.reshape(x[:1, :3, :3, :, None], [3, 3, 4, 1]) * constant(5), 1, "SAME"
    )


def read_twice(x):
    y = conv(x)
    tf.identity(y, name="also")
    return y


def shared_filter(x):
    weights = constant(3, 3, 4, 5)
    y = tf.nn.conv2d(x, weights, 1, "SAME")
    tf.nn.conv2d(x, weights, 2, "SAME", name="also")
    return y


def activated(x):
    return tf.nn.relu(conv(x))


@pytest.mark.parametrize(
    "make,how",
    [
        (unknown_filter, {}),
        (read_twice, {}),
        (shared_filter, {}),
        (activated, {}),
        (conv, {"read": 1}),
    ],
)
def test_declines(make, how):
    before = build(make, **how)
    ctx = PassContext()
    assert show(fold_batch_norms(before, ctx)) == show(before)
    assert not ctx.counts["fold_batch_norms"]


def test_declines_in_training():
    def graph():
        x = v1.placeholder(tf.float32, [None, 7, 6, 4], "x")
        empty = tf.constant([], tf.float32)
        y = tf.raw_ops.FusedBatchNormV3(
            x=conv(x), scale=constant(5), offset=constant(5), mean=empty, variance=empty
        )
        tf.identity(y[0], name="y")

    before = main_graph(graph, ["y"])
    assert show(fold_batch_norms(before, PassContext())) == show(before)


def test_declines_what_would_not_be_finite():
    def graph():
        x = v1.placeholder(tf.float32, [None, 7, 6, 4], "x")
        infinite = tf.constant([np.inf, 1, 1, 1, 1], tf.float32)
        y = tf.raw_ops.FusedBatchNormV3(
            x=conv(x),
            scale=infinite,
            offset=constant(5),
            mean=constant(5),
            variance=constant(5, low=0.01),
            is_training=False,
        )
        tf.identity(y[0], name="y")

    before = main_graph(graph, ["y"])
    assert show(fold_batch_norms(before, PassContext())) == show(before)
