"""Removes nodes that neither an output nor an effect depends on.

In a function every op with an effect runs, so it stays, and so do arguments. In a main graph only
what is fetched runs: what the outputs don't depend on goes.
"""

from __future__ import annotations

from tf_blade.graph.effects import has_effect
from tf_blade.graph.graph import Graph
from tf_blade.graph.types import ARG
from tf_blade.passes.context import PassContext


def prune(graph: Graph, ctx: PassContext) -> Graph:
    graph = graph.copy()
    if graph.is_function:
        graph.control_outputs = _with_effects(graph)
    todo = [ref.node for _, ref in graph.outputs]
    todo += [name for _, name in graph.control_outputs]
    if graph.is_function:
        todo += [n.name for n in graph if n.op == ARG or has_effect(graph, n)]
    needed: set[str] = set()
    while todo:
        name = todo.pop()
        if name not in needed:
            needed.add(name)
            node = graph.nodes[name]
            todo += [ref.node for ref in node.inputs] + node.controls
    unused = [name for name in graph.nodes if name not in needed]
    graph.remove(unused)
    ctx.counts["prune"] += len(unused)
    return graph


def _with_effects(graph: Graph) -> list[tuple[str, str]]:
    """The control outputs that wait for something: they or their ancestors have an effect."""
    waits: set[str] = set()
    for node in graph.topological_order():
        sources = [ref.node for ref in node.inputs] + node.controls
        if has_effect(graph, node) or any(source in waits for source in sources):
            waits.add(node.name)
    return [(name, node) for name, node in graph.control_outputs if node in waits]
