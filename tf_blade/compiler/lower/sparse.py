"""Sparse tensors: the indices of their elements, the values, the dense shape."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from tf_blade.compiler.ir import dims as d
from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.dims import Dim
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.ir.types import DType
from tf_blade.compiler.lower.filters import index_vectors
from tf_blade.compiler.lower.operands import content
from tf_blade.compiler.lower.registry import lower
from tf_blade.compiler.lower.scatters import between
from tf_blade.compiler.lower.segments import rising
from tf_blade.compiler.lower.shapes import filled_in
from tf_blade.errors import UnsupportedError

_LARGEST = 2**63 - 1


def _dense_shape(b: Builder, shape: Value, what: str) -> list[Dim]:
    """The dims of a dense shape, none of them negative; their product fits into 64 bits."""
    dims = content(b, shape, what)
    for n in dims:
        b.require_le(0, n, f"{what} has no negative element")
    total: Dim = 1
    for n in dims:
        if any(s.is_nonnegative is None for s in d.symbols_of(n)):
            limit = d.floor_div(_LARGEST, d.larger(n, 1))
            b.require_le(total, limit, f"the product of {what} fits into 64 bits")
        total = d.product([total, n])
    return dims


def _indices(b: Builder, indices: Value, rank: int) -> Value:
    """Index vectors [n, rank]."""
    if indices.type.rank != 2:
        raise UnsupportedError(f"index vectors of rank {indices.type.rank}", b.source)
    count, depth = b.shape(indices)
    b.same_dim(depth, rank, "index vectors have one element for each dim")
    return b.retype(indices, (count, rank))


def _column(b: Builder, indices: Value, i: int) -> Value:
    count = b.shape(indices)[0]
    return b.reshape(b.slice(indices, [0, i], [count, i + 1]), (count,))


@lower("SparseReshape", contents=[1, 2])
def sparse_reshape(
    b: Builder, input_indices: Value, input_shape: Value, new_shape: Value
) -> list[Value]:
    """Indices of the same elements in another dense shape; one dim may be -1: what is left."""
    before = _dense_shape(b, input_shape, "the dense shape")
    total = d.product(before)
    wanted = content(b, new_shape, "the new shape")
    if not before or not wanted:
        raise UnsupportedError("a dense shape of no dims", b.source)
    after = filled_in(b, wanted, total)
    b.same_dim(total, d.product(after), "reshape keeps the size")
    indices = _indices(b, input_indices, len(before))
    shape = b.shape_value(after, DType.I64)
    if before == after:
        return [indices, shape]
    flat = _flat(b, indices, before)
    return [index_vectors(b, flat, after), shape]


def _flat(b: Builder, indices: Value, dims: Sequence[Dim]) -> Value:
    """Index vectors as positions, row-major. One beside the shape refuses the run: TensorFlow
    carries on with it."""
    columns = [_column(b, indices, i) for i in range(len(dims))]
    sizes = [b.shape_value(n, DType.I64) for n in dims]
    inside = [between(b, c, n) for c, n in zip(columns, sizes, strict=True)]
    flat = columns[0]
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        flat = b.add(b.mul(flat, size), column)
    return b.checked(flat, functools.reduce(lambda x, y: b.binary("and", x, y), inside))


@lower("SparseFillEmptyRows", contents=[2])
def sparse_fill_empty_rows(
    b: Builder, indices: Value, values: Value, dense_shape: Value, default_value: Value
) -> list[Value]:
    """A sparse tensor, rows in order, with an element added to each row that has none.

    Indices, values, which rows had none, and where each element went.
    """
    dims = _dense_shape(b, dense_shape, "the dense shape")
    if not dims:
        raise UnsupportedError("a dense shape of no dims", b.source)
    rows, rank = dims[0], len(dims)
    indices = _indices(b, indices, rank)
    count = b.same_dim(b.shape(indices)[0], b.shape(values)[0], "one value for each index")
    indices, values = b.retype(indices, (count, rank)), b.retype(values, (count,))
    row = rising(b, _column(b, indices, 0), rows)

    one, zero = b.constant(1, DType.I64), b.constant(0, DType.I64)
    zeros, ones = b.splat(0, DType.I64, (rows,)), b.splat(1, DType.I64, (count,))
    sizes = b.scatter(zeros, row, ones, "sum")
    empty = b.compare("EQ", sizes, zero)
    added = b.convert(empty, DType.I64)
    total = d.simplify(count + b.size(b.reduce("sum", added, [0]), rows))
    # An element goes behind those that are added in the rows before its own.
    to = b.add(b.iota(DType.I64, (count,), 0), b.gather(b.scan("sum", added, 0), row, 0))
    starts = b.scan("sum", b.binary("max", sizes, one), 0, exclusive=True)
    into = b.select(empty, starts, b.constant(-1, DType.I64))  # beside: dropped

    first = b.compare("EQ", b.iota(DType.I64, (rows, rank), 1), zero)
    new = b.select(first, b.iota(DType.I64, (rows, rank), 0), zero)
    filled = b.scatter(b.splat(0, DType.I64, (total, rank)), into, new, "set")
    defaults = b.broadcast_to(default_value, (total,))
    return [
        b.scatter(filled, to, indices, "set"),
        b.scatter(defaults, to, values, "set"),
        empty,
        to,
    ]
