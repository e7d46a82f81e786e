import pytest
import tensorflow as tf

from tests.passes.graphs import main_graph, run, v1
from tf_blade.graph.graph import GraphError, TensorRef
from tf_blade.graph.names import keep_name, parse_tensor_name, rename, restore_output_names


def example():
    def build():
        x = v1.placeholder(tf.float32, [4], "x")
        y = tf.exp(x, name="y")
        tf.math.top_k(tf.sin(y, name="z"), 2, name="top")

    return main_graph(build, ["y", "top:0", "top:1"])


def test_tensor_names():
    assert parse_tensor_name("a/b:2") == TensorRef("a/b", 2)
    assert parse_tensor_name("a/b") == parse_tensor_name("^a/b") == TensorRef("a/b", 0)


def test_one_output_is_kept_by_an_identity():
    graph = example()
    node = keep_name(graph, "kept", {0: TensorRef("z")})
    assert node.op == "Identity" and node.attrs["T"].type == tf.float32.as_datatype_enum


def test_a_later_output_is_kept_under_its_number():
    graph = example()
    keep_name(graph, "kept", {1: TensorRef("top", 1), 2: TensorRef("z")})
    graph.outputs = [("kept:1", TensorRef("kept", 1)), ("kept:2", TensorRef("kept", 2))]
    indices, z = run(graph, x=[3.0, 2.0, 1.0, 0.0])
    assert indices.dtype == "int32" and z.dtype == "float32" and z.shape == (4,)


def test_a_name_in_use_is_refused():
    with pytest.raises(GraphError, match="still in use"):
        keep_name(example(), "z", {0: TensorRef("y")})


def test_redirected_outputs_get_their_names_back():
    graph = example()
    x = [0.0, 1.0, 2.0, 3.0]
    before = run(graph, x=x)
    # y is absorbed by a node of another name; top stays but for its second output.
    rename(graph, {"y": "fused"})
    other = graph.nodes["top"].copy()
    other.name = "other_top"
    graph.add(other)
    graph.outputs[2] = ("top:1", TensorRef("other_top", 1))
    restore_output_names(graph)
    assert [str(ref) for _, ref in graph.outputs] == ["y:0", "top:0", "top:1"]
    assert graph.nodes["y"].op == "Identity" and graph.nodes["top"].op == "IdentityN"
    for found, expected in zip(run(graph, x=x), before, strict=True):
        assert found.tolist() == expected.tolist()


def test_nothing_moved_nothing_changed():
    graph = example()
    names = list(graph.nodes)
    restore_output_names(graph)
    assert list(graph.nodes) == names


def test_renaming_two_nodes_alike_is_refused():
    with pytest.raises(GraphError, match="two nodes the name 'z'"):
        rename(example(), {"y": "z"})
