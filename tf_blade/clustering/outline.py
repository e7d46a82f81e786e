"""Copying a cluster's nodes into a function of its own: what TensorFlow runs on a fallback."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from tf_blade.clustering.candidates import dtype_of
from tf_blade.clustering.clusters import Cluster
from tf_blade.graph.graph import Graph, Node, TensorRef
from tf_blade.graph.shapes import Types

# Of the private attributes only the choice of a kernel by label changes what a node does.
_KEPT_PRIVATE_ATTRS = frozenset({"_kernel"})


@dataclass(frozen=True)
class Outlined:
    """A cluster as a function.

    Attributes:
      cluster: where it comes from.
      function: the body; members keep their names, arguments are input_0, input_1, …, results
        output_0, output_1, …. Equal clusters get equal names, whatever their nodes are called.
      inputs: tensors of the graph to feed it with, in the order of its arguments. Tensors of
        clusters that are replaced meanwhile move; `replace` finds where to.
      outputs: tensors of the graph that its results stand for, in order.
      constant_inputs: indices of the inputs that are constants too large to be copied.
      uses: for each input one place that reads it, as (member, input index).
      literals: names of the constants that were copied.
      content: a hash of what it computes; names of nodes don't count, those of functions do.
    """

    cluster: Cluster
    function: Graph
    inputs: list[TensorRef]
    outputs: list[TensorRef]
    constant_inputs: list[int]
    uses: list[tuple[str, int]] = field(repr=False)
    literals: list[str] = field(repr=False)
    content: str = field(repr=False)


def outline(
    graph: Graph,
    types: Types,
    cluster: Cluster,
    name: str | None = None,
    inputs: Sequence[TensorRef] = (),
) -> Outlined:
    """Copies a cluster into a function. The graph isn't changed.

    Args:
      graph, types: the graph the cluster was found in, and its types.
      cluster: one of find_clusters' or split_out's.
      name: the function's; by default "blade_fallback_" and a hash of what it computes.
      inputs: its first arguments, in this order; all of them are read by members. Small constants
        among them are not copied.
    """
    walk = _Walk(graph, cluster, inputs)
    for ref in cluster.outputs:
        walk.visit(ref.node)
    taken = {node.name for node in walk.nodes}
    prefix = "input"
    while any(node.startswith(f"{prefix}_") for node in taken):
        prefix = f"{prefix}_x"
    inputs = list(dict.fromkeys([*inputs, *walk.inputs]))
    arg_of = {ref: TensorRef(f"{prefix}_{i}") for i, ref in enumerate(inputs)}
    dtypes = [dtype_of(graph, types, ref) for ref in inputs]
    results = [dtype_of(graph, types, ref) for ref in cluster.outputs]
    copies = [_copy_without_context(node, arg_of) for node in walk.nodes]
    content = _content_hash(copies, arg_of, dtypes, cluster.outputs)
    if name is None:
        name = f"blade_fallback_{content[:16]}"
    function = Graph.new_function(
        name,
        graph.library,
        [(arg_of[ref].node, dtype) for ref, dtype in zip(inputs, dtypes, strict=True)],
        [
            (f"output_{i}", dtype, ref)
            for i, (ref, dtype) in enumerate(zip(cluster.outputs, results, strict=True))
        ],
        copies,
    )
    return Outlined(
        cluster,
        function,
        inputs,
        list(cluster.outputs),
        [i for i, ref in enumerate(inputs) if graph.nodes[ref.node].op == "Const"],
        [walk.inputs[ref] for ref in inputs],
        [node.name for node in walk.nodes if node.op == "Const"],
        content,
    )


class _Walk:
    """Members in the order in which the outputs need them: the same for clusters that are equal."""

    def __init__(self, graph: Graph, cluster: Cluster, fixed: Sequence[TensorRef]) -> None:
        self.graph = graph
        self.fixed = frozenset(fixed)
        self.inside = set(cluster.members)
        self.literals = cluster.region.literals
        self.nodes: list[Node] = []
        self.inputs: dict[TensorRef, tuple[str, int]] = {}
        self._seen: set[str] = set()

    def visit(self, root: str) -> None:
        if root in self._seen:
            return
        self._seen.add(root)
        stack = [(root, 0)]
        while stack:
            name, slot = stack.pop()
            node = self.graph.nodes[name]
            if slot == len(node.inputs):
                self.nodes.append(node)
                continue
            stack.append((name, slot + 1))
            ref = node.inputs[slot]
            outside = ref.node not in self.inside and ref.node not in self.literals
            if outside or ref in self.fixed:
                self.inputs.setdefault(ref, (name, slot))
            elif ref.node not in self._seen:
                self._seen.add(ref.node)
                stack.append((ref.node, 0))


def _copy_without_context(node: Node, arg_of: dict[TensorRef, TensorRef]) -> Node:
    """The node without what ties it to its old graph: device, control edges, private attributes.

    The ties live on at the BladeCluster node, which takes over device and control edges.
    """
    attrs = {
        key: value
        for key, value in node.attrs.items()
        if not key.startswith("_") or key in _KEPT_PRIVATE_ATTRS
    }
    return Node(node.name, node.op, [arg_of.get(r, r) for r in node.inputs], [], attrs)


def _content_hash(
    nodes: list[Node],
    arg_of: dict[TensorRef, TensorRef],
    dtypes: list[int],
    outputs: tuple[TensorRef, ...],
) -> str:
    """Hash of ops, attributes and wiring; names of nodes don't count."""
    number = {ref.node: f"arg{i}" for i, ref in enumerate(arg_of.values())}
    number.update({node.name: f"node{i}" for i, node in enumerate(nodes)})
    digest = hashlib.sha256()

    def add(*parts: str | bytes | int) -> None:
        for part in parts:
            data = part if isinstance(part, bytes) else str(part).encode()
            digest.update(len(data).to_bytes(8, "little"))
            digest.update(data)

    add(len(dtypes), *dtypes)
    for node in nodes:
        add(node.op, len(node.inputs))
        for ref in node.inputs:
            add(number[ref.node], ref.index)
        add(len(node.attrs))
        for key in sorted(node.attrs):
            add(key, node.attrs[key].SerializeToString(deterministic=True))
    for ref in outputs:
        add(number[ref.node], ref.index)
    return digest.hexdigest()
