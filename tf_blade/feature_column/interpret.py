"""Abstract interpretation of a graph: what each tensor means in terms of lookups.

Two domains are computed side by side, in topological order: shape arithmetic (`ints`, for integer
vectors and scalars that hold dims) and values (see `values.py`). The meaning of an op is a rule, a
short function registered under the op's name in `rules/`; the first rule that has an answer wins.
A tensor about which no rule says anything stands for itself: it can become an input of a lookup.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from tf_blade.feature_column.spec import DTYPES, Cross, Expr, Stream, Vocabulary
from tf_blade.feature_column.values import (
    Constant,
    Coordinates,
    DenseBase,
    DenseIds,
    Dims,
    Distinct,
    Elements,
    Indices,
    Ints,
    Num,
    OpenInts,
    PartRows,
    Piece,
    Positions,
    Repeated,
    SparseBase,
    Value,
    Vectors,
    WeightedRows,
)
from tf_blade.graph.constants import const_bytes, const_value
from tf_blade.graph.graph import Graph, Node, TensorRef
from tf_blade.graph.shapes import Types
from tf_blade.graph.types import Shape

VocabularyOf = Callable[[TensorRef], Vocabulary | None]
Result = Value | tuple[Value | None, ...] | None
Rule = Callable[["Interpreter", Node], Result]
IntsResult = Ints | OpenInts | tuple[Ints | OpenInts | None, ...] | None
IntsRule = Callable[["Interpreter", Node], IntsResult]

RULES: dict[str, list[Rule]] = {}
INTS_RULES: dict[str, list[IntsRule]] = {}

MAX_CONSTANTS = 1024  # numbers of a constant that goes by the place in a row
_SMALL_CONST = 4096
_SPELLINGS = {"int32": "i32", "int64": "i64", "float32": "f32", "float64": "f64"}


def rule(*ops: str) -> Callable[[Rule], Rule]:
    """Registers a rule for values."""

    def register(function: Rule) -> Rule:
        for op in ops:
            RULES.setdefault(op, []).append(function)
        return function

    return register


def ints_rule(*ops: str) -> Callable[[IntsRule], IntsRule]:
    """Registers a rule for shape arithmetic."""

    def register(function: IntsRule) -> IntsRule:
        for op in ops:
            INTS_RULES.setdefault(op, []).append(function)
        return function

    return register


class Interpreter:
    """The abstract values of one graph.

    Attributes:
      leaves: tensors that stand for themselves, as expressions and sources number them.
      streams: streams of all bags, as bags number them.
      rows: of each stream, the dims of its rows.
      crosses: by the leaf of their values.
      vocabularies: contents of tables, as "find" expressions number them.
      wanted_plain: indices with several values, not all of which fit to what is known of them: they
        should be `plain`.
      behind: nodes that depend on some row of a table. What they compute can't be an input of a
        lookup, or lookups could wait for each other.
    """

    def __init__(
        self,
        graph: Graph,
        types: Types,
        vocabulary_of: VocabularyOf,
        excluded: frozenset[str],
        plain: frozenset[TensorRef] = frozenset(),
        bounds: Mapping[TensorRef, TensorRef] | None = None,
        variables: Mapping[str, Shape] | None = None,
        finds: Mapping[TensorRef, TensorRef] | None = None,
    ) -> None:
        """Args:
        graph, types: what to look at. Not changed.
        vocabulary_of: contents of the table behind a resource, if they are known.
        excluded: nodes that no lookup may replace; they stand for themselves.
        plain: indices of SparseTensors that stand for themselves, whatever is known of them.
        bounds: for indices that come without a dense shape, one that holds them.
        variables: shapes of variables by the node that stands for each.
        finds: for finds of filtered keys, those of all keys.
        """
        self.plain = plain
        self.bounds = bounds or {}
        self.finds = finds or {}
        self._variables = variables or {}
        self.wanted_plain: set[TensorRef] = set()
        self.graph = graph
        self.types = types
        self.leaves: list[TensorRef] = []
        self.streams: list[Stream] = []
        self.crosses: dict[int, Cross] = {}
        self.rows: list[Dims] = []
        self.vocabularies: list[Vocabulary] = []
        self.behind: set[str] = set()
        self._vocabulary_of = vocabulary_of
        self._excluded = excluded
        self._values: dict[TensorRef, Value] = {}
        self._ints: dict[TensorRef, Ints | OpenInts] = {}
        self._leaf_numbers: dict[TensorRef, int] = {}
        self._stream_numbers: dict[Stream, int] = {}
        self._vocabulary_numbers: dict[Vocabulary, int] = {}
        self._table_numbers: dict[TensorRef, int | None] = {}
        for node in graph.topological_order():
            self._visit(node)

    def _visit(self, node: Node) -> None:
        if any(ref.node in self.behind for ref in node.inputs):
            self.behind.add(node.name)
        if node.name in self._excluded:
            return
        if node.op == "Const":
            if const_bytes(node) <= _SMALL_CONST:
                array = const_value(node)
                assert array is not None
                self._values[TensorRef(node.name)] = Constant(array)
            return
        for ints in INTS_RULES.get(node.op, ()):
            found = ints(self, node)
            if found is not None:
                for i, item in enumerate(found if isinstance(found, tuple) else (found,)):
                    if item is not None:
                        self._ints[TensorRef(node.name, i)] = item
                break
        for values in RULES.get(node.op, ()):
            result = values(self, node)
            if result is not None:
                self._store(node, result if isinstance(result, tuple) else (result,))
                break

    def _store(self, node: Node, results: Sequence[Value | None]) -> None:
        for i, value in enumerate(results):
            if value is None:
                continue
            self._values[TensorRef(node.name, i)] = value
            if isinstance(value, (Vectors, PartRows, WeightedRows, Piece)):
                self.behind.add(node.name)

    # -- numbering --------------------------------------------------------------------------

    def leaf(self, ref: TensorRef) -> int:
        """The number of a tensor that stands for itself."""
        if ref not in self._leaf_numbers:
            self._leaf_numbers[ref] = len(self.leaves)
            self.leaves.append(ref)
        return self._leaf_numbers[ref]

    def stream(self, stream: Stream, rows: Dims) -> int:
        """The number of a stream with rows of these dims; equal streams have one."""
        if stream not in self._stream_numbers:
            self._stream_numbers[stream] = len(self.streams)
            self.streams.append(stream)
            self.rows.append(rows)
        return self._stream_numbers[stream]

    def vocabulary(self, table: TensorRef) -> int | None:
        """The number of a table's contents, None if they aren't known."""
        if table not in self._table_numbers:
            found = self._vocabulary_of(table)
            if found is not None and found not in self._vocabulary_numbers:
                self._vocabulary_numbers[found] = len(self.vocabularies)
                self.vocabularies.append(found)
            number = None if found is None else self._vocabulary_numbers[found]
            self._table_numbers[table] = number
        return self._table_numbers[table]

    def may_replace(self, name: str) -> bool:
        return name not in self._excluded

    # -- reading ----------------------------------------------------------------------------

    def value(self, ref: TensorRef) -> Value | None:
        return self._values.get(ref)

    def constant(self, ref: TensorRef) -> np.ndarray | None:
        """The value of a small constant."""
        value = self._values.get(ref)
        return value.array if isinstance(value, Constant) else None

    def scalar(self, ref: TensorRef) -> object | None:
        """The value of a constant of one element."""
        value = self._values.get(ref)
        return value.scalar if isinstance(value, Constant) else None

    def dtype(self, ref: TensorRef) -> str | None:
        """One of DTYPES, None for others."""
        name = self.types[ref].dtype.name
        name = _SPELLINGS.get(name, name)
        return name if name in DTYPES else None

    def tensor_dims(self, ref: TensorRef) -> Dims | None:
        """The dims of a tensor, by its type alone; of a find's result, those of its keys."""
        shape = self.types[ref].shape
        if shape is None:
            node = self.graph.nodes[ref.node]
            return self.dims(node.inputs[1]) if node.op == "LookupTableFindV2" else None
        return tuple(
            Num(1, (("dim", ref, i),)) if dim is None else Num(dim) for i, dim in enumerate(shape)
        )

    def output_shape(self, node: Node) -> Shape:
        """The shape of output 0, by its type."""
        return self.types[TensorRef(node.name)].shape

    def rows_of_leaf(self, leaf: int) -> int | None:
        """The first dim of a table, if it is fixed."""
        ref = self.leaves[leaf]
        shape = self._variables.get(ref.node) or self.types[ref].shape
        return shape[0] if shape else None

    def dims(self, ref: TensorRef) -> Dims | None:
        """The dims of a tensor, as what is known of its value says."""
        value = self._values.get(ref)
        if isinstance(value, (Elements, Piece)):
            return value.dims
        return self.tensor_dims(ref)

    def ints(self, ref: TensorRef) -> Ints | OpenInts | None:
        """An integer scalar or vector, element by element."""
        if ref in self._ints:
            return self._ints[ref]
        info = self.types[ref]
        if info.dtype not in (tf.int32, tf.int64):
            return None
        array = self.constant(ref)
        if array is not None:
            if array.ndim > 1:
                return None
            return Ints(tuple(Num(int(v)) for v in array.reshape(-1)), array.ndim == 0)
        if info.shape == ():
            return Ints((Num(1, (("at", ref, 0),)),), scalar=True)
        opened = OpenInts(ref)
        if info.shape is None or info.shape == (None,):
            return opened
        if len(info.shape) == 1 and info.shape[0] is not None and info.shape[0] <= 8:
            return Ints(tuple(opened.at(i) for i in range(info.shape[0])))
        return None

    def vector(self, ref: TensorRef) -> Dims | None:
        """The elements of an integer vector of known length."""
        found = self.ints(ref)
        return found.values if isinstance(found, Ints) and not found.scalar else None

    def elements(self, ref: TensorRef) -> Elements | None:
        """The tensor as elements: computed ones, a constant, or those of the tensor itself."""
        value = self._values.get(ref)
        if isinstance(value, Elements):
            return value
        dtype, dims = self.dtype(ref), self.tensor_dims(ref)
        if dtype is None or dims is None:
            return None
        if isinstance(value, Constant):
            if value.scalar is None:
                return None
            return Elements(Expr("const", dtype, scalar=value.scalar), dims)  # type: ignore[arg-type]
        if isinstance(value, Coordinates):
            width = value.of[-1].const
            if value.axis != len(value.of) - 1 or not 0 < (width or 0) <= MAX_CONSTANTS:
                return None
            places = tuple(range(width or 0))
            return Elements(Expr("constants", dtype, constants=places), value.dims)
        plain = isinstance(value, (DenseIds, Repeated)) or (
            isinstance(value, Distinct) and not value.place
        )
        return self.own(ref) if value is None or plain else None

    def own(self, ref: TensorRef) -> Elements | None:
        """The elements of a tensor that stands for itself."""
        dtype, dims = self.dtype(ref), self.tensor_dims(ref)
        if dtype is None or dims is None or ref.node in self.behind:
            return None
        return Elements(Expr("value", dtype, at=self.leaf(ref)), dims)

    def own_vector(self, ref: TensorRef) -> Elements | None:
        """The same of a tensor that can only be a vector: a SparseTensor's values."""
        if self.types[ref].shape is not None:
            return self.own(ref)
        dtype = self.dtype(ref)
        if dtype is None or ref.node in self.behind:
            return None
        return Elements(Expr("value", dtype, at=self.leaf(ref)), (Num(1, (("dim", ref, 0),)),))

    def indices(self, ref: TensorRef, shape: TensorRef) -> Indices | None:
        """Indices of a SparseTensor of that dense shape: computed ones, or the tensor itself."""
        value = self.known_indices(ref)
        if value is not None:
            return value if self.is_shape(shape, value) else None
        return self.own_indices(ref, shape)

    def known_indices(self, ref: TensorRef) -> Indices | None:
        """Indices that a rule knows."""
        if ref in self.plain:
            return None
        value = self._values.get(ref)
        if isinstance(value, Positions) and value.outer is None and not value.flat:
            return Indices(DenseBase(value.dims), value.keep, value.dims, (1,) * len(value.dims))
        return value if isinstance(value, Indices) else None

    def own_indices(self, ref: TensorRef, shape: TensorRef) -> Indices | None:
        """Indices that come from outside, as they are."""
        dims = self.ints(shape)
        if dims is None or ref.node in self.behind or shape.node in self.behind:
            return None
        if self.types[ref].dtype != tf.int64:
            return None
        if isinstance(dims, Ints):
            rank = len(dims.values)
            base = SparseBase(self.leaf(ref), self.leaf(shape), rank)
            return Indices(base, None, dims.values, (1,) * rank)
        base = SparseBase(self.leaf(ref), self.leaf(shape), None)
        return Indices(base, None, (), ())

    def is_shape(self, shape: TensorRef, indices: Indices) -> bool:
        """Whether a tensor holds the dense shape of these indices."""
        return self.vector(shape) == indices.dims or (
            isinstance(indices.base, SparseBase)
            and not indices.dims
            and self.leaves[indices.base.shape] == shape
        )

    def attr_int(self, node: Node, name: str) -> int:
        return int(node.attrs[name].i) if name in node.attrs else 0


def conjunction(a: Expr | None, b: Expr) -> Expr:
    """Both filters."""
    return b if a is None else Expr("and", "bool", (a, b))


def count(keep: Expr | None, filled: Indices | None = None) -> Num:
    """How many elements pass a filter, or are there once rows are filled."""
    return Num(1, (("count", keep, filled),))


def compatible(a: Dims, b: Dims) -> bool:
    """Whether two shapes may be equal, so that a kernel finds out; equal by symbols or unknown."""
    return len(a) == len(b) and all(
        x == y or (x.const is None and y.const is None) for x, y in zip(a, b, strict=True)
    )
