"""What of a MetaGraph can be optimised: the bodies of functions, or the main graph, that serve.

Equal functions (Keras writes a model's body once per endpoint) become one region; editing it turns
the others into calls of the edited one, so code and constants are stored once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, function_pb2, types_pb2

from tf_blade.graph.bodies import Bodies
from tf_blade.graph.calls import callee, calls, compiled_by_xla, is_inlinable
from tf_blade.graph.fingerprint import Fingerprints
from tf_blade.graph.graph import Graph, Library, Node, TensorRef
from tf_blade.graph.names import parse_tensor_name
from tf_blade.graph.types import ARG, Shape, TensorInfo
from tf_blade.saved_model.cone import Cone
from tf_blade.saved_model.mentions import mentioned_nodes
from tf_blade.saved_model.object_graph import object_functions
from tf_blade.saved_model.state import State
from tf_blade.saved_model.variables import Variable

if TYPE_CHECKING:
    from tf_blade.saved_model.bundle import MetaGraph

# Smaller functions (a loop's condition) are not worth a call.
_MIN_SHARED_OPS = 8


@dataclass
class Region:
    """A graph to optimise, and the place it goes back to.

    Attributes:
      name: for messages: "function '__inference_…'" or "main graph [serve]".
      function: the function's name; "" for a main graph.
      variables: what is known of the variables in it, by the name of the node that stands for the
        variable: an argument, a VarHandleOp or a VariableV2. Captured constants too (handle=False).
      arg_shapes: shapes of arguments, by name, where they are known.
      signature_names: signatures that run it; empty if only object-graph functions do.
      served: for each signature of a main graph the names of its outputs in `graph.outputs`.
      twins: equal functions that will call this one after `replace`.
    """

    name: str
    function: str
    variables: dict[str, Variable]
    arg_shapes: dict[str, Shape]
    signature_names: list[str]
    _meta: MetaGraph = field(repr=False)
    _graph: Graph = field(repr=False)
    _cone: Cone | None = field(default=None, repr=False)
    served: list[set[str]] = field(default_factory=list)
    twins: dict[str, list[int]] = field(default_factory=dict)

    @property
    def meta(self) -> MetaGraph:
        """The MetaGraph it is part of."""
        return self._meta

    @property
    def graph(self) -> Graph:
        """A copy to edit."""
        return self._graph.copy()

    @property
    def variable_types(self) -> dict[str, TensorInfo]:
        """dtype and shape behind each resource, as `infer_types` takes them."""
        return {
            name: TensorInfo(v.dtype, v.shape) for name, v in self.variables.items() if v.handle
        }

    def likely_shapes(self, inputs: Mapping[str, Mapping[str, Shape]]) -> dict[str, Shape]:
        """Shapes of arguments that are named like a signature's input, or the tensor behind it.

        Args:
          inputs: signature name -> input name -> shape.
        """
        named: dict[str, Shape] = {}
        for signature, shapes in inputs.items():
            for key, shape in shapes.items():
                tensor = self._meta.signatures[signature].inputs[key].tensor
                named[parse_tensor_name(tensor).node] = named[key] = shape
        fed = (node.name for node in self._graph if node.op in (ARG, "Placeholder"))
        return {name: named[name] for name in fed if name in named}

    def replace(
        self, graph: Graph, new_functions: Mapping[str, function_pb2.FunctionDef] | None = None
    ) -> None:
        """Puts an edited graph in place of the region, and functions it calls into the library.

        Raises ValueError if a new function has the name of another one, or if the graph's outputs
        aren't the region's.
        """
        library = self._meta.library
        for name, fdef in (new_functions or {}).items():
            if name in library and library[name] != fdef:
                raise ValueError(f"the library already has another function '{name}'")
            library[name] = fdef
        if [name for name, _ in graph.outputs] != [name for name, _ in self._graph.outputs]:
            raise ValueError(f"{self.name}: the edited graph has other outputs")
        if self._cone is None:
            library[self.function] = graph.to_function_def()
            for twin, order in self.twins.items():
                library[twin] = _forwarding(library[twin], self.function, order, library)
        else:
            graph_def = self._meta.graph_def
            names = {node.name for node in graph_def.node}
            keep = mentioned_nodes(self._meta.proto, names)
            edited = self._cone.put_back(graph, keep).to_graph_def()
            del graph_def.node[:]
            graph_def.node.extend(edited.node)


def find_regions(meta: MetaGraph, signatures: set[str] | None) -> list[Region]:
    """The regions of one MetaGraph, those of signatures first."""
    return _Finder(meta, signatures).find()


class _Finder:
    def __init__(self, meta: MetaGraph, signatures: set[str] | None) -> None:
        self._meta = meta
        self._wanted = {
            name: signature
            for name, signature in meta.signatures.items()
            if signatures is None or name in signatures
        }
        self._all_functions = signatures is None
        self._main = meta.main
        self._main.consumers()  # raises GraphError on a dangling input
        self._bodies = Bodies(dict(meta.library))
        self._state = State(meta, self._main, self._bodies)
        self._fingerprints = Fingerprints(self._bodies)
        self._found: list[Region] = []
        self._region_of: dict[str, Region] = {}  # by function, twins included
        self._visited: set[tuple[str, str]] = set()

    def find(self) -> list[Region]:
        if self._meta.object_graph is None:
            region = self._main_region()
            if region is not None:
                self._found.append(region)
                for name in region.signature_names:
                    self._visit_calls(region._graph, name)
            return self._found
        for name, function in self._signature_functions():
            self._visit(function, name)
        if self._all_functions:
            for item in object_functions(self._meta.object_graph):
                if item.serves and item.on_root and item.name in self._bodies.library:
                    self._visit(item.name, "")
        return self._found

    # -- roots ----------------------------------------------------------------------------

    def _main_region(self) -> Region | None:
        if not self._wanted:
            return None
        # Cut along all signatures: a tensor that any of them is fed is never computed through.
        cone = Cone(self._main, self._meta.signatures)
        return Region(
            f"main graph [{','.join(self._meta.tags)}]",
            "",
            {n: v for n, v in self._state.main_variables().items() if n in cone.graph.nodes},
            {},
            list(self._wanted),
            self._meta,
            cone.graph,
            cone,
            [
                {str(parse_tensor_name(name)) for t in s.outputs.values() for name in t.tensors}
                for s in self._meta.signatures.values()
            ],
        )

    def _signature_functions(self) -> Iterator[tuple[str, str]]:
        for name, signature in self._wanted.items():
            for node in Cone(self._main, {name: signature}).graph:
                for call in calls(node, self._bodies.library):
                    yield name, call.function

    # -- functions ------------------------------------------------------------------------

    def _visit(self, function: str, signature: str) -> None:
        """Makes the function a region, and then what it calls and can't be inlined."""
        function = self._behind_wrappers(function)
        if compiled_by_xla(self._bodies.library[function].attr):
            return
        if function not in self._region_of:
            self._region_of[function] = self._twin(function) or self._new_region(function)
        region = self._region_of[function]
        if signature and signature not in region.signature_names:
            region.signature_names.append(signature)
        if (function, signature) not in self._visited:
            self._visited.add((function, signature))
            self._visit_calls(self._bodies[region.function], signature)

    def _visit_calls(self, graph: Graph, signature: str) -> None:
        library = self._bodies.library
        if not library:
            return
        for node in graph:
            if compiled_by_xla(node.attrs):
                continue
            inlined = is_inlinable(node, library)
            for call in calls(node, library):
                if call.arguments is None:
                    continue
                if not inlined:
                    self._visit(call.function, signature)
                elif (call.function, signature) not in self._visited:
                    self._visited.add((call.function, signature))
                    self._visit_calls(self._bodies[call.function], signature)

    def _behind_wrappers(self, function: str) -> str:
        """The function that does the work behind functions that only forward to another one."""
        seen = {function}
        while True:
            graph = self._bodies[function]
            nodes = [n for n in graph if n.op not in (ARG, "Identity", "NoOp")]
            if len(nodes) != 1 or not is_inlinable(nodes[0], graph.library):
                return function
            called = callee(nodes[0], graph.library)
            if called is None or called in seen:
                return function
            seen.add(called)
            function = called

    def _new_region(self, function: str) -> Region:
        graph = self._bodies[function].copy()
        graph.library = self._meta.library
        region = Region(
            f"function '{function}'",
            function,
            self._state.function_variables(function),
            _arg_shapes(self._bodies.library[function]),
            [],
            self._meta,
            graph,
        )
        self._found.append(region)
        return region

    def _twin(self, function: str) -> Region | None:
        """A region found before whose function computes the same from the same arguments."""
        own = self._argument_keys(function)
        fingerprint = self._fingerprints.of(function, own)
        if fingerprint is None or fingerprint.size < _MIN_SHARED_OPS:
            return None
        for region in self._found:
            if not region.function:
                continue
            keys = self._argument_keys(region.function)
            if not set(keys) <= set(own):
                continue
            if self._fingerprints.of(region.function, keys) == fingerprint:
                region.twins[function] = [own.index(key) for key in keys]
                return region
        return None

    def _argument_keys(self, function: str) -> list[str]:
        """A text for each argument: what it is bound to, or its number, dtype and shape."""
        fdef = self._bodies.library[function]
        shapes = _arg_shapes(fdef)
        keys: list[str] = []
        free = 0
        for i, arg in enumerate(fdef.signature.input_arg):
            source = self._state.source(function, i)
            if source is not None:
                keys.append(f"{source.kind} {source.name}")
            else:
                keys.append(f"argument {free} {arg.type} {shapes.get(arg.name)}")
                free += 1
        return keys


