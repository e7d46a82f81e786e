"""Ops that leave elements out: how many stay is known when the program runs."""

from __future__ import annotations

from collections.abc import Sequence

from tf_blade.compiler.ir import dims as d
from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.dims import Dim
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.ir.types import DType
from tf_blade.compiler.lower.elementwise import number
from tf_blade.compiler.lower.operands import axes
from tf_blade.compiler.lower.registry import COMPARABLE, INDICES, NUMBERS, lower
from tf_blade.errors import UnsupportedError

_HIGHEST_RANK = 8


@lower("Where", dtypes=COMPARABLE)
def where(b: Builder, x: Value) -> Value:
    """Index vectors of the elements that aren't 0, in order."""
    if not 1 <= x.type.rank <= _HIGHEST_RANK:
        raise UnsupportedError(f"TensorFlow has no kernel for rank {x.type.rank}", b.source)
    mask = x if x.type.dtype is DType.BOOL else b.compare("NE", x, number(b, 0, x))
    dims = b.shape(mask)
    at = b.positions(b.reshape(mask, (d.product(dims),)))
    return index_vectors(b, at, dims)


def index_vectors(b: Builder, at: Value, dims: Sequence[Dim]) -> Value:
    """Positions [n] (row-major, in range) in a tensor of these dims as index vectors [n, rank]."""
    columns: list[Value] = []
    for i in range(1, len(dims)):
        stride = b.shape_value(d.product(list(dims[i:])), DType.I64)
        columns.append(b.div(at, stride))
        at = b.binary("rem", at, stride)
    return b.concatenate([b.reshape(v, (*b.shape(v), 1)) for v in [*columns, at]], 1)


# -- equal elements ---------------------------------------------------------------------------


def _unique(b: Builder, x: Value, out_idx: DType) -> list[Value]:
    """Different elements in order of their first appearance, and the number among them of each."""
    if x.type.rank != 1:
        raise UnsupportedError(f"a tensor of rank {x.type.rank}", b.source)
    first = b.first_equal(x)
    places = b.iota(DType.I32, b.shape(first), 0)
    new = b.compare("EQ", first, places)
    before = b.scan("sum", b.convert(new, out_idx), 0, exclusive=True)
    return [b.gather(x, b.positions(new), 0), b.gather(before, first, 0)]


def _counted(b: Builder, found: list[Value]) -> list[Value]:
    values, index = found
    dtype = index.type.dtype
    ones = b.splat(1, dtype, b.shape(index))
    return [values, index, b.scatter(b.splat(0, dtype, b.shape(values)), index, ones, "sum")]


def _no_axis(b: Builder, axis: Value) -> None:
    """TensorFlow takes an empty axis for that of a vector."""
    axes(b, axis, 1)


@lower("Unique", dtypes={"T": NUMBERS, "out_idx": INDICES})
def unique(b: Builder, x: Value, *, out_idx: DType) -> list[Value]:
    """The different elements of a vector in order, and which of them each one is."""
    return _unique(b, x, out_idx)


@lower("UniqueV2", dtypes={"T": NUMBERS, "Taxis": INDICES, "out_idx": INDICES}, constants=[1])
def unique_v2(b: Builder, x: Value, axis: Value, *, out_idx: DType) -> list[Value]:
    """The different elements of a vector in order, and which of them each one is."""
    _no_axis(b, axis)
    return _unique(b, x, out_idx)


@lower("UniqueWithCounts", dtypes={"T": NUMBERS, "out_idx": INDICES})
def unique_with_counts(b: Builder, x: Value, *, out_idx: DType) -> list[Value]:
    """The different elements of a vector, which of them each one is, and how often they occur."""
    return _counted(b, _unique(b, x, out_idx))


@lower(
    "UniqueWithCountsV2",
    dtypes={"T": NUMBERS, "Taxis": INDICES, "out_idx": INDICES},
    constants=[1],
)
def unique_with_counts_v2(b: Builder, x: Value, axis: Value, *, out_idx: DType) -> list[Value]:
    """The different elements of a vector, which of them each one is, and how often they occur."""
    _no_axis(b, axis)
    return _counted(b, _unique(b, x, out_idx))
