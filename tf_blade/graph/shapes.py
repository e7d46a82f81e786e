"""Dtypes and partly known shapes of every tensor of a graph, by TensorFlow's own inference."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, graph_pb2, types_pb2

from tf_blade.graph.calls import called_functions
from tf_blade.graph.graph import Graph, TensorRef
from tf_blade.graph.types import ARG, Shape, TensorInfo

Types = dict[TensorRef, TensorInfo]

_LARGE_CONST_BYTES = 64 << 10


def infer_types(
    graph: Graph,
    arg_shapes: Mapping[str, Shape] | None = None,
    variables: Mapping[str, TensorInfo] | None = None,
) -> Types:
    """Imports the graph into a fresh tf.Graph and reads the shapes TensorFlow infers.

    Args:
      graph: a main graph or a function body.
      arg_shapes: shapes of arguments by node name, where more is known than the graph says.
      variables: dtype and shape of the variable behind a resource argument, by node name;
        with it, what ReadVariableOp and ResourceGather give is known too.

    Returns: dtype and shape of every output of every node.
    """
    graph_def = graph.to_graph_def()
    for proto in graph_def.node:
        if proto.op == ARG:
            shape = (arg_shapes or {}).get(proto.name)
            if shape is None and "shape" in proto.attr:
                known = proto.attr["shape"].shape
            else:
                known = tf.TensorShape(shape).as_proto()
            dtype = proto.attr["T"].type
            proto.op = "Placeholder"
            variable = (variables or {}).get(proto.name)
            if variable is not None and dtype == types_pb2.DT_RESOURCE:
                proto.op = "VarHandleOp"  # only it can carry the type of what it points to
                dtype = variable.dtype.as_datatype_enum
                known = tf.TensorShape(variable.shape).as_proto()
            proto.attr.clear()
            proto.attr["dtype"].CopyFrom(attr_value_pb2.AttrValue(type=dtype))
            proto.attr["shape"].CopyFrom(attr_value_pb2.AttrValue(shape=known))
        elif proto.op == "Const" and proto.attr["value"].tensor.ByteSize() > _LARGE_CONST_BYTES:
            # No shape depends on so many numbers; importing them would take long.
            tensor = proto.attr["value"].tensor
            dtype, known = tensor.dtype, tensor.tensor_shape
            proto.op = "Placeholder"
            proto.attr.pop("value")
            proto.attr["dtype"].CopyFrom(attr_value_pb2.AttrValue(type=dtype))
            proto.attr["shape"].CopyFrom(attr_value_pb2.AttrValue(shape=known))
        # Recorded by the writer, possibly for another shape: the inference below decides.
        proto.attr.pop("_output_shapes", None)
    if not graph_def.versions.producer:
        # Functions carry no version, and the oldest one takes a scalar's shape for unknown.
        graph_def.versions.producer = tf.version.GRAPH_DEF_VERSION
    for name in called_functions(graph):  # the whole library would be slow to import
        graph_def.library.function.add().CopyFrom(graph.library[name])
    scratch = tf.Graph()
    with scratch.as_default():
        tf.graph_util.import_graph_def(_unplaced(graph_def), name="")
    types: Types = {}
    for op in scratch.get_operations():
        for i, tensor in enumerate(op.outputs):
            dims = tensor.shape
            shape = None if dims.rank is None else tuple(dims.as_list())
            types[TensorRef(op.name, i)] = TensorInfo(tensor.dtype.base_dtype, shape)
    return types


def _unplaced(graph_def: graph_pb2.GraphDef) -> graph_pb2.GraphDef:
    """Drops devices and colocation, which may name nodes or machines that aren't here."""
    for node in graph_def.node:
        node.device = ""
        node.attr.pop("_class", None)
    return graph_def
