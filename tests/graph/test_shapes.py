import numpy as np
import tensorflow as tf

from tests.passes.graphs import function_graph, main_graph, v1
from tf_blade.graph.graph import TensorRef
from tf_blade.graph.shapes import infer_types
from tf_blade.graph.types import TensorInfo


def test_dtypes_and_shapes_of_every_output():
    def build():
        x = v1.placeholder(tf.float32, [None, 6], "x")
        tf.math.top_k(tf.transpose(x, name="t"), 3, name="top")

    types = infer_types(main_graph(build, ["top"]))
    assert types[TensorRef("t")] == TensorInfo(tf.float32, (6, None))
    assert types[TensorRef("top", 1)] == TensorInfo(tf.int32, (6, 3))
    assert str(types[TensorRef("t")]) == "float32[6,?]" and types[TensorRef("t")].rank == 2


def test_more_may_be_known_of_an_argument_than_the_function_says():
    spec = tf.TensorSpec(None, tf.float32, name="x")
    graph = function_graph(lambda x: tf.exp(x, name="e"), spec)
    assert infer_types(graph)[TensorRef("e")].shape is None
    assert infer_types(graph, {"x": (None, 3)})[TensorRef("e")].shape == (None, 3)


def test_a_variables_type_is_known_behind_its_handle():
    variable = tf.Variable(np.zeros((5, 2), np.float32))
    spec = tf.TensorSpec([None], tf.int64, name="ids")
    graph = function_graph(lambda ids: tf.gather(variable, ids), spec)
    handle = graph.args[1].name
    (gather,) = (n.name for n in graph if n.op == "ResourceGather")
    known = infer_types(graph, variables={handle: TensorInfo(tf.float32, (5, 2))})
    assert known[TensorRef(gather)].shape == (None, 2)
    assert infer_types(graph)[TensorRef(gather)].shape is None


def test_calls_of_functions_are_inferred_with_only_what_they_need():
    inner = tf.function(lambda x: tf.concat([x, x], 0))
    graph = function_graph(lambda x: inner(x), tf.TensorSpec([3], tf.float32, name="x"))
    graph.library = dict(graph.library)
    broken = graph.library["unrelated"] = type(next(iter(graph.library.values())))()
    broken.signature.name = "unrelated"
    broken.node_def.add(name="n", op="OpOfSomebodyElse")
    assert infer_types(graph)[graph.outputs[0][1]].dtype == tf.float32


def test_a_large_constant_keeps_its_type():
    big = np.zeros((300, 100), np.float32)

    def build():
        tf.matmul(v1.placeholder(tf.float32, [None, 300], "x"), tf.constant(big), name="y")

    assert infer_types(main_graph(build, ["y"]))[TensorRef("y")].shape == (None, 100)
