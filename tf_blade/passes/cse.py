"""Merges nodes that compute the same: equal op, attributes, inputs and control inputs.

    a = f(x); b = f(x)  ->  a = f(x), and a wherever b was

Stays: what has an effect or another result on each call, reads of variables that something writes,
and v1 control flow ops.
"""

from __future__ import annotations

import hashlib

from tensorflow.core.framework import types_pb2

from tf_blade.graph.control_flow import is_v1_control_flow
from tf_blade.graph.graph import Graph, Node, TensorRef
from tf_blade.graph.types import ARG
from tf_blade.passes.context import PassContext
from tf_blade.passes.order import ordered_nodes, reads_constant_state

# Inputs; and a NoOp is merged with nothing, it has no result to share.
_UNIQUE = (ARG, "Placeholder", "PlaceholderWithDefault", "PlaceholderV2", "NoOp")


def cse(graph: Graph, ctx: PassContext) -> Graph:
    graph = graph.copy()
    first: dict[bytes, str] = {}
    merged: dict[str, str] = {}
    ordered = ordered_nodes(graph, ctx)
    for node in graph.topological_order():
        # Only a v1 loop's back edge can still name a node that is merged later: into a Merge.
        node.inputs = [TensorRef(merged.get(r.node, r.node), r.index) for r in node.inputs]
        node.controls = list(dict.fromkeys(merged.get(c, c) for c in node.controls))
        if node.name in ordered or not _may_merge(graph, node, ctx):
            continue
        kept = first.setdefault(_key(node), node.name)
        if kept != node.name:
            merged[node.name] = kept
    if merged:
        for node in graph:
            node.inputs = [TensorRef(merged.get(r.node, r.node), r.index) for r in node.inputs]
        graph.outputs = [
            (name, TensorRef(merged.get(r.node, r.node), r.index)) for name, r in graph.outputs
        ]
        graph.control_outputs = [
            (name, merged.get(node, node)) for name, node in graph.control_outputs
        ]
        graph.remove(merged)
    ctx.counts["cse"] += len(merged)
    return graph


def _may_merge(graph: Graph, node: Node, ctx: PassContext) -> bool:
    if node.op in _UNIQUE or is_v1_control_flow(node.op):
        return False
    if graph.is_stateful(node):
        # Two handles may be merged only if they name the same variable: they are left alone.
        return bool(node.inputs) and reads_constant_state(graph, node, ctx)
    return types_pb2.DT_VARIANT not in graph.output_dtypes(node)


def _key(node: Node) -> bytes:
    digest = hashlib.sha256()
    parts = [node.op, node.device, *map(str, node.inputs), "^", *sorted(node.controls)]
    for name in sorted(node.attrs):
        # Colocation and other internal attributes don't change what is computed.
        if not name.startswith("_"):
            parts.append(name)
            value = node.attrs[name].SerializeToString(deterministic=True)
            parts.append(hashlib.sha256(value).hexdigest())
    digest.update("\0".join(parts).encode())
    return digest.digest()
