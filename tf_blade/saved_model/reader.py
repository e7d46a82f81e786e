"""Reads a SavedModel folder into a Bundle, and says clearly what is wrong with one that isn't."""

from __future__ import annotations

import os
from collections.abc import Iterator

from google.protobuf import text_format
from google.protobuf.message import DecodeError
from tensorflow.core.framework import node_def_pb2
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.framework import op_def_registry

from tf_blade.errors import SavedModelError
from tf_blade.graph.names import parse_tensor_name
from tf_blade.saved_model.bundle import Bundle, MetaGraph
from tf_blade.saved_model.checkpoint import open_checkpoint


def read(export_dir: str | os.PathLike[str]) -> Bundle:
    """Reads a SavedModel (TF1 or TF2 format, saved_model.pb or .pbtxt) without loading it.

    Raises SavedModelError: not a folder, no saved_model.pb, unreadable or truncated files, no
    MetaGraph, an op that is not registered, a signature that names no tensor of the graph.
    """
    path = os.fspath(export_dir)
    proto = _read_proto(path)
    if not proto.meta_graphs:
        raise SavedModelError(
            f"'{path}' has no MetaGraph: its saved_model.pb is empty or cut short. "
            "Copy or export the model again."
        )
    bundle = Bundle(path, proto, open_checkpoint(path))
    for meta in bundle.meta_graphs:
        _check_ops(meta)
        _check_signatures(meta)
        if bundle.checkpoint is None and _needs_checkpoint(meta):
            raise SavedModelError(
                f"the model has variables, but '{os.path.join(path, 'variables')}' is missing or "
                "empty. Copy or export the model again."
            )
    return bundle


def _read_proto(path: str) -> saved_model_pb2.SavedModel:
    if not os.path.exists(path):
        raise SavedModelError(f"'{path}' does not exist.")
    if not os.path.isdir(path):
        raise SavedModelError(
            f"'{path}' is no folder. A SavedModel is the folder that holds saved_model.pb."
        )
    binary = os.path.join(path, "saved_model.pb")
    text = os.path.join(path, "saved_model.pbtxt")
    proto = saved_model_pb2.SavedModel()
    try:
        if os.path.isfile(binary):
            with open(binary, "rb") as file:
                proto.ParseFromString(file.read())
        elif os.path.isfile(text):
            with open(text, encoding="utf-8") as file:
                text_format.Parse(file.read(), proto)
        elif os.path.isfile(os.path.join(path, "saved_model.cpb")):
            raise SavedModelError(
                f"'{path}' is split over several protos (saved_model.cpb), which is not supported. "
                "Export it again without experimental_image_format."
            )
        else:
            raise SavedModelError(f"'{path}' has no saved_model.pb.{_hint(path)}")
    except (DecodeError, text_format.ParseError, UnicodeDecodeError) as error:
        raise SavedModelError(
            f"saved_model.pb in '{path}' can't be parsed ({error}): it is damaged or truncated. "
            "Copy or export the model again."
        ) from error
    except OSError as error:
        raise SavedModelError(f"saved_model.pb in '{path}' can't be read: {error}") from error
    return proto


def _hint(path: str) -> str:
    """Versioned models are one folder deeper: 'model/1/saved_model.pb'."""
    for name in sorted(os.listdir(path)):
        if os.path.isfile(os.path.join(path, name, "saved_model.pb")):
            return f" Did you mean '{os.path.join(path, name)}'?"
    return ""


def _check_ops(meta: MetaGraph) -> None:
    for where, node in _nodes(meta):
        if op_def_registry.get(node.op) is None and node.op not in meta.library:
            raise SavedModelError(
                f"op '{node.op}' of node '{node.name}'{where} is not registered. "
                "It is a custom op: load its library (tf.load_op_library, or import the package it "
                "comes from) first."
            )


def _check_signatures(meta: MetaGraph) -> None:
    nodes = {node.name for node in meta.graph_def.node}
    for signature in meta.signatures.values():
        for tensor in [*signature.inputs.values(), *signature.outputs.values()]:
            for name in tensor.tensors:
                if parse_tensor_name(name).node not in nodes:
                    raise SavedModelError(
                        f"signature '{signature.name}': the tensor '{name}' of '{tensor.name}' is "
                        "not in the graph. Export the model again."
                    )


def _nodes(meta: MetaGraph) -> Iterator[tuple[str, node_def_pb2.NodeDef]]:
    for node in meta.graph_def.node:
        yield "", node
    for name, function in meta.library.items():
        for node in function.node_def:
            yield f" in function '{name}'", node


def _needs_checkpoint(meta: MetaGraph) -> bool:
    if meta.object_graph is not None:
        return any(node.WhichOneof("kind") == "variable" for node in meta.object_graph.nodes)
    return bool(meta.proto.saver_def.restore_op_name) and any(
        node.op == "RestoreV2" for node in meta.graph_def.node
    )
