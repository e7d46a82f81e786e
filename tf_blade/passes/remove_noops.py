"""Bypasses nodes that hand their input on unchanged.

    Identity(x), StopGradient(x), PreventGradient(x), Snapshot(x)   ->  x
    Cast(x: T -> T)                                                 ->  x
    Reshape(x, s), if the shape of x is known and the result's too, and both are equal   ->  x
    Transpose(x, Const(0, 1, 2, …))                                 ->  x

Stays: a node that waits for something or that something waits for, an output of a main graph, one
inside v1 control flow, one that reads a reference variable, and one between an argument and an
output.
"""

from __future__ import annotations

import numpy as np

from tf_blade.graph.constants import const_value
from tf_blade.graph.control_flow import v1_controlled
from tf_blade.graph.graph import Graph, Node, TensorRef
from tf_blade.graph.shapes import Types
from tf_blade.graph.types import ARG
from tf_blade.passes.context import PassContext

_PLAIN = ("Identity", "StopGradient", "PreventGradient", "Snapshot")


def remove_noops(graph: Graph, ctx: PassContext) -> Graph:
    graph = ctx.editable(graph)
    types: Types | None = None
    if any(n.op == "Reshape" for n in graph):
        types = ctx.same_types(graph)
    inside = v1_controlled(graph)
    # In a main graph the names of outputs are fetched.
    named = set() if graph.is_function else {ref.node for _, ref in graph.outputs}
    waited_for = named | {name for node in graph for name in node.controls}
    waited_for |= {name for _, name in graph.control_outputs}
    results = {ref for _, ref in graph.outputs}
    bypass: dict[TensorRef, TensorRef] = {}
    for node in graph.topological_order():
        node.inputs = [bypass.get(ref, ref) for ref in node.inputs]
        if node.controls or node.name in inside or node.name in waited_for:
            continue
        if not _is_noop(graph, node, types):
            continue
        source = graph.nodes[node.inputs[0].node]
        is_result = TensorRef(node.name) in results
        if (source.op == ARG and is_result) or graph.gives_reference(source):
            continue
        bypass[TensorRef(node.name)] = node.inputs[0]
    graph.redirect(bypass)
    graph.remove(ref.node for ref in bypass)
    ctx.counts["remove_noops"] += len(bypass)
    return graph


def _is_noop(graph: Graph, node: Node, types: Types | None) -> bool:
    if node.op in _PLAIN:
        return True
    if node.op == "Cast":
        return node.attrs["SrcT"].type == node.attrs["DstT"].type
    if node.op == "Reshape" and types is not None:
        before, after = types[node.inputs[0]].shape, types[TensorRef(node.name)].shape
        return before is not None and before == after and None not in before
    if node.op == "Transpose":
        perm = const_value(graph.nodes[node.inputs[1].node])
        return perm is not None and np.array_equal(perm, np.arange(perm.size))
    return False
