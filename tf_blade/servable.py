"""Which signatures a C++ session can run, as a server does."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.core.framework import graph_pb2

from tf_blade.graph.names import parse_tensor_name
from tf_blade.saved_model import Signature

_OPAQUE = (tf.resource, tf.variant)


def why_not_servable(graph: graph_pb2.GraphDef, signature: Signature) -> str:
    """Why a session can't run a signature of the main graph; "" if it can.

    Sessions feed and fetch plain tensors only.
    """
    if not signature.outputs:
        return "it has no outputs"
    for kind, tensors in (("input", signature.inputs), ("output", signature.outputs)):
        for name, tensor in tensors.items():
            if not tensor.is_dense:
                return f"{kind} '{name}' is sparse or composite"
            if tensor.dtype in _OPAQUE:
                return f"{kind} '{name}' is a {tensor.dtype.name}"
    placeholder = _unfed_placeholder(graph, signature)
    return f"placeholder '{placeholder}' is no input of it" if placeholder else ""


def _unfed_placeholder(graph: graph_pb2.GraphDef, signature: Signature) -> str:
    """A placeholder that an output depends on and that isn't fed, or ""."""
    nodes = {node.name: node for node in graph.node}
    fed = {parse_tensor_name(name).node for t in signature.inputs.values() for name in t.tensors}
    todo = [parse_tensor_name(n).node for t in signature.outputs.values() for n in t.tensors]
    seen = set(todo)
    while todo:
        node = nodes.get(todo.pop())
        if node is None or node.name in fed:
            continue
        if node.op in ("Placeholder", "PlaceholderV2"):
            return str(node.name)
        fresh = {parse_tensor_name(text).node for text in node.input} - seen
        seen |= fresh
        todo += fresh
    return ""
