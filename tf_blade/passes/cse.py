"""Merges nodes that compute the same: equal op, attributes, inputs and control inputs.

    a = f(x); b = f(x)  ->  a = f(x), and a wherever b was

Stays: what has an effect or another result on each call, reads of variables that something writes,
and v1 control flow ops.
"""

from __future__ import annotations

import hashlib

from tensorflow.core.framework import attr_value_pb2, types_pb2

from tf_blade.graph.control_flow import is_v1_control_flow
from tf_blade.graph.graph import Graph, Node, TensorRef
from tf_blade.graph.types import ARG
from tf_blade.passes.context import PassContext
from tf_blade.passes.order import ordered_nodes, reads_constant_state

# Inputs; and a NoOp is merged with nothing, it has no result to share.
_UNIQUE = (ARG, "Placeholder", "PlaceholderWithDefault", "PlaceholderV2", "NoOp")


def cse(graph: Graph, ctx: PassContext) -> Graph:
    graph = ctx.editable(graph)
    first: dict[tuple[object, ...], str] = {}
    keys = _Keys()
    merged: dict[str, str] = {}
    ordered = ordered_nodes(graph, ctx)
    for node in graph.topological_order():
        # Only a v1 loop's back edge can still name a node that is merged later: into a Merge.
        node.inputs = [TensorRef(merged.get(r.node, r.node), r.index) for r in node.inputs]
        node.controls = list(dict.fromkeys(merged.get(c, c) for c in node.controls))
        if node.name in ordered or not _may_merge(graph, node, ctx):
            continue
        kept = first.setdefault(keys.of(node), node.name)
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


class _Keys:
    """Equal keys for nodes that compute the same."""

    def __init__(self) -> None:
        self._values: dict[int, tuple[attr_value_pb2.AttrValue, bytes]] = {}  # by identity

    def of(self, node: Node) -> tuple[object, ...]:
        # Colocation and other internal attributes don't change what is computed.
        names = sorted(name for name in node.attrs if not name.startswith("_"))
        attrs = tuple((name, self._of(node.attrs[name])) for name in names)
        return node.op, node.device, tuple(node.inputs), tuple(sorted(node.controls)), attrs

    def _of(self, value: attr_value_pb2.AttrValue) -> bytes:
        known = self._values.get(id(value))  # default values are shared by all nodes
        if known is None:
            text = value.SerializeToString(deterministic=True)
            text = text if len(text) <= 64 else hashlib.sha256(text).digest()
            # Held, or another value might get its identity.
            known = self._values[id(value)] = value, text
        return known[1]
