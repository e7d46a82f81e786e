"""Graphs as Grappler has them: what is taken, what is left alone, what comes back."""

from __future__ import annotations

import pytest
import tensorflow as tf
from tensorflow.core.framework import graph_pb2

from tests.passes.graphs import v1
from tf_blade.graph.graph import TensorRef
from tf_blade.just_in_time.bridge import Message
from tf_blade.just_in_time.graphs import LeftAlone, receive

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


def message(build, device: str = "", **facts: list[str]) -> Message:
    with tf.Graph().as_default() as graph, tf.device(device):
        build()
    named = {"id": ["tf_graph"], "fetch": [], "feed": [], "keep": []} | facts
    return Message(1, graph.as_graph_def().SerializeToString(), named)


def scores() -> None:
    x = v1.placeholder(tf.float32, [None, 3], "x")
    tf.exp(tf.tanh(x, name="inner"), name="y")
    tf.no_op("run")


def test_a_sessions_graph_keeps_what_is_fetched_and_pins_what_is_run():
    received = receive(message(scores, fetch=["y:0", "run"], keep=["x", "y", "run"]))
    assert received.name == "session" and not received.graph.is_function
    assert received.graph.outputs == [("y:0", TensorRef("y"))]
    assert received.pinned == {"x", "run"}
    assert not received.takes_lookups
    assert receive(message(scores, fetch=["y:0"], feed=["x:0"], keep=["y"])).takes_lookups


@pytest.mark.parametrize(
    ("facts", "device", "reason"),
    [
        ({"fetch": ["run"]}, "", "for its effects only"),
        ({"fetch": ["y:0"], "feed": ["inner:0"]}, "", "fed the result of 'inner' (Tanh)"),
        ({"fetch": ["y:0"]}, "/job:worker/task:1", "runs in another process"),
    ],
)
def test_graphs_that_are_left_alone(facts, device, reason):
    with pytest.raises(LeftAlone) as raised:
        receive(message(scores, device, **facts))
    assert reason in str(raised.value)


def test_a_graph_with_an_unknown_op_is_left_alone():
    proto = graph_pb2.GraphDef()
    proto.node.add(name="n", op="OpOfSomebodyElse")
    facts = {"id": ["g"], "fetch": ["n:0"], "feed": [], "keep": []}
    with pytest.raises(LeftAlone, match="OpOfSomebodyElse"):
        receive(Message(1, proto.SerializeToString(), facts))
    with pytest.raises(LeftAlone, match="can't be read"):
        receive(Message(1, b"\xff\xff", facts))


def test_compositions_are_taken_apart():
    received = receive(composed())
    nodes = received.graph.nodes
    assert nodes["c"].op == "Exp" and nodes["c"].inputs == [TensorRef("c/Tanh")]
    assert nodes["c/Tanh"].op == "Tanh" and nodes["c/Tanh"].inputs == [TensorRef("x")]


def test_new_nodes_of_a_placed_graph_get_a_device():
    received = receive(composed(CPU))
    graph = received.graph.copy()
    graph.nodes["c/Tanh"].device = ""
    edited = graph_pb2.GraphDef.FromString(received.edited(graph) or b"")
    assert {node.device for node in edited.node} == {CPU}
    received = receive(composed(""))
    edited = graph_pb2.GraphDef.FromString(received.edited(received.graph) or b"")
    assert {node.device for node in edited.node} == {""}


def test_a_pinned_node_that_was_lost_is_noticed_unless_it_only_read():
    def build():
        v = v1.get_variable("v", [3], use_resource=True)
        tf.raw_ops.ReadVariableOp(resource=v.handle, dtype=tf.float32, name="read")
        scores()

    received = receive(message(build, fetch=["y:0"], keep=["read", "run"]))
    graph = received.graph.copy()
    graph.remove(["read"])
    edited = graph_pb2.GraphDef.FromString(received.edited(graph) or b"")
    assert {node.name: node.op for node in edited.node}["read"] == "NoOp"
    graph = received.graph.copy()
    graph.remove(["run"])
    assert received.edited(graph) is None


