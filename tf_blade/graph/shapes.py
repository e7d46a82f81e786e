"""Dtypes and partly known shapes of every tensor of a graph, by TensorFlow's own inference."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

import tensorflow as tf
from tensorflow.core.framework import (
    attr_value_pb2,
    tensor_shape_pb2,
    types_pb2,
)

from tf_blade.c_api import Output, Status, c_api
from tf_blade.graph.calls import called_functions
from tf_blade.graph.graph import Graph, Node, TensorRef
from tf_blade.graph.loop_shapes import Heads, entering, infer_through_loops
from tf_blade.graph.types import ARG, Shape, TensorInfo

Types = dict[TensorRef, TensorInfo]

_LARGE_CONST_BYTES = 64 << 10


def infer_types(
    graph: Graph,
    arg_shapes: Mapping[str, Shape] | None = None,
    variables: Mapping[str, TensorInfo] | None = None,
) -> Types:
    """Imports the graph into a fresh TensorFlow graph and reads the shapes that it infers.

    Args:
      graph: a main graph or a function body.
      arg_shapes: shapes of arguments and placeholders by node name, where more is known than the
        graph says.
      variables: dtype and shape of the variable behind a resource argument, by node name;
        with it, what ReadVariableOp and ResourceGather give is known too.

    Returns: dtype and shape of every output of every node.
    """

    def infer(heads: Heads) -> Types:
        types = _read_types(_serialized(graph, arg_shapes or {}, variables or {}, heads))
        index = TensorInfo(tf.int32, ())
        types.update({TensorRef(name, 1): index for name in heads})  # of a Merge
        return types

    return infer_through_loops(graph, infer)


def _serialized(
    graph: Graph,
    arg_shapes: Mapping[str, Shape],
    variables: Mapping[str, TensorInfo],
    heads: Heads,
) -> bytes:
    """The graph as a GraphDef to import: in main graph terms, with what is known filled in."""
    imported = Graph("", graph.library)
    for node in graph:
        if node.op == ARG:
            node = _argument(node, arg_shapes, variables)
        elif node.op == "Placeholder" and node.name in arg_shapes:
            known = tf.TensorShape(arg_shapes[node.name]).as_proto()
            node = _placeholder(node, "Placeholder", node.attrs["dtype"].type, known)
        elif node.op == "Const":
            node = _constant(node)
        elif node.name in heads:
            node = _loop_head(graph, node, heads[node.name])
        elif node.op in ("Enter", "RefEnter"):
            node = _same(node, node.inputs[0])
        imported.nodes[node.name] = node
    graph_def = imported.to_graph_def()
    graph_def.versions.CopyFrom(graph.versions)
    for proto in graph_def.node:
        # Devices and colocation may name nodes or machines that aren't here; shapes were recorded
        # by the writer, possibly for others than these: the inference below decides.
        proto.device = ""
        for name in ("_class", "_output_shapes"):
            proto.attr.pop(name, None)
    if not graph_def.versions.producer:
        # Functions carry no version, and the oldest one takes a scalar's shape for unknown.
        graph_def.versions.producer = tf.version.GRAPH_DEF_VERSION
    for name in called_functions(graph):  # the whole library would be slow to import
        graph_def.library.function.add().CopyFrom(graph.library[name])
    return bytes(graph_def.SerializeToString())


def _argument(
    node: Node, arg_shapes: Mapping[str, Shape], variables: Mapping[str, TensorInfo]
) -> Node:
    """What stands for an argument in a main graph."""
    shape = arg_shapes.get(node.name)
    if shape is None and "shape" in node.attrs:
        known = node.attrs["shape"].shape
    else:
        known = tf.TensorShape(shape).as_proto()
    dtype = node.attrs["T"].type
    variable = variables.get(node.name)
    if variable is None or dtype != types_pb2.DT_RESOURCE:
        return _placeholder(node, "Placeholder", dtype, known)
    # Only a VarHandleOp can carry the type of what it points to.
    known = tf.TensorShape(variable.shape).as_proto()
    return _placeholder(node, "VarHandleOp", variable.dtype.as_datatype_enum, known)


def _loop_head(graph: Graph, node: Node, info: TensorInfo | None) -> Node:
    """What stands for the Merge of a loop."""
    if info is None:
        return _same(node, entering(graph, node))
    known = tf.TensorShape(info.shape).as_proto()
    return _placeholder(node, "Placeholder", info.dtype.as_datatype_enum, known)


def _same(node: Node, ref: TensorRef) -> Node:
    """What stands for a node that hands a tensor on. An Enter's own inference gives up."""
    return Node(node.name, "Identity", [ref], list(node.controls), {"T": node.attrs["T"]})


def _constant(node: Node) -> Node:
    """The node, or a Placeholder for a large one."""
    tensor = node.attrs["value"].tensor
    if tensor.ByteSize() <= _LARGE_CONST_BYTES:
        return node
    # No shape depends on so many numbers; importing them would take long.
    return _placeholder(node, "Placeholder", tensor.dtype, tensor.tensor_shape)


def _placeholder(node: Node, op: str, dtype: int, shape: tensor_shape_pb2.TensorShapeProto) -> Node:
    attrs = {
        "dtype": attr_value_pb2.AttrValue(type=dtype),
        "shape": attr_value_pb2.AttrValue(shape=shape),
    }
    return Node(node.name, op, [], list(node.controls), attrs)


def _read_types(graph_def: bytes) -> Types:
    """What TensorFlow infers when it imports a serialized GraphDef."""
    api, status = c_api(), Status()
    graph = api.TF_NewGraph()
    try:
        _import(graph, graph_def, status)
        types: Types = {}
        known: dict[tuple[int, Shape], TensorInfo] = {}  # few differ; a graph has many tensors
        position = ctypes.c_size_t(0)
        while operation := api.TF_GraphNextOperation(graph, ctypes.byref(position)):
            name = api.TF_OperationName(operation).decode()
            for index in range(api.TF_OperationNumOutputs(operation)):
                output = Output(operation, index)
                key = api.TF_OperationOutputType(output), _shape(graph, output, status)
                if key not in known:
                    known[key] = TensorInfo(tf.as_dtype(key[0]).base_dtype, key[1])
                types[TensorRef(name, index)] = known[key]
        return types
    finally:
        api.TF_DeleteGraph(graph)


def _import(graph: int, serialized: bytes, status: Status) -> None:
    api = c_api()
    options = api.TF_NewImportGraphDefOptions()
    buffer = api.TF_NewBufferFromString(serialized, len(serialized))
    try:
        api.TF_GraphImportGraphDef(graph, buffer, options, status.pointer)
    finally:
        api.TF_DeleteBuffer(buffer)
        api.TF_DeleteImportGraphDefOptions(options)
    status.check("inferring shapes")


def _shape(graph: int, output: Output, status: Status) -> Shape:
    api = c_api()
    rank = api.TF_GraphGetTensorNumDims(graph, output, status.pointer)
    if rank <= 0:
        return () if rank == 0 else None
    dims = (ctypes.c_int64 * rank)()
    api.TF_GraphGetTensorShape(graph, output, dims, rank, status.pointer)
    status.check("reading a shape")
    return tuple(None if dim < 0 else dim for dim in dims)
