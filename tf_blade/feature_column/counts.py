"""Counts of ids that the graph uses as integers, so that a lookup can give them:

x  ->  Cast<its dtype>(Cast<f32>(x)), where x is how often ids are there, far below 2^24
"""

from __future__ import annotations

from tensorflow.core.framework import attr_value_pb2, types_pb2

from tf_blade.feature_column.interpret import Interpreter
from tf_blade.feature_column.recognise import last_counts
from tf_blade.graph.graph import Graph, Node, TensorRef


def counts_as_floats(graph: Graph, m: Interpreter) -> Graph | None:
    """The graph with such casts, None if it needs none.

    Args:
      graph: the graph that `m` interprets, perhaps with more nodes. Not changed.
    """
    refs = [ref for ref in last_counts(m) if m.may_replace(ref.node)]
    if not refs:
        return None
    result = graph.copy()
    mapping: dict[TensorRef, TensorRef] = {}
    casts: list[Node] = []
    for ref in refs:
        dtype = graph.output_dtypes(graph.nodes[ref.node])[ref.index]
        floats = _cast(result, ref, "floats", dtype, types_pb2.DT_FLOAT)
        counts = _cast(result, TensorRef(floats.name), "counts", types_pb2.DT_FLOAT, dtype)
        casts.append(floats)
        mapping[ref] = TensorRef(counts.name)
    result.redirect(mapping)
    for cast, ref in zip(casts, mapping, strict=True):
        cast.inputs = [ref]
    return result


def _cast(graph: Graph, ref: TensorRef, name: str, of: int, to: int) -> Node:
    node = Node(graph.unique_name(f"{ref.node}/{name}"), "Cast", [ref])
    node.attrs = {
        "SrcT": attr_value_pb2.AttrValue(type=of),
        "DstT": attr_value_pb2.AttrValue(type=to),
        "Truncate": attr_value_pb2.AttrValue(b=False),
    }
    return graph.add(node)
