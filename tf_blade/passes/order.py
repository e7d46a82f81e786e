"""Which nodes of a graph must keep their order, and which ones a caller may have to wait for."""

from __future__ import annotations

from tensorflow.core.framework import types_pb2

from tf_blade.graph.effects import has_effect
from tf_blade.graph.graph import Graph, Node, TensorRef
from tf_blade.passes.context import PassContext

# They do nothing but fail; what waits for one must not run without it.
_CHECKS = ("CheckNumerics", "CheckNumericsV2", "EnsureShape")


def reads_constant_state(graph: Graph, node: Node, ctx: PassContext) -> bool:
    """Whether the node only makes a handle, or reads a variable that nothing writes."""
    if node.op in ("VarHandleOp", "HashTableV2"):
        return True
    if not graph.is_stateful(node) or has_effect(graph, node) or not node.inputs:
        return False
    variable = ctx.variable(graph, node.inputs[0])
    return variable is not None and not variable.written_by


def ordered_nodes(graph: Graph, ctx: PassContext) -> set[str]:
    """Nodes whose order shows: effects, checks, and reads of state that an effect here touches."""
    found: set[str] = set()
    touched: set[str] = set()
    for node in graph:
        if has_effect(graph, node):
            found.add(node.name)
            touched.update(_state(graph, ref) for ref in node.inputs if _is_state(graph, ref))
        elif node.op in _CHECKS:
            found.add(node.name)
    if not touched:
        return found
    for node in graph:
        if node.name in found or (node.op in ("Identity", "RefIdentity") and not node.controls):
            continue
        states = {_state(graph, ref) for ref in node.inputs if _is_state(graph, ref)}
        if states & touched:
            found.add(node.name)
    return found


def behind(graph: Graph, sources: set[str]) -> set[str]:
    """The given nodes and all that depend on them by data or control edges."""
    found = set(sources)
    for node in graph.topological_order():
        if any(ref.node in found for ref in node.inputs) or any(c in found for c in node.controls):
            found.add(node.name)
    return found


def _is_state(graph: Graph, ref: TensorRef) -> bool:
    """Whether a tensor is a resource or a reference."""
    node = graph.nodes[ref.node]
    if graph.output_dtypes(node)[ref.index] == types_pb2.DT_RESOURCE:
        return True
    return graph.gives_reference(node)


def _state(graph: Graph, ref: TensorRef) -> str:
    """A text for the state behind a resource or reference; equal for equal variables."""
    node = graph.nodes[ref.node]
    while node.op in ("Identity", "RefIdentity", "Assign", "AssignAdd", "AssignSub"):
        node = graph.nodes[node.inputs[0].node]
    shared = node.attrs["shared_name"].s.decode() if "shared_name" in node.attrs else ""
    return shared or node.name
