"""One view over TensorFlow's two graph protos, GraphDef and FunctionDef.

A GraphDef names tensors "node:1" and a FunctionDef "node:output_arg:0"; here both are
`TensorRef(node, index)`. A function's arguments are nodes of op `_Arg`, its results are
`Graph.outputs`; in a main graph `outputs` are the tensors that somebody may fetch.
Attribute values stay protos, so nothing is lost on the way in and out; nodes share them, so they
are replaced and never changed. Default-valued attributes
are filled in when a graph is read and stripped when it is written, so that every node has all of
its attributes here and an older TensorFlow isn't shown attributes it doesn't know.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tensorflow.core.framework import (
    attr_value_pb2,
    function_pb2,
    graph_pb2,
    op_def_pb2,
    versions_pb2,
)
from tensorflow.python.framework import op_def_registry

from tf_blade.graph.types import ARG

Attrs = dict[str, attr_value_pb2.AttrValue]
Library = Mapping[str, function_pb2.FunctionDef]


class TensorRef(NamedTuple):
    """Output `index` of node `node`."""

    node: str
    index: int = 0  # type: ignore[assignment]  # hides tuple.index, which nobody needs here

    def __str__(self) -> str:
        return f"{self.node}:{self.index}"


@dataclass
class Node:
    """One operation. `inputs` are data inputs in order, `controls` nodes that must run before."""

    name: str
    op: str
    inputs: list[TensorRef] = field(default_factory=list)
    controls: list[str] = field(default_factory=list)
    attrs: Attrs = field(default_factory=dict)
    device: str = ""
    # experimental_debug_info and full-type annotations, carried as they came.
    extra: tuple[bytes, bytes] = (b"", b"")

    def copy(self) -> Node:
        return Node(
            self.name,
            self.op,
            list(self.inputs),
            list(self.controls),
            dict(self.attrs),
            self.device,
            self.extra,
        )


class GraphError(ValueError):
    """A graph proto that doesn't hold together: an unknown op, a dangling input."""


def op_def(op: str, library: Library) -> op_def_pb2.OpDef:
    """The OpDef of a registered op, or the signature of a library function called by name."""
    found = op_def_registry.get(op)
    if found is not None:
        return found
    if op in library:
        return library[op].signature
    raise GraphError(
        f"op '{op}' is not registered and is no function of this graph. "
        "If it is a custom op, load its library (tf.load_op_library) first."
    )


@dataclass(frozen=True)
class _OpFacts:
    """What is often asked of a registered op; reading it off the OpDef takes longer.

    Attributes:
      defaults: its attributes' default values.
      outputs: of each output argument the attributes that say how many tensors it is and of which
        types, and its fixed type.
      stateful: see `Graph.is_stateful`.
      gives_reference: whether some output is a reference.
    """

    defaults: Attrs
    outputs: tuple[tuple[str, str, str, int], ...]
    stateful: bool
    gives_reference: bool


_facts: dict[str, _OpFacts] = {}  # by op; an op library loaded later adds to it


def _op_facts(op: str) -> _OpFacts | None:
    """None for an op that is not registered, such as a function called by name."""
    known = _facts.get(op)
    if known is None:
        found = op_def_registry.get(op)
        if found is None:
            return None
        known = _facts[op] = _OpFacts(
            {a.name: a.default_value for a in found.attr if a.HasField("default_value")},
            tuple((a.number_attr, a.type_list_attr, a.type_attr, a.type) for a in found.output_arg),
            found.is_stateful or any(arg.is_ref for arg in found.input_arg),
            any(arg.is_ref for arg in found.output_arg),
        )
    return known


def default_attrs(op: str) -> Attrs:
    """The default attribute values of a registered op; empty for a function called by name."""
    facts = _op_facts(op)
    return {} if facts is None else facts.defaults


def arg_size(arg: op_def_pb2.OpDef.ArgDef, attrs: Attrs) -> int:
    """How many tensors one OpDef argument stands for, given the node's attributes."""
    if arg.number_attr:
        return attrs[arg.number_attr].i if arg.number_attr in attrs else 0
    if arg.type_list_attr:
        value = attrs.get(arg.type_list_attr)
        return len(value.list.type) if value is not None else 0
    return 1


