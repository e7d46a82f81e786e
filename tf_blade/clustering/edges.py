"""The edges that order a graph's nodes: data and control, without v1 loops' back edges."""

from __future__ import annotations

from tf_blade.graph.graph import Graph, Node

_BACK_EDGE_OPS = ("NextIteration", "RefNextIteration")


def is_loop_merge(graph: Graph, node: Node) -> bool:
    """Whether `node` is the Merge at the head of a v1 while loop."""
    return node.op in ("Merge", "RefMerge") and any(
        graph.nodes[ref.node].op in _BACK_EDGE_OPS for ref in node.inputs
    )


def sources(graph: Graph, node: Node) -> list[str]:
    """Names of the nodes that must run before `node` in the same iteration, each once, in order.

    The back edge of a v1 loop (NextIteration -> Merge) crosses into the next iteration, in which
    every node of the loop runs again. It orders nothing within one iteration.
    """
    found = dict.fromkeys([ref.node for ref in node.inputs] + node.controls)
    if node.op in ("Merge", "RefMerge"):
        return [name for name in found if graph.nodes[name].op not in _BACK_EDGE_OPS]
    return list(found)
