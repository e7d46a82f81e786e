"""Serialized tf.Example protos that a model's own ParseExample nodes can read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
from tensorflow.core.example import example_pb2
from tensorflow.core.framework import attr_value_pb2, node_def_pb2

from tf_blade.saved_model import MetaGraph


@dataclass(frozen=True)
class ExampleFeature:
    """One feature: its dtype, and how many values an example has (None: any number)."""

    key: str
    dtype: tf.DType
    count: int | None


def find_features(
    meta_graph: MetaGraph, reachable: Iterable[node_def_pb2.NodeDef]
) -> list[ExampleFeature]:
    """The features that the reachable ParseExample and ParseExampleV2 nodes ask for.

    Keys must be Const nodes of the same graph; nodes where they aren't are passed over.
    """
    readers = {"ParseExample": _features_v1, "ParseExampleV2": _features_v2}
    parsing = [node for node in reachable if node.op in readers]
    if not parsing:
        return []
    constants = _constants(meta_graph)
    found: dict[str, ExampleFeature] = {}
    for node in parsing:
        for feature in readers[node.op](node, constants):
            found.setdefault(feature.key, feature)
    return sorted(found.values(), key=lambda f: f.key)


def serialize_example(values: Mapping[ExampleFeature, np.ndarray]) -> bytes:
    """A tf.Example proto with these values, serialized."""
    example = example_pb2.Example()
    for feature, array in values.items():
        proto = example.features.feature[feature.key]
        if feature.dtype == tf.string:
            proto.bytes_list.value.extend(array)
        elif feature.dtype.is_floating:
            proto.float_list.value.extend(array)
        else:
            proto.int64_list.value.extend(array)
    serialized: bytes = example.SerializeToString()
    return serialized


def _features_v2(
    node: node_def_pb2.NodeDef, constants: dict[str, np.ndarray]
) -> Iterator[ExampleFeature]:
    # Inputs: serialized, names, sparse_keys, dense_keys, ragged_keys, dense_defaults…
    data = [text for text in node.input if not text.startswith("^")]
    keys = [constants.get(text.partition(":")[0]) for text in data[2:5]]
    sparse, dense, ragged = ([] if k is None else [x.decode() for x in k.ravel()] for k in keys)
    yield from _features(sparse, node.attr["sparse_types"].list)
    yield from _features(ragged, node.attr["ragged_value_types"].list)
    yield from _dense(dense, node)


def _features_v1(
    node: node_def_pb2.NodeDef, constants: dict[str, np.ndarray]
) -> Iterator[ExampleFeature]:
    # Inputs: serialized, names, Nsparse sparse_keys, Ndense dense_keys, dense_defaults…
    data = [text for text in node.input if not text.startswith("^")]
    n_sparse, n_dense = node.attr["Nsparse"].i, node.attr["Ndense"].i
    keys = [constants.get(text.partition(":")[0]) for text in data[2 : 2 + n_sparse + n_dense]]
    if any(key is None for key in keys):
        return
    names = [key.item().decode() for key in keys if key is not None]
    yield from _features(names[:n_sparse], node.attr["sparse_types"].list)
    yield from _dense(names[n_sparse:], node)


def _features(
    keys: list[str], types: attr_value_pb2.AttrValue.ListValue
) -> Iterator[ExampleFeature]:
    for key, dtype in zip(keys, types.type, strict=False):
        yield ExampleFeature(key, tf.dtypes.as_dtype(dtype), None)


def _dense(keys: list[str], node: node_def_pb2.NodeDef) -> Iterator[ExampleFeature]:
    types, shapes = node.attr["Tdense"].list.type, node.attr["dense_shapes"].list.shape
    for key, dtype, shape in zip(keys, types, shapes, strict=False):
        # An unknown first dim takes any multiple of the rest: one.
        count = int(np.prod([d.size if d.size >= 0 else 1 for d in shape.dim], dtype=np.int64))
        yield ExampleFeature(key, tf.dtypes.as_dtype(dtype), count)


def _constants(meta_graph: MetaGraph) -> dict[str, np.ndarray]:
    """String constants by node name, over all graphs: the names clash rarely, and then agree."""
    found: dict[str, np.ndarray] = {}
    bodies = (function.node_def for function in meta_graph.library.values())
    graphs = [meta_graph.graph_def.node, *bodies]
    for nodes in graphs:
        for node in nodes:
            if node.op == "Const" and node.attr["dtype"].type == tf.string.as_datatype_enum:
                found[node.name] = tf.make_ndarray(node.attr["value"].tensor)
    return found
