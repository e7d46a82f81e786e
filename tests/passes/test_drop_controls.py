import numpy as np
import tensorflow as tf

from tests.passes.graphs import KnownVariable, function_graph, main_graph, v1
from tf_blade.passes import PassContext
from tf_blade.passes.drop_controls import drop_controls


def edges(graph):
    return sorted(f"{c} -> {n.name}" for n in graph for c in n.controls)


def test_edges_from_pure_nodes_go():
    def build():
        x = v1.placeholder(tf.float32, [], "x")
        with tf.control_dependencies([tf.exp(x), tf.no_op("nothing")]):
            tf.add(x, 1.0, name="y")

    before = main_graph(build, ["y"])
    ctx = PassContext()
    assert len(edges(before)) == 2
    assert edges(drop_controls(before, ctx)) == []
    assert ctx.counts["drop_controls"] == 2


def test_edges_from_reads_go_if_nothing_here_writes():
    variable = tf.Variable(1.0)

    def reads(x):
        with tf.control_dependencies([variable.read_value()]):
            return tf.identity(x)

    before = function_graph(reads, tf.TensorSpec([], tf.float32, name="x"))
    assert edges(before)
    assert edges(drop_controls(before, PassContext())) == []


def test_the_order_of_reads_and_writes_stays():
    variable, other = tf.Variable(1.0), tf.Variable(2.0)

    def reads_and_writes(x):
        before = variable.read_value()
        variable.assign(x)
        return before + variable.read_value() + other.read_value()

    before = function_graph(reads_and_writes, tf.TensorSpec([], tf.float32, name="x"))
    after = edges(drop_controls(before, PassContext()))
    assert "Read/ReadVariableOp -> AssignVariableOp" in after
    assert "AssignVariableOp -> Read_1/ReadVariableOp" in after
    assert [edge for edge in edges(before) if edge.startswith("Read_2/")]
    assert not [edge for edge in after if edge.startswith("Read_2/")]


def test_edges_behind_effects_stay():
    def build():
        x = v1.placeholder(tf.float32, [], "x")
        with tf.control_dependencies([v1.Assert(x > 0, ["bad"], name="check")]):
            hub = tf.no_op("hub")
        with tf.control_dependencies([hub]):
            tf.identity(x, name="y")

    before = main_graph(build, ["y"])
    assert "hub -> y" in edges(before)
    assert edges(drop_controls(before, PassContext())) == edges(before)


def test_edges_from_checks_stay():
    def build():
        x = v1.placeholder(tf.float32, [], "x")
        with tf.control_dependencies([tf.debugging.check_numerics(x, "bad", name="check")]):
            tf.exp(x, name="y")

    assert edges(drop_controls(main_graph(build, ["y"]), PassContext())) == ["check -> y"]


def test_edges_into_v1_branches_stay():
    def build():
        x = v1.placeholder(tf.float32, [], "x")
        tf.identity(v1.cond(x > 0, lambda: tf.constant(1.0), lambda: tf.constant(2.0)), name="y")

    v1.disable_control_flow_v2()
    try:
        before = main_graph(build, ["y"])
    finally:
        v1.enable_control_flow_v2()
    assert edges(before)
    assert edges(drop_controls(before, PassContext())) == edges(before)


def test_a_reference_variables_write_keeps_its_order():
    def build():
        v = v1.get_variable("v", initializer=1.0, use_resource=False)
        with tf.control_dependencies([v1.assign_add(v, 1.0, name="count")]):
            tf.identity(v, name="y")

    before = main_graph(build, ["y"])
    variables = {"v": KnownVariable(np.float32(1.0), written_by="AssignAdd 'count'")}
    assert edges(drop_controls(before, PassContext(variables))) == ["count -> y"]
