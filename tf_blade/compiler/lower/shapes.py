"""Ops about shapes: asking for them, changing them, making tensors from them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tf_blade.compiler.ir import dims as d
from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.dims import Dim
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.ir.types import DType
from tf_blade.compiler.lower.operands import constant, content, from_front, one_axis
from tf_blade.compiler.lower.registry import FLOATS, INDICES, lower
from tf_blade.errors import UnsupportedError

# Larger constants of one repeated value are kept as a scalar and broadcast.
_SPLAT_ELEMENTS = 16


@lower("Const")
def const(b: Builder, *, value: np.ndarray) -> Value:
    """A constant."""
    if value.size > _SPLAT_ELEMENTS:
        first = np.asarray(value.flat[0])
        if value.tobytes() == first.tobytes() * value.size:
            return b.broadcast_to(b.constant(first), value.shape)
    return b.constant(value)


@lower(
    "Identity",
    "Snapshot",
    "StopGradient",
    "PreventGradient",
    "GuaranteeConst",
    "DeepCopy",
    ignores=["message"],
)
def identity(b: Builder, x: Value) -> Value:
    """x"""
    return x


@lower("IdentityN")
def identity_n(b: Builder, *values: Value) -> list[Value]:
    """All inputs."""
    return list(values)


# -- asking for shapes ------------------------------------------------------------------------


@lower("Shape", dtypes={"out_type": INDICES})
def shape(b: Builder, x: Value, *, out_type: DType) -> Value:
    """The dims of x."""
    return b.shape_value(b.shape(x), out_type)


@lower("ShapeN", dtypes={"out_type": INDICES})
def shape_n(b: Builder, *values: Value, out_type: DType) -> list[Value]:
    """The dims of each input."""
    return [b.shape_value(b.shape(x), out_type) for x in values]


@lower("Size", dtypes={"out_type": INDICES})
def size(b: Builder, x: Value, *, out_type: DType) -> Value:
    """The number of elements of x."""
    return b.shape_value(d.product(b.shape(x)), out_type)


@lower("Rank")
def rank(b: Builder, x: Value) -> Value:
    """The number of dims of x."""
    return b.constant(x.type.rank, DType.I32)


@lower("BroadcastArgs", dtypes=INDICES, contents=[0, 1])
def broadcast_args(b: Builder, s0: Value, s1: Value) -> Value:
    """The shape to which two shapes broadcast."""
    shapes = [tuple(content(b, s, "the shape")) for s in (s0, s1)]
    return b.shape_value(b.broadcast_shapes(*shapes), s0.type.dtype)


@lower("ConcatOffset", dtypes={"shape_type": INDICES}, constants=[0])
def concat_offset(b: Builder, concat_dim: Value, *shapes: Value) -> list[Value]:
    """Where each of several tensors starts in their concatenation."""
    listed = [content(b, s, "the shape") for s in shapes]
    axis = one_axis(b, concat_dim, len(listed[0]))
    offset: Dim = 0
    results = []
    for dims in listed:
        starts: list[Dim] = [0] * len(dims)
        starts[axis] = offset
        results.append(b.shape_value(starts, shapes[0].type.dtype))
        offset = d.simplify(offset + dims[axis])
    return results


@lower("InvertPermutation", dtypes=INDICES, constants=[0])
def invert_permutation(b: Builder, x: Value) -> Value:
    """y with y[x[i]] = i."""
    permutation = constant(b, x, "the permutation")
    if sorted(permutation) != list(range(permutation.size)):
        raise UnsupportedError(f"{permutation.tolist()} is no permutation", b.source)
    return b.constant(np.argsort(permutation), x.type.dtype)


# -- changing shapes --------------------------------------------------------------------------


@lower("Reshape", dtypes={"Tshape": INDICES}, contents=[1])
def reshape(b: Builder, x: Value, target: Value) -> Value:
    """The same elements in order; one dim may be -1: what is left."""
    wanted = content(b, target, "the new shape")
    return b.reshape(x, filled_in(b, wanted, d.product(b.shape(x))))


def filled_in(b: Builder, wanted: Sequence[Dim], total: Dim) -> list[Dim]:
    """A new shape for `total` elements, one dim of which may be -1."""
    if [n for n in wanted if isinstance(n, int) and n < -1] or wanted.count(-1) > 1:
        raise UnsupportedError(f"{wanted} is no shape", b.source)
    open_dims = [n for n in wanted if not (isinstance(n, int) or n.is_nonnegative)]
    if len(open_dims) + wanted.count(-1) > 1:
        holes = d.simplify(sum(d.if_negative(n, 1, 0) for n in open_dims) + wanted.count(-1))
        b.require_le(holes, 1, "at most one dim of the new shape is -1")
    return [_filled_in(b, wanted, i, total) for i in range(len(wanted))]


def _filled_in(b: Builder, wanted: Sequence[Dim], i: int, total: Dim) -> Dim:
    """Dim i of a new shape, worked out from the others where it is -1."""
    dim = wanted[i]
    if dim != -1 and (isinstance(dim, int) or dim.is_nonnegative):
        return dim
    others = d.product([*wanted[:i], *wanted[i + 1 :]])
    if dim == -1:
        # With an empty tensor and another dim of 0, what is left is for TensorFlow to say.
        b.require_le(1, others, "the dims beside a -1 are not 0")
        return d.floor_div(total, others)
    b.require_le(-1, dim, "dims of the new shape are at least -1")
    b.require_le(d.if_negative(dim, 1 - others, 0), 0, "the dims beside a -1 are not 0")
    return d.if_negative(dim, d.floor_div(total, d.larger(others, 1)), dim)


@lower("ExpandDims", dtypes={"Tdim": INDICES}, constants=[1])
def expand_dims(b: Builder, x: Value, dim: Value) -> Value:
    """x with a dim of 1 put in."""
    axis = one_axis(b, dim, x.type.rank + 1)
    dims = list(b.shape(x))
    dims.insert(axis, 1)
    return b.reshape(x, dims)


@lower("Squeeze")
def squeeze(b: Builder, x: Value, *, squeeze_dims: Sequence[int]) -> Value:
    """x without its dims of 1, or without the given ones."""
    dims = b.shape(x)
    if not squeeze_dims:
        if not all(isinstance(n, int) for n in dims):
            raise UnsupportedError("the rank of the result depends on the dims", b.source)
        return b.reshape(x, [n for n in dims if n != 1])
    dropped = {from_front(b, int(axis), x.type.rank) for axis in squeeze_dims}
    for axis in dropped:
        b.same_dim(dims[axis], 1, "squeezed dims are 1")
    return b.reshape(x, [n for i, n in enumerate(b.shape(x)) if i not in dropped])


@lower("Transpose", dtypes={"Tperm": INDICES}, constants=[1])
def transpose(b: Builder, x: Value, perm: Value) -> Value:
    """Dim i of the result is dim perm[i] of x."""
    order = [from_front(b, int(p), x.type.rank) for p in constant(b, perm, "perm").flat]
    return b.transpose(x, order)


@lower("BroadcastTo", dtypes={"Tidx": INDICES}, contents=[1])
def broadcast_to(b: Builder, x: Value, target: Value) -> Value:
    """x repeated to the given shape."""
    return b.broadcast_to(x, _dims(b, target, "the new shape"))


@lower("Tile", dtypes={"Tmultiples": INDICES}, contents=[1])
def tile(b: Builder, x: Value, multiples: Value) -> Value:
    """x repeated multiples[i] times along dim i."""
    times = _dims(b, multiples, "multiples")
    dims = b.shape(x)
    if all(n == 1 for n in times):
        return x
    # [a, b] -> [t, a, u, b] -> [t a, u b], without the dims that are 1.
    spread: list[Dim] = []
    kept: list[int] = []
    for n, repeat in zip(dims, times, strict=True):
        if repeat != 1 and n != 1:
            spread.append(repeat)
        kept.append(len(spread))
        spread.append(repeat if n == 1 else n)
    repeated = b.broadcast_in_dim(x, tuple(spread), kept)
    return b.reshape(repeated, [d.simplify(n * t) for n, t in zip(dims, times, strict=True)])


def _dims(b: Builder, value: Value, what: str) -> tuple[Dim, ...]:
    """The elements of a shape operand, made sure not to be negative."""
    dims = content(b, value, what)
    for n in dims:
        b.require_le(0, n, f"{what} has no negative element")
    return tuple(dims)


@lower("EnsureShape")
def ensure_shape(b: Builder, x: Value, *, shape: tuple[int | None, ...]) -> Value:
    """x, whose dims are the given ones."""
    for ours, wanted in zip(b.shape(x), shape, strict=True):
        if wanted is not None:
            b.same_dim(ours, wanted, "the shape that is ensured")
    return b.retype(x, b.shape(x))


# -- joining and taking apart -----------------------------------------------------------------


@lower("ConcatV2", constants=[-1])
def concat_v2(b: Builder, *operands: Value) -> Value:
    """Tensors one after the other along an axis; the axis is the last input."""
    *values, axis = operands
    return b.concatenate(values, one_axis(b, axis, values[0].type.rank))


@lower("Concat", constants=[0])
def concat(b: Builder, axis: Value, *values: Value) -> Value:
    """Tensors one after the other along an axis."""
    return b.concatenate(values, one_axis(b, axis, values[0].type.rank))


# Not ParallelConcat: a session rewrites it before it runs, but not in the functions that run in a
# cluster's place, where its kernel only reports an error.


@lower("Pack")
def pack(b: Builder, *values: Value, axis: int) -> Value:
    """Tensors of one shape, stacked along a new axis."""
    at = from_front(b, axis, values[0].type.rank + 1)
    rows = []
    for value in values:
        dims = list(b.shape(value))
        dims.insert(at, 1)
        rows.append(b.reshape(value, dims))
    return b.concatenate(rows, at)


@lower("Unpack")
def unpack(b: Builder, x: Value, *, num: int, axis: int) -> list[Value]:
    """The slices of one element along an axis, without that axis."""
    at = from_front(b, axis, x.type.rank)
    b.same_dim(b.shape(x)[at], num, "one output for each element")
    rest = [n for i, n in enumerate(b.shape(x)) if i != at]
    return [b.reshape(part, rest) for part in _parts(b, x, at, [1] * num)]


@lower("Split", constants=[0])
def split(b: Builder, split_dim: Value, x: Value, *, num_split: int) -> list[Value]:
    """Equal parts along an axis."""
    axis = one_axis(b, split_dim, x.type.rank)
    total = b.shape(x)[axis]
    part = d.floor_div(total, num_split)
    b.same_dim(d.simplify(part * num_split), total, "the dim divides into equal parts")
    return _parts(b, x, axis, [part] * num_split)


@lower("SplitV", dtypes={"Tlen": INDICES}, constants=[2], contents=[1])
def split_v(
    b: Builder, x: Value, size_splits: Value, split_dim: Value, *, num_split: int
) -> list[Value]:
    """Parts of given sizes along an axis; one size may be -1: what is left."""
    axis = one_axis(b, split_dim, x.type.rank)
    total = b.shape(x)[axis]
    sizes = content(b, size_splits, "the sizes")
    if len(sizes) != num_split:
        raise UnsupportedError(f"{num_split} parts but {len(sizes)} sizes", b.source)
    if sizes.count(-1) == 1:
        hole = sizes.index(-1)
        sizes[hole] = d.simplify(total - sum(n for i, n in enumerate(sizes) if i != hole))
    for n in sizes:
        b.require_le(0, n, "sizes are not negative")
    b.same_dim(d.simplify(sum(sizes)), total, "the sizes add up to the dim")
    return _parts(b, x, axis, sizes)


def _parts(b: Builder, x: Value, axis: int, sizes: Sequence[Dim]) -> list[Value]:
    """Consecutive slices along an axis; the sizes add up to its dim."""
    dims = b.shape(x)
    begin: Dim = 0
    parts = []
    for n in sizes:
        start: list[Dim] = [0] * len(dims)
        limit = list(dims)
        start[axis], limit[axis] = begin, d.simplify(begin + n)
        begin = limit[axis]
        parts.append(x if n == dims[axis] else b.slice(x, start, limit))
    return parts


# -- making tensors ---------------------------------------------------------------------------


@lower("Fill", dtypes={"index_type": INDICES}, contents=[0])
def fill(b: Builder, dims: Value, value: Value) -> Value:
    """A tensor of one repeated value."""
    return b.broadcast_to(value, _dims(b, dims, "the shape"))


@lower("Range", dtypes={"Tidx": FLOATS | INDICES})
def range_(b: Builder, start: Value, limit: Value, delta: Value) -> Value:
    """start, start + delta, … before limit; floats from constants only"""
    dtype = start.type.dtype
    if dtype.is_float:
        literals = (v.op for v in (start, limit, delta) if v.op and v.op.kind == "constant")
        ends = [op.attrs["value"] for op in literals]
        if len(ends) < 3:
            raise UnsupportedError("a range of floats needs constant ends", b.source)
        count = np.ceil(np.abs((ends[1] - ends[0]) / ends[2]))
        return b.constant(ends[0] + np.arange(count).astype(dtype.numpy) * ends[2], dtype)
    step = int(constant(b, delta, "delta").flat[0])
    first, end = (content(b, v, "an end of the range")[0] for v in (start, limit))
    if step == 0:
        raise UnsupportedError("delta is 0", b.source)
    if step > 0:
        b.require_le(first, end, "start is at most limit")
    else:
        b.require_le(end, first, "limit is at most start")
    count = d.ceil_div(end - first, step) if step > 0 else d.ceil_div(first - end, -step)
    if isinstance(first, int) and isinstance(count, int) and count <= _SPLAT_ELEMENTS:
        return b.constant(first + step * np.arange(count), dtype)  # may be read as axes
    steps = b.iota(dtype, (count,), 0)
    scaled = steps if step == 1 else b.mul(steps, b.constant(step, dtype))
    return scaled if first == 0 else b.add(scaled, b.shape_value(first, dtype))


@lower("LinSpace", dtypes={"T": FLOATS, "Tidx": INDICES}, contents=[2])
def lin_space(b: Builder, start: Value, stop: Value, num: Value) -> Value:
    """num numbers from start to stop, both included, at equal distances"""
    (count,) = content(b, num, "the number of elements")
    b.require_le(1, count, "there is an element")
    if count == 1:
        return b.reshape(start, [1])
    last = b.shape_value(d.simplify(count - 1), DType.I64)
    steps = b.binary("max", last, b.constant(1, DType.I64))
    step = b.div(b.sub(stop, start), b.convert(steps, start.type.dtype))
    places = b.iota(DType.I64, (count,), 0)
    inner = b.add(start, b.mul(step, b.convert(places, start.type.dtype)))
    at_end = b.binary(
        "and", b.compare("EQ", places, last), b.compare("GT", last, b.constant(0, DType.I64))
    )
    # An infinite step times 0 would be NaN.
    at_start = b.compare("EQ", places, b.constant(0, DType.I64))
    return b.select(at_end, stop, b.select(at_start, start, inner))


@lower("OneHot", contents=[1])
def one_hot(
    b: Builder, indices: Value, depth: Value, on_value: Value, off_value: Value, *, axis: int
) -> Value:
    """on_value where the position along a new axis is the index, else off_value."""
    (count,) = _dims(b, depth, "depth")
    rank = indices.type.rank
    at = rank if axis == -1 else from_front(b, axis, rank + 1)
    if indices.type.dtype.size < 4:
        indices = b.convert(indices, DType.I32)
    dims = list(b.shape(indices))
    dims.insert(at, 1)
    spread = b.reshape(indices, dims)
    dims[at] = count
    positions = b.iota(indices.type.dtype, tuple(dims), at)
    hits = b.compare("EQ", b.broadcast_to(spread, tuple(dims)), positions)
    return b.select(hits, on_value, off_value)
