"""Where a graph computes what a pattern does, by data flow: names of nodes say nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tf_blade.graph.constants import const_value
from tf_blade.graph.graph import Attrs, Graph, Node, TensorRef, default_attrs
from tf_blade.graph.shapes import Types
from tf_blade.graph.types import ARG, TensorInfo
from tf_blade.patterns.registry import Pattern

_COMMUTATIVE = frozenset(
    "Add AddV2 Mul Maximum Minimum SquaredDifference Equal NotEqual LogicalAnd LogicalOr".split()
)

# What is still to be found: a tensor of the pattern, and the graph's that has to be it, or any.
_Todo = tuple[tuple[TensorRef, TensorRef | None], ...]


@dataclass(frozen=True)
class Match:
    """A place in a graph.

    members: names of the nodes that compute it, without constants. args, outputs: the tensors that
    are the pattern's arguments and results, in order.
    """

    members: frozenset[str]
    args: tuple[TensorRef, ...]
    outputs: tuple[TensorRef, ...]


def find_matches(graph: Graph, types: Types, pattern: Pattern) -> list[Match]:
    """Places that share no node, those that are computed first before others."""
    matcher = _Matcher(graph, types, pattern)
    results = [ref for _, ref in pattern.graph.outputs]
    op = pattern.graph.nodes[results[0].node].op
    matches: list[Match] = []
    taken: set[str] = set()
    for node in graph.topological_order():
        if node.op != op:
            continue
        first = (results[0], TensorRef(node.name, results[0].index))
        for match in matcher.solve((first, *((ref, None) for ref in results[1:]))):
            if not match.members & taken:
                matches.append(match)
                taken |= match.members
                break
    return matches


class _Matcher:
    def __init__(self, graph: Graph, types: Types, pattern: Pattern) -> None:
        self.graph, self.types, self.pattern = graph, types, pattern
        self.info = dict(zip((a.name for a in pattern.graph.args), pattern.args, strict=True))

    def solve(self, todo: _Todo) -> Iterator[Match]:
        """Every way to find all of `todo`."""
        for nodes, args in self._solve(todo, {}, {}):
            match = self._match(nodes, args)
            if match is not None:
                yield match

    def _match(self, nodes: Mapping[str, str], args: Mapping[str, TensorRef]) -> Match | None:
        members = frozenset(n for n in nodes.values() if self.graph.nodes[n].op != "Const")
        given = tuple(args[arg.name] for arg in self.pattern.graph.args)
        if len(set(given)) < len(given) or any(ref.node in members for ref in given):
            return None
        outputs = tuple(
            TensorRef(nodes[ref.node], ref.index) for _, ref in self.pattern.graph.outputs
        )
        return Match(members, given, outputs)

    def _solve(
        self, todo: _Todo, nodes: dict[str, str], args: dict[str, TensorRef]
    ) -> Iterator[tuple[dict[str, str], dict[str, TensorRef]]]:
        """nodes, args: what the pattern's nodes and arguments are in the graph, so far."""
        if not todo:
            yield nodes, args
            return
        (wanted, found), rest = todo[0], todo[1:]
        own = self.pattern.graph.nodes[wanted.node]
        if found is None:
            known = nodes.get(own.name)
            names = [n.name for n in self.graph if n.op == own.op] if known is None else [known]
            for name in names:
                first = (wanted, TensorRef(name, wanted.index))
                yield from self._solve((first, *rest), nodes, args)
        elif own.op == ARG:
            if own.name in args:
                if args[own.name] == found:
                    yield from self._solve(rest, nodes, args)
            elif self._fits(self.info[own.name], found):
                yield from self._solve(rest, nodes, {**args, own.name: found})
        elif own.name in nodes:
            if found == TensorRef(nodes[own.name], wanted.index):
                yield from self._solve(rest, nodes, args)
        elif found.index == wanted.index and self._same(own, self.graph.nodes[found.node]):
            if own.op != "Const" and found.node in nodes.values():
                return
            inputs = self.graph.nodes[found.node].inputs
            orders = [inputs, inputs[::-1]] if own.op in _COMMUTATIVE else [inputs]
            for order in orders:
                more = tuple(zip(own.inputs, order, strict=True))
                yield from self._solve((*more, *rest), {**nodes, own.name: found.node}, args)

    def _fits(self, info: TensorInfo, ref: TensorRef) -> bool:
        known = self.types.get(ref)
        if known is None or known.dtype != info.dtype:
            return False
        if known.shape is None or info.shape is None:
            return True
        pairs = zip(known.shape, info.shape, strict=False)
        return len(known.shape) == len(info.shape) and all(
            a is None or b is None or a == b for a, b in pairs
        )

    @staticmethod
    def _same(own: Node, node: Node) -> bool:
        """Whether both nodes do the same to their inputs."""
        if own.op != node.op or len(own.inputs) != len(node.inputs):
            return False
        if own.op == "Const":
            a, b = const_value(own), const_value(node)
            assert a is not None and b is not None
            return a.dtype == b.dtype and a.shape == b.shape and bool(np.array_equal(a, b))
        return _public(own) == _public(node)


def _public(node: Node) -> Attrs:
    attrs = {**default_attrs(node.op), **node.attrs}
    return {name: value for name, value in attrs.items() if not name.startswith("_")}
