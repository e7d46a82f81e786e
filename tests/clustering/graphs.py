"""Building small graphs, running them, and standing in for the op that runs executables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, graph_pb2

from tf_blade.clustering import (
    Call,
    Cluster,
    CostModel,
    find_clusters,
    outline,
    replace,
)
from tf_blade.graph.graph import Graph, Node, TensorRef
from tf_blade.graph.shapes import Types, infer_types

# Every cluster of two nodes or more is worth it: tests of legality must not hang on cost.
ANY_GAIN = CostModel(margin_us=-1e9)
UNSUPPORTED = frozenset({"Sinh", "Cosh", "Conv2D", "Unique"})


def support(node: Node) -> str | None:
    """Everything can be lowered but a few ops that stand for what the compiler doesn't know."""
    return f"no lowering for op {node.op}" if node.op in UNSUPPORTED else None


def main_graph(build: Callable[[], Iterable[tf.Tensor]]) -> Graph:
    """The graph that `build` makes, with the tensors it returns as fetches."""
    with tf.Graph().as_default() as scratch:
        fetches = [TensorRef(t.op.name, t.value_index) for t in build()]
    return Graph.from_graph_def(scratch.as_graph_def(), fetches)


def function_graph(function: Callable[..., object], *specs: tf.TensorSpec) -> Graph:
    """The body of a tf.function."""
    graph_def = tf.function(function).get_concrete_function(*specs).graph.as_graph_def()
    concrete = tf.function(function).get_concrete_function(*specs)
    library = {f.signature.name: f for f in graph_def.library.function}
    return Graph.from_function_def(concrete.function_def, library)


def vector(name: str, size: int | None = 4) -> tf.Tensor:
    return tf.compat.v1.placeholder(tf.float32, [size], name=name)


def cluster(
    graph: Graph, eligible: Iterable[str] | None = None, cost: CostModel = ANY_GAIN
) -> tuple[list[Cluster], dict[str, str], Types]:
    types = infer_types(graph)
    clusters, left_out = find_clusters(graph, types, support, eligible=eligible, cost=cost)
    return clusters, left_out, types


def members(clusters: Sequence[Cluster]) -> list[set[str]]:
    return [set(c.members) for c in clusters]


def partitioned_call(call: Call) -> Node:
    """The stock op that calls the function: right answers without any executable."""
    attr = attr_value_pb2.AttrValue
    attrs = {
        "Tin": attr(list=attr.ListValue(type=call.input_dtypes)),
        "Tout": attr(list=attr.ListValue(type=call.output_dtypes)),
        "f": attr(func=attr_value_pb2.NameAttrList(name=call.fallback)),
    }
    return Node(call.name, "PartitionedCall", call.inputs, call.controls, attrs, call.device)


def replace_with_calls(graph: Graph, types: Types, clusters: Sequence[Cluster]) -> list[Node]:
    """Replaces all clusters by calls; all are outlined before the first is replaced."""
    outlined = [outline(graph, types, c) for c in clusters]
    return [replace(graph, o, b"", make_node=partitioned_call) for o in outlined]


def proto_of(graph: Graph) -> graph_pb2.GraphDef:
    graph_def = graph.to_graph_def()
    for function in graph.library.values():
        graph_def.library.function.add().CopyFrom(function)
    return graph_def


def run(
    graph: Graph, feeds: Mapping[str, object], fetches: Sequence[str] | None = None
) -> list[np.ndarray]:
    """Runs a main graph in a fresh session; fetches its outputs unless told otherwise."""
    names = [str(ref) for _, ref in graph.outputs] if fetches is None else list(fetches)
    with tf.Graph().as_default() as scratch:
        tf.graph_util.import_graph_def(proto_of(graph), name="")
        with tf.compat.v1.Session(graph=scratch) as session:
            return session.run(names, {f"{name}:0": value for name, value in feeds.items()})


def assert_same_answers(
    before: Graph, after: Graph, feeds: Mapping[str, object], fetches: Sequence[str] | None = None
) -> None:
    after.topological_order()
    expected, found = run(before, feeds, fetches), run(after, feeds, fetches)
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-6)
