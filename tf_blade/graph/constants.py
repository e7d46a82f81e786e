"""Const nodes: making them, reading them."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

from tf_blade.graph.graph import Node


def const_node(name: str, value: np.ndarray, dtype: tf.DType) -> Node:
    """A Const with exactly that value, dtype and shape."""
    array = np.asarray(value)
    node = Node(name, "Const")
    node.attrs["dtype"] = attr_value_pb2.AttrValue(type=dtype.as_datatype_enum)
    proto = tf.make_tensor_proto(array, dtype=dtype, shape=array.shape)
    node.attrs["value"] = attr_value_pb2.AttrValue(tensor=proto)
    return node


def const_value(node: Node) -> np.ndarray | None:
    """The value of a Const node, None for any other node."""
    if node.op != "Const":
        return None
    value: np.ndarray = tf.make_ndarray(node.attrs["value"].tensor)
    return value


def const_bytes(node: Node) -> int:
    """Bytes of a Const's value in memory; of strings, of their text."""
    proto = node.attrs["value"].tensor
    if proto.dtype == tf.string.as_datatype_enum:
        return sum(len(text) for text in proto.string_val)
    shape = tuple(dim.size for dim in proto.tensor_shape.dim)
    return int(np.prod(shape, dtype=np.int64)) * tf.as_dtype(proto.dtype).size