def _arg_shapes(fdef: function_pb2.FunctionDef) -> dict[str, Shape]:
    """Argument shapes that the writer recorded on the function."""
    found: dict[str, Shape] = {}
    recorded = fdef.attr["_input_shapes"].list.shape if "_input_shapes" in fdef.attr else []
    for i, arg in enumerate(fdef.signature.input_arg):
        if arg.type == types_pb2.DT_RESOURCE:
            continue
        shape = None
        if i in fdef.arg_attr and "_output_shapes" in fdef.arg_attr[i].attr:
            shapes = fdef.arg_attr[i].attr["_output_shapes"].list.shape
            shape = shapes[0] if len(shapes) == 1 else None
        elif len(recorded) == len(fdef.signature.input_arg):
            shape = recorded[i]
        if shape is not None and not shape.unknown_rank:
            found[arg.name] = tuple(tf.TensorShape(shape).as_list())
    return found


def _forwarding(
    twin: function_pb2.FunctionDef, function: str, order: list[int], library: Library
) -> function_pb2.FunctionDef:
    """`twin` with a call of `function` as its body; the call's argument i is its order[i]-th."""
    old = Graph.from_function_def(twin, library)
    args = old.args
    signature = library[function].signature
    call = Node(
        old.unique_name("call"),
        "StatefulPartitionedCall" if signature.is_stateful else "PartitionedCall",
        [TensorRef(args[i].name) for i in order],
    )
    call.attrs["Tin"] = attr_value_pb2.AttrValue()
    call.attrs["Tin"].list.type.extend(arg.type for arg in signature.input_arg)
    call.attrs["Tout"] = attr_value_pb2.AttrValue()
    call.attrs["Tout"].list.type.extend(arg.type for arg in signature.output_arg)
    call.attrs["f"] = attr_value_pb2.AttrValue()
    call.attrs["f"].func.name = function
    graph = old.copy()
    graph.nodes = {arg.name: arg for arg in args}
    graph.add(call)
    graph.outputs = [(name, TensorRef(call.name, i)) for i, (name, _) in enumerate(old.outputs)]
    graph.control_outputs = (
        [(call.name, call.name)] if signature.is_stateful or (signature.control_output) else []
    )
    return graph.to_function_def()
