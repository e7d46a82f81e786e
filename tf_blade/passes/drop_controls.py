"""Drops control edges that order nothing.

    y = f(x, ^c)  ->  y = f(x)     if neither c nor anything before it has an effect, or reads what
                                   an effect in this graph touches

What goes are mostly the edges that tf.function puts between reads of variables and a layer's
output.
"""

from __future__ import annotations

from tf_blade.graph.control_flow import v1_controlled
from tf_blade.graph.graph import Graph
from tf_blade.passes.context import PassContext
from tf_blade.passes.order import behind, ordered_nodes


def drop_controls(graph: Graph, ctx: PassContext) -> Graph:
    graph = ctx.editable(graph)
    needed = behind(graph, ordered_nodes(graph, ctx)) | v1_controlled(graph)
    for node in graph:
        kept = list(dict.fromkeys(name for name in node.controls if name in needed))
        ctx.counts["drop_controls"] += len(node.controls) - len(kept)
        node.controls = kept
    return graph
