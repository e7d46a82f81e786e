"""Calls of functions, whose nodes join the caller's program."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.lower.scope import Item, Scope, structured
from tf_blade.graph.graph import Graph, Node, TensorRef
from tf_blade.graph.shapes import infer_types

Lower = Callable[[Builder, Scope], None]


def lower_function(b: Builder, graph: Graph, arguments: Sequence[Item], lower: Lower) -> list[Item]:
    """What a function gives for these arguments; `lower` lowers the nodes of a scope."""
    shapes = {
        arg.name: tuple(n if isinstance(n, int) else None for n in b.shape(value))
        for arg, value in zip(graph.args, arguments, strict=True)
        if isinstance(value, Value)
    }
    scope = Scope(graph, infer_types(graph, shapes))
    for arg, value in zip(graph.args, arguments, strict=True):
        scope.values[TensorRef(arg.name)] = value
    lower(b, scope)
    return [scope.any(ref) for _, ref in graph.outputs]


@structured("PartitionedCall")
def call(b: Builder, node: Node, scope: Scope, lower: Lower) -> list[Item]:
    """The callee's results."""
    body = scope.function(node.attrs["f"].func.name)
    return lower_function(b, body, [scope.any(ref) for ref in node.inputs], lower)
