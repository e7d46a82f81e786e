import pytest
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, function_pb2

from tests.passes.graphs import call, function_graph, main_graph, run, show, v1
from tf_blade.graph.graph import Graph, GraphError, Node, TensorRef, default_attrs

X = tf.TensorSpec([None, 4], tf.float32, name="x")


def two_results(x):
    a, b = tf.split(x, 2, axis=1)
    values, indices = tf.math.top_k(b, 1)
    return a + values, indices


def test_a_function_survives_the_way_in_and_out():
    graph = function_graph(two_results, X)
    again = Graph.from_function_def(graph.to_function_def(), graph.library)
    assert show(again) == show(graph)
    assert again.to_function_def() == graph.to_function_def()
    x = [[1.0, 2.0, 3.0, 4.0]]
    values, indices = call(again, x)
    assert values.tolist() == [[5.0, 6.0]] and indices.tolist() == [[1]]


def test_inputs_are_numbered_over_all_outputs_of_a_node():
    graph = function_graph(two_results, X)
    (add,) = (n for n in graph if n.op == "AddV2")
    assert [ref.index for ref in add.inputs] == [0, 0]
    assert [ref.index for _, ref in graph.outputs] == [0, 0]
    (top,) = (n for n in graph if n.op == "TopKV2")
    assert top.inputs[0] == TensorRef("split", 1)
    assert graph.output_dtypes(top) == [tf.float32.as_datatype_enum, tf.int32.as_datatype_enum]


def test_a_main_graph_survives_the_way_in_and_out():
    def build():
        x = v1.placeholder(tf.float32, [None, 4], "x")
        with tf.control_dependencies([tf.no_op("first")]):
            tf.add(*tf.split(x, 2, axis=1), name="y")

    graph = main_graph(build, ["y"])
    again = Graph.from_graph_def(graph.to_graph_def(), [TensorRef("y")])
    assert show(again) == show(graph) and again.outputs == [("y:0", TensorRef("y"))]
    assert run(again, x=[[1.0, 2.0, 3.0, 4.0]])[0].tolist() == [[4.0, 6.0]]


def test_default_attributes_are_there_inside_and_gone_outside():
    def build():
        tf.matmul(v1.placeholder(tf.float32, [2, 2], "x"), tf.eye(2), name="y")

    graph = main_graph(build, ["y"])
    for key in ("transpose_a", "transpose_b"):
        stripped = graph.to_graph_def()
        assert all(key not in node.attr for node in stripped.node)
        again = Graph.from_graph_def(stripped, [TensorRef("y")])
        assert again.nodes["y"].attrs[key].b is False
    graph.nodes["y"].attrs["transpose_b"] = attr_value_pb2.AttrValue(b=True)
    (matmul,) = (n for n in graph.to_graph_def().node if n.name == "y")
    assert matmul.attr["transpose_b"].b


def test_replacing_a_nodes_attribute_changes_no_other_node():
    proto = tf.Graph().as_graph_def()
    for name in ("a", "b"):
        node = proto.node.add(name=name, op="Shape")
        node.attr["T"].type = tf.float32.as_datatype_enum
    graph = Graph.from_graph_def(proto)
    # Default values are one object for all nodes: they are replaced, not changed.
    assert graph.nodes["a"].attrs["out_type"] is graph.nodes["b"].attrs["out_type"]
    graph.nodes["a"].attrs["out_type"] = attr_value_pb2.AttrValue(type=tf.int64.as_datatype_enum)
    assert graph.nodes["b"].attrs["out_type"].type == tf.int32.as_datatype_enum
    assert default_attrs("Shape")["out_type"].type == tf.int32.as_datatype_enum


def test_control_outputs_are_declared_in_the_signature():
    def prints(x):
        tf.print(x)
        return x + 1.0

    graph = function_graph(prints, X)
    assert len(graph.control_outputs) == 1
    graph.control_outputs = []
    fdef = graph.to_function_def()
    assert not fdef.control_ret and not fdef.signature.control_output


