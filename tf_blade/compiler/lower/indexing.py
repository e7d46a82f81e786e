"""Taking parts of tensors, and putting borders around them."""

from __future__ import annotations

from dataclasses import dataclass

from tf_blade.compiler.ir import dims as d
from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.dims import Dim
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.lower.elementwise import number
from tf_blade.compiler.lower.operands import axes, constant, content, one_axis
from tf_blade.compiler.lower.registry import INDICES, lower
from tf_blade.errors import UnsupportedError


@lower("Slice", dtypes={"Index": INDICES}, contents=[1, 2])
def slice_(b: Builder, x: Value, begin: Value, size: Value) -> Value:
    """size[i] elements from begin[i] on in each dim; -1: all that are left"""
    starts, limits = [], []
    for start, count, dim in zip(
        content(b, begin, "begin"), content(b, size, "size"), b.shape(x), strict=True
    ):
        limit = d.if_negative(count, dim, start + count)
        b.require_le(0, start, "begin is not negative")
        b.require_le(-1, count, "sizes are at least -1")
        b.require_le(start, limit, "begin is inside the dim")
        b.require_le(limit, dim, "the slice ends inside the dim")
        starts.append(start)
        limits.append(limit)
    return b.slice(x, starts, limits)


# -- strided slice ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Entry:
    """One part of x[…]: kind "range", "index" or "new", and its position in begin/end/strides
    (None for a dim that an ellipsis stands for)."""

    kind: str
    position: int | None = None


@lower("StridedSlice", dtypes={"Index": INDICES}, constants=[3], contents=[1, 2])
def strided_slice(
    b: Builder,
    x: Value,
    begin: Value,
    end: Value,
    strides: Value,
    *,
    begin_mask: int,
    end_mask: int,
    ellipsis_mask: int,
    new_axis_mask: int,
    shrink_axis_mask: int,
) -> Value:
    """x[begin:end:stride, …] as in Python: negative positions count from the end, ends clamp"""
    steps = [int(s) for s in constant(b, strides, "strides").flat]
    others = begin_mask | end_mask | ellipsis_mask | new_axis_mask
    if len(steps) == shrink_axis_mask == 1 and not others and b.content(begin) is None:
        return row(b, x, b.reshape(begin, []), from_end=True)
    begins, ends = content(b, begin, "begin"), content(b, end, "end")
    entries = _entries(b, x, len(steps), ellipsis_mask, new_axis_mask, shrink_axis_mask)
    starts: list[Dim] = []
    limits: list[Dim] = []
    strides_forward: list[int] = []
    backward: list[int] = []
    indexed: list[int] = []
    for entry in entries:
        if entry.kind == "new":
            continue
        axis, i = len(starts), entry.position
        dim = b.shape(x)[axis]
        start, limit, step = 0, dim, 1
        if i is not None and entry.kind == "index":
            start = _from_front(begins[i], dim)
            b.require_le(0, start, "the index is inside the dim")
            b.require_le(start + 1, dim, "the index is inside the dim")
            limit = start + 1
            indexed.append(axis)
        elif i is not None:
            step = steps[i]
            if step == 0:
                raise UnsupportedError("a stride is 0", b.source)
            first = None if begin_mask >> i & 1 else begins[i]
            last = None if end_mask >> i & 1 else ends[i]
            start, limit = _clamped(first, last, dim, step)
            if step < 0:
                backward.append(axis)
        starts.append(start)
        limits.append(limit)
        strides_forward.append(abs(step))
    sliced = b.slice(b.reverse(x, backward), starts, limits, strides_forward)
    dims = iter([n for axis, n in enumerate(b.shape(sliced)) if axis not in indexed])
    return b.reshape(
        sliced, [1 if e.kind == "new" else next(dims) for e in entries if e.kind != "index"]
    )


def row(b: Builder, x: Value, index: Value, *, from_end: bool = False) -> Value:
    """x[index] for a scalar that is data; from_end: a negative one counts from the end.

    Outside of x the run is refused, also where rows are empty: a gather would not look.
    """
    length, *rest = b.shape(x)
    low = b.compare("GE", index, b.constant(0, index.type.dtype))
    size = b.shape_value(length, index.type.dtype)
    if from_end:
        index = b.select(low, index, b.add(index, size))
        low = b.compare("GE", index, b.constant(0, index.type.dtype))
    if not all(d.is_static(n) and n != 0 for n in rest):
        index = b.checked(index, b.binary("and", low, b.compare("LT", index, size)))
    return b.gather(x, index, 0)


