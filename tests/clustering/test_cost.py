"""No cluster that can't win, and a reason for each."""

import numpy as np
import pytest
import tensorflow as tf

from tests.clustering.graphs import cluster, main_graph, members, support, vector
from tf_blade.clustering import CostModel, find_clusters
from tf_blade.graph.shapes import infer_types


def default_cost(build, eligible=None):
    return cluster(main_graph(build), eligible=eligible, cost=CostModel())[:2]


def test_one_node_alone_is_refused():
    def build():
        return [tf.nn.relu(vector("x", 1_000_000), name="y")]

    clusters, left_out = default_cost(build)
    assert clusters == []
    assert left_out["y"] == "alone: a cluster of one Relu can't win"


@pytest.mark.parametrize("function", [tf.nn.softmax, tf.nn.log_softmax])
def test_an_op_of_several_passes_is_worth_a_cluster_of_its_own(function):
    def build():
        x = tf.compat.v1.placeholder(tf.float32, [None, None], name="x")
        return [function(x, name="y")]

    clusters, left_out = default_cost(build)
    assert members(clusters) == [{"y"}] and "y" not in left_out


def test_two_small_ops_are_refused_but_two_large_ones_are_not():
    def build(size):
        # the result goes to an op outside, not to a fetch
        return lambda: [tf.sinh(tf.negative(tf.nn.relu(vector("x", size), name="a"), name="b"))]

    clusters, left_out = default_cost(build(4))
    assert clusters == []
    assert left_out["a"] == (
        "a cluster of 2 ops (Relu, Neg) would save 0.7 µs by estimate, "
        "less than the margin of 1.0 µs"
    )
    clusters, _ = default_cost(build(100_000))
    assert members(clusters) == [{"a", "b"}]
    assert clusters[0].gain_us == pytest.approx(0.7 + 2 * 400_000 / 10_000)


def test_shape_arithmetic_counts_as_overhead_only():
    def build(last):
        def made():
            x = tf.compat.v1.placeholder(tf.float32, [None, 1000], name="x")
            rows = tf.shape(x, name="s")[0]
            size = tf.stack([rows, 10, 100][: last + 1], name="size")
            return [tf.raw_ops.Unique(x=size)[0]]

        return made

    clusters, _ = default_cost(build(2))
    # Shape, StridedSlice, Pack: 3 × 1.5 − 2 − 2 × 0.15
    assert members(clusters) == [{"s", "strided_slice", "size"}]
    assert clusters[0].gain_us == pytest.approx(2.2)


def test_a_chain_of_views_only_copies():
    def build():
        y = tf.sinh(vector("x"))
        for i in range(6):
            y = tf.expand_dims(y, 0, name=f"v{i}")
        return [tf.sinh(y)]

    clusters, left_out = default_cost(build)
    assert clusters == []
    assert left_out["v0"] == "at the edge of a cluster, where ExpandDims is free only outside"


def test_too_many_outputs_for_what_is_computed():
    def build():
        x = tf.compat.v1.placeholder(tf.float32, [None, 60], name="x")
        parts = tf.split(tf.nn.relu(x, name="r"), 60, axis=1, name="parts")
        return [tf.sinh(p) for p in parts]

    clusters, left_out = default_cost(build)
    assert clusters == []
    assert left_out["r"] == (
        "a cluster of 2 ops (Relu, Split) has 1 inputs and 60 outputs, "
        "too many for what it computes"
    )


def test_views_that_only_add_an_output_are_dropped():
    def build():
        x = vector("x", 1000)
        flat = tf.reshape(x, [10, 100], name="before")
        y = tf.square(tf.negative(tf.nn.relu(flat, name="a"), name="b"), name="y")
        return [
            tf.sinh(y, name="s"),
            tf.sinh(flat, name="t"),
            tf.sinh(tf.reshape(y, [1000], name="after")),
        ]

    clusters, left_out = default_cost(build)
    assert members(clusters) == [{"a", "b", "y"}]
    assert left_out["before"] == "at the edge of a cluster, where Reshape is free only outside"
    assert left_out["after"] == left_out["before"]


def test_a_view_between_members_is_not_dropped_even_if_it_only_copies():
    def build():
        x = vector("x", 1000)
        a = tf.negative(tf.nn.relu(x, name="a0"), name="a")
        shown = tf.reshape(a, [10, 100], name="shown")
        b = tf.square(tf.abs(shown, name="b0"), name="b")
        return [tf.sinh(a), tf.sinh(shown), tf.sinh(b)]

    clusters, _ = default_cost(build)
    assert members(clusters) == [{"a0", "a", "shown", "b0", "b"}]


def test_views_whose_source_stays_inside_are_kept():
    def build():
        x = vector("x", 1000)
        flat = tf.reshape(x, [10, 100], name="before")
        y = tf.square(tf.negative(tf.nn.relu(flat, name="a"), name="b"), name="y")
        return [tf.sinh(tf.reshape(y, [1000], name="after"))]

    clusters, _ = default_cost(build)
    assert members(clusters) == [{"before", "a", "b", "y", "after"}]
    # y is written once in either case: only what Relu and Neg give is saved.
    assert clusters[0].gain_us == pytest.approx(3 * 1.5 + 2 * 1.0 - 2.3 + 2 * 2 * 4000 / 10_000)


