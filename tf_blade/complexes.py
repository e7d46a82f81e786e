"""Nodes around complex numbers that the compiler can lower, as single nodes that clusters can take.

    s = RFFT(x); m = ComplexAbs(s); y = IRFFT(Mul(s, Cast(k)))
        ->   m, y = PartitionedCall(x, k, f=blade_complex_…)

No cluster reads or writes complex numbers. So the nodes that share them go into a function, and
with them the nodes that lie between. A call that no cluster has taken is replaced by what it calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, function_pb2

from tf_blade.clustering.candidates import dtype_of, is_literal
from tf_blade.compiler.lower import is_complex, lower_graph
from tf_blade.errors import UnsupportedError
from tf_blade.graph.calls import COMPLEX_PREFIX
from tf_blade.graph.control_flow import v1_controlled
from tf_blade.graph.graph import Graph, Node, TensorRef
from tf_blade.graph.shapes import Types, infer_types
from tf_blade.graph.types import ARG


def wrap_complex(graph: Graph, types: Types) -> dict[str, str]:
    """Replaces the nodes around complex numbers by calls where they can be lowered.

    Args:
      graph: after the passes. Changed, and so are its library and `types`.

    Returns: reasons of the nodes that stay as they are.
    """
    left: dict[str, str] = {}
    outside = v1_controlled(graph)
    for group in _groups(graph, types):
        if any(name not in graph.nodes for name in group):
            continue  # between the nodes of another one
        try:
            if outside & group:
                raise UnsupportedError("complex numbers inside control flow")
            _wrap(graph, types, group)
        except UnsupportedError as error:
            left.update(dict.fromkeys(group, error.reason))
    return {name: reason for name, reason in left.items() if name in graph.nodes}


def _groups(graph: Graph, types: Types) -> list[set[str]]:
    """The nodes that have to do with complex numbers; those that share a tensor together."""
    group_of: dict[str, set[str]] = {}
    for node in graph.topological_order():
        if not is_complex(node, graph, types):
            continue
        group = {node.name}
        for ref in node.inputs:
            if ref in types and types[ref].dtype == tf.complex64:
                group |= group_of[ref.node]
        group_of.update(dict.fromkeys(group, group))
    return list({id(group): group for group in group_of.values()}.values())


def _wrap(graph: Graph, types: Types, group: set[str]) -> None:
    members = group | (_reached(graph, group, down=True) & _reached(graph, group, down=False))
    nodes = [node for node in graph.topological_order() if node.name in members]
    outputs = _read_outside(graph, members)
    if any(node.op == ARG for node in nodes) or any(
        types[ref].dtype == tf.complex64 for ref in outputs
    ):
        raise UnsupportedError("complex numbers come in or go out")
    for node in nodes:
        if graph.is_stateful(node):
            raise UnsupportedError(f"{node.op} between complex numbers is stateful")
    if not graph.is_function and any(ref.node in members for _, ref in graph.outputs):
        raise UnsupportedError("a result is fetched by name")
    function, arguments = _function(graph, types, nodes, outputs)
    shapes = {
        arg.name: types[ref].shape if ref in types else None
        for arg, ref in zip(function.args, arguments, strict=True)
    }
    lower_graph(function, infer_types(function, shapes), function.name)
    _put_in_place(graph, types, function, arguments, nodes, outputs)


def _reached(graph: Graph, start: Iterable[str], *, down: bool) -> set[str]:
    """Nodes that come after (or before) those of `start`, and they."""
    after: Mapping[str, list[Node]] = graph.consumers() if down else {}
    found: set[str] = set()
    todo = list(start)
    while todo:
        name = todo.pop()
        if name in found:
            continue
        found.add(name)
        node = graph.nodes[name]
        if down:
            todo += [reader.name for reader in after[name]]
        else:
            todo += [*(ref.node for ref in node.inputs), *node.controls]
    return found


def _read_outside(graph: Graph, members: set[str]) -> list[TensorRef]:
    """The members' results that others read, in order."""
    refs = [ref for node in graph if node.name not in members for ref in node.inputs]
    refs += [ref for _, ref in graph.outputs]
    return [ref for ref in dict.fromkeys(refs) if ref.node in members]


def _function(
    graph: Graph, types: Types, nodes: list[Node], outputs: list[TensorRef]
) -> tuple[Graph, list[TensorRef]]:
    """A function of the nodes, and what it is called with. Small constants are copied into it."""
    members = {node.name for node in nodes}
    arguments: dict[TensorRef, str] = {}
    inside: dict[str, Node] = {}
    for node in nodes:
        copy = _bare(node)
        for i, ref in enumerate(node.inputs):
            source = graph.nodes[ref.node]
            if ref.node in members:
                continue
            if is_literal(source):
                inside.setdefault(source.name, _bare(source))
                continue
            copy.inputs[i] = TensorRef(arguments.setdefault(ref, f"argument_{len(arguments)}"))
        inside[node.name] = copy
    if set(inside) & set(arguments.values()):
        raise UnsupportedError("its nodes have the names of arguments")
    number = 0
    while f"{COMPLEX_PREFIX}{number}" in graph.library:
        number += 1
    args = [(name, dtype_of(graph, types, ref)) for ref, name in arguments.items()]
    results = [(f"result_{i}", dtype_of(graph, types, ref), ref) for i, ref in enumerate(outputs)]
    function = Graph.new_function(
        f"{COMPLEX_PREFIX}{number}", graph.library, args, results, inside.values()
    )
    return function, list(arguments)


def _bare(node: Node) -> Node:
    """A copy without what ties it to its graph."""
    copy = node.copy()
    copy.controls, copy.device = [], ""
    copy.attrs = {key: value for key, value in node.attrs.items() if not key.startswith("_")}
    return copy


def _put_in_place(
    graph: Graph,
    types: Types,
    function: Graph,
    arguments: list[TensorRef],
    nodes: list[Node],
    outputs: list[TensorRef],
) -> None:
    """Replaces the nodes by a call of the function."""
    library = cast("dict[str, function_pb2.FunctionDef]", graph.library)
    library[function.name] = function.to_function_def()
    gone = {node.name for node in nodes}
    controls = dict.fromkeys(c for node in nodes for c in node.controls if c not in gone)
    name = graph.unique_name(f"{nodes[0].name}/complex")
    call = Node(name, "PartitionedCall", list(arguments), list(controls))
    call.device = nodes[0].device
    call.attrs["f"] = attr_value_pb2.AttrValue()
    call.attrs["f"].func.name = function.name
    for key, refs in (("Tin", arguments), ("Tout", outputs)):
        call.attrs[key] = attr_value_pb2.AttrValue()
        call.attrs[key].list.type.extend(dtype_of(graph, types, ref) for ref in refs)
    graph.add(call)
    moved = {ref: TensorRef(name, i) for i, ref in enumerate(outputs)}
    types.update({new: types[old] for old, new in moved.items()})
    graph.redirect(moved)
    for node in graph:
        if any(c in gone for c in node.controls):
            node.controls = list(dict.fromkeys(name if c in gone else c for c in node.controls))
    graph.control_outputs = [(key, n) for key, n in graph.control_outputs if n not in gone]
    for node in nodes:
        del graph.nodes[node.name]
