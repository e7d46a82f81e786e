"""Inlines plain function calls, so that later passes see one graph.

    y = PartitionedCall(x, f=body)                  ->  y = body(x)
    y = If(Const, x, then_branch=f, else_branch=g)  ->  y = f(x) or g(x); Case likewise

Stays a call: a function marked noinline or to be compiled by XLA, a recursive one, and a call
inside v1 control flow, where the body's nodes would have to join the loop's frame.
"""

from __future__ import annotations

from tf_blade.graph.bodies import Bodies
from tf_blade.graph.branches import call_known_branch
from tf_blade.graph.calls import callee, calls, is_inlinable
from tf_blade.graph.control_flow import v1_controlled
from tf_blade.graph.graph import Graph
from tf_blade.graph.inline import inline_call
from tf_blade.passes.context import PassContext


def inline_calls(graph: Graph, ctx: PassContext) -> Graph:
    graph = ctx.editable(graph)
    bodies = Bodies(graph.library)
    called_by: dict[str, set[str]] = {}
    inside = v1_controlled(graph)
    todo = [node.name for node in graph if node.name not in inside]
    while todo:
        node = graph.nodes[todo.pop()]
        for branch in call_known_branch(graph, node):
            ctx.set_free |= {branch, *_reached(branch, bodies, called_by)}
        if not is_inlinable(node, graph.library):
            continue
        function = callee(node, graph.library)
        assert function is not None
        if {function, graph.name} & _reached(function, bodies, called_by):
            continue
        names = inline_call(graph, node, bodies[function])
        ctx.counts["inline_calls"] += 1
        inside = v1_controlled(bodies[function])
        todo += [new for old, new in names.items() if old not in inside]
    return graph


def _reached(function: str, bodies: Bodies, known: dict[str, set[str]]) -> set[str]:
    """Functions that the function calls, directly or not."""
    if function not in known:
        found: set[str] = set()
        todo = [function]
        while todo:
            for node in bodies[todo.pop()]:
                for call in calls(node, bodies.library):
                    if call.function not in found:
                        found.add(call.function)
                        todo.append(call.function)
        known[function] = found
    return known[function]
