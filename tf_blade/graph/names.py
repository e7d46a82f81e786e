"""Keeps the names under which tensors of a main graph are fetched."""

from __future__ import annotations

from collections.abc import Mapping

from tensorflow.core.framework import attr_value_pb2

from tf_blade.graph.graph import Graph, GraphError, Node, TensorRef


def parse_tensor_name(text: str) -> TensorRef:
    """'node:1' or 'node' (output 0) as a TensorRef."""
    name, _, index = text.lstrip("^").partition(":")
    return TensorRef(name, int(index or 0))


def keep_name(graph: Graph, name: str, values: Mapping[int, TensorRef]) -> Node:
    """Adds a node `name` whose outputs are the given tensors, so that they can be fetched by name.

    One value at output 0 becomes an Identity; other outputs need an IdentityN, which fills the
    outputs nobody asked for with one of the values.

    Raises GraphError if the graph still has a node of that name.
    """
    if name in graph.nodes:
        raise GraphError(f"cannot give the name '{name}' to another tensor: it is still in use")
    dtypes = {i: _dtype(graph, ref) for i, ref in values.items()}
    if set(values) == {0}:
        node = Node(name, "Identity", [values[0]])
        node.attrs["T"] = attr_value_pb2.AttrValue(type=dtypes[0])
    else:
        filler = min(values)
        order = [i if i in values else filler for i in range(max(values) + 1)]
        node = Node(name, "IdentityN", [values[i] for i in order])
        node.attrs["T"] = attr_value_pb2.AttrValue()
        node.attrs["T"].list.type.extend(dtypes[i] for i in order)
    return graph.add(node)


def restore_output_names(graph: Graph) -> None:
    """Makes every output of a main graph available again under its own name.

    Passes redirect `Graph.outputs` freely; afterwards an output ("logits:0", other:0) gets an
    Identity `logits`. A node that still has the name but is no longer the output is renamed.
    """
    moved: dict[str, dict[int, TensorRef]] = {}
    for name, ref in graph.outputs:
        wanted = parse_tensor_name(name)
        if ref != wanted:
            moved.setdefault(wanted.node, {})[wanted.index] = ref
    for name, values in moved.items():
        for other, ref in graph.outputs:
            wanted = parse_tensor_name(other)
            if wanted.node == name:
                values[wanted.index] = ref
        if name in graph.nodes:
            new_name = graph.unique_name(f"{name}/original")
            values = {
                i: TensorRef(new_name, r.index) if r.node == name else r for i, r in values.items()
            }
            rename(graph, {name: new_name})
        keep_name(graph, name, values)
    if moved:
        graph.outputs = [(name, parse_tensor_name(name)) for name, _ in graph.outputs]


def rename(graph: Graph, mapping: Mapping[str, str]) -> None:
    """Renames nodes everywhere they are mentioned, keeping the file order."""
    if not mapping:
        return
    nodes: dict[str, Node] = {}
    for node in graph.nodes.values():
        node.name = mapping.get(node.name, node.name)
        node.inputs = [TensorRef(mapping.get(r.node, r.node), r.index) for r in node.inputs]
        node.controls = [mapping.get(c, c) for c in node.controls]
        if node.name in nodes:
            raise GraphError(f"renaming gives two nodes the name '{node.name}'")
        nodes[node.name] = node
    graph.nodes = nodes
    graph.outputs = [
        (name, TensorRef(mapping.get(r.node, r.node), r.index)) for name, r in graph.outputs
    ]
    graph.control_outputs = [(name, mapping.get(c, c)) for name, c in graph.control_outputs]


def _dtype(graph: Graph, ref: TensorRef) -> int:
    return graph.output_dtypes(graph.nodes[ref.node])[ref.index]