def test_a_fetched_name_costs_the_identity_that_keeps_it():
    def build(fetch):
        def made():
            y = tf.negative(tf.nn.relu(vector("x"), name="a"), name="b")
            y = tf.square(y, name="y")
            return [y if fetch else tf.sinh(y)]

        return made

    fetched, _ = cluster(main_graph(build(True)))[:2]
    read, _ = cluster(main_graph(build(False)))[:2]
    assert read[0].gain_us - fetched[0].gain_us == pytest.approx(CostModel().view_us)


@pytest.mark.parametrize("last", ["relu", "elu", "leaky", "batch_norm"])
def test_what_grappler_fuses_into_a_convolution_is_left_beside_it(last):
    def build():
        x = tf.compat.v1.placeholder(tf.float32, [None, 8, 8, 3], name="x")
        w = tf.constant(np.ones((3, 3, 3, 16), np.float32), name="w")
        padded = tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]], name="pad")
        y = tf.nn.conv2d(padded, w, 1, "VALID", name="conv")
        if last == "batch_norm":
            one = tf.ones(16)
            y = tf.raw_ops.FusedBatchNormV3(
                x=y, scale=one, offset=one, mean=one, variance=one, is_training=False, name="bias"
            )[0]
            y = tf.nn.relu(y, name="act")
        else:
            y = tf.nn.bias_add(y, tf.zeros(16), name="bias")
            op = {"relu": tf.nn.relu, "elu": tf.nn.elu, "leaky": tf.nn.leaky_relu}[last]
            y = op(y, name="act")
        return [tf.square(tf.negative(y, name="n"), name="y")]

    clusters, left_out = default_cost(build)
    assert members(clusters) == [{"n", "y"}]
    for name in ("pad", "bias", "act"):
        assert left_out[name] == "TensorFlow fuses it into Conv2D 'conv', which stays outside"


@pytest.mark.parametrize("pad", ["none", "before", "residual"])
def test_a_residual_beside_a_pad_may_go_into_a_cluster(pad):
    def build():
        x = tf.compat.v1.placeholder(tf.float32, [None, 8, 8, 16], name="x")
        w = tf.constant(np.ones((3, 3, 16, 16), np.float32), name="w")
        y, padding = x, "SAME"
        if pad == "before":
            y, padding = tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]], name="pad"), "VALID"
        y = tf.nn.bias_add(tf.nn.conv2d(y, w, 1, padding, name="conv"), tf.zeros(16), name="bias")
        residual = x
        if pad == "residual":
            residual = tf.pad(x[..., :8], [[0, 0], [0, 0], [0, 0], [0, 8]], name="residual")
        return [tf.square(tf.negative(tf.add(y, residual, name="sum"), name="n"), name="y")]

    clusters, left_out = default_cost(build)
    inside = {name for cluster in members(clusters) for name in cluster}
    assert {"n", "y"} <= inside
    assert ("sum" in inside) == (pad != "none")
    assert left_out["bias"] == "TensorFlow fuses it into Conv2D 'conv', which stays outside"


def test_a_convolution_read_twice_is_not_fused_by_grappler():
    def build():
        x = tf.compat.v1.placeholder(tf.float32, [None, 8, 8, 3], name="x")
        w = tf.constant(np.ones((3, 3, 3, 16), np.float32), name="w")
        y = tf.nn.conv2d(x, w, 1, "SAME", name="conv")
        bias = tf.constant(np.ones(16, np.float32))
        act = tf.nn.relu(tf.nn.bias_add(y, bias, name="bias"), name="act")
        return [tf.multiply(act, y, name="y")]

    clusters, _ = default_cost(build)
    assert members(clusters) == [{"bias", "act", "y"}]


@pytest.mark.parametrize("bias", [True, False])
def test_matmul_followers_stay_with_a_matmul_that_stays_outside(bias):
    def build():
        x = tf.compat.v1.placeholder(tf.float32, [None, 8], name="x")
        y = tf.matmul(x, tf.constant(np.ones((8, 512), np.float32)), name="product")
        if bias:
            y = tf.nn.bias_add(y, tf.zeros(512), name="bias")
        return [tf.square(tf.negative(tf.nn.relu(y, name="act"), name="n"), name="y")]

    graph = main_graph(build)

    def no_matmul(node):
        return "no library for products" if node.op == "MatMul" else support(node)

    clusters, left_out = find_clusters(graph, infer_types(graph), no_matmul)
    if bias:
        assert members(clusters) == [{"n", "y"}]
        assert left_out["act"] == "TensorFlow fuses it into MatMul 'product', which stays outside"
    else:
        assert members(clusters) == [{"act", "n", "y"}]
    with_product, _ = find_clusters(graph, infer_types(graph), support)
    assert with_product[0].members[0] == "product"


def test_unread_results_are_no_reason_for_a_cluster():
    def build():
        x = vector("x")
        tf.negative(tf.nn.relu(x, name="a"), name="unread")
        return [tf.sinh(x)]

    clusters, left_out = default_cost(build)
    assert clusters == []
    assert left_out["a"] == "nothing reads its results, at most control edges wait for it"