def arg_dtypes(arg: op_def_pb2.OpDef.ArgDef, attrs: Attrs) -> list[int]:
    """DataType enum values of the tensors of one OpDef argument."""
    if arg.type_list_attr:
        return list(attrs[arg.type_list_attr].list.type) if arg.type_list_attr in attrs else []
    dtype = attrs[arg.type_attr].type if arg.type_attr else arg.type
    return [dtype] * arg_size(arg, attrs)


class Graph:
    """A mutable graph: nodes by name in file order, outputs, and the function library it calls.

    Attributes:
      name: the function's name, or "" for a main graph.
      nodes: nodes by name.
      outputs: (result name, tensor). In a main graph the result name is the tensor's own name.
      control_outputs: (name, node) pairs that must run whenever the function does.
      library: functions that nodes may call; shared with the other graphs of the MetaGraph.
    """

    def __init__(self, name: str, library: Library) -> None:
        self.name = name
        self.library = library
        self.nodes: dict[str, Node] = {}
        self.outputs: list[tuple[str, TensorRef]] = []
        self.control_outputs: list[tuple[str, str]] = []
        self._template = function_pb2.FunctionDef()
        self._versions = graph_pb2.GraphDef().versions

    # -- construction ---------------------------------------------------------------------

    @classmethod
    def from_graph_def(
        cls, graph_def: graph_pb2.GraphDef, fetches: Iterable[TensorRef] = ()
    ) -> Graph:
        """A main graph; `fetches` are the tensors that must keep their names."""
        library = {f.signature.name: f for f in graph_def.library.function}
        graph = cls("", library)
        graph._versions = graph_def.versions
        for proto in graph_def.node:
            node = _node_from_proto(proto)
            for text in proto.input:
                if text.startswith("^"):
                    node.controls.append(text[1:])
                else:
                    name, _, index = text.partition(":")
                    node.inputs.append(TensorRef(name, int(index or 0)))
            graph.nodes[node.name] = node
        graph.outputs = [(str(ref), ref) for ref in fetches]
        return graph

    @classmethod
    def from_function_def(cls, fdef: function_pb2.FunctionDef, library: Library) -> Graph:
        """A function's body. Raises GraphError on an unknown op or a dangling input."""
        graph = cls(fdef.signature.name, library)
        graph._template.CopyFrom(fdef)
        for name in ("node_def", "ret", "control_ret"):
            graph._template.ClearField(name)
        for i, arg in enumerate(fdef.signature.input_arg):
            node = Node(arg.name, ARG)
            node.attrs["index"] = attr_value_pb2.AttrValue(i=i)
            node.attrs["T"] = attr_value_pb2.AttrValue(type=arg.type)
            if i in fdef.arg_attr and "_output_shapes" in fdef.arg_attr[i].attr:
                shapes = fdef.arg_attr[i].attr["_output_shapes"].list.shape
                if len(shapes) == 1:
                    node.attrs["shape"] = attr_value_pb2.AttrValue(shape=shapes[0])
            graph.nodes[arg.name] = node
        bodies = {proto.name: _node_from_proto(proto) for proto in fdef.node_def}
        graph.nodes.update(bodies)
        offsets = {name: _output_offsets(node, library) for name, node in bodies.items()}

        def parse(text: str) -> TensorRef:
            parts = text.split(":")
            if len(parts) == 1:
                if parts[0] not in graph.nodes:
                    raise GraphError(f"function '{graph.name}': no argument named '{text}'")
                return TensorRef(parts[0], 0)
            if parts[0] not in offsets or parts[1] not in offsets[parts[0]]:
                raise GraphError(f"function '{graph.name}': dangling input '{text}'")
            index = int(parts[2]) if len(parts) > 2 else 0
            return TensorRef(parts[0], offsets[parts[0]][parts[1]] + index)

        for proto in fdef.node_def:
            node = graph.nodes[proto.name]
            for text in proto.input:
                if text.startswith("^"):
                    node.controls.append(text[1:])
                else:
                    node.inputs.append(parse(text))
        for out in fdef.signature.output_arg:
            graph.outputs.append((out.name, parse(fdef.ret[out.name])))
        graph.control_outputs = [
            (name, fdef.control_ret[name]) for name in fdef.signature.control_output
        ]
        return graph

    # -- writing --------------------------------------------------------------------------

    def to_graph_def(self) -> graph_pb2.GraphDef:
        """The nodes as a GraphDef, without the function library."""
        graph_def = graph_pb2.GraphDef()
        graph_def.versions.CopyFrom(self._versions)
        for node in self.nodes.values():
            proto = graph_def.node.add()
            _node_to_proto(node, proto)
            proto.input.extend(
                ref.node if ref.index == 0 else f"{ref.node}:{ref.index}" for ref in node.inputs
            )
            proto.input.extend(f"^{name}" for name in node.controls)
        return graph_def

    def to_function_def(self) -> function_pb2.FunctionDef:
        """The body as a FunctionDef with the signature it was read with (or built with)."""
        fdef = function_pb2.FunctionDef()
        fdef.CopyFrom(self._template)
        del fdef.signature.control_output[:]
        fdef.signature.control_output.extend(name for name, _ in self.control_outputs)
        names: dict[TensorRef, str] = {}
        for node in self.nodes.values():
            if node.op == ARG:
                names[TensorRef(node.name, 0)] = node.name
                continue
            index = 0
            for arg in op_def(node.op, self.library).output_arg:
                for i in range(arg_size(arg, node.attrs)):
                    names[TensorRef(node.name, index)] = f"{node.name}:{arg.name}:{i}"
                    index += 1
        for node in self.nodes.values():
            if node.op == ARG:
                continue
            proto = fdef.node_def.add()
            _node_to_proto(node, proto)
            proto.input.extend(names[ref] for ref in node.inputs)
            proto.input.extend(f"^{name}" for name in node.controls)
        for name, ref in self.outputs:
            fdef.ret[name] = names[ref]
        for name, control in self.control_outputs:
            fdef.control_ret[name] = control
        return fdef

    @classmethod
    def new_function(
        cls,
        name: str,
        library: Library,
        args: Iterable[tuple[str, int]],
        results: Iterable[tuple[str, int, TensorRef]],
        nodes: Iterable[Node],
    ) -> Graph:
        """A function from parts: args are (name, DataType), results (name, DataType, tensor)."""
        graph = cls(name, library)
        signature = graph._template.signature
        signature.name = name
        for i, (arg, dtype) in enumerate(args):
            signature.input_arg.add(name=arg, type=dtype)
            node = Node(arg, ARG)
            node.attrs["index"] = attr_value_pb2.AttrValue(i=i)
            node.attrs["T"] = attr_value_pb2.AttrValue(type=dtype)
            graph.nodes[arg] = node
        for node in nodes:
            graph.nodes[node.name] = node
        for result, dtype, ref in results:
            signature.output_arg.add(name=result, type=dtype)
            graph.outputs.append((result, ref))
        return graph

    # -- reading --------------------------------------------------------------------------

    @property
    def versions(self) -> versions_pb2.VersionDef:
        """The GraphDef versions it was written for; empty for a function."""
        return self._versions

    @property
    def is_function(self) -> bool:
        return bool(self.name)

    @property
    def args(self) -> list[Node]:
        """Argument nodes in the order of the function's signature."""
        found = [n for n in self.nodes.values() if n.op == ARG]
        return sorted(found, key=lambda n: n.attrs["index"].i)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes.values())

    def __len__(self) -> int:
        return len(self.nodes)

    def output_dtypes(self, node: Node) -> list[int]:
        """DataType enum values of a node's outputs, in order."""
        if node.op == ARG:
            return [node.attrs["T"].type]
        facts = _op_facts(node.op)
        found: list[int] = []
        if facts is None:
            for arg in op_def(node.op, self.library).output_arg:
                found.extend(arg_dtypes(arg, node.attrs))
            return found
        attrs = node.attrs
        for number, types, kind, fixed in facts.outputs:
            if types:
                found.extend(attrs[types].list.type if types in attrs else ())
                continue
            dtype = attrs[kind].type if kind else fixed
            if not number:
                found.append(dtype)
            elif number in attrs:
                found.extend([dtype] * attrs[number].i)
        return found

    def is_stateful(self, node: Node) -> bool:
        """Whether the op must not be removed, merged or moved.

        Either TensorFlow counts it as stateful, or it takes a reference (Assign, ScatterAdd, …):
        TensorFlow doesn't count those, though they write.
        """
        if node.op == ARG:
            return False
        facts = _op_facts(node.op)
        if facts is not None:
            return facts.stateful
        definition = op_def(node.op, self.library)
        return definition.is_stateful or any(arg.is_ref for arg in definition.input_arg)

    def gives_reference(self, node: Node) -> bool:
        """Whether some output of the op is a reference, as those of VariableV2 are."""
        facts = None if node.op == ARG else _op_facts(node.op)
        return facts is not None and facts.gives_reference

    def consumers(self) -> dict[str, list[Node]]:
        """For each node name, the nodes with a data or control edge from it (each once)."""
        found: dict[str, list[Node]] = {name: [] for name in self.nodes}
        for node in self.nodes.values():
            for name in {ref.node for ref in node.inputs} | set(node.controls):
                if name not in found:
                    raise GraphError(f"node '{node.name}': input '{name}' does not exist")
                found[name].append(node)
        return found

    def topological_order(self) -> list[Node]:
        """Nodes after all their inputs; v1 loops' back edges (into Merge) are ignored.

        Raises GraphError on any other cycle.
        """
        back_ops = ("NextIteration", "RefNextIteration")
        nodes = self.nodes
        order: list[Node] = []
        open_or_done: dict[str, bool] = {}  # True: it is in `order`
        for root in nodes:
            if root in open_or_done:
                continue
            stack = [root]
            while stack:
                name = stack[-1]
                seen = open_or_done.get(name)
                if seen is not None:
                    stack.pop()
                    if not seen:  # what was put above it is done
                        open_or_done[name] = True
                        order.append(nodes[name])
                    continue
                open_or_done[name] = False
                node = nodes[name]
                for source in [*(ref.node for ref in node.inputs), *node.controls]:
                    state = open_or_done.get(source)
                    if state:
                        continue
                    if source not in nodes:
                        raise GraphError(f"node '{name}': input '{source}' does not exist")
                    if node.op.endswith("Merge") and nodes[source].op in back_ops:
                        continue
                    if state is not None:
                        raise GraphError(f"the graph has a cycle through node '{source}'")
                    stack.append(source)
        return order

    # -- changing -------------------------------------------------------------------------

    def copy(self) -> Graph:
        graph = Graph(self.name, self.library)
        graph.nodes = {name: node.copy() for name, node in self.nodes.items()}
        graph.outputs = list(self.outputs)
        graph.control_outputs = list(self.control_outputs)
        graph._template = self._template
        graph._versions = self._versions
        return graph

    def add(self, node: Node) -> Node:
        if node.name in self.nodes:
            raise GraphError(f"the graph already has a node '{node.name}'")
        self.nodes[node.name] = node
        return node

    def unique_name(self, base: str) -> str:
        """`base`, or `base_1`, `base_2` …: a node name that is still free."""
        name, i = base, 0
        while name in self.nodes:
            i += 1
            name = f"{base}_{i}"
        return name

    def redirect(self, mapping: Mapping[TensorRef, TensorRef]) -> None:
        """Makes every consumer and output of each key read its value instead."""
        for node in self.nodes.values():
            if any(ref in mapping for ref in node.inputs):
                node.inputs = [mapping.get(ref, ref) for ref in node.inputs]
        self.outputs = [(name, mapping.get(ref, ref)) for name, ref in self.outputs]

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            del self.nodes[name]


