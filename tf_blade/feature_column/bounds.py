"""Dense shapes for sparse indices that come without one.

tf.nn.embedding_lookup_sparse reads a SparseTensor's indices and values only; its rows end with the
last one that has an element. A lookup wants a shape that holds all indices:

    bounds = Max(indices, axis 0) + 1

Without elements that is negative, and the lookup leaves the run to the original subgraph.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, types_pb2

from tf_blade.feature_column.interpret import Interpreter
from tf_blade.graph.constants import const_node
from tf_blade.graph.graph import Graph, Node, TensorRef

_SEGMENT_OPS = ("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN", "SegmentSum")


def add_bounds(graph: Graph, m: Interpreter) -> tuple[Graph, dict[TensorRef, TensorRef]]:
    """The graph with bounds of bare indices, and these, by indices tensor.

    Args:
      graph: the graph that `m` interprets. Not changed.
    """
    bare: dict[TensorRef, None] = {}
    for node in graph:
        if node.op in _SEGMENT_OPS and m.may_replace(node.name):
            ref = _indices(m, node.inputs[-1])
            if ref is not None:
                bare[ref] = None
    if not bare:
        return graph, {}
    result = graph.copy()
    return result, {ref: _bounds(result, ref) for ref in bare}


def _indices(m: Interpreter, segments: TensorRef) -> TensorRef | None:
    """The indices whose first column these are, if nothing else is known of them."""
    node = m.graph.nodes[segments.node]
    while node.op in ("Cast", "Identity"):
        node = m.graph.nodes[node.inputs[0].node]
    if node.op != "StridedSlice" or not m.may_replace(node.name):
        return None
    ref = node.inputs[0]
    shape = m.types[ref].shape
    if m.types[ref].dtype != tf.int64 or shape is None or len(shape) != 2 or shape[1] is None:
        return None
    known = m.value(ref) is not None or ref.node in m.behind
    return None if known or m.graph.nodes[ref.node].op == "SparseFillEmptyRows" else ref


def _bounds(graph: Graph, ref: TensorRef) -> TensorRef:
    base = graph.unique_name(f"{ref.node}/bounds")
    axis = graph.add(const_node(f"{base}/axis", np.array([0], np.int32), tf.int32))
    one = graph.add(const_node(f"{base}/one", np.array(1, np.int64), tf.int64))
    i64 = attr_value_pb2.AttrValue(type=types_pb2.DT_INT64)
    last = Node(f"{base}/last", "Max", [ref, TensorRef(axis.name)])
    last.attrs = {
        "T": i64,
        "Tidx": attr_value_pb2.AttrValue(type=types_pb2.DT_INT32),
        "keep_dims": attr_value_pb2.AttrValue(b=False),
    }
    graph.add(last)
    bounds = Node(base, "AddV2", [TensorRef(last.name), TensorRef(one.name)], attrs={"T": i64})
    return TensorRef(graph.add(bounds).name)
