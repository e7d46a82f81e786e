"""A MetaGraph's signatures, as users know them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from tf_blade.graph.types import Shape

# Entries of signature_def through which TensorFlow finds its own ops.
INIT_OP = "__saved_model_init_op"
TRAIN_OP = "__saved_model_train_op"


@dataclass(frozen=True)
class SignatureTensor:
    """One input or output of a signature.

    Attributes:
      name: the key users feed or get it by.
      dtype, shape: as declared; None for an unknown dim or rank.
      tensors: main graph tensors: one, or values, indices and dense shape of a sparse tensor, or
        the components of a composite one.
    """

    name: str
    dtype: tf.DType
    shape: Shape
    tensors: tuple[str, ...]

    @property
    def tensor(self) -> str:
        return self.tensors[0]

    @property
    def is_dense(self) -> bool:
        return len(self.tensors) == 1


@dataclass(frozen=True)
class Signature:
    """A signature's inputs and outputs by key, sorted by key, and its method name."""

    name: str
    inputs: dict[str, SignatureTensor]
    outputs: dict[str, SignatureTensor]
    method: str


def read_signatures(proto: meta_graph_pb2.MetaGraphDef) -> dict[str, Signature]:
    """All signatures but TensorFlow's own entries, sorted by name."""
    return {
        name: Signature(
            name,
            {key: _tensor(key, info) for key, info in sorted(signature.inputs.items())},
            {key: _tensor(key, info) for key, info in sorted(signature.outputs.items())},
            signature.method_name,
        )
        for name, signature in sorted(proto.signature_def.items())
        if name not in (INIT_OP, TRAIN_OP)
    }


def _tensor(key: str, info: meta_graph_pb2.TensorInfo) -> SignatureTensor:
    shape = tf.TensorShape(info.tensor_shape)
    dims: Shape = None if shape.rank is None else tuple(shape.as_list())
    return SignatureTensor(key, tf.as_dtype(info.dtype), dims, tuple(_names(info)))


def _names(info: meta_graph_pb2.TensorInfo) -> Iterator[str]:
    kind = info.WhichOneof("encoding")
    if kind == "coo_sparse":
        sparse = info.coo_sparse
        yield sparse.values_tensor_name
        yield sparse.indices_tensor_name
        yield sparse.dense_shape_tensor_name
    elif kind == "composite_tensor":
        for component in info.composite_tensor.components:
            yield from _names(component)
    else:
        yield info.name
