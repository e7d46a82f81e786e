"""Removes assertions that are known to hold.

    Assert(Const(True), …)  ->  NoOp

They are left when shapes that the model checks turn out to be constant, and would keep what waits
for them from being optimised.
"""

from __future__ import annotations

from tf_blade.graph.constants import const_value
from tf_blade.graph.control_flow import v1_controlled
from tf_blade.graph.graph import Graph
from tf_blade.passes.context import PassContext


def remove_true_asserts(graph: Graph, ctx: PassContext) -> Graph:
    graph = ctx.editable(graph)
    inside = v1_controlled(graph)
    for node in graph:
        if node.op != "Assert" or node.name in inside:
            continue
        condition = const_value(graph.nodes[node.inputs[0].node])
        if condition is not None and condition.all():
            node.op, node.inputs, node.attrs = "NoOp", [], {}
            ctx.counts["remove_true_asserts"] += 1
    return graph
