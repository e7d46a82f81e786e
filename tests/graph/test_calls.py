import tensorflow as tf

from tests.passes.graphs import function_graph
from tf_blade.graph.calls import called_functions, callee, calls, compiled_by_xla, is_inlinable

X = tf.TensorSpec([2], tf.float32, name="x")


def node_of(graph, *ops):
    return next(n for n in graph if n.op in ops)


def test_a_plain_call_passes_its_inputs():
    inner = tf.function(lambda x, y: x - y)
    graph = function_graph(lambda x: inner(x * 2.0, x), X)
    node = node_of(graph, "PartitionedCall")
    (call,) = calls(node, graph.library)
    assert call.function == callee(node, graph.library) and call.arguments == tuple(node.inputs)
    assert is_inlinable(node, graph.library)


def test_conditionals_and_loops():
    def body(x):
        x = tf.cond(x[0] > 0, lambda: x + 1.0, lambda: x - 1.0)
        x = tf.switch_case(tf.cast(x[0], tf.int32), [lambda: x, lambda: x * 2.0, lambda: x * 3.0])
        return tf.while_loop(lambda y: y[0] < 9, lambda y: [y * 2.0], [x])[0]

    graph = function_graph(body, X)
    cond = node_of(graph, "If", "StatelessIf")
    case = node_of(graph, "Case", "StatelessCase")
    loop = node_of(graph, "While", "StatelessWhile")
    for node, count, first in ((cond, 2, 1), (case, 3, 1), (loop, 2, 0)):
        found = calls(node, graph.library)
        assert len(found) == count
        assert all(call.arguments == tuple(node.inputs[first:]) for call in found)
        assert not is_inlinable(node, graph.library) and callee(node, graph.library) is None


def test_a_dataset_decides_itself_what_it_passes():
    def body(x):
        dataset = tf.data.Dataset.from_tensor_slices(x).map(lambda v: v + 1.0)
        return dataset.reduce(0.0, lambda a, b: a + b)

    graph = function_graph(body, X)
    found = calls(node_of(graph, "MapDataset", "ParallelMapDatasetV2"), graph.library)
    assert found and all(call.arguments is None for call in found)


def test_noinline_and_xla_are_kept():
    apart = tf.function(lambda x: x + 1.0, experimental_attributes={"_noinline": True})
    compiled = tf.function(lambda x: x + 1.0, jit_compile=True)
    for function, xla in ((apart, False), (compiled, True)):
        graph = function_graph(lambda x, f=function: f(x), X)
        node = node_of(graph, "PartitionedCall", "StatefulPartitionedCall")
        assert not is_inlinable(node, graph.library)
        attrs = graph.library[callee(node, graph.library)].attr
        assert (compiled_by_xla(node.attrs) or compiled_by_xla(attrs)) == xla


def test_called_functions_are_found_through_functions():
    inner = tf.function(lambda x: tf.exp(x))
    outer = tf.function(lambda x: tf.cond(x[0] > 0, lambda: inner(x), lambda: x))
    graph = function_graph(lambda x: outer(x), X)
    found = called_functions(graph)
    assert len(found) == len(set(found)) == 4  # outer, two branches, inner
    assert set(found) <= set(graph.library)
