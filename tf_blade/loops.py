"""Loops that the compiler can lower, as single nodes that clusters can take.

    list = TensorListFromTensor(x)         ->   y, z = PartitionedCall(x, h, f=blade_loop_…)
    y, out = While(0, h, list, handle)
    z = TensorListStack(out)

A loop's lists are variant tensors, which no cluster reads or writes. So the loop goes into a
function together with the ops that make its lists and read them at its end, its condition and body
run through the graph passes. Variables that nobody writes become constants of the body, and those
that are large become inputs of the loop. A call that no cluster has taken is replaced by what it
calls.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import cast

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, function_pb2, types_pb2

from tf_blade.clustering.candidates import dtype_of, is_literal
from tf_blade.compiler.lower import lower_graph
from tf_blade.errors import UnsupportedError
from tf_blade.graph.calls import LOOP_PREFIX, LOOPS, calls, is_wrapped
from tf_blade.graph.control_flow import v1_controlled
from tf_blade.graph.graph import Graph, GraphError, Node, TensorRef
from tf_blade.graph.inline import inline_call
from tf_blade.graph.shapes import Types, infer_types
from tf_blade.graph.types import ARG, Shape, TensorInfo
from tf_blade.passes import PassContext, pipeline
from tf_blade.passes.context import Variable
from tf_blade.passes.drop_controls import drop_controls
from tf_blade.passes.prune import prune

_Attr = attr_value_pb2.AttrValue
_CHANGE_LISTS = ("TensorListScatterIntoExistingList",)
_MAKE_LISTS = ("TensorListReserve", "TensorListFromTensor", *_CHANGE_LISTS)
_READ_LISTS = ("TensorListStack", "TensorListLength", "TensorListGather")
_INDICES = ("TensorListGather", 1)
_KEPT_ATTRS = ("parallel_iterations", "_lower_using_switch_merge")


@dataclass
class WrappedLoops:
    """What became of a graph's loops.

    Attributes:
      left: reasons of those that stay as they are, by node.
      replaced: functions that the loops called before.
      calls: the node that stands for each of the others, by the loop's name.
    """

    left: dict[str, str] = field(default_factory=dict)
    replaced: set[str] = field(default_factory=set)
    calls: dict[str, str] = field(default_factory=dict)


def wrap_loops(
    graph: Graph, types: Types, context: PassContext, only: Collection[str] | None = None
) -> tuple[Graph, WrappedLoops]:
    """Replaces each loop that can be lowered by a call.

    Args:
      graph: after the passes. Changed, and so are its library and `types`.
      context: of the passes.
      only: names of the loops that are meant; None: all.

    Returns: the graph, without what waited for the loops' effects.
    """
    found = WrappedLoops()
    loops = [node for node in graph if node.op in LOOPS and (only is None or node.name in only)]
    inside = v1_controlled(graph) if loops else set()
    for node in loops:
        if node.name in inside:
            found.left[node.name] = "a loop inside control flow of another kind"
            continue
        try:
            wrapper = _Wrapper(graph, types, context, node)
            wrapper.build()
        except (UnsupportedError, GraphError) as error:
            found.left[node.name] = getattr(error, "reason", str(error))
            continue
        found.calls[node.name] = wrapper.put_in_place()
        found.replaced |= {node.attrs[key].func.name for key in ("cond", "body")}
    if found.replaced:
        graph = prune(drop_controls(graph, context), context)
    return graph, found


def unwrap(graph: Graph) -> None:
    """Replaces the calls that are left by what they call."""
    for node in [node for node in graph if is_wrapped(node)]:
        name = node.attrs["f"].func.name
        inline_call(graph, node, Graph.from_function_def(graph.library[name], graph.library))


class _Wrapper:
    def __init__(self, graph: Graph, types: Types, context: PassContext, loop: Node) -> None:
        self.graph = graph
        self.types = types
        self.context = context
        self.loop = loop
        self.functions: list[str] = []
        self.constants: list[Node] = []  # large ones, out of the condition and the body
        self.library: dict[str, function_pb2.FunctionDef] = dict(graph.library)

    # -- the function ---------------------------------------------------------------------

    def build(self) -> None:
        """Makes the function. Raises UnsupportedError if the loop can't be lowered."""
        original = self._original("body")
        names = [arg.name for arg in original.args]
        self.fixed = {
            i for i, (_, ref) in enumerate(original.outputs) if _source(original, ref) == names[i]
        }
        self.condition, self.body = self._prepared("cond"), self._prepared("body")
        for function in (self.condition, self.body):
            _require_pure(function)
        read = _read(self.condition, [ref for _, ref in self.condition.outputs])
        carried = [ref for i, (_, ref) in enumerate(self.body.outputs) if i not in self.fixed]
        read |= _read(self.body, carried)
        self.kept = [i for i in range(len(names)) if i not in self.fixed or i in read]
        for i in self.kept:
            if dtype_of(self.graph, self.types, self.loop.inputs[i]) == types_pb2.DT_RESOURCE:
                raise UnsupportedError("it uses a resource", self.loop.name)
        self._collect(self._new_loop())
        self._try()

    def _original(self, attr: str) -> Graph:
        name = self.loop.attrs[attr].func.name
        return Graph.from_function_def(self.library[name], self.library)

    def _prepared(self, attr: str) -> Graph:
        """The condition or the body after the graph passes."""
        graph = self._original(attr)
        variables: dict[str, Variable] = {}
        shapes: dict[str, Shape] = {}
        for i, (arg, ref) in enumerate(zip(graph.args, self.loop.inputs, strict=True)):
            variable = self.context.variable(self.graph, ref)
            if variable is not None and variable.handle:
                variables[arg.name] = variable
            shape = self.types[ref].shape if ref in self.types else None
            if shape is not None:
                # What is carried may come in with other dims than it has later.
                shapes[arg.name] = shape if i in self.fixed else (None,) * len(shape)
        return pipeline.run(graph, PassContext(variables, shapes, self.context.budget))

    def _new_loop(self) -> Node:
        """The loop with the arguments that it needs; its functions go into the library."""
        loop = self.loop
        sources = [loop.inputs[i] for i in self.kept]
        dtypes = [dtype_of(self.graph, self.types, ref) for ref in sources]
        hoisted: list[tuple[Graph, Node]] = [
            (function, node)
            for function in (self.condition, self.body)
            for node in function
            if node.op == "Const" and not is_literal(node)
        ]
        for _, node in hoisted:
            constant = node.copy()
            constant.name = self._unique(f"{loop.name}/{node.name}")
            constant.controls = []
            self.constants.append(constant)
            sources.append(TensorRef(constant.name))
            dtypes.append(constant.attrs["dtype"].type)
        prefix = f"{LOOP_PREFIX}{self._number()}"
        new = Node(loop.name, "StatelessWhile", sources)
        for attr, function in (("cond", self.condition), ("body", self.body)):
            name = f"{prefix}_{attr}"
            own = {
                node.name: len(self.kept) + i
                for i, (owner, node) in enumerate(hoisted)
                if owner is function
            }
            self._add(name, self._rebuilt(function, name, dtypes, own, is_body=attr == "body"))
            new.attrs[attr] = _Attr()
            new.attrs[attr].func.name = name
        new.attrs["T"] = _Attr()
        new.attrs["T"].list.type.extend(dtypes)
        new.attrs.update({k: v for k, v in loop.attrs.items() if k in _KEPT_ATTRS})
        new.attrs["output_shapes"] = _Attr(list=_Attr.ListValue())
        self.prefix = prefix
        return new

    def _rebuilt(
        self, function: Graph, name: str, dtypes: list[int], hoisted: dict[str, int], is_body: bool
    ) -> function_pb2.FunctionDef:
        """The condition or the body with the new arguments."""
        old = [arg.name for arg in function.args]
        args = [old[i] for i in self.kept]
        args += [function.unique_name(f"constant_{i}") for i in range(len(args), len(dtypes))]
        moved = {TensorRef(constant): TensorRef(args[i]) for constant, i in hoisted.items()}
        outputs = [ref for _, ref in function.outputs]
        if is_body:
            outputs = [outputs[i] for i in self.kept]
            outputs += [TensorRef(arg) for arg in args[len(self.kept) :]]
        nodes: list[Node] = []
        for node in _needed(function, outputs):
            if node.op != ARG and node.name not in hoisted:
                copy = node.copy()
                copy.inputs = [moved.get(ref, ref) for ref in node.inputs]
                copy.controls = []  # nothing in it has an effect
                nodes.append(copy)
        results = [
            (f"output_{i}", dtypes[i] if is_body else types_pb2.DT_BOOL, moved.get(ref, ref))
            for i, ref in enumerate(outputs)
        ]
        arguments = zip(args, dtypes, strict=True)
        return Graph.new_function(name, self.library, arguments, results, nodes).to_function_def()

    def _collect(self, loop: Node) -> None:
        """The nodes of the function around the loop, its arguments and its results."""
        graph = self.graph
        readers = _readers(graph)
        fetched = {ref for _, ref in graph.outputs}
        inside: dict[str, Node] = {}
        self.readers: list[Node] = []
        dtypes = zip(loop.inputs, loop.attrs["T"].list.type, strict=True)
        lists = [ref for ref, dtype in dtypes if dtype == types_pb2.DT_VARIANT]
        for ref in lists:
            maker = graph.nodes[ref.node]
            if maker.op not in _MAKE_LISTS:
                raise UnsupportedError(f"a list that {maker.op} gives", maker.name)
            inside[maker.name] = maker
            if maker.op in _CHANGE_LISTS:
                lists.append(maker.inputs[0])
        self.makers = list(inside)
        inside[loop.name] = loop
        self.moved: dict[TensorRef, TensorRef] = {}
        self.results: list[tuple[TensorRef, TensorRef]] = []  # in the graph, in the function
        for old, source in enumerate(self.loop.inputs):
            ref = TensorRef(self.loop.name, old)
            used = bool(readers.get(ref)) or ref in fetched
            if not used:
                continue
            if old in self.fixed:
                self.moved[ref] = source
                continue
            new = TensorRef(loop.name, self.kept.index(old))
            if dtype_of(graph, self.types, source) != types_pb2.DT_VARIANT:
                self.results.append((ref, new))
                continue
            if ref in fetched:
                raise UnsupportedError("it returns a list", self.loop.name)
            for reader in readers[ref]:
                if reader.op not in _READ_LISTS:
                    raise UnsupportedError(f"{reader.op} reads a list of it", reader.name)
                copy = reader.copy()
                copy.inputs[0] = new
                inside[reader.name] = copy
                self.readers.append(reader)
                self.results.append((TensorRef(reader.name), TensorRef(reader.name)))
        if not graph.is_function:
            gone = {self.loop.name, *(r.name for r in self.readers)}
            if any(ref.node in gone for ref in fetched):
                raise UnsupportedError("its results are fetched by name", self.loop.name)
        if not self.results:
            raise UnsupportedError("nothing reads its results", self.loop.name)
        self._assemble(inside)

    def _assemble(self, inside: dict[str, Node]) -> None:
        """Copies small constants into the function; what else it reads becomes arguments."""
        constants = {node.name: node for node in self.constants}
        arguments: dict[TensorRef, str] = {}
        nodes: dict[str, Node] = {}
        for node in inside.values():
            copy = node.copy()
            copy.controls, copy.device = [], ""
            copy.attrs = {
                k: v for k, v in node.attrs.items() if not k.startswith("_") or k in _KEPT_ATTRS
            }
            for i, ref in enumerate(node.inputs):
                if ref.node in inside:
                    continue
                source = constants.get(ref.node) or self.graph.nodes[ref.node]
                if is_literal(source):
                    literal = source.copy()
                    literal.controls, literal.device = [], ""
                    literal.attrs = {k: v for k, v in source.attrs.items() if not k.startswith("_")}
                    nodes.setdefault(source.name, literal)
                    continue
                if node.op in _READ_LISTS and (node.op, i) != _INDICES:
                    raise UnsupportedError("the shape of a list's elements is computed", node.name)
                if node.op in _READ_LISTS and self._follows_loop(ref):
                    raise UnsupportedError("reads a list where its results say", node.name)
                name = arguments.setdefault(ref, f"argument_{len(arguments)}")
                copy.inputs[i] = TensorRef(name)
            nodes[node.name] = copy
        dtypes = [self._dtype(ref) for ref in arguments]
        results = [
            (f"result_{i}", dtype_of(self.graph, self.types, outer), inner)
            for i, (outer, inner) in enumerate(self.results)
        ]
        self.arguments = list(arguments)
        taken = set(nodes) & set(arguments.values())
        if taken:
            raise UnsupportedError("its nodes have the names of arguments", self.loop.name)
        self.function = Graph.new_function(
            self.prefix,
            self.library,
            zip(arguments.values(), dtypes, strict=True),
            results,
            nodes.values(),
        )

    def _follows_loop(self, ref: TensorRef) -> bool:
        """Whether the tensor depends on the loop."""
        found: set[str] = set()
        todo = [ref.node]
        while todo:
            name = todo.pop()
            if name not in found and name in self.graph.nodes:
                found.add(name)
                node = self.graph.nodes[name]
                todo += [*(source.node for source in node.inputs), *node.controls]
        return self.loop.name in found

    def _dtype(self, ref: TensorRef) -> int:
        for node in self.constants:
            if node.name == ref.node:
                return node.attrs["dtype"].type
        return dtype_of(self.graph, self.types, ref)

    def _try(self) -> None:
        """Lowers the function by itself."""
        shapes = {
            arg.name: self._info(ref).shape
            for arg, ref in zip(self.function.args, self.arguments, strict=True)
        }
        fdef = self.function.to_function_def()
        self._add(self.prefix, fdef)
        self.function.library = self.library
        lower_graph(self.function, infer_types(self.function, shapes), self.prefix)

    def _info(self, ref: TensorRef) -> TensorInfo:
        for node in self.constants:
            if node.name == ref.node:
                return _constant_info(node)
        return self.types[ref]

    # -- the graph ------------------------------------------------------------------------

    def put_in_place(self) -> str:
        """Replaces the loop by a call of the function; the call's name."""
        graph = self.graph
        library = cast("dict[str, function_pb2.FunctionDef]", graph.library)
        library.update({name: self.library[name] for name in self.functions})
        for node in self.constants:
            graph.add(node)
            self.types[TensorRef(node.name)] = _constant_info(node)
        gone = [self.loop.name, *(reader.name for reader in self.readers)]
        controls = dict.fromkeys(c for n in gone for c in graph.nodes[n].controls if c not in gone)
        call = Node(
            graph.unique_name(f"{self.loop.name}/loop"),
            "PartitionedCall",
            list(self.arguments),
            list(controls),
        )
        call.device = self.loop.device
        call.attrs["f"] = _Attr()
        call.attrs["f"].func.name = self.prefix
        for key, dtypes in (
            ("Tin", [self._dtype(ref) for ref in self.arguments]),
            ("Tout", [dtype_of(graph, self.types, outer) for outer, _ in self.results]),
        ):
            call.attrs[key] = _Attr()
            call.attrs[key].list.type.extend(dtypes)
        graph.add(call)
        for i, (outer, _) in enumerate(self.results):
            self.types[TensorRef(call.name, i)] = self.types[outer]
            self.moved[outer] = TensorRef(call.name, i)
        graph.redirect(self.moved)
        for node in graph:
            if any(c in gone for c in node.controls):
                kept = dict.fromkeys(call.name if c in gone else c for c in node.controls)
                node.controls = list(kept)
        # Nothing in it has an effect: it need not run for its own sake.
        graph.control_outputs = [
            (key, name) for key, name in graph.control_outputs if name not in gone
        ]
        for name in gone:
            del graph.nodes[name]
        self._drop_unread_makers()
        return call.name

    def _drop_unread_makers(self) -> None:
        """Removes the makers of the loop's lists that nothing reads any more, last ones first."""
        for name in self.makers:
            read = {ref.node for node in self.graph for ref in node.inputs}
            read |= {c for node in self.graph for c in node.controls}
            read |= {ref.node for _, ref in self.graph.outputs}
            read |= {name for _, name in self.graph.control_outputs}
            if name not in read:
                del self.graph.nodes[name]

    # -- names ----------------------------------------------------------------------------

    def _add(self, name: str, fdef: function_pb2.FunctionDef) -> None:
        self.library[name] = fdef
        self.functions.append(name)

    def _number(self) -> int:
        number = 0
        while any(f"{LOOP_PREFIX}{number}{end}" in self.library for end in ("", "_body", "_cond")):
            number += 1
        return number

    def _unique(self, name: str) -> str:
        taken = {node.name for node in self.constants}
        found, number = self.graph.unique_name(name), 0
        while found in taken:
            number += 1
            found = self.graph.unique_name(f"{name}_{number}")
        return found


