"""Sums and other reductions of rows that belong to one segment.

How many segments there are must be known: from a constant, from shapes, or because the ids are
constants. A segment id that TensorFlow reports refuses the run.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tf_blade.compiler.ir import dims as d
from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.dims import Dim
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.ir.types import DType
from tf_blade.compiler.lower.elementwise import number
from tf_blade.compiler.lower.operands import constant, content
from tf_blade.compiler.lower.registry import FLOATS, INDICES, NUMBERS, lower
from tf_blade.compiler.lower.scatters import between
from tf_blade.errors import UnsupportedError


def _lowest(kind: str, dtype: DType) -> float:
    """What a segment starts with; maxima of unsorted ones start from the lowest finite number."""
    if kind in ("sum", "prod"):
        return {"sum": 0, "prod": 1}[kind]
    info = np.finfo(dtype.numpy) if dtype.is_float else np.iinfo(dtype.numpy)
    return info.min if kind == "max" else info.max


def _neutral(kind: str, dtype: DType) -> float:
    """What a sorted segment starts with."""
    if kind in ("max", "min") and dtype.is_float:
        return -np.inf if kind == "max" else np.inf
    return _lowest(kind, dtype)


def _ordered(b: Builder, data: Value, kind: str) -> Value:
    """The data, without a NaN for maxima: whether one wins in TensorFlow depends on its place."""
    if kind not in ("max", "min") or not data.type.dtype.is_float:
        return data
    return b.checked(data, b.unary("not", b.unary("is_nan", data)))


def _count(b: Builder, num_segments: Value) -> Dim:
    (count,) = content(b, num_segments, "the number of segments")
    b.require_le(0, count, "the number of segments is not negative")
    return count


# -- ids in any order -------------------------------------------------------------------------


def _unsorted(kind: str) -> Callable[..., Value]:
    def lowering(b: Builder, data: Value, segment_ids: Value, num_segments: Value) -> Value:
        count, dims = _count(b, num_segments), b.shape(segment_ids)
        for ours, theirs in zip(dims, b.shape(data), strict=False):
            b.same_dim(ours, theirs, "one id for each slice of the data")
        total, rest = d.product(b.shape(segment_ids)), b.shape(data)[len(dims) :]
        limit = b.shape_value(count, segment_ids.type.dtype)
        ids = b.checked(segment_ids, b.compare("LT", segment_ids, limit))
        start = b.splat(_lowest(kind, data.type.dtype), data.type.dtype, (count, *rest))
        rows = b.reshape(_ordered(b, data, kind), (total, *rest))
        return b.scatter(start, b.reshape(ids, (total,)), rows, kind)

    lowering.__doc__ = (
        f"The {kind} of the slices with each id; slices with negative ids are left out."
    )
    return lowering


for _op, _kind in {"Sum": "sum", "Prod": "prod", "Max": "max", "Min": "min"}.items():
    lower(
        f"UnsortedSegment{_op}",
        dtypes={"T": NUMBERS, "Tindices": INDICES, "Tnumsegments": INDICES},
        contents=[2],
    )(_unsorted(_kind))


# -- constant ids, in order -------------------------------------------------------------------


def _sorted_ids(b: Builder, segment_ids: Value) -> np.ndarray:
    """Constant ids. Raises UnsupportedError for others and for what TensorFlow reports."""
    ids = constant(b, segment_ids, "segment ids (without a number of segments)").reshape(-1)
    if (ids < 0).any() or (np.diff(ids) < 0).any():
        raise UnsupportedError("segment ids must not be negative and must rise", b.source)
    return ids


def _sizes(ids: np.ndarray) -> np.ndarray:
    """How many rows each segment has."""
    return np.bincount(ids) if ids.size else np.zeros(0, np.int64)


def _column(b: Builder, numbers: np.ndarray, like: Value) -> Value:
    """One number for each row of `like`."""
    values = b.constant(numbers, like.type.dtype)
    return b.broadcast_in_dim(values, b.shape(like), [0])


def _segment(kind: str) -> Callable[..., Value]:
    def lowering(b: Builder, data: Value, segment_ids: Value) -> Value:
        ids = _sorted_ids(b, segment_ids)
        sizes = _sizes(ids)
        rest = b.shape(data)[1:]
        step = "sum" if kind == "mean" else kind
        start = b.splat(_neutral(step, data.type.dtype), data.type.dtype, (sizes.size, *rest))
        if kind in ("max", "min"):  # without a row: 0
            zero = b.constant(0, data.type.dtype)
            some = b.broadcast_in_dim(b.constant(sizes > 0), b.shape(start), [0])
            start = b.select(some, start, zero)
        rows = _ordered(b, data, kind)
        found = b.scatter(start, b.constant(ids, segment_ids.type.dtype), rows, step)
        return b.div(found, _column(b, np.maximum(sizes, 1), found)) if kind == "mean" else found

    lowering.__doc__ = (
        f"The {kind} of the rows of each segment; segment ids are constants that rise."
    )
    return lowering


for _op in ("Sum", "Prod", "Max", "Min"):
    lower(f"Segment{_op}", dtypes={"T": NUMBERS, "Tindices": INDICES}, constants=[1])(
        _segment(_op.lower())
    )
lower("SegmentMean", dtypes={"T": FLOATS, "Tindices": INDICES}, constants=[1])(_segment("mean"))


# -- rows of a table --------------------------------------------------------------------------


def rising(b: Builder, ids: Value, count: Dim) -> Value:
    """The ids, which must lie in [0, count) and not fall."""
    one = b.constant(1, DType.I64)
    places = b.sub(b.iota(DType.I64, b.shape(ids), 0), one)
    before = b.gather(ids, b.binary("max", places, b.constant(0, DType.I64)), 0)
    fits = between(b, ids, b.shape_value(count, ids.type.dtype))
    return b.checked(ids, b.binary("and", fits, b.compare("GE", ids, before)))


def _divided(b: Builder, sums: Value, sizes: Value, kind: str) -> Value:
    """sums [segments, ...] divided by what `kind` makes of the sizes [segments]."""
    if kind == "sum":
        return sums
    sizes = b.binary("max", sizes, number(b, 1, sizes))
    factor = sizes if kind == "mean" else b.unary("sqrt", sizes)
    return b.div(sums, b.broadcast_in_dim(factor, b.shape(sums), [0]))


def _sparse(kind: str) -> Callable[..., Value]:
    def lowering(b: Builder, data: Value, indices: Value, ids: Value, num_segments: Value) -> Value:
        b.same_dim(b.shape(indices)[0], b.shape(ids)[0], "one segment id for each index")
        count = _count(b, num_segments)
        ids = rising(b, b.retype(ids, b.shape(indices)), count)
        rows = b.gather(data, indices, 0)
        dtype = data.type.dtype
        sums = b.scatter(b.splat(0, dtype, (count, *b.shape(rows)[1:])), ids, rows, "sum")
        if kind == "sum":
            return sums
        ones = b.splat(1, dtype, b.shape(ids))
        sizes = b.scatter(b.splat(0, dtype, (count,)), ids, ones, "sum")
        return _divided(b, sums, sizes, kind)

    lowering.__doc__ = f"The {kind} of rows picked by index, for each segment; segment ids rise."
    return lowering


def _sparse_constant(kind: str) -> Callable[..., Value]:
    def lowering(b: Builder, data: Value, indices: Value, segment_ids: Value) -> Value:
        ids = _sorted_ids(b, segment_ids)
        sizes = _sizes(ids)
        b.same_dim(b.shape(indices)[0], ids.size, "one segment id for each index")
        rows = b.gather(data, b.retype(indices, [ids.size]), 0)
        start = b.splat(0, data.type.dtype, (sizes.size, *b.shape(rows)[1:]))
        sums = b.scatter(start, b.constant(ids, segment_ids.type.dtype), rows, "sum")
        return _divided(b, sums, b.constant(sizes, data.type.dtype), kind)

    lowering.__doc__ = f"The {kind} of rows picked by index; segment ids are constants that rise."
    return lowering


_SPARSE_INDICES = {"Tidx": INDICES, "Tsegmentids": INDICES, "Tnumsegments": INDICES}
for _op, _kind in {"Sum": "sum", "Mean": "mean", "SqrtN": "root"}.items():
    _dtypes = {"T": NUMBERS if _kind == "sum" else FLOATS, **_SPARSE_INDICES}
    lower(
        f"SparseSegment{_op}WithNumSegments",
        dtypes=_dtypes,
        contents=[3],
        ignores=["sparse_gradient"],
    )(_sparse(_kind))
    lower(f"SparseSegment{_op}", dtypes=_dtypes, constants=[2], ignores=["sparse_gradient"])(
        _sparse_constant(_kind)
    )


@lower("SparseTensorDenseMatMul", dtypes={"T": NUMBERS, "Tindices": INDICES}, contents=[2])
def sparse_tensor_dense_mat_mul(
    b: Builder,
    a_indices: Value,
    a_values: Value,
    a_shape: Value,
    dense: Value,
    *,
    adjoint_a: bool,
    adjoint_b: bool,
) -> Value:
    """The product of a sparse matrix, given by its elements' places and values, and a dense one."""
    sizes = content(b, a_shape, "the sparse matrix' shape")
    if adjoint_b:
        dense = b.transpose(dense, (1, 0))
    row, column = (1, 0) if adjoint_a else (0, 1)
    for n in sizes:
        b.require_le(0, n, "the shape has no negative element")
    b.same_dim(sizes[column], b.shape(dense)[0], "contracted dims")
    b.same_dim(b.shape(a_indices)[1], 2, "places have a row and a column")
    count = b.same_dim(b.shape(a_indices)[0], b.shape(a_values)[0], "one value for each place")
    a_indices = b.retype(a_indices, (count, 2))
    a_values = b.retype(a_values, (count,))

    def part(i: int) -> Value:
        return b.reshape(b.slice(a_indices, [0, i], [b.canonical(count), i + 1]), [count])

    rows = part(row)
    rows = b.checked(rows, between(b, rows, b.shape_value(sizes[row], rows.type.dtype)))
    picked = b.gather(dense, part(column), 0)
    products = b.mul(b.broadcast_in_dim(a_values, b.shape(picked), [0]), picked)
    zeros = b.splat(0, dense.type.dtype, (sizes[row], b.shape(dense)[1]))
    return b.scatter(zeros, rows, products, "sum")
