"""What recognition knows about a tensor: the abstract values.

Expressions here number their leaves ("value" `at`) and sources their inputs through the whole
graph: a number is a tensor's place in `Interpreter.leaves`. `build.py` gives a lookup its own
numbers. A `keep` is a filter on the elements of an input, in their order there; tensors whose
`keep` is equal hold the same elements.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from tf_blade.feature_column.spec import Bag, Expr, Table
from tf_blade.graph.graph import TensorRef

# ("dim", tensor, axis), ("at", integer vector, index), ("count", what passes a filter, …)
Symbol = tuple[object, ...]


@dataclass(frozen=True)
class Num:
    """An integer that only a run knows, as a product. Equal products are equal numbers."""

    factor: int = 1
    symbols: tuple[Symbol, ...] = ()

    @property
    def const(self) -> int | None:
        return None if self.symbols else self.factor

    def __mul__(self, other: Num) -> Num:
        return Num(self.factor * other.factor, _ordered(self.symbols + other.symbols))

    def over(self, other: Num) -> Num | None:
        """The quotient, where it is known to be a whole number."""
        left = list(self.symbols)
        for symbol in other.symbols:
            if symbol not in left:
                return None
            left.remove(symbol)
        if other.factor == 0 or self.factor % other.factor:
            return None
        return Num(self.factor // other.factor, tuple(left))


Dims = tuple[Num, ...]


def _ordered(symbols: tuple[Symbol, ...]) -> tuple[Symbol, ...]:
    return tuple(sorted(symbols, key=lambda s: (str(s[0]), hash(s))))


def product(dims: Dims) -> Num:
    return reduce(lambda a, b: a * b, dims, Num())


@dataclass(frozen=True)
class Ints:
    """An integer tensor of rank 0 or 1, element by element."""

    values: Dims
    scalar: bool = False


@dataclass(frozen=True)
class OpenInts:
    """An integer vector of unknown length: the tensor itself."""

    ref: TensorRef

    def at(self, i: int) -> Num:
        return Num(1, (("at", self.ref, i),))


# -- elements and where they are ----------------------------------------------------------


@dataclass(frozen=True)
class Elements:
    """`expr` of those elements of its leaves that pass `keep`, row-major, in the shape `dims`.

    Attributes:
      filled: the indices that SparseFillEmptyRows completed, None where it did not. Rows without
        elements then hold `default`.
    """

    expr: Expr
    dims: Dims
    keep: Expr | None = None
    filled: Indices | None = None
    default: Expr | None = None


@dataclass(frozen=True)
class Positions:
    """Where a mask of shape `dims` is true: i64 [n, rank], or [n] where `flat`.

    Attributes:
      outer: the filter that the mask's own elements passed.
      keep: that, and the mask.
    """

    outer: Expr | None
    keep: Expr
    dims: Dims
    flat: bool = False


@dataclass(frozen=True)
class Coordinates:
    """For each position of a dense shape `of`, its place along `axis`; in the shape `dims`."""

    axis: int
    of: Dims
    dims: Dims


@dataclass(frozen=True)
class CoordinateRows:
    """The coordinates of all positions of a dense shape, an axis a row: [rank, n]."""

    of: Dims


@dataclass(frozen=True)
class DenseBase:
    """Indices of elements of dense tensors of shape `dims`."""

    dims: Dims


@dataclass(frozen=True)
class SparseBase:
    """Indices of a SparseTensor that comes from outside: leaves of its indices and its shape."""

    indices: int
    shape: int
    rank: int | None


@dataclass(frozen=True)
class CrossBase:
    """Indices of a SparseCross: the leaf of its values."""

    values: int


@dataclass(frozen=True)
class Indices:
    """Indices of a SparseTensor whose elements pass `keep`.

    Attributes:
      dims: the dense shape now, after SparseReshape.
      groups: how many of the base's dims each of `dims` spans; -1 for all that are left.
    """

    base: DenseBase | SparseBase | CrossBase
    keep: Expr | None
    dims: Dims
    groups: tuple[int, ...]
    filled: bool = False


@dataclass(frozen=True)
class RowIds:
    """The first column of indices: each element's row."""

    indices: Indices


@dataclass(frozen=True)
class EmptyRows:
    """bool: which rows SparseFillEmptyRows filled. [B], or [B, columns] with equal columns."""

    indices: Indices
    columns: int = 0


@dataclass(frozen=True)
class DenseIds:
    """Elements put into a dense tensor of shape `indices.dims`; elsewhere it holds `default`."""

    indices: Indices
    ids: Elements
    default: int