def _require_pure(function: Graph) -> None:
    """Raises UnsupportedError for an effect in the function or in what it calls, and for constants
    that only the function itself can hand out."""
    for node in function:
        called = calls(node, function.library)
        if not called and node.op != ARG and function.is_stateful(node):
            raise UnsupportedError(f"its {node.op} is stateful", node.name)
        for call in called:
            body = Graph.from_function_def(function.library[call.function], function.library)
            _require_pure(body)
            if any(inner.op == "Const" and not is_literal(inner) for inner in body):
                raise UnsupportedError("a large constant in a function that it calls", node.name)


def _source(function: Graph, ref: TensorRef) -> str:
    """The node that gives the tensor, behind Identities."""
    while function.nodes[ref.node].op == "Identity":
        ref = function.nodes[ref.node].inputs[0]
    return ref.node


def _read(function: Graph, outputs: Iterable[TensorRef]) -> set[int]:
    """Numbers of the arguments that nodes read or that the outputs are."""
    refs = [ref for node in function if node.op != "Identity" for ref in node.inputs]
    found = {_source(function, ref) for ref in [*refs, *outputs]}
    return {i for i, arg in enumerate(function.args) if arg.name in found}


def _needed(function: Graph, outputs: Iterable[TensorRef]) -> list[Node]:
    """The nodes that the outputs depend on, in the function's order."""
    found: set[str] = set()
    todo = [ref.node for ref in outputs]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += [ref.node for ref in function.nodes.get(name, Node(name, ARG)).inputs]
    return [node for node in function if node.name in found]


def _readers(graph: Graph) -> dict[TensorRef, list[Node]]:
    found: dict[TensorRef, list[Node]] = {}
    for node in graph:
        for ref in dict.fromkeys(node.inputs):
            found.setdefault(ref, []).append(node)
    return found


def _constant_info(node: Node) -> TensorInfo:
    tensor = node.attrs["value"].tensor
    shape = tuple(dim.size for dim in tensor.tensor_shape.dim)
    return TensorInfo(tf.dtypes.as_dtype(tensor.dtype), shape)
