"""Turns variables that nothing writes, and captured constants, into Consts.

    ReadVariableOp(v)           ->  Const
    ResourceGather(v, ids)      ->  GatherV2(Const, ids, axis=batch_dims)
    ResourceGatherNd(v, ids)    ->  GatherNd(Const, ids)
    VariableShape(v)            ->  Const
    f(VariableV2)               ->  f(Const)

One Const a variable. Stays a variable: one that something writes, one above the budget's size, one
of strings, a read inside v1 control flow, and a table that a lookup may read (see `hold_tables`).
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

from tf_blade.graph.constants import const_node
from tf_blade.graph.control_flow import v1_controlled
from tf_blade.graph.graph import Graph, Node, TensorRef, arg_size, op_def
from tf_blade.graph.types import ARG
from tf_blade.passes.context import PassContext, Variable

_READS = ("ReadVariableOp", "ResourceGather", "ResourceGatherNd")


def freeze_variables(graph: Graph, ctx: PassContext) -> Graph:
    graph = ctx.editable(graph)
    inside = v1_controlled(graph)
    used = _used_refs(graph)
    reads: dict[str, list[Node]] = {}
    variables: dict[str, Variable] = {}
    for node in graph:
        if node.name in inside or TensorRef(node.name) not in used:
            continue
        name = _variable_name(graph, node)
        variable = ctx.variables.get(name) if name else None
        if variable is not None and _may_freeze(variable):
            reads.setdefault(name, []).append(node)
            variables[name] = variable
    # Small ones first: if the budget runs out, as many reads as possible are gone.
    replaced: dict[TensorRef, TensorRef] = {}
    ctx.held = {name for name in reads if _is_held(variables[name], reads[name], ctx)}
    for name in sorted(reads, key=lambda n: variables[n].nbytes):
        if name in ctx.held:
            continue
        replaced.update(_freeze(graph, name, variables[name], reads[name], inside, ctx))
    graph.redirect(replaced)  # once: each looks at the whole graph
    return graph


def _variable_name(graph: Graph, node: Node) -> str:
    """The node standing for the variable that this node reads; itself for a captured constant."""
    if node.op in (ARG, "VariableV2", "Variable"):
        return node.name
    if node.op not in _READS and node.op != "VariableShape":
        return ""
    source = graph.nodes[node.inputs[0].node]
    while source.op == "Identity":
        source = graph.nodes[source.inputs[0].node]
    return source.name


def _is_held(variable: Variable, reads: list[Node], ctx: PassContext) -> bool:
    if ctx.hold_tables is None or variable.nbytes < ctx.hold_tables:
        return False
    return all(node.op in ("ResourceGather", "ResourceGatherNd") for node in reads)


def _may_freeze(variable: Variable) -> bool:
    dtype = variable.dtype
    plain = dtype.is_floating or dtype.is_integer or dtype.is_complex or dtype.is_bool
    return plain and not variable.written_by


def _freeze(
    graph: Graph,
    name: str,
    variable: Variable,
    reads: list[Node],
    inside: set[str],
    ctx: PassContext,
) -> dict[TensorRef, TensorRef]:
    """Adds the Const; returns what stands in for the reads."""
    replaced: dict[TensorRef, TensorRef] = {}
    by_value = [n for n in reads if _reads_value(n, variable)]
    if by_value and ctx.budget.take(variable.nbytes):
        const = const_node(graph.unique_name(f"{name}/frozen"), variable.value(), variable.dtype)
        graph.add(const)
        ctx.counts["freeze_variables"] += 1
        for node in by_value:
            if node.op in ("VariableV2", "Variable"):
                _replace_dereferences(graph, node, TensorRef(const.name), inside)
            else:
                replaced[TensorRef(node.name)] = _read_of(graph, node, const)
    for node in reads:
        if node.op == "VariableShape":
            dtype = tf.as_dtype(node.attrs["out_type"].type)
            shape = np.array(variable.shape, dtype.as_numpy_dtype)
            const = graph.add(const_node(graph.unique_name(f"{node.name}/frozen"), shape, dtype))
            const.controls = list(node.controls)
            replaced[TensorRef(node.name)] = TensorRef(const.name)
    return replaced


def _reads_value(node: Node, variable: Variable) -> bool:
    if node.op == ARG:
        return not variable.handle
    if node.op in ("VariableV2", "Variable"):
        return True
    return node.op in _READS and node.attrs["dtype"].type == variable.dtype.as_datatype_enum


def _read_of(graph: Graph, node: Node, const: Node) -> TensorRef:
    """What stands in for a read. What the read waited for is still waited for."""
    dtype = const.attrs["dtype"]
    if node.op in (ARG, "ReadVariableOp"):
        if not node.controls:
            return TensorRef(const.name)
        new = Node(graph.unique_name(f"{node.name}/frozen"), "Identity", [TensorRef(const.name)])
        new.attrs["T"] = dtype
    elif node.op == "ResourceGather":
        new = Node(graph.unique_name(f"{node.name}/frozen"), "GatherV2")
        batch_dims = node.attrs["batch_dims"].i
        axis = const_node(graph.unique_name(f"{new.name}/axis"), np.int32(batch_dims), tf.int32)
        graph.add(axis)
        new.inputs = [TensorRef(const.name), node.inputs[1], TensorRef(axis.name)]
        new.attrs["Tparams"], new.attrs["Tindices"] = dtype, node.attrs["Tindices"]
        new.attrs["Taxis"] = axis.attrs["dtype"]
        new.attrs["batch_dims"] = attr_value_pb2.AttrValue(i=batch_dims)
    else:
        new = Node(graph.unique_name(f"{node.name}/frozen"), "GatherNd")
        new.inputs = [TensorRef(const.name), node.inputs[1]]
        new.attrs["Tparams"], new.attrs["Tindices"] = dtype, node.attrs["Tindices"]
    new.controls = list(node.controls)
    new.device = node.device
    graph.add(new)
    return TensorRef(new.name)


def _replace_dereferences(graph: Graph, node: Node, const: TensorRef, inside: set[str]) -> None:
    """A reference variable is read by every op that takes it as a plain tensor."""
    variable = TensorRef(node.name)
    for consumer in graph:
        if consumer.name not in inside and variable in consumer.inputs:
            refs = _reference_inputs(graph, consumer)
            consumer.inputs = [
                const if ref == variable and not is_ref else ref
                for ref, is_ref in zip(consumer.inputs, refs, strict=True)
            ]
    graph.outputs = [(name, const if ref == variable else ref) for name, ref in graph.outputs]


def _reference_inputs(graph: Graph, node: Node) -> list[bool]:
    found: list[bool] = []
    for arg in op_def(node.op, graph.library).input_arg:
        found += [arg.is_ref] * arg_size(arg, node.attrs)
    return found


def _used_refs(graph: Graph) -> set[TensorRef]:
    used = {ref for node in graph for ref in node.inputs}
    return used | {ref for _, ref in graph.outputs}
