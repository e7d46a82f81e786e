"""Which nodes may never be inside a cluster, whatever the compiler can lower, and why."""

from __future__ import annotations

from collections.abc import Iterator

import tensorflow as tf
from tensorflow.core.framework import types_pb2

from tf_blade.clustering import devices
from tf_blade.clustering.control_flow import V1_CONTROL_FLOW
from tf_blade.graph.calls import is_wrapped
from tf_blade.graph.graph import Graph, GraphError, Node, TensorRef, arg_size, op_def
from tf_blade.graph.shapes import Types
from tf_blade.graph.types import ARG

# Constants up to this many bytes become literals of the clusters that read them.
LITERAL_BYTES = 1024

_HANDLES = {
    types_pb2.DT_RESOURCE: "resource",
    types_pb2.DT_VARIANT: "variant",
    types_pb2.DT_STRING: "string",
}
_PLACEHOLDERS = ("Placeholder", "PlaceholderV2", "PlaceholderWithDefault")


def dtype_of(graph: Graph, types: Types, ref: TensorRef) -> int:
    """DataType enum value of a tensor, a reference's as the dtype it refers to."""
    if ref in types:
        return int(types[ref].dtype.as_datatype_enum)
    return graph.output_dtypes(graph.nodes[ref.node])[ref.index]


def constant_bytes(node: Node) -> int:
    """Bytes in memory of a Const node's value; strings count as too large for a literal."""
    tensor = node.attrs["value"].tensor
    dtype = tensor.dtype
    if dtype in _HANDLES:
        return LITERAL_BYTES + 1
    count = 1
    for dim in tensor.tensor_shape.dim:
        count *= dim.size
    return count * _itemsize(dtype)


def is_literal(node: Node) -> bool:
    """Whether a node is a constant small enough to be copied into each cluster that reads it."""
    return node.op == "Const" and constant_bytes(node) <= LITERAL_BYTES


def refusal(graph: Graph, node: Node) -> str | None:
    """The reason why `node` can't be in any cluster, or None.

    Looks at what the op is and does, not at what the compiler supports.
    """
    if node.op == ARG:
        return "an argument of the function"
    if node.op == "Const":
        return "a constant: there is nothing to run"
    if node.op in _PLACEHOLDERS:
        return "a placeholder: its value is fed from outside"
    if node.op in V1_CONTROL_FLOW:
        return f"control flow ({node.op}) stays with TensorFlow's executor"
    if node.op == "NoOp":
        return "NoOp only orders other nodes"
    called = next(_called_functions(node), None)
    if (called is not None or node.op in graph.library) and not is_wrapped(node):
        return f"calls function '{called or node.op}'"
    try:
        if graph.is_stateful(node):
            return f"op {node.op} is stateful"
        outputs = graph.output_dtypes(node)
        inputs = [graph.output_dtypes(graph.nodes[r.node])[r.index] for r in node.inputs]
    except (GraphError, IndexError):
        return f"op {node.op} or one of its inputs is not registered in this process"
    for side, dtypes in (("input", inputs), ("output", outputs)):
        for i, dtype in enumerate(dtypes):
            if dtype in _HANDLES:
                return f"{side} {i} is a {_HANDLES[dtype]} tensor"
    for i, ref in enumerate(node.inputs):
        if _is_reference(graph, ref):
            return f"input {i} is a reference variable, which others may assign"
    if not devices.is_cpu(devices.parse(node.device)):
        return f"placed on device '{node.device}', not on the CPU"
    return None


def _is_reference(graph: Graph, ref: TensorRef) -> bool:
    node = graph.nodes[ref.node]
    if node.op == ARG:
        return False
    index = ref.index
    for arg in op_def(node.op, graph.library).output_arg:
        size = arg_size(arg, node.attrs)
        if index < size:
            return bool(arg.is_ref)
        index -= size
    return False


def _called_functions(node: Node) -> Iterator[str]:
    for value in node.attrs.values():
        kind = value.WhichOneof("value")
        if kind == "func":
            yield value.func.name
        elif kind == "list":
            yield from (f.name for f in value.list.func)


def _itemsize(dtype: int) -> int:
    return int(tf.dtypes.as_dtype(dtype).size)