def _entries(
    b: Builder, x: Value, count: int, ellipsis_mask: int, new_axis_mask: int, shrink_mask: int
) -> list[_Entry]:
    """The parts of the index expression in order, the ellipsis written out."""

    def kind(i: int) -> str:
        if new_axis_mask >> i & 1:
            return "new"
        return "index" if shrink_mask >> i & 1 else "range"

    at = next((i for i in range(count) if ellipsis_mask >> i & 1), count)
    before = [_Entry(kind(i), i) for i in range(at)]
    after = [_Entry(kind(i), i) for i in range(at + 1, count)]
    missing = x.type.rank - sum(e.kind != "new" for e in before + after)
    if missing < 0:
        raise UnsupportedError(f"too many indices for rank {x.type.rank}", b.source)
    return [*before, *[_Entry("range")] * missing, *after]


def _from_front(position: Dim, dim: Dim) -> Dim:
    return d.if_negative(position, dim + position, position)


def _clamped(first: Dim | None, last: Dim | None, dim: Dim, step: int) -> tuple[Dim, Dim]:
    """Start and limit of begin:end:step, counted from the side where the stride starts; None
    stands for an open end. 0 <= start <= limit <= dim."""

    def counted(position: Dim) -> Dim:
        forward = _from_front(position, dim)
        return forward if step > 0 else d.simplify(dim - 1 - forward)

    def inside(position: Dim) -> Dim:
        return d.larger(d.smaller(position, dim), 0)

    start: Dim = 0 if first is None else counted(first)
    if last is None:
        return inside(start), dim
    limit = counted(last)
    gap = d.simplify(limit - start)
    in_order = gap >= 0 if isinstance(gap, int) else gap.is_nonnegative
    start, limit = inside(start), inside(limit)
    return start, limit if in_order else d.larger(start, limit)


# -- gather -----------------------------------------------------------------------------------
# An index outside the dim refuses the run: TensorFlow reports it, and so does the fallback.


@lower(
    "GatherV2",
    dtypes={"Tindices": INDICES, "Taxis": INDICES},
    constants=[2],
)
def gather_v2(b: Builder, params: Value, indices: Value, axis: Value, *, batch_dims: int) -> Value:
    """The slices of params along an axis at the given indices."""
    at = one_axis(b, axis, params.type.rank)
    batch = batch_dims + indices.type.rank if batch_dims < 0 else batch_dims
    if not 0 <= batch <= min(at, indices.type.rank):
        raise UnsupportedError(f"batch_dims={batch_dims} with axis {at}", b.source)
    for i in range(batch):
        b.same_dim(params.type.shape[i], indices.type.shape[i], "batch dims")
    indices = b.retype(indices, (*b.shape(params)[:batch], *b.shape(indices)[batch:]))
    return b.gather(params, indices, at, batch)


@lower("Gather", dtypes={"Tindices": INDICES}, ignores=["validate_indices"])
def gather(b: Builder, params: Value, indices: Value) -> Value:
    """The slices of params along its first axis at the given indices."""
    return b.gather(params, indices, 0)


