"""Removes nodes that neither an output nor an effect depends on.

In a function every op with an effect runs, so it stays, and so do arguments. In a main graph only
what is fetched runs: what the outputs don't depend on goes.
"""

from __future__ import annotations

from collections.abc import Iterable

from tf_blade.graph.colocation import drop_dangling_colocations
from tf_blade.graph.effects import has_effect
from tf_blade.graph.graph import Graph
from tf_blade.graph.types import ARG
from tf_blade.passes.context import PassContext
from tf_blade.passes.order import reads_constant_state


def prune(graph: Graph, ctx: PassContext) -> Graph:
    graph = ctx.editable(graph)
    roots = [ref.node for _, ref in graph.outputs]
    if graph.is_function:
        roots += [n.name for n in graph if n.op == ARG or has_effect(graph, n)]
    needed = _ancestors(graph, roots)
    _keep_control_outputs(graph, needed, ctx)
    unused = [name for name in graph.nodes if name not in needed]
    graph.remove(unused)
    drop_dangling_colocations(graph)
    ctx.counts["prune"] += len(unused)
    return graph


def _keep_control_outputs(graph: Graph, needed: set[str], ctx: PassContext) -> None:
    """Keeps those control outputs that make a caller wait for effects and for reads of state.

    A node that is there only to be waited for (NoOp) keeps, of what it waits for, what is needed.
    """
    kept: list[tuple[str, str]] = []
    for key, name in graph.control_outputs:
        waits = [
            source
            for source in _ancestors(graph, [name])
            if source in needed
            and graph.is_stateful(graph.nodes[source])
            and not reads_constant_state(graph, graph.nodes[source], ctx)
        ]
        if not waits:
            continue
        node = graph.nodes[name]
        if name not in needed:
            if node.op != "NoOp":
                continue
            needed.add(name)
            node.controls = sorted(waits)
        kept.append((key, name))
    graph.control_outputs = kept


def _ancestors(graph: Graph, roots: Iterable[str]) -> set[str]:
    found: set[str] = set()
    todo = list(roots)
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            node = graph.nodes[name]
            todo += [ref.node for ref in node.inputs] + node.controls
    return found