def composed(device: str = "") -> Message:
    """exp(tanh(x)), as Grappler writes it."""
    proto = graph_pb2.GraphDef()
    x = proto.node.add(name="x", op="Placeholder", device=device)
    x.attr["dtype"].type = tf.float32.as_datatype_enum
    node = proto.node.add(name="c", op="_UnaryOpsComposition", input=["x"], device=device)
    node.attr["T"].type = tf.float32.as_datatype_enum
    node.attr["op_names"].list.s.extend([b"Tanh", b"Exp"])
    facts = {"id": ["tf_graph"], "fetch": ["c:0"], "feed": ["x:0"], "keep": ["x", "c"]}
    return Message(1, proto.SerializeToString(), facts)


def test_a_functions_arguments_results_and_variables():
    proto = graph_pb2.GraphDef()
    for index, name in enumerate(["x", "v"]):
        node = proto.node.add(name=name, op="_Arg")
        node.attr["index"].i = index
        node.attr["T"].type = (tf.resource if index else tf.float32).as_datatype_enum
    shape = tf.TensorShape([8, 3]).as_proto()
    proto.node[0].attr["_output_shapes"].list.shape.append(shape)
    proto.node[1].attr["_handle_dtypes"].list.type.append(tf.float32.as_datatype_enum)
    proto.node[1].attr["_handle_shapes"].list.shape.append(tf.TensorShape([3]).as_proto())
    exp = proto.node.add(name="y", op="Exp", input=["x"])
    exp.attr["T"].type = tf.float32.as_datatype_enum
    result = proto.node.add(name="result", op="_Retval", input=["y", "^wait"])
    result.attr["T"].type = tf.float32.as_datatype_enum
    proto.node.add(name="wait", op="NoOp")
    facts = {"id": ["__inference_my_f_12"], "fetch": ["result"], "feed": [], "keep": ["result"]}
    received = receive(Message(1, proto.SerializeToString(), facts))
    assert received.name == "my_f" and received.graph.is_function and received.takes_lookups
    assert received.arg_shapes == {"x": (8, 3)}
    assert received.variables["v"].shape == (3,) and received.variables["v"].nbytes == 12
    assert received.pinned == {"wait"}
    edited = graph_pb2.GraphDef.FromString(received.edited(received.graph) or b"")
    assert [list(n.input) for n in edited.node if n.op == "_Retval"] == [["y", "^wait"]]


def test_a_functions_node_that_is_only_waited_for_is_put_back_with_what_has_an_effect():
    proto = graph_pb2.GraphDef()

    def add(name: str, op: str, *inputs: str, **types: tf.DType) -> None:
        node = proto.node.add(name=name, op=op, input=inputs)
        for key, dtype in types.items():
            node.attr[key].type = dtype.as_datatype_enum

    add("x", "_Arg", T=tf.float32)
    add("v", "_Arg", T=tf.resource)
    proto.node[1].attr["index"].i = 1
    add("assign", "AssignVariableOp", "v", "x", dtype=tf.float32)
    add("pure", "Exp", "x", T=tf.float32)
    add("wait", "NoOp", "^assign", "^pure")
    add("result", "_Retval", "x", "^wait", T=tf.float32)
    facts = {"id": ["__inference_f_1"], "fetch": ["result"], "feed": [], "keep": ["result"]}
    received = receive(Message(1, proto.SerializeToString(), facts))
    graph = received.graph.copy()
    graph.remove(["wait", "pure"])
    edited = graph_pb2.GraphDef.FromString(received.edited(graph) or b"")
    nodes = {node.name: node for node in edited.node}
    assert (nodes["wait"].op, list(nodes["wait"].input)) == ("NoOp", ["^assign"])
    assert "^wait" in nodes["result"].input
