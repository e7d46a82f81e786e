"""Finding the lookups of a graph: which tensors they give, and which of them go into one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tf_blade.feature_column import rules  # noqa: F401  # registers what ops mean
from tf_blade.feature_column.build import Found, build
from tf_blade.feature_column.interpret import Interpreter, VocabularyOf
from tf_blade.feature_column.values import Dims, Piece
from tf_blade.graph.effects import has_effect
from tf_blade.graph.graph import Graph, TensorRef
from tf_blade.graph.shapes import Types


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
    m = Interpreter(graph, types, vocabulary_of, frozenset(excluded or ()))
    roots = _roots(m)
    return Recognised([build(m, group) for group in _groups(m, roots)], frozenset(m.behind))


def _roots(m: Interpreter) -> list[tuple[TensorRef, Piece]]:
    """The last tensors, on the way to what the graph gives, that lookups can give."""
    graph = m.graph
    todo = [ref for _, ref in graph.outputs]
    todo += [TensorRef(name) for _, name in graph.control_outputs]
    if graph.is_function:
        todo += [TensorRef(node.name) for node in graph if has_effect(graph, node)]
    roots: dict[TensorRef, Piece] = {}
    seen: set[str] = set()
    todo.reverse()
    while todo:
        ref = todo.pop()
        piece = m.value(ref)
        if isinstance(piece, Piece) and len(piece.rows) == len(piece.row_dims):
            roots[ref] = piece
            continue
        if ref.node in seen:
            continue
        seen.add(ref.node)
        node = graph.nodes[ref.node]
        todo += [TensorRef(name) for name in node.controls] + node.inputs[::-1]
    return list(roots.items())


def _groups(
    m: Interpreter, roots: list[tuple[TensorRef, Piece]]
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
    groups: dict[Dims, list[tuple[TensorRef, Piece]]] = {}
    for ref, piece in roots:
        groups.setdefault(find(piece.row_dims), []).append((ref, piece))
    return list(groups.values())