# -- rows of tables -----------------------------------------------------------------------


@dataclass(frozen=True)
class Distinct:
    """Output 0 or 1 of Unique: the distinct elements, or each element's place among them."""

    ids: Elements
    place: bool


@dataclass(frozen=True)
class Vectors:
    """Rows of a table that ids name, one an element, or one a distinct element; weighted."""

    table: Table
    ids: Elements
    tail: tuple[int, ...]
    distinct: bool = False
    max_norm: float | None = None
    weight: Elements | None = None


@dataclass(frozen=True)
class Repeated:
    """Elements [B, T, 1], each `times` times along the last dim."""

    elements: Elements
    times: int


@dataclass(frozen=True)
class WeightedRows:
    """Rows of a table [B, T, …], one an element of a dense tensor, times their weights."""

    vectors: Vectors


@dataclass(frozen=True)
class Partition:
    """The elements for which `part` is `number`: their `rows`, or, with None, their places."""

    part: Elements
    rows: Elements | None
    number: int
    count: int


@dataclass(frozen=True)
class PartRows:
    """Rows that a partition's elements name in one part of a table, a leaf."""

    leaf: int
    tail: tuple[int, ...]
    part: Partition


@dataclass(frozen=True)
class NormStep:
    """A step of clip_by_norm on vectors: see rules/clip.py."""

    kind: str
    vectors: Vectors
    limit: float = 0.0


@dataclass(frozen=True)
class Hot:
    """One-hot rows of `depth` for ids in a dense tensor."""

    ids: DenseIds
    depth: int


@dataclass(frozen=True)
class RowColumn:
    """The first column [n, 1] of a matrix's indices `ref`."""

    ref: TensorRef


@dataclass(frozen=True)
class RowIdPairs:
    """i64 [n, 2]: each element's row and id. In another order perhaps, once there are weights: then
    it is also these.

    Attributes:
      ref: where rows are from.
      ids: [n, 1].
      dims: rows and the number of ids that count.
    """

    ref: TensorRef
    ids: Elements
    indices: Indices | None = None
    weight: Elements | None = None
    dims: Dims = ()


@dataclass(frozen=True)
class Totals:
    """For each row the sum of its elements' weights, or its square root."""

    indices: Indices
    weight: Elements
    root: bool = False


# -- results ------------------------------------------------------------------------------


@dataclass(frozen=True)
class PiecePart:
    """A bag or an element-wise expression of dense tensors, `width` floats of a row."""

    width: int
    bag: Bag | None = None
    dense: Expr | None = None


@dataclass(frozen=True)
class Piece:
    """A tensor that an Output can be: rows of bags and dense parts, side by side or added up.

    Attributes:
      rows: the tensor's leading dims that number its rows.
      row_dims: the rows' dims as the streams have them: `rows`, or more dims with that product.
      tail: the other dims.
      filled: for a bag over filled rows: the indices.
      weight: for a weighted sum: the weights.
      ids: for an indicator of single elements: these.
      vectors: for rows of a table, one an element of a dense tensor: these.
    """

    parts: tuple[PiecePart, ...]
    rows: Dims
    row_dims: Dims
    tail: tuple[int, ...]
    add: bool = False
    filled: Indices | None = None
    weight: Elements | None = None
    ids: Elements | None = None
    vectors: Vectors | None = None

    @property
    def dims(self) -> Dims:
        return self.rows + tuple(Num(d) for d in self.tail)

    @property
    def width(self) -> int:
        return int(np.prod(self.tail, dtype=np.int64))


@dataclass(frozen=True)
class ZerosOf:
    """Zeros in the shape of a piece."""

    piece: Piece


@dataclass(frozen=True)
class Counts:
    """The numbers of a piece as integers."""

    piece: Piece


@dataclass(frozen=True, eq=False)
class Constant:
    """A small constant."""

    array: np.ndarray = field(repr=False)

    @property
    def scalar(self) -> object | None:
        """The value, if it is one number or string."""
        return self.array.item() if self.array.size == 1 else None


Value = (
    Elements
    | Positions
    | Coordinates
    | CoordinateRows
    | Indices
    | RowIds
    | EmptyRows
    | DenseIds
    | Distinct
    | Vectors
    | Repeated
    | WeightedRows
    | Partition
    | PartRows
    | NormStep
    | Hot
    | RowColumn
    | RowIdPairs
    | Totals
    | Piece
    | ZerosOf
    | Counts
    | Constant
)
