"""Putting one BladeCluster node into a graph in the place of a cluster's members."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, function_pb2

from tf_blade.clustering import devices
from tf_blade.clustering.candidates import dtype_of
from tf_blade.clustering.outline import Outlined
from tf_blade.graph.graph import Attrs, Graph, GraphError, Node, TensorRef
from tf_blade.graph.shapes import Types
from tf_blade.graph.types import Shape, TensorInfo

_Attr = attr_value_pb2.AttrValue


@dataclass(frozen=True)
class Call:
    """Everything a node needs that stands for a cluster; `make_node` turns it into the node."""

    name: str
    cluster: str
    fallback: str
    inputs: list[TensorRef]
    controls: list[str]
    device: str
    input_dtypes: list[int]
    output_dtypes: list[int]
    output_shapes: list[Shape]
    constant_inputs: list[int]
    executable: bytes


@dataclass(frozen=True)
class Replacement:
    """One cluster to replace: see `replace` for the fields."""

    outlined: Outlined
    executable: bytes
    fallback_name: str | None = None
    output_shapes: Sequence[Shape] | None = None


def blade_cluster_node(call: Call, find_repeats: bool = True) -> Node:
    """The BladeCluster node of a call; attributes that have their default value are left out.

    Args:
      find_repeats: whether matrix products look for columns that are the same in every row.
    """
    attrs: Attrs = {
        "Tin": _Attr(list=_Attr.ListValue(type=call.input_dtypes)),
        "Tout": _Attr(list=_Attr.ListValue(type=call.output_dtypes)),
        "fallback": _Attr(func=attr_value_pb2.NameAttrList(name=call.fallback)),
        "executable": _Attr(s=call.executable),
        "cluster": _Attr(s=call.cluster.encode()),
    }
    if call.constant_inputs:
        attrs["constant_inputs"] = _Attr(list=_Attr.ListValue(i=call.constant_inputs))
    if any(shape is not None for shape in call.output_shapes):
        shapes = [tf.TensorShape(shape).as_proto() for shape in call.output_shapes]
        attrs["output_shapes"] = _Attr(list=_Attr.ListValue(shape=shapes))
    if not find_repeats:
        attrs["find_repeats"] = _Attr(b=False)
    return Node(call.name, "BladeCluster", call.inputs, call.controls, attrs, call.device)


def replace(
    graph: Graph,
    outlined: Outlined,
    executable: bytes,
    fallback_name: str | None = None,
    output_shapes: Sequence[Shape] | None = None,
    *,
    make_node: Callable[[Call], Node] = blade_cluster_node,
) -> Node:
    """Adds the cluster's node, points its readers to it and removes members nobody reads.

    Members stay where readers outside the eligible nodes need them. A fetched member of a main
    graph becomes an Identity (or IdentityN) of its name. The function goes into `graph.library`.
    Clusters of one `find_clusters` call may be outlined and replaced in any order.

    Args:
      graph: the graph the cluster was outlined from. Changed, like the types it was found with.
      outlined: the cluster.
      executable: the container that the node runs.
      fallback_name: library name of the function; by default its own.
      output_shapes: what is known about the outputs' shapes; by default what the types say.
      make_node: builds the node; for tests and tools that want another op.

    Returns: the new node.

    Raises: GraphError if a member is no longer in the graph, or the library has another
      function of that name.
    """
    replacement = Replacement(outlined, executable, fallback_name, output_shapes)
    return replace_all(graph, [replacement], make_node=make_node)[0]


def replace_all(
    graph: Graph,
    replacements: Iterable[Replacement],
    *,
    make_node: Callable[[Call], Node] = blade_cluster_node,
) -> list[Node]:
    """`replace` for many clusters of a graph, looking at the whole graph only once."""
    editor = _Editor(graph)
    return [editor.replace(replacement, make_node) for replacement in replacements]


class _Editor:
    """A graph with an index of who reads whom, kept up to date."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.readers: dict[str, dict[str, None]] = {name: {} for name in graph.nodes}
        for node in graph:
            self._index(node)
        self.fetches: dict[str, list[int]] = {}
        for i, (_, ref) in enumerate(graph.outputs):
            self.fetches.setdefault(ref.node, []).append(i)
        self.colocated: dict[str, list[str]] = {}
        for node in graph:
            for name in _colocation(node):
                self.colocated.setdefault(name, []).append(node.name)

    def replace(self, request: Replacement, make_node: Callable[[Call], Node]) -> Node:
        graph, outlined = self.graph, request.outlined
        cluster = outlined.cluster
        lost = [name for name in cluster.members if name not in graph.nodes]
        if lost:
            raise GraphError(f"{cluster.name}: its node '{lost[0]}' is no longer in the graph")
        types = cluster.region.types
        shapes = request.output_shapes
        if shapes is None:
            shapes = [types[r].shape if r in types else None for r in outlined.outputs]
        inputs = [graph.nodes[name].inputs[slot] for name, slot in outlined.uses]
        output_dtypes = [dtype_of(graph, types, ref) for ref in outlined.outputs]
        call = Call(
            name=graph.unique_name(cluster.name),
            cluster=cluster.name,
            fallback=self._add_function(outlined.function, request.fallback_name),
            inputs=inputs,
            controls=self._controls(outlined, inputs),
            device=self._device(outlined),
            input_dtypes=[dtype_of(graph, types, ref) for ref in inputs],
            output_dtypes=output_dtypes,
            output_shapes=list(shapes),
            constant_inputs=outlined.constant_inputs,
            executable=request.executable,
        )
        node = make_node(call)
        self._add(node)
        for i, (dtype, shape) in enumerate(zip(output_dtypes, shapes, strict=True)):
            types[TensorRef(node.name, i)] = TensorInfo(tf.dtypes.as_dtype(dtype), shape)
        self._redirect(outlined, node)
        self._remove_unused(outlined)
        return node

    # -- the new node ---------------------------------------------------------------------

    def _add_function(self, function: Graph, name: str | None) -> str:
        fdef = function.to_function_def()
        if name is not None:
            fdef.signature.name = name
        name = fdef.signature.name
        library = cast("dict[str, function_pb2.FunctionDef]", self.graph.library)
        if name in library:
            # Equal clusters share one function: equal names by hash, not equal node names.
            old = library[name].signature
            if [a.type for a in old.input_arg] != [a.type for a in fdef.signature.input_arg] or [
                a.type for a in old.output_arg
            ] != [a.type for a in fdef.signature.output_arg]:
                raise GraphError(f"the library already has another function '{name}'")
        else:
            library[name] = fdef
        return name

    def _controls(self, outlined: Outlined, inputs: list[TensorRef]) -> list[str]:
        """What had to run before any member, or before a constant it copied, in order."""
        inside = {*outlined.cluster.members, *outlined.literals}
        inside.update(ref.node for ref in inputs)
        found: dict[str, None] = {}
        for name in [*outlined.cluster.members, *outlined.literals]:
            found.update(dict.fromkeys(self.graph.nodes[name].controls))
        return [name for name in found if name not in inside]

    def _device(self, outlined: Outlined) -> str:
        region, joined = outlined.cluster.region, devices.ANYWHERE
        for name in outlined.cluster.members:
            both = devices.combine(joined, region.device[name])
            if both is not None:
                joined = both
        return devices.text(joined)

    # -- its readers ----------------------------------------------------------------------

    def _redirect(self, outlined: Outlined, node: Node) -> None:
        graph, region = self.graph, outlined.cluster.region
        members = set(outlined.cluster.members)
        moved = {ref: TensorRef(node.name, i) for i, ref in enumerate(outlined.outputs)}
        for name in outlined.cluster.members:
            for reader_name in list(self.readers[name]):
                if reader_name in members or reader_name in region.kept:
                    continue
                if reader_name in region.position and reader_name not in region.eligible:
                    continue
                self._rewire(graph.nodes[reader_name], name, moved, node.name)
        graph.control_outputs = [
            (label, node.name if name in members else name) for label, name in graph.control_outputs
        ]
        for name in outlined.cluster.members:
            if name not in self.fetches:
                continue
            if name in region.named:
                self._keep_name(name, moved, region.types)
                continue
            for i in self.fetches.pop(name):
                label, ref = graph.outputs[i]
                graph.outputs[i] = (label, moved[ref])
                self.fetches.setdefault(node.name, []).append(i)

    def _rewire(
        self, reader: Node, member: str, moved: dict[TensorRef, TensorRef], new: str
    ) -> None:
        """Makes one reader of a member read the cluster's node instead."""
        reader.inputs = [moved[r] if r.node == member else r for r in reader.inputs]
        if member in reader.controls:
            data = {ref.node for ref in reader.inputs}
            controls = dict.fromkeys(new if c == member else c for c in reader.controls)
            reader.controls = [c for c in controls if c != new or c not in data]
        del self.readers[member][reader.name]
        self.readers[new][reader.name] = None

    def _keep_name(self, name: str, moved: dict[TensorRef, TensorRef], types: Types) -> None:
        """Turns a fetched member into an Identity or IdentityN of the cluster's results."""
        node = self.graph.nodes[name]
        results = [moved[ref] for ref in moved if ref.node == name]
        dtypes = [dtype_of(self.graph, types, ref) for ref in results]
        for source in dict.fromkeys([r.node for r in node.inputs] + node.controls):
            self.readers[source].pop(name, None)
        attrs: Attrs
        if len(results) == 1:
            op, attrs = "Identity", {"T": _Attr(type=dtypes[0])}
        else:
            op, attrs = "IdentityN", {"T": _Attr(list=_Attr.ListValue(type=dtypes))}
        # Readers hold the node by name: it is replaced in place.
        self.graph.nodes[name] = Node(name, op, results, [], attrs, node.device)
        self._index(self.graph.nodes[name])

    # -- clearing away --------------------------------------------------------------------

    def _remove_unused(self, outlined: Outlined) -> None:
        graph, region = self.graph, outlined.cluster.region
        replaced = [n for n in outlined.cluster.members if n in self.fetches]
        for name in reversed(outlined.cluster.members):
            if name in replaced:
                continue
            if self.readers[name]:
                region.kept.add(name)
            else:
                self._remove(name)
        for name in outlined.literals:
            removable = name in graph.nodes and name in region.eligible
            if removable and not self.readers[name] and name not in self.fetches:
                self._remove(name)

    def _remove(self, name: str) -> None:
        node = self.graph.nodes.pop(name)
        for source in dict.fromkeys([ref.node for ref in node.inputs] + node.controls):
            self.readers[source].pop(name, None)
        del self.readers[name]
        for other in self.colocated.get(name, []):
            if other in self.graph.nodes:
                _drop_colocation(self.graph.nodes[other], name)

    def _add(self, node: Node) -> None:
        self.graph.add(node)
        self.readers[node.name] = {}
        self._index(node)

    def _index(self, node: Node) -> None:
        for source in [ref.node for ref in node.inputs] + node.controls:
            self.readers[source][node.name] = None


def _colocation(node: Node) -> list[str]:
    """Names of the nodes that `node` must share a device with."""
    if "_class" not in node.attrs:
        return []
    found = [s.decode() for s in node.attrs["_class"].list.s]
    return [text[len("loc:@") :] for text in found if text.startswith("loc:@")]


def _drop_colocation(node: Node, name: str) -> None:
    """Loading a graph fails if a node names one that is gone."""
    left = [s for s in node.attrs["_class"].list.s if s != f"loc:@{name}".encode()]
    if left:
        node.attrs["_class"] = _Attr(list=_Attr.ListValue(s=left))
    else:
        del node.attrs["_class"]
