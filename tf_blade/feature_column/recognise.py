"""Finding the lookups of a graph: which tensors they give, and which of them go into one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tf_blade.feature_column import rules  # noqa: F401  # registers what ops mean
from tf_blade.feature_column.build import Found, build
from tf_blade.feature_column.interpret import Interpreter, VocabularyOf
from tf_blade.feature_column.rules.shapes import constant_axis
from tf_blade.feature_column.values import Counts, Dims, Piece
from tf_blade.graph.effects import has_effect
from tf_blade.graph.graph import Graph, Node, TensorRef
from tf_blade.graph.shapes import Types
from tf_blade.graph.types import Shape


@dataclass(frozen=True)
class Recognised:
    """What was found.

    Attributes:
      lookups: none of them depends on another.
      behind: nodes that depend on rows of tables.
    """

    lookups: list[Found]
    behind: frozenset[str]


def recognise(
    graph: Graph,
    types: Types,
    vocabulary_of: VocabularyOf = lambda _: None,
    excluded: Mapping[str, str] | None = None,
) -> Recognised:
    """Finds the lookups of a graph.

    Args:
      graph, types: a function body or main graph. Not changed.
      vocabulary_of: contents of the table behind a resource tensor, where they are known.
      excluded: nodes that no lookup may stand for, with the reasons.
    """
    return found_in(interpret(graph, types, vocabulary_of, excluded or {}))


def found_in(m: Interpreter, company: Mapping[str, int] | None = None) -> Recognised:
    """The lookups of a graph whose abstract values are known.

    Args:
      company: nodes of different numbers share no lookup (`clustering.company`).
    """
    lookups = [build(m, group) for group in _groups(m, _roots(m), company or {})]
    return Recognised(lookups, frozenset(m.behind))


def interpret(
    graph: Graph,
    types: Types,
    vocabulary_of: VocabularyOf,
    excluded: Mapping[str, str],
    bounds: Mapping[TensorRef, TensorRef] | None = None,
    variables: Mapping[str, Shape] | None = None,
    finds: Mapping[TensorRef, TensorRef] | None = None,
) -> Interpreter:
    """The abstract values of a graph's tensors.

    Args:
      bounds: as `bounds.add_bounds` gives them.
      variables: shapes of variables by the node that stands for each.
      finds: as `finds.add_finds` gives them.
    """
    plain: frozenset[TensorRef] = frozenset()
    while True:
        m = Interpreter(
            graph, types, vocabulary_of, frozenset(excluded), plain, bounds, variables, finds
        )
        if m.wanted_plain <= plain:
            return m
        plain |= m.wanted_plain


def last_counts(m: Interpreter) -> list[TensorRef]:
    """The last tensors, on the way to what the graph gives, that lookups can give as integers."""
    return [ref for ref, value in _last(m) if isinstance(value, Counts)]


def _roots(m: Interpreter) -> list[tuple[TensorRef, Piece]]:
    """The last tensors, on the way to what the graph gives, that lookups can give."""
    return [(ref, value) for ref, value in _last(m) if isinstance(value, Piece)]


def _last(m: Interpreter) -> list[tuple[TensorRef, Piece | Counts]]:
    graph = m.graph
    todo = [ref for _, ref in graph.outputs]
    todo += [TensorRef(name) for _, name in graph.control_outputs]
    if graph.is_function:
        todo += [TensorRef(node.name) for node in graph if has_effect(graph, node)]
    found: dict[TensorRef, Piece | Counts] = {}
    seen: set[str] = set()
    todo.reverse()
    while todo:
        ref = todo.pop()
        value = m.value(ref)
        node = graph.nodes[ref.node]
        if isinstance(value, Counts) and node.op not in ("Cast", "Identity"):
            found[ref] = value  # those that are cast are found below
            continue
        if isinstance(value, Piece) and len(value.rows) == len(value.row_dims):
            found[ref] = value
            continue
        if ref.node in seen:
            continue
        seen.add(ref.node)
        todo += [TensorRef(name) for name in node.controls] + node.inputs[::-1]
    return list(found.items())


def _groups(
    m: Interpreter, roots: list[tuple[TensorRef, Piece]], company: Mapping[str, int]
) -> list[list[tuple[TensorRef, Piece]]]:
    """Those whose rows are as many: their dims are equal, or stand side by side in one tensor."""
    leader: dict[Dims, Dims] = {}

    def find(dims: Dims) -> Dims:
        while leader.setdefault(dims, dims) != dims:
            dims = leader[dims]
        return dims

    for _, piece in roots:
        for part in piece.parts:
            if part.bag is not None:
                leader[find(m.rows[part.bag.stream])] = find(piece.row_dims)
    for node in m.graph:
        if node.op in ("ConcatV2", "AddN"):
            joined = [v for v in map(m.value, node.inputs) if isinstance(v, Piece)]
            if node.op == "ConcatV2" and joined and not _joins_rows(m, node, joined[0]):
                continue
            for piece in joined[1:]:
                if len(piece.row_dims) == len(joined[0].row_dims):
                    leader[find(piece.row_dims)] = find(joined[0].row_dims)
    groups: dict[tuple[Dims, int | None], list[tuple[TensorRef, Piece]]] = {}
    for ref, piece in roots:
        key = find(piece.row_dims), company.get(ref.node)
        groups.setdefault(key, []).append((ref, piece))
    return list(groups.values())


def _joins_rows(m: Interpreter, node: Node, piece: Piece) -> bool:
    """Whether a ConcatV2 joins rows of equal number, and not one row after the other."""
    axis = constant_axis(m, node.inputs[-1], len(piece.dims))
    return axis is not None and axis >= len(piece.rows)
