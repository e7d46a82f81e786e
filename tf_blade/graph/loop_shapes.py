"""Shapes inside v1 loops.

TensorFlow's inference goes through a graph once, and a loop's Merge waits for what comes back from
the end of the body: it gives up there. So the Merges' shapes are assumed, first to be those that
enter the loop. Where the body gives another shape back, less is assumed and all is inferred again,
until the assumptions hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tf_blade.graph.graph import Graph, Node, TensorRef
from tf_blade.graph.types import Shape, TensorInfo

_MERGES = ("Merge", "RefMerge")
_BACK = ("NextIteration", "RefNextIteration")
_ROUNDS = 8

Types = dict[TensorRef, TensorInfo]
# What stands for a Merge at a loop's head: a tensor of this type, or (None) what enters the loop.
Heads = Mapping[str, TensorInfo | None]


def loop_heads(graph: Graph) -> list[Node]:
    """The Merges at the heads of v1 loops, of which only the first output is read."""
    found = [
        node
        for node in graph
        if node.op in _MERGES and any(graph.nodes[ref.node].op in _BACK for ref in node.inputs)
    ]
    if not found:
        return []
    names = {node.name for node in found}
    counted = {ref.node for node in graph for ref in node.inputs if ref.index == 1} & names
    return [node for node in found if node.name not in counted]


def entering(graph: Graph, head: Node) -> TensorRef:
    """The tensor that a loop begins with."""
    return next(ref for ref in head.inputs if graph.nodes[ref.node].op not in _BACK)


def infer_through_loops(graph: Graph, infer: Callable[[Heads], Types]) -> Types:
    """The types of all tensors.

    Args:
      infer: the types if the heads of loops are as it is told.
    """
    heads = loop_heads(graph)
    if not heads:
        return infer({})
    types = infer(dict.fromkeys(head.name for head in heads))
    assumed = {head.name: types[entering(graph, head)] for head in heads}
    for round_ in range(_ROUNDS):
        types = infer(assumed)
        holds = True
        for head in heads:
            info = assumed[head.name]
            shape = info.shape
            for ref in head.inputs:
                shape = _covering(shape, types[ref].shape)
            if shape != info.shape:
                holds = False
                # Shapes can grow for long; nothing is always true.
                assumed[head.name] = TensorInfo(info.dtype, shape if round_ < 4 else None)
        if holds:
            return types
    return infer({})


def _covering(a: Shape, b: Shape) -> Shape:
    """The most that is known of a tensor that has the one shape or the other."""
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(x if x == y else None for x, y in zip(a, b, strict=True))
