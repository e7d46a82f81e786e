"""Sizes that a trace holds as constants, computed from its arguments instead.

    Reshape(y, [8, 20, 64])  ->  Reshape(y, [dim(x, 0), dim(x, 1), 64])
                                 if x is of shape [8, 20, …] here, and of another in other traces

Tracing makes constants of the sizes that it knows, and code that has them in it fits one trace
only. In the trace at hand both sides are the same, whatever the size meant; so the worst that a
chance likeness does is that two traces don't share their code.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np
import tensorflow as tf
from tensorflow.core.framework.attr_value_pb2 import AttrValue

from tf_blade.graph.constants import const_node, const_value
from tf_blade.graph.control_flow import v1_controlled
from tf_blade.graph.graph import Graph, Node, TensorRef, default_attrs
from tf_blade.graph.types import Shape

# The input that gives the result's shape.
_SHAPE_INPUT = {"Reshape": 1, "BroadcastTo": 1, "Fill": 0}

# Arguments' sizes whose product a size is.
_Factors = tuple[tuple[str, int], ...]


def free_sizes(graph: Graph, here: Mapping[str, Shape], common: Mapping[str, Shape]) -> bool:
    """Replaces such constants; returns whether there were any.

    Args:
      graph: changed.
      here: shapes of the arguments in this trace.
      common: the same, as far as other traces have them, too.
    """
    known = _known_sizes(here, common)
    if not known:
        return False
    editor = _Editor(graph)
    inside = v1_controlled(graph)  # what is in a loop can't read what is outside of it
    for node in list(graph):
        slot = _SHAPE_INPUT.get(node.op)
        if slot is None or node.name in inside:
            continue
        shape = const_value(graph.nodes[node.inputs[slot].node])
        if shape is None or shape.ndim != 1:
            continue
        sizes = [known.get(int(size), ()) for size in shape]
        if any(sizes):
            node.inputs[slot] = editor.shape(node, shape, sizes)
    return editor.changed


def _known_sizes(here: Mapping[str, Shape], common: Mapping[str, Shape]) -> dict[int, _Factors]:
    """The sizes that may differ in other traces, and the products of two."""
    singles: dict[int, _Factors] = {}
    for name, shape in here.items():
        for axis, (size, kept) in enumerate(zip(shape or (), common[name] or (), strict=True)):
            if size is not None and size > 1 and kept is None:
                singles.setdefault(size, ((name, axis),))
    found = dict(singles)
    for a, b in combinations(singles, 2):
        found.setdefault(a * b, singles[a] + singles[b])
    return found


class _Editor:
    """Adds the nodes that compute shapes."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._sizes: dict[tuple[str, int, int], TensorRef] = {}
        self.changed = False

    def shape(self, reader: Node, shape: np.ndarray, sizes: list[_Factors]) -> TensorRef:
        """The shape as a tensor, with the sizes that have factors computed from these."""
        self.changed = True
        dtype = tf.as_dtype(shape.dtype)
        parts = [
            self._product(factors, dtype, reader)
            if factors
            else self._constant(size, dtype, reader)
            for size, factors in zip(shape, sizes, strict=True)
        ]
        return self._add("Pack", parts, reader, N=AttrValue(i=len(parts)), T=_type(dtype))

    def _product(self, factors: _Factors, dtype: tf.DType, reader: Node) -> TensorRef:
        refs = [self._size(name, axis, dtype, reader) for name, axis in factors]
        if len(refs) == 1:
            return refs[0]
        return self._add("Mul", refs, reader, T=_type(dtype))

    def _size(self, argument: str, axis: int, dtype: tf.DType, reader: Node) -> TensorRef:
        key = (argument, axis, dtype.as_datatype_enum)
        if key not in self._sizes:
            T = self._graph.nodes[argument].attrs["T"]
            shape = self._add("Shape", [TensorRef(argument)], reader, T=T, out_type=_type(dtype))
            ends = [self._constant([i], tf.int32, reader) for i in (axis, axis + 1, 1)]
            self._sizes[key] = self._add(
                "StridedSlice",
                [shape, *ends],
                reader,
                T=_type(dtype),
                Index=_type(tf.int32),
                shrink_axis_mask=AttrValue(i=1),
            )
        return self._sizes[key]

    def _constant(self, value: object, dtype: tf.DType, reader: Node) -> TensorRef:
        name = self._graph.unique_name(f"{reader.name}/sizes/Const")
        node = const_node(name, np.asarray(value, dtype.as_numpy_dtype), dtype)
        node.device = reader.device
        return TensorRef(self._graph.add(node).name)

    def _add(self, op: str, inputs: list[TensorRef], reader: Node, **attrs: AttrValue) -> TensorRef:
        name = self._graph.unique_name(f"{reader.name}/sizes/{op}")
        attributes = default_attrs(op) | attrs
        self._graph.add(Node(name, op, inputs, [], attributes, reader.device))
        return TensorRef(name)


def _type(dtype: tf.DType) -> AttrValue:
    return AttrValue(type=dtype.as_datatype_enum)
