"""The pass that puts one op in the place of each lookup's subgraph.

    columns …, ConcatV2   ->  BladeLookup(inputs, tables, what only the fallback reads)

The original nodes are copied into the op's fallback function; those that nothing else needs are
pruned. Stays: what has an effect or waits for something, what reads a variable that this graph
assigns, v1 control flow, other devices than the CPU, and a lookup of a single op.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import cast

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, function_pb2, types_pb2

from tf_blade.clustering import devices
from tf_blade.clustering.company import find_company
from tf_blade.feature_column.bounds import add_bounds
from tf_blade.feature_column.build import Found
from tf_blade.feature_column.counts import counts_as_floats
from tf_blade.feature_column.finds import add_finds
from tf_blade.feature_column.interpret import Interpreter, VocabularyOf
from tf_blade.feature_column.recognise import found_in, interpret
from tf_blade.feature_column.spec import Bag, Dense, Lookup
from tf_blade.feature_column.split import split_joins
from tf_blade.graph.constants import const_bytes
from tf_blade.graph.control_flow import v1_controlled
from tf_blade.graph.effects import READS, has_effect
from tf_blade.graph.graph import Graph, Node, TensorRef, op_def
from tf_blade.graph.shapes import Types
from tf_blade.graph.types import ARG, Shape, TensorInfo
from tf_blade.passes import PassContext
from tf_blade.passes.order import ordered_nodes
from tf_blade.passes.prune import prune
from tf_blade.report import ColumnReport

_Attr = attr_value_pb2.AttrValue

# Grappler leaves functions with this attribute alone. It would spend most of the time that a server
# takes to load the model on a function that hardly ever runs.
_NOT_OPTIMIZED = "_tf_data_function"
# Constants up to this size are copied into the fallback, larger ones are passed to it.
_COPIED_BYTES = 4096
_INPUT_OPS = (ARG, "Placeholder", "PlaceholderWithDefault", "PlaceholderV2")
_FAILS = frozenset({"Assert"})
_BRANCHES = ("then_branch", "else_branch")
# Ops of columns, for the report of those that were not fused.
_COLUMN_OPS = ("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN", "ResourceGather")


@dataclass(frozen=True)
class LookupCall:
    """Everything a node needs that stands for a lookup; `make_node` turns it into the node.

    Attributes:
      inputs: the lookup's, then those of the fallback alone.
      fallback: name of the function, which takes all inputs.
    """

    name: str
    lookup: Lookup
    fallback: str
    inputs: list[TensorRef]
    input_dtypes: list[int]
    output_dtypes: list[int]
    output_shapes: list[Shape]
    device: str


def blade_lookup_node(call: LookupCall) -> Node:
    """The BladeLookup node of a call."""
    from tf_blade.feature_column.text import encode

    shapes = [tf.TensorShape(shape).as_proto() for shape in call.output_shapes]
    attrs = {
        "Tin": _Attr(list=_Attr.ListValue(type=call.input_dtypes)),
        "Tout": _Attr(list=_Attr.ListValue(type=call.output_dtypes)),
        "lookup": _Attr(s=encode(call.lookup).encode()),
        "fallback": _Attr(func=attr_value_pb2.NameAttrList(name=call.fallback)),
        "output_shapes": _Attr(list=_Attr.ListValue(shape=shapes)),
        "columns": _Attr(s=call.name.encode()),
    }
    return Node(call.name, "BladeLookup", list(call.inputs), [], attrs, call.device)


def raise_lookups(
    graph: Graph,
    types: Types,
    ctx: PassContext,
    vocabulary_of: VocabularyOf = lambda _: None,
    *,
    first: int = 0,
    served: Sequence[Collection[str]] = (),
    make_node: Callable[[LookupCall], Node] = blade_lookup_node,
) -> tuple[Graph, list[ColumnReport]]:
    """Replaces lookups by one node each, named blade_lookup_N.

    Args:
      graph: inlined and frozen (`passes.pipeline`). Not changed; its library gets the fallbacks.
      types: of its tensors.
      ctx: facts about its variables.
      vocabulary_of: contents of the table behind a resource tensor, where they are known.
      first: number of the first node, so that names are unique in a model of several graphs.
      served: in a main graph, for each signature the names of its outputs in `graph.outputs`.
      make_node: builds the node; for tests and for other ops.

    Returns: the graph, and a line for each column.
    """
    excluded = excluded_nodes(graph, ctx)
    graph, values = prepare(graph, types, ctx, vocabulary_of, excluded)
    found = found_in(values, find_company(graph, served) if served else None)
    result = graph.copy()
    columns: list[ColumnReport] = []
    added = 0
    for lookup in found.lookups:
        cone = _Cone(graph, lookup, excluded)
        reason = cone.refusal(found.behind)
        columns += [
            ColumnReport(bag.column, kind, reason == "", reason)
            for bag, kind in _kinds(lookup.lookup)
        ]
        if reason:
            continue
        name = graph.unique_name(f"blade_lookup_{first + added}")
        node = make_node(cone.call(name, types))
        result.add(node)
        mapping = {ref: TensorRef(node.name, i) for i, ref in enumerate(lookup.outputs)}
        result.redirect(mapping)
        for ref, new in mapping.items():
            types[new] = TensorInfo(tf.float32, types[ref].shape)
        added += 1
    result = prune(result, ctx)
    known = {column.name for column in columns}
    for node in result:
        if node.op in _COLUMN_OPS and node.name not in known:
            columns.append(ColumnReport(node.name, "embedding", False, _why(graph, node, excluded)))
    return result, columns


def prepare(
    graph: Graph,
    types: Types,
    ctx: PassContext,
    vocabulary_of: VocabularyOf,
    excluded: dict[str, str],
) -> tuple[Graph, Interpreter]:
    """The graph with what lookups need added to it, and what is known of its tensors.

    Args:
      graph: not changed.
      types: of its tensors; those of new nodes are added.
      excluded: nodes that must run where they are.
    """
    variables = {name: variable.shape for name, variable in ctx.variables.items()}
    bounds: dict[TensorRef, TensorRef] = {}
    finds: dict[TensorRef, TensorRef] = {}

    def look(graph: Graph) -> Interpreter:
        return interpret(graph, types, vocabulary_of, excluded, bounds, variables, finds)

    values = look(graph)
    graph, bounds = add_bounds(graph, values)
    graph, finds = add_finds(graph, values)
    counted = counts_as_floats(graph, values)
    if bounds or finds or counted is not None:
        graph = counted or graph
        types.update(ctx.types(graph))
        values = look(graph)
    split = split_joins(graph, values)
    if split is not None:
        graph = split
        types.update(ctx.types(graph))
        values = look(graph)
    return graph, values


def _why(graph: Graph, node: Node, excluded: dict[str, str]) -> str:
    if node.name in excluded:
        return excluded[node.name]
    if graph.output_dtypes(node)[0] != types_pb2.DT_FLOAT:
        return "its table is not float32"
    return "its ids, weights or rows come about in a way that is not recognised"


def _kinds(lookup: Lookup) -> list[tuple[Bag, str]]:
    """The bags, each with a word for its kind."""
    added = {part.bag for output in lookup.outputs if output.add for part in output.parts}
    found = []
    for i, bag in enumerate(lookup.bags):
        source = lookup.streams[bag.stream].source
        if bag.table is None:
            kind = "indicator"
        elif i in added and bag.dim == 1:
            kind = "linear"
        elif isinstance(source, Dense) and (source.per_element or bag.combiner == "sum"):
            kind = "gather" if source.per_element else "embedding"
        else:
            kind = "embedding"
        found.append((bag, kind))
    return found


def excluded_nodes(graph: Graph, ctx: PassContext) -> dict[str, str]:
    """Nodes that must run where they are, with the reasons."""
    found: dict[str, str] = {}
    ordered = ordered_nodes(graph, ctx)
    controlled = v1_controlled(graph)
    for node in graph:
        awaited = next((name for name in node.controls if not _only_fails(graph, name)), "")
        if awaited:
            found[node.name] = f"it waits for '{awaited}'"
        elif node.name in controlled:
            found[node.name] = "it is inside v1 control flow"
        elif has_effect(graph, node):
            found[node.name] = "it has an effect"
        elif node.name in ordered:
            found[node.name] = "it reads a variable that the graph assigns"
        elif not devices.is_cpu(devices.parse(node.device)):
            found[node.name] = f"it is placed on {node.device}"
    return found


def _only_fails(graph: Graph, name: str) -> bool:
    """Whether a node is an Assert that runs anyway, or stands for such: then nothing needs to wait
    for it, and where it fails no answer counts."""
    node = graph.nodes[name]
    if not graph.is_function:
        return False  # what nothing waits for does not run
    if node.op == "NoOp":
        return bool(node.controls) and all(_only_fails(graph, c) for c in node.controls)
    if node.op == "If":  # an Assert in one of its branches
        branches = (graph.library[node.attrs[key].func.name] for key in _BRANCHES)
        inside = {item.op for branch in branches for item in branch.node_def}
        return all(
            op in READS or not op_def(op, graph.library).is_stateful for op in inside - _FAILS
        )
    return node.op in _FAILS


class _Cone:
    """The nodes that compute a lookup's outputs, and what they read from outside."""

    def __init__(self, graph: Graph, found: Found, excluded: dict[str, str]) -> None:
        self._graph = graph
        self._found = found
        self._excluded = excluded
        self._nodes: list[Node] = []
        self._given = dict.fromkeys(found.inputs)
        self._extra: dict[TensorRef, None] = {}
        seen: set[str] = set()
        for ref in found.outputs:
            self._walk(ref, seen)

    def _walk(self, root: TensorRef, seen: set[str]) -> None:
        if root.node in seen:
            return
        seen.add(root.node)
        stack = [(root.node, 0)]
        while stack:
            name, slot = stack.pop()
            node = self._graph.nodes[name]
            if slot == len(node.inputs):
                self._nodes.append(node)
                continue
            stack.append((name, slot + 1))
            ref = node.inputs[slot]
            if ref in self._given:
                continue
            if self._is_outside(ref):
                self._extra[ref] = None
            elif ref.node not in seen:
                seen.add(ref.node)
                stack.append((ref.node, 0))

    def _is_outside(self, ref: TensorRef) -> bool:
        node = self._graph.nodes[ref.node]
        if node.name in self._excluded or node.op in _INPUT_OPS:
            return True
        if self._graph.output_dtypes(node)[ref.index] == types_pb2.DT_RESOURCE:
            return True
        return node.op == "Const" and const_bytes(node) > _COPIED_BYTES

    def refusal(self, behind: frozenset[str]) -> str:
        """Why the nodes can't be replaced; "" if they can."""
        if sum(node.op != "Const" for node in self._nodes) < 2:
            return "it is one op already"
        for ref in self._extra:
            if ref.node in behind:
                return f"its fallback would need '{ref.node}', which depends on a lookup"
        return ""

    def call(self, name: str, types: Types) -> LookupCall:
        """The call; its fallback goes into the library."""
        inputs = [*self._given, *self._extra]
        outputs = list(self._found.outputs)
        device = devices.ANYWHERE
        for node in self._nodes:
            device = devices.combine(device, devices.parse(node.device)) or device
        return LookupCall(
            name,
            self._found.lookup,
            self._fallback(inputs),
            inputs,
            [self._dtype(ref) for ref in inputs],
            [types_pb2.DT_FLOAT] * len(outputs),
            [types[ref].shape for ref in outputs],
            devices.text(device),
        )

    def _dtype(self, ref: TensorRef) -> int:
        return self._graph.output_dtypes(self._graph.nodes[ref.node])[ref.index] % 100

    def _fallback(self, inputs: list[TensorRef]) -> str:
        """Name of the function of the original nodes, put into the library."""
        graph = self._graph
        prefix = "input"
        while any(node.name.startswith(f"{prefix}_") for node in self._nodes):
            prefix += "_x"
        argument = {ref: TensorRef(f"{prefix}_{i}") for i, ref in enumerate(inputs)}
        copies = []
        for node in self._nodes:
            attrs = {k: v for k, v in node.attrs.items() if not k.startswith("_") or k == "_kernel"}
            reads = [argument.get(ref, ref) for ref in node.inputs]
            copies.append(Node(node.name, node.op, reads, [], attrs))
        function = Graph.new_function(
            "blade_lookup_fallback",
            graph.library,
            [(argument[ref].node, self._dtype(ref)) for ref in inputs],
            [
                (f"output_{i}", types_pb2.DT_FLOAT, argument.get(ref, ref))
                for i, ref in enumerate(self._found.outputs)
            ],
            copies,
        )
        fdef = function.to_function_def()
        fdef.attr[_NOT_OPTIMIZED].b = True
        digest = hashlib.sha256(fdef.SerializeToString(deterministic=True)).hexdigest()
        fdef.signature.name = f"{fdef.signature.name}_{digest[:16]}"
        library = cast("dict[str, function_pb2.FunctionDef]", graph.library)
        library.setdefault(fdef.signature.name, fdef)
        return fdef.signature.name
