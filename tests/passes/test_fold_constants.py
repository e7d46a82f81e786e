import numpy as np
import pytest
import tensorflow as tf

from tests.passes.graphs import function_graph, main_graph, ops, run, show, v1
from tf_blade.graph.constants import const_value
from tf_blade.graph.graph import Graph
from tf_blade.passes import PassContext
from tf_blade.passes.fold_constants import fold_constants
from tf_blade.passes.prune import prune


def folded(graph: Graph, ctx: PassContext | None = None) -> Graph:
    ctx = ctx or PassContext()
    return prune(fold_constants(graph, ctx), ctx)


def graph_of(function, shape=(None, 4), dtype=tf.float32) -> Graph:
    def build():
        tf.identity(function(v1.placeholder(dtype, shape, "x")), name="y")

    return main_graph(build, ["y"])


def test_a_constant_subgraph_becomes_one_constant():
    before = graph_of(lambda x: x * tf.exp(tf.constant([1.0, 2.0, 3.0, 4.0]) + 1.0))
    ctx = PassContext()
    after = folded(before, ctx)
    assert ops(after) == ["Identity", "Mul"]
    assert ctx.counts["fold_constants"] == 1
    x = np.ones((2, 4), np.float32)
    np.testing.assert_array_equal(run(after, x=x), run(before, x=x))
    assert show(folded(after)) == show(after)


def test_shape_rank_and_size_of_known_shapes():
    def sizes(x):
        whole = tf.zeros([2, 3]) + tf.reduce_sum(x)
        return tf.stack([tf.rank(x), tf.size(whole), *tf.unstack(tf.shape(whole))])

    after = folded(graph_of(sizes))
    assert ops(after) == []
    np.testing.assert_array_equal(run(after, x=np.ones((1, 4))), [[2, 6, 2, 3]])


def test_shape_with_an_unknown_dim_stays_but_its_rank_does_not():
    after = folded(
        graph_of(lambda x: tf.shape(x, out_type=tf.int64) + tf.cast(tf.rank(x), tf.int64))
    )
    assert ops(after) == ["AddV2", "Identity", "Shape"]


def test_every_output_of_a_folded_node_is_kept_apart():
    def split(x):
        a, b, _ = tf.split(tf.range(12.0), [4, 4, 4])
        return x * a + b

    after = folded(graph_of(split))
    assert ops(after) == ["AddV2", "Identity", "Mul"]
    (found,) = run(after, x=np.ones((1, 4)))
    np.testing.assert_array_equal(found, [[4, 6, 8, 10]])


def test_strings_and_unknown_result_sizes_fold():
    def some(x):
        kept = tf.boolean_mask(tf.constant([1.0, 2.0, 3.0]), [True, False, True])
        text = tf.strings.to_number(tf.strings.join([["1"], ["5"]]))
        return tf.reduce_sum(x) + kept + text

    after = folded(graph_of(some))
    assert ops(after) == ["AddV2", "AddV2", "Identity", "Sum"]
    np.testing.assert_array_equal(run(after, x=np.zeros((1, 4))), [[16, 18]])


def test_a_fetched_constant_expression_keeps_its_name():
    def build():
        tf.add(tf.constant(1.0), tf.constant(2.0), name="three")

    after = folded(main_graph(build, ["three"]))
    assert after.outputs[0][0] == "three:0"
    assert const_value(after.nodes[after.outputs[0][1].node]) == 3.0


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[0, 0] + tf.random.uniform([4]),
        lambda x: x + tf.reduce_sum(tf.fill([1000, 1000], 2.0), 0)[:4],
        lambda x: x + tf.raw_ops.StatelessRandomNormal(shape=[4], seed=[1, 2]),
        lambda x: x + v1.placeholder_with_default([1.0, 2.0, 3.0, 4.0], [4]),
        lambda x: x + tf.linalg.inv(tf.zeros([4, 4])),
    ],
    ids=["random", "grows", "stateless random", "may be fed", "fails"],
)
def test_declines(function):
    before = graph_of(function)
    assert ops(folded(before)) == ops(before)


def test_declines_a_constant_in_a_v1_branch():
    def build():
        x = v1.placeholder(tf.float32, [], "x")
        y = v1.cond(x > 0, lambda: x + tf.exp(tf.constant(1.0)), lambda: x)
        tf.identity(y, name="y")

    v1.disable_control_flow_v2()
    try:
        before = main_graph(build, ["y"])
    finally:
        v1.enable_control_flow_v2()
    after = folded(before)
    assert {"Exp", "Merge"} <= set(ops(after))
    assert run(after, x=2.0) == run(before, x=2.0)
    assert run(after, x=-2.0) == run(before, x=-2.0) == [-2.0]


def test_a_big_constant_is_replaced_but_not_doubled():
    big = np.ones((200, 200), np.float32)

    def used_once(x):
        return x @ tf.transpose(tf.constant(big))

    def used_twice(x):
        weights = tf.constant(big)
        return x @ tf.transpose(weights) @ weights

    assert ops(folded(graph_of(used_once, (None, 200)))) == ["Identity", "MatMul"]
    assert "Transpose" in ops(folded(graph_of(used_twice, (None, 200))))


def test_argument_shapes_that_only_the_context_knows_are_used():
    graph = function_graph(lambda x: tf.shape(x), tf.TensorSpec(None, tf.float32, name="x"))
    assert ops(folded(graph)) == ["Identity", "Shape"]
    assert ops(folded(graph, PassContext(arg_shapes={"x": (2, 5)}))) == []
