"""Which variables can change after the model is loaded.

A resource that reaches any op but a known reader counts as written. So does a reference variable
that reaches an input declared as a reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tensorflow.core.framework import types_pb2

from tf_blade.graph.bodies import Bodies
from tf_blade.graph.calls import calls
from tf_blade.graph.control_flow import is_v1_control_flow
from tf_blade.graph.graph import Graph, Node, TensorRef, arg_size, op_def
from tf_blade.graph.types import ARG
from tf_blade.saved_model.call_sites import PASS_THROUGH

READ_ONLY = frozenset(
    {
        "DisableCopyOnRead",
        "ReadVariableOp",
        "ResourceGather",
        "ResourceGatherNd",
        "VarIsInitializedOp",
        "VariableShape",
        "IsVariableInitialized",
    }
)


class Handle(NamedTuple):
    """A resource as one graph sees it: an argument's number (kind "arg"), or a variable's resource
    name (kind "named"), which is the same in the main graph and in all functions."""

    kind: str
    name: str


Writers = dict[Handle, str]  # a description of the op that writes, for messages


class Writes:
    """Finds the writes of functions and main graphs, looking through calls."""

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self._known: dict[str, Writers] = {}

    def of_function(self, name: str) -> Writers:
        """Handles the function, or anything it calls, may write."""
        if name not in self._known:
            self._known[name] = {}  # what a recursive call adds, its outer call has too
            graph = self._bodies[name]
            self._known[name] = self.of_nodes(graph, graph.nodes.values(), f"function '{name}'")
        return self._known[name]

    def of_nodes(self, graph: Graph, nodes: Iterable[Node], where: str) -> Writers:
        """Handles that the given nodes of a graph may write."""
        aliases = _aliases(graph)
        writers: Writers = {}
        for node in nodes:
            if node.op in PASS_THROUGH or is_v1_control_flow(node.op) or node.op == ARG:
                continue
            if node.op in READ_ONLY or not any(ref in aliases for ref in node.inputs):
                continue
            held = [aliases.get(ref, frozenset()) for ref in _written_inputs(graph, node)]
            if not any(held):
                continue
            called = calls(node, graph.library)
            if not called:
                _add(writers, frozenset().union(*held), f"{node.op} '{node.name}' in {where}")
            for call in called:
                if call.arguments is None:
                    handles = frozenset().union(*held)
                    _add(writers, handles, f"{node.op} '{node.name}' in {where}")
                    continue
                for handle, writer in self.of_function(call.function).items():
                    if handle.kind == "arg":
                        ref = call.arguments[int(handle.name)]
                        _add(writers, aliases.get(ref, frozenset()), writer)
                    else:
                        _add(writers, [handle], writer)
        return writers


def resource_name(node: Node) -> str:
    """The name under which all VarHandleOp or VariableV2 nodes for one variable find it."""
    shared = node.attrs["shared_name"].s.decode() if "shared_name" in node.attrs else ""
    return shared or node.name


def _add(writers: Writers, handles: Iterable[Handle], writer: str) -> None:
    for handle in handles:
        writers.setdefault(handle, writer)


def _written_inputs(graph: Graph, node: Node) -> list[TensorRef]:
    """Inputs through which a node could write: resources, and references taken as references."""
    if node.op in graph.library:
        return node.inputs
    refs: list[TensorRef] = []
    index = 0
    for arg in op_def(node.op, graph.library).input_arg:
        size = arg_size(arg, node.attrs)
        for ref in node.inputs[index : index + size]:
            source = graph.nodes[ref.node]
            if arg.is_ref or graph.output_dtypes(source)[ref.index] == types_pb2.DT_RESOURCE:
                refs.append(ref)
        index += size
    return refs


def _aliases(graph: Graph) -> Mapping[TensorRef, frozenset[Handle]]:
    """For each resource or reference tensor, the handles it may be."""
    aliases: dict[TensorRef, frozenset[Handle]] = {}
    changed = True
    while changed:  # twice at most, unless v1 loops carry handles around
        changed = False
        for node in graph.topological_order():
            if node.op == ARG:
                handles = frozenset({Handle("arg", str(node.attrs["index"].i))})
            elif node.op in ("VarHandleOp", "VariableV2", "Variable"):
                handles = frozenset({Handle("named", resource_name(node))})
            else:
                held = [aliases[ref] for ref in node.inputs if ref in aliases]
                if not held:
                    continue
                handles = frozenset().union(*held)
            for i, dtype in enumerate(graph.output_dtypes(node)):
                ref = TensorRef(node.name, i)
                carries = dtype == types_pb2.DT_RESOURCE or graph.gives_reference(node)
                if carries and aliases.get(ref) != handles:
                    aliases[ref] = handles
                    changed = True
    return aliases