def _node_from_proto(proto) -> Node:  # type: ignore[no-untyped-def]
    extra = (
        proto.experimental_debug_info.SerializeToString()
        if proto.HasField("experimental_debug_info")
        else b"",
        proto.experimental_type.SerializeToString() if proto.HasField("experimental_type") else b"",
    )
    attrs = dict(proto.attr.items())
    for key, default in default_attrs(proto.op).items():
        attrs.setdefault(key, default)  # shared: values are replaced, never changed
    return Node(proto.name, proto.op, attrs=attrs, device=proto.device, extra=extra)


def _node_to_proto(node: Node, proto) -> None:  # type: ignore[no-untyped-def]
    proto.name, proto.op, proto.device = node.name, node.op, node.device
    defaults = default_attrs(node.op)
    for key, value in node.attrs.items():
        default = defaults.get(key)
        if value is not default and (default is None or value != default):
            proto.attr[key].CopyFrom(value)
    if node.extra[0]:
        proto.experimental_debug_info.ParseFromString(node.extra[0])
    if node.extra[1]:
        proto.experimental_type.ParseFromString(node.extra[1])


def _output_offsets(node: Node, library: Library) -> dict[str, int]:
    offsets, index = {}, 0
    for arg in op_def(node.op, library).output_arg:
        offsets[arg.name] = index
        index += arg_size(arg, node.attrs)
    return offsets
