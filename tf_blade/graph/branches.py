"""Conditionals whose predicate is known: which function they call."""

from __future__ import annotations

from tensorflow.core.framework import attr_value_pb2

from tf_blade.graph.calls import CONDITIONALS
from tf_blade.graph.constants import const_value
from tf_blade.graph.graph import Graph, Node

_ATTRS = ("Tin", "Tout", "_xla_compile_id", "_XlaMustCompile")


def call_known_branch(graph: Graph, node: Node) -> set[str]:
    """Turns an If or Case whose predicate is a constant scalar into a call of the branch it takes.

    Returns: its branches; empty if the node stays as it is.
    """
    if node.op not in CONDITIONALS:
        return set()
    predicate = graph.nodes[node.inputs[0].node]
    while predicate.op == "Identity" and not predicate.controls:
        predicate = graph.nodes[predicate.inputs[0].node]
    value = const_value(predicate)
    if value is None or value.shape != () or value.dtype.kind not in "biuf":
        return set()  # of other predicates it is the size or the text that counts
    if node.op in ("If", "StatelessIf"):
        branches = [node.attrs["else_branch"].func, node.attrs["then_branch"].func]
        index = int(value != 0)
    else:
        branches = list(node.attrs["branches"].list.func)
        # Out of range means the last one, as TensorFlow has it.
        index = int(value) if 0 <= value < len(branches) else len(branches) - 1
    stateless = node.op.startswith("Stateless")
    node.op = "PartitionedCall" if stateless else "StatefulPartitionedCall"
    node.inputs = node.inputs[1:]
    node.attrs = {name: node.attrs[name] for name in _ATTRS if name in node.attrs}
    node.attrs["f"] = attr_value_pb2.AttrValue(func=branches[index])
    return {branch.name for branch in branches}
