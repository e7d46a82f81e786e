"""What each function argument is bound to: the variable, table or constant every caller passes.

A binding is found by following arguments from where a model's resources come in (captures of the
object graph's functions, calls in the main graph) through calls, conditionals and loops. An
argument has a binding only if all call sites agree on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from tensorflow.core.protobuf import saved_object_graph_pb2

from tf_blade.graph.calls import LOOPS, calls
from tf_blade.graph.graph import Graph, Library, Node, TensorRef
from tf_blade.saved_model.call_sites import PASS_THROUGH, CallSites, call_sites


class Source(NamedTuple):
    """Where a value comes from: a node of the object graph ("object") or main graph ("node")."""

    kind: str
    name: str


class _Anything:
    """Several different values, or one that only a run knows."""


ANYTHING = _Anything()
Value = Source | _Anything


class Bindings:
    """For every function of the library, what its arguments are bound to."""

    def __init__(
        self,
        library: Library,
        main: Graph,
        object_graph: saved_object_graph_pb2.SavedObjectGraph | None,
    ) -> None:
        """Args:
        library: all functions of the MetaGraph.
        main: the main graph, whose variables, tables and constants are the sources of a TF1 model.
        object_graph: of a TF2 model.
        """
        self._library = library
        self._values: dict[tuple[str, int], Value] = {}
        self._callers_changed: dict[str, None] = {}  # a set in order
        self._loops: dict[str, set[str]] = {}  # loop bodies, each with its conditions
        captured: set[str] = set()
        if object_graph is not None:
            for name, concrete in object_graph.concrete_functions.items():
                if name not in library:
                    continue
                captured.add(name)
                count = len(library[name].signature.input_arg)
                first = count - len(concrete.bound_inputs)
                for i in range(count):
                    bound = concrete.bound_inputs[i - first] if i >= first else None
                    value = ANYTHING if bound is None else Source("object", str(bound))
                    self._meet(name, i, value)
        for node in main:
            self._note_loop(node)
            for call in calls(node, library):
                if call.function not in captured:
                    self._pass(call.function, call.arguments, lambda ref: main_source(main, ref))
        self._propagate()

    def of(self, function: str) -> dict[str, Source]:
        """Bindings of a function's arguments, by argument name."""
        args = self._library[function].signature.input_arg
        found = {}
        for i, arg in enumerate(args):
            value = self._values.get((function, i))
            if isinstance(value, Source):
                found[arg.name] = value
        return found

    def at(self, function: str, index: int) -> Source | None:
        """What argument `index` is bound to, if anything."""
        value = self._values.get((function, index))
        return value if isinstance(value, Source) else None

    # -- the fixed point ------------------------------------------------------------------

    def _meet(self, function: str, index: int, value: Value) -> None:
        key = (function, index)
        old = self._values.get(key)
        new: Value = value if old is None or old == value else ANYTHING
        if new != old:
            self._values[key] = new
            self._callers_changed[function] = None

    def _pass(
        self,
        function: str,
        arguments: Iterable[TensorRef] | None,
        value_of: Callable[[TensorRef], Value | None],
    ) -> None:
        if function not in self._library:
            return
        count = len(self._library[function].signature.input_arg)
        refs = list(arguments) if arguments is not None else []
        for i in range(count):
            value = value_of(refs[i]) if len(refs) == count else ANYTHING
            if value is not None:
                self._meet(function, i, value)
        if count == 0 and (function, -1) not in self._values:
            self._meet(function, -1, ANYTHING)  # so that its own calls are looked at, once

    def _propagate(self) -> None:
        sites: dict[str, CallSites] = {}
        while self._callers_changed:
            caller, _ = self._callers_changed.popitem()
            if caller not in sites:
                sites[caller] = call_sites(self._library[caller], self._library)
            found = sites[caller]
            self._next_iteration(caller, found)

            def value_of(
                ref: TensorRef, caller: str = caller, found: CallSites = found
            ) -> Value | None:
                return self._value(caller, found, ref)

            for node in found.callers:
                self._note_loop(node)
                for call in calls(node, self._library):
                    self._pass(call.function, call.arguments, value_of)

    def _note_loop(self, node: Node) -> None:
        if node.op not in LOOPS:
            return
        body, cond = node.attrs["body"].func.name, node.attrs["cond"].func.name
        conds = self._loops.setdefault(body, set())
        if body in self._library and cond not in conds:
            conds.add(cond)
            self._callers_changed[body] = None

    def _next_iteration(self, body: str, sites: CallSites) -> None:
        """If the function is a loop's body, its next iteration takes what it returns."""
        if body not in self._loops:
            return
        for i, ref in enumerate(sites.results):
            value = self._value(body, sites, ref)
            if value is not None:
                for function in (body, *self._loops[body]):
                    self._meet(function, i, value)

    def _value(self, function: str, sites: CallSites, ref: TensorRef) -> Value | None:
        """What a tensor of a function body is; None while nothing is known of the argument."""
        argument = sites.argument(ref)
        return ANYTHING if argument is None else self._values.get((function, argument))


def resource_origin(graph: Graph, ref: TensorRef) -> TensorRef:
    """The tensor behind Identities."""
    while graph.nodes[ref.node].op in PASS_THROUGH:
        ref = graph.nodes[ref.node].inputs[0]
    return ref


def main_source(main: Graph, ref: TensorRef) -> Value:
    """What a tensor of the main graph is, if it is a resource or a constant."""
    origin = resource_origin(main, ref)
    node = main.nodes[origin.node]
    if node.op in ("VarHandleOp", "Const") or node.op.startswith(("HashTable", "MutableHashTable")):
        return Source("node", node.name)
    return ANYTHING
