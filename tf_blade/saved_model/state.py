"""A MetaGraph's state as passes need it: what variable a node stands for, and if it can change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tf_blade.graph.bodies import Bodies
from tf_blade.graph.graph import Graph, Node
from tf_blade.graph.names import parse_tensor_name
from tf_blade.saved_model.bindings import Bindings, Source
from tf_blade.saved_model.object_graph import object_functions
from tf_blade.saved_model.signatures import INIT_OP, TRAIN_OP
from tf_blade.saved_model.variables import (
    VARIABLE_OPS,
    Variable,
    ancestors,
    constant_variable,
    mark_arguments_written,
    mark_written,
    object_variables,
    saved_variables,
)
from tf_blade.saved_model.writes import Writes, resource_name

if TYPE_CHECKING:
    from tf_blade.saved_model.bundle import MetaGraph


class State:
    """Variables of one MetaGraph, by the nodes and arguments that stand for them."""

    def __init__(self, meta: MetaGraph, main: Graph, bodies: Bodies) -> None:
        self._main = main
        self._bindings = Bindings(bodies.library, main, meta.object_graph)
        self._named: dict[str, Variable] = {}
        self._objects: dict[int, Variable] = {}
        self._fed = {
            parse_tensor_name(name).node
            for signature in meta.signatures.values()
            for tensor in signature.inputs.values()
            for name in tensor.tensors
        }
        writes = Writes(bodies)
        if meta.object_graph is not None:
            self._objects = object_variables(meta.object_graph, main, meta.checkpoint)
            for function in object_functions(meta.object_graph):
                # TensorFlow runs the initialisers after it has restored the variables.
                if function.serves or function.path.endswith("/_initialize"):
                    self._mark(function.name, writes)
        elif meta.checkpoint is not None:
            restore = parse_tensor_name(meta.proto.saver_def.restore_op_name).node
            self._named = saved_variables(main, restore, meta.checkpoint)
            nodes = ancestors(main, _served_names(meta, main))
            mark_written(self._named, writes.of_nodes(main, nodes, "the main graph"))

    def main_variables(self) -> dict[str, Variable]:
        """Known variables of the main graph, by node name."""
        found = {}
        for node in self._main:
            variable = self._main_variable(node)
            if variable is not None and variable.handle:
                found[node.name] = variable
        return found

    def function_variables(self, function: str) -> dict[str, Variable]:
        """Known variables and constants that a function's arguments stand for, by argument name."""
        found = {}
        for argument, source in self._bindings.of(function).items():
            variable = self._variable(source)
            if variable is not None:
                found[argument] = variable
        return found

    def source(self, function: str, index: int) -> Source | None:
        """What all callers pass for argument `index`, if it is one variable, table or constant."""
        return self._bindings.at(function, index)

    def _variable(self, source: Source) -> Variable | None:
        if source.kind == "object":
            return self._objects.get(int(source.name))
        return self._main_variable(self._main.nodes[source.name])

    def _main_variable(self, node: Node) -> Variable | None:
        if node.op in VARIABLE_OPS:
            return self._named.get(resource_name(node))
        if node.op == "Const" and node.name not in self._fed:
            return constant_variable(node)
        return None

    def _mark(self, function: str, writes: Writes) -> None:
        if function in self._main.library:
            mark_arguments_written(
                self._objects,
                writes.of_function(function),
                lambda index: self._bindings.at(function, index),
            )


def _served_names(meta: MetaGraph, main: Graph) -> Iterable[str]:
    """What may run after the variables are restored: signatures, the init op, training ops."""
    names: set[str] = set()
    for signature in meta.signatures.values():
        for tensor in signature.outputs.values():
            names.update(tensor.tensors)
    for key in (INIT_OP, TRAIN_OP):
        if key in meta.proto.signature_def:
            names.update(info.name for info in meta.proto.signature_def[key].outputs.values())
    for key in ("saved_model_main_op", "legacy_init_op", "train_op"):
        if key in meta.proto.collection_def:
            names.update(meta.proto.collection_def[key].node_list.value)
    return [name for name in names if parse_tensor_name(name).node in main.nodes]
