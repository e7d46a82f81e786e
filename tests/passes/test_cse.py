import numpy as np
import tensorflow as tf

from tests.passes.graphs import KnownVariable, function_graph, main_graph, ops, run, show, v1
from tf_blade.passes import PassContext
from tf_blade.passes.cse import cse


def test_equal_nodes_are_merged_through_and_through():
    def build():
        x = v1.placeholder(tf.float32, [None], "x")
        tf.add(tf.exp(x * 2.0), tf.exp(x * 2.0), name="y")

    before = main_graph(build, ["y"])
    ctx = PassContext()
    after = cse(before, ctx)
    assert ops(after) == ["AddV2", "Exp", "Mul"]
    assert ctx.counts["cse"] == 3  # the constant, Mul, Exp
    x = np.array([0.5, 1.0], np.float32)
    np.testing.assert_array_equal(run(after, x=x), run(before, x=x))
    assert show(cse(after, PassContext())) == show(after)


def test_an_output_may_be_merged_and_keeps_its_value():
    def build():
        x = v1.placeholder(tf.float32, [], "x")
        tf.exp(x, name="a")
        tf.exp(x, name="b")

    after = cse(main_graph(build, ["a", "b"]), PassContext())
    assert ops(after) == ["Exp"]
    assert [name for name, _ in after.outputs] == ["a:0", "b:0"]
    assert len({ref for _, ref in after.outputs}) == 1


def test_control_inputs_count():
    def build():
        x = v1.placeholder(tf.float32, [], "x")
        check = v1.Assert(x > 0, ["negative"])
        a = tf.exp(x)
        with tf.control_dependencies([check]):
            b, c = tf.exp(x), tf.exp(x)
        tf.add_n([a, b, c], name="y")

    after = cse(main_graph(build, ["y"]), PassContext())
    assert ops(after).count("Exp") == 2


def test_reads_merge_only_if_nothing_writes_the_variable():
    variable = tf.Variable(1.0)
    graph = function_graph(lambda: variable.read_value() + variable.read_value())
    handle = graph.args[0].name
    never = PassContext({handle: KnownVariable(np.float32(1.0))})
    written = PassContext({handle: KnownVariable(np.float32(1.0), written_by="AssignVariableOp")})
    assert ops(cse(graph, never)).count("ReadVariableOp") == 1
    assert ops(cse(graph, written)).count("ReadVariableOp") == 2
    assert ops(cse(graph, PassContext())).count("ReadVariableOp") == 2


def test_declines_lookups_of_a_table_that_may_change():
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)

    def looks_up_twice(words):
        before = table.lookup(words)
        table.insert(words, before + 1)
        return before + table.lookup(words)

    graph = function_graph(looks_up_twice, tf.TensorSpec([2], tf.string, name="words"))
    assert ops(cse(graph, PassContext())).count("LookupTableFindV2") == 2


def test_declines_attributes_random_numbers_inputs_and_loops():
    def build():
        x = v1.placeholder(tf.float32, [2, 2], "x")
        z = v1.placeholder(tf.float32, [2, 2], "z")
        products = [tf.matmul(x, z), tf.matmul(x, z, transpose_a=True)]
        noise = [tf.random.uniform([2, 2], seed=1), tf.random.uniform([2, 2], seed=1)]
        tf.add_n([x, z, *products, *noise], name="y")

    before = main_graph(build, ["y"])
    after = cse(before, PassContext())
    assert ops(after) == ops(before)
    assert "x" in after.nodes and "z" in after.nodes


def test_a_v1_loop_still_runs():
    def build():
        x = v1.placeholder(tf.float32, [], "x")
        loop = lambda: v1.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, y * 2.0), [0, x])[1]  # noqa: E731
        tf.add(loop(), loop(), name="y")

    v1.disable_control_flow_v2()
    try:
        before = main_graph(build, ["y"])
    finally:
        v1.enable_control_flow_v2()
    assert run(cse(before, PassContext()), x=1.5) == run(before, x=1.5) == [24.0]