# Where a policy lets TensorFlow take zeros for bad indices, the fallback does so.
@lower("GatherNd", dtypes={"Tindices": INDICES}, ignores=["bad_indices_policy"])
def gather_nd(b: Builder, params: Value, indices: Value) -> Value:
    """The slices of params at the index vectors that the last dim of indices holds."""
    depth = b.shape(indices)[-1]
    if not isinstance(depth, int) or depth == 0:
        raise UnsupportedError("index vectors must have a known length, at least 1", b.source)
    dims = b.shape(params)
    # TensorFlow reports an error when there is an index and params is empty.
    asked = d.smaller(1, d.product(b.shape(indices)))
    b.require_le(asked, d.product(dims), "an index into empty params")
    rows = b.reshape(params, (d.product(dims[:depth]), *dims[depth:]))
    sizes = [b.shape_value(n, indices.type.dtype) for n in dims[:depth]]
    parts = [_component(b, indices, i) for i in range(depth)]
    flat = parts[0]
    for part, size in zip(parts[1:], sizes[1:], strict=True):
        flat = b.add(b.mul(flat, size), part)
    if depth > 1:
        # Each index is checked on its own: a row past its end must not reach into the next one.
        for part, size in zip(parts, sizes, strict=True):
            below = b.compare("LT", part, size)
            inside = b.binary("and", b.compare("GE", part, number(b, 0, part)), below)
            flat = b.select(inside, flat, number(b, -1, flat))
    return b.gather(rows, flat, 0)


def _component(b: Builder, indices: Value, i: int) -> Value:
    """Element i of each index vector."""
    outer = b.shape(indices)[:-1]
    return b.reshape(b.slice(indices, [0] * len(outer) + [i], [*outer, i + 1]), outer)


# -- pad and reverse --------------------------------------------------------------------------


def _paddings(b: Builder, paddings: Value, rank: int) -> tuple[list[Dim], list[Dim]]:
    elements = content(b, paddings, "paddings")
    if len(elements) != 2 * rank:
        raise UnsupportedError(f"{len(elements)} paddings for rank {rank}", b.source)
    for n in elements:
        b.require_le(0, n, "paddings are not negative")
    return elements[::2], elements[1::2]


@lower("Pad", dtypes={"Tpaddings": INDICES}, contents=[1])
def pad(b: Builder, x: Value, paddings: Value) -> Value:
    """Zeros before and after in each dim."""
    return pad_v2(b, x, paddings, number(b, 0, x))


@lower("PadV2", dtypes={"Tpaddings": INDICES}, contents=[1])
def pad_v2(b: Builder, x: Value, paddings: Value, fill: Value) -> Value:
    """A repeated value before and after in each dim."""
    low, high = _paddings(b, paddings, x.type.rank)
    if not any(n != 0 for n in low + high):
        return x
    return b.pad(x, fill, low, high)


@lower("MirrorPad", dtypes={"Tpaddings": INDICES}, contents=[1])
def mirror_pad(b: Builder, x: Value, paddings: Value, *, mode: str) -> Value:
    """Mirror images before and after in each dim; REFLECT leaves out the edge itself."""
    edge = 1 if mode == "REFLECT" else 0
    low, high = _paddings(b, paddings, x.type.rank)
    for axis in range(x.type.rank):
        dim = b.shape(x)[axis]
        parts = []
        for before, n in ((True, low[axis]), (False, high[axis])):
            b.require_le(n + edge, dim, "paddings fit into the dim")
            start = edge if before else d.simplify(dim - edge - n)
            if n != 0:
                parts.append(b.reverse(_along(b, x, axis, start, start + n), [axis]))
            if before:
                parts.append(x)
        x = b.concatenate(parts, axis)
    return x


def _along(b: Builder, x: Value, axis: int, start: Dim, limit: Dim) -> Value:
    """x from start to limit in one dim."""
    starts: list[Dim] = [0] * x.type.rank
    limits = list(b.shape(x))
    starts[axis], limits[axis] = start, d.simplify(limit)
    return b.slice(x, starts, limits)


@lower("ReverseV2", dtypes={"Tidx": INDICES}, constants=[1])
def reverse_v2(b: Builder, x: Value, axis: Value) -> Value:
    """x with the order of elements turned around in the given dims."""
    return b.reverse(x, axes(b, axis, x.type.rank))


@lower("Reverse", constants=[1])
def reverse(b: Builder, x: Value, dims: Value) -> Value:
    """x with the order of elements turned around where dims is true."""
    if dims.op is None or dims.op.kind != "constant":
        raise UnsupportedError("the dims to reverse must be constant", b.source)
    if x.type.rank:  # TensorFlow's kernel fails without a reason; ReverseV2's doesn't
        b.require_le(1, b.shape(x)[0], "there is something to reverse along the first dim")
    return b.reverse(x, [i for i, turned in enumerate(dims.op.attrs["value"]) if turned])
