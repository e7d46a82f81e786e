"""The passes in the order they run."""

from __future__ import annotations

from tf_blade.graph.graph import Graph
from tf_blade.passes.context import PassContext
from tf_blade.passes.inline_calls import inline_calls
from tf_blade.passes.prune import prune

PASSES = (
    inline_calls,  # first: all others see only one graph
    prune,
)


def run(graph: Graph, ctx: PassContext | None = None) -> Graph:
    """Runs all passes; what they did is counted in `ctx.counts`."""
    ctx = ctx or PassContext()
    for apply in PASSES:
        graph = apply(graph, ctx)
    return graph