def test_a_function_from_parts():
    args = [("x", tf.float32.as_datatype_enum)]
    node = Node("twice", "AddV2", [TensorRef("x"), TensorRef("x")])
    node.attrs["T"] = attr_value_pb2.AttrValue(type=tf.float32.as_datatype_enum)
    results = [("y", tf.float32.as_datatype_enum, TensorRef("twice"))]
    graph = Graph.new_function("doubled", {}, args, results, [node])
    assert graph.is_function and [a.name for a in graph.args] == ["x"]
    assert call(graph, 3.0) == [6.0]


@pytest.mark.parametrize(
    ("op", "ref", "message"),
    [
        ("OpOfSomebodyElse", "x", "is not registered"),
        ("Relu", "nobody", "no argument named 'nobody'"),
        ("Relu", "nobody:z:0", "dangling input 'nobody:z:0'"),
        ("Relu", "x:z:0", "dangling input 'x:z:0'"),
    ],
)
def test_a_function_that_does_not_hold_together(op, ref, message):
    fdef = function_pb2.FunctionDef()
    fdef.signature.name = "f"
    fdef.signature.input_arg.add(name="x", type=tf.float32.as_datatype_enum)
    fdef.node_def.add(name="n", op=op, input=[ref])
    with pytest.raises(GraphError, match=message):
        Graph.from_function_def(fdef, {})


def test_a_cycle_is_an_error_and_a_v1_loop_is_none():
    def build():
        x = v1.placeholder(tf.float32, [], "x")
        tf.identity(
            v1.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, y * 2.0), [0, x])[1], name="y"
        )

    v1.disable_control_flow_v2()
    try:
        graph = main_graph(build, ["y"])
    finally:
        v1.enable_control_flow_v2()
    position = {n.name: i for i, n in enumerate(graph.topological_order())}
    assert len(position) == len(graph)
    for node in graph:
        if not node.op.endswith("Merge"):
            assert all(position[ref.node] < position[node.name] for ref in node.inputs)
    looped = function_graph(lambda x: tf.sin(tf.exp(x)), X)
    looped.nodes["Exp"].inputs = [TensorRef("Sin")]
    with pytest.raises(GraphError, match="cycle"):
        looped.topological_order()


def test_a_reference_writer_is_stateful_and_a_reader_is_not():
    def build():
        v = v1.get_variable("v", initializer=1.0, use_resource=False)
        v1.assign_add(v, 1.0, name="write")
        tf.identity(v, name="read")

    graph = main_graph(build, ["read"])
    assert graph.is_stateful(graph.nodes["write"])
    assert not graph.is_stateful(graph.nodes["read"])


def test_redirect_moves_consumers_and_outputs():
    graph = function_graph(lambda x: (tf.exp(x), tf.sin(tf.exp(x))), X)
    first, second = (n.name for n in graph if n.op == "Exp")
    graph.redirect({TensorRef(second): TensorRef(first)})
    assert all(TensorRef(second) not in node.inputs for node in graph)
    (sin,) = (n for n in graph if n.op == "Sin")
    assert sin.inputs == [TensorRef(first)]


def test_a_copy_is_independent():
    graph = function_graph(lambda x: tf.exp(x), X)
    copy = graph.copy()
    copy.nodes["Exp"].inputs.append(TensorRef("x"))
    copy.nodes["Exp"].attrs.clear()
    copy.remove(["Identity"])
    assert len(graph.nodes["Exp"].inputs) == 1 and graph.nodes["Exp"].attrs
    assert "Identity" in graph.nodes


def test_a_taken_name_is_refused_and_a_free_one_found():
    graph = function_graph(lambda x: tf.exp(x), X)
    with pytest.raises(GraphError, match="already has a node 'Exp'"):
        graph.add(Node("Exp", "NoOp"))
    graph.add(Node(graph.unique_name("Exp"), "NoOp"))
    assert "Exp_1" in graph.nodes and graph.unique_name("Exp") == "Exp_2"
