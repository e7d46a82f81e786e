"""From pieces, which number things through the whole graph, to a `Lookup` with its own numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tf_blade.feature_column.interpret import Interpreter
from tf_blade.feature_column.sources import leaves_of
from tf_blade.feature_column.spec import (
    Bag,
    Cross,
    Dense,
    Expr,
    Lookup,
    Output,
    Part,
    Ragged,
    Source,
    Sparse,
    Stream,
    Table,
    Vocabulary,
)
from tf_blade.feature_column.values import Piece
from tf_blade.graph.graph import TensorRef


@dataclass(frozen=True)
class Found:
    """A lookup in a graph.

    Attributes:
      lookup: what it computes.
      inputs: the graph's tensors that are its inputs.
      outputs: the graph's tensors that its outputs equal.
    """

    lookup: Lookup
    inputs: tuple[TensorRef, ...]
    outputs: tuple[TensorRef, ...]


def build(m: Interpreter, pieces: Sequence[tuple[TensorRef, Piece]]) -> Found:
    """One lookup with an output for each piece."""
    builder = _Builder(m)
    outputs = tuple(builder.output(piece) for _, piece in pieces)
    lookup = Lookup(
        tuple(builder.dtypes),
        tuple(builder.streams),
        tuple(builder.bags),
        outputs,
        tuple(builder.vocabularies),
    )
    return Found(lookup, tuple(builder.inputs), tuple(ref for ref, _ in pieces))


@dataclass
class _Builder:
    """Gives numbers in order of first use."""

    m: Interpreter
    inputs: list[TensorRef] = field(default_factory=list)
    dtypes: list[str] = field(default_factory=list)
    streams: list[Stream] = field(default_factory=list)
    bags: list[Bag] = field(default_factory=list)
    vocabularies: list[Vocabulary] = field(default_factory=list)
    _inputs: dict[int, int] = field(default_factory=dict)
    _streams: dict[int, int] = field(default_factory=dict)
    _bags: dict[Bag, int] = field(default_factory=dict)
    _vocabularies: dict[int, int] = field(default_factory=dict)

    def output(self, piece: Piece) -> Output:
        parts: list[Part] = []
        offset = 0
        for part in piece.parts:
            if part.bag is not None:
                parts.append(Part(offset, part.width, bag=self._bag(part.bag)))
            else:
                assert part.dense is not None
                at = {leaf: self._input(leaf) for leaf in leaves_of([part.dense])}
                parts.append(Part(offset, part.width, dense=self._expr(part.dense, at)))
            offset += 0 if piece.add else part.width
        return Output(tuple(parts), piece.tail, piece.add)

    def _input(self, leaf: int, dtype: str | None = None) -> int:
        if leaf not in self._inputs:
            self._inputs[leaf] = len(self.inputs)
            ref = self.m.leaves[leaf]
            self.inputs.append(ref)
            self.dtypes.append(dtype or self.m.dtype(ref) or "f32")
        return self._inputs[leaf]

    def _bag(self, bag: Bag) -> int:
        # Columns are told apart by what they compute, not by what they are called.
        key = replace(bag, column="")
        if key not in self._bags:
            stream = self._stream(bag.stream)
            table = bag.table
            if table is not None:
                parts = tuple(self._input(leaf, "f32") for leaf in table.parts)
                table = Table(parts, table.strategy)
            self._bags[key] = len(self.bags)
            self.bags.append(replace(bag, stream=stream, table=table))
        return self._bags[key]

    def _stream(self, number: int) -> int:
        if number not in self._streams:
            stream = self.m.streams[number]
            source, at = self._source(stream.source)
            made = Stream(
                source,
                self._expr(stream.ids, at),
                None if stream.keep is None else self._expr(stream.keep, at),
                None if stream.weight is None else self._expr(stream.weight, at),
            )
            self._streams[number] = len(self.streams)
            self.streams.append(made)
        return self._streams[number]

    def _source(self, source: Source) -> tuple[Source, dict[int, int]]:
        """The source with its own numbers, and the numbers of values by leaf."""
        if isinstance(source, Cross):
            parts = tuple(self._stream(i) for i in source.parts)
            leaves = [leaf for leaf, cross in self.m.crosses.items() if cross == source]
            return replace(source, parts=parts), dict.fromkeys(leaves, 0)
        at = {leaf: i for i, leaf in enumerate(source.values)}
        values = tuple(self._input(leaf) for leaf in source.values)
        if isinstance(source, Dense):
            return replace(source, values=values), at
        if isinstance(source, Ragged):
            return replace(source, values=values, splits=self._input(source.splits)), at
        assert isinstance(source, Sparse)
        indices, shape = self._input(source.indices), self._input(source.shape)
        return replace(source, indices=indices, values=values, shape=shape), at

    def _expr(self, expr: Expr, at: dict[int, int]) -> Expr:
        if expr.op == "value":
            return replace(expr, at=at[expr.at])
        if expr.op == "find":
            return replace(expr, args=self._args(expr, at), at=self._vocabulary(expr.at))
        return replace(expr, args=self._args(expr, at)) if expr.args else expr

    def _args(self, expr: Expr, at: dict[int, int]) -> tuple[Expr, ...]:
        return tuple(self._expr(arg, at) for arg in expr.args)

    def _vocabulary(self, number: int) -> int:
        if number not in self._vocabularies:
            self._vocabularies[number] = len(self.vocabularies)
            self.vocabularies.append(self.m.vocabularies[number])
        return self._vocabularies[number]
