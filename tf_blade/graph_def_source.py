"""Saves a frozen GraphDef as a SavedModel with one signature."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.framework import graph_pb2

from tf_blade.errors import InputError
from tf_blade.runner import first_line
from tf_blade.signatures import DEFAULT_SIGNATURE

_STATE_OPS = ("Variable", "VariableV2", "VarHandleOp", "HashTable", "HashTableV2")


def save_graph_def(
    graph_def: Any, outputs: Sequence[str], inputs: Sequence[str] | None, path: str
) -> None:
    """Saves a TF1-format SavedModel around the graph, whose nodes keep their names.

    Args:
      graph_def: a GraphDef proto, or the path of a file with a serialized one.
      outputs: node or tensor names, "scores" or "scores:1".
      inputs: likewise; None: every Placeholder that the outputs need.
      path: the folder to write.

    Raises InputError on unknown names, or if the graph isn't frozen or isn't valid.
    """
    proto = _read(graph_def)
    if isinstance(outputs, str) or not isinstance(outputs, Sequence) or not outputs:
        raise InputError("the GraphDef's outputs must be a list of names, as in ['scores'].")
    for node in proto.node:
        if node.op in _STATE_OPS:
            raise InputError(
                f"the GraphDef is not frozen: node '{node.name}' is a {node.op}, whose contents "
                "are not in the graph. Pass a SavedModel folder instead."
            )
    nodes = {node.name: node for node in proto.node}
    if inputs is None:
        inputs = _placeholders(proto, nodes, [_node(name, nodes) for name in outputs])
    graph = tf.Graph()
    with graph.as_default():
        try:
            tf.graph_util.import_graph_def(proto, name="")
        except Exception as error:  # ValueError, but op-specific errors too
            raise InputError(f"the GraphDef is not valid: {first_line(error)}") from error
        feeds = {_key(name): _tensor(graph, name, nodes) for name in inputs}
        fetches = {_key(name): _tensor(graph, name, nodes) for name in outputs}
        v1 = tf.compat.v1
        signature = v1.saved_model.build_signature_def(
            {key: v1.saved_model.build_tensor_info(t) for key, t in feeds.items()},
            {key: v1.saved_model.build_tensor_info(t) for key, t in fetches.items()},
            "tensorflow/serving/predict",
        )
        with v1.Session(graph=graph) as session:
            builder = v1.saved_model.Builder(path)
            builder.add_meta_graph_and_variables(
                session, ["serve"], signature_def_map={DEFAULT_SIGNATURE: signature}
            )
            builder.save()


def _read(graph_def: Any) -> graph_pb2.GraphDef:
    if isinstance(graph_def, graph_pb2.GraphDef):
        return graph_def
    if not isinstance(graph_def, str | os.PathLike):
        raise InputError(
            f"the first part of the pair is a {type(graph_def).__name__}; it must be a GraphDef "
            "or the path of a frozen .pb file."
        )
    proto = graph_pb2.GraphDef()
    try:
        with open(graph_def, "rb") as file:
            proto.ParseFromString(file.read())
    except OSError as error:
        raise InputError(f"can't read the GraphDef '{graph_def}': {error.strerror}.") from error
    except DecodeError as error:
        raise InputError(f"'{graph_def}' is not a serialized GraphDef.") from error
    return proto


def _placeholders(
    proto: graph_pb2.GraphDef, nodes: dict[str, Any], outputs: Sequence[str]
) -> list[str]:
    needed: set[str] = set()
    stack = list(outputs)
    while stack:
        name = stack.pop()
        if name in needed or name not in nodes:
            continue
        needed.add(name)
        stack.extend(text.lstrip("^").partition(":")[0] for text in nodes[name].input)
    return [n.name for n in proto.node if n.op == "Placeholder" and n.name in needed]


def _node(name: str, nodes: dict[str, Any]) -> str:
    node = name.partition(":")[0]
    if node not in nodes:
        close = difflib.get_close_matches(node, nodes, n=1)
        hint = f" Did you mean '{close[0]}'?" if close else ""
        raise InputError(f"the GraphDef has no node '{node}'.{hint}")
    return node


def _tensor(graph: tf.Graph, name: str, nodes: dict[str, Any]) -> tf.Tensor:
    node = _node(name, nodes)
    index = name.partition(":")[2] or "0"
    try:
        return graph.get_tensor_by_name(f"{node}:{index}")
    except (KeyError, ValueError) as error:
        raise InputError(f"node '{node}' ({nodes[node].op}) has no output {index}.") from error


def _key(name: str) -> str:
    return name.removesuffix(":0")
