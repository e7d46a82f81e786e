"""Blocks that move between space, depth and batch: reshapes, a transpose and a border."""

from __future__ import annotations

from collections.abc import Sequence

from tf_blade.compiler.ir import dims as d
from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.dims import Dim
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.lower.elementwise import number
from tf_blade.compiler.lower.operands import channels_last, constant, content
from tf_blade.compiler.lower.registry import INDICES, lower
from tf_blade.errors import UnsupportedError


def _parts(b: Builder, dim: Dim, size: int) -> Dim:
    """How many blocks of `size` the dim has; they fill it."""
    count = d.floor_div(dim, size)
    b.same_dim(d.simplify(count * size), dim, "the dim divides into blocks")
    return count


@lower("SpaceToDepth")
def space_to_depth(b: Builder, x: Value, *, block_size: int, data_format: str) -> Value:
    """Blocks of an image's pixels become channels."""
    channels_last(b, data_format)
    n, h, w, c = b.shape(x)
    rows, columns = _parts(b, h, block_size), _parts(b, w, block_size)
    cut = b.reshape(x, (n, rows, block_size, columns, block_size, c))
    depth = d.simplify(c * block_size**2)
    return b.reshape(b.transpose(cut, (0, 1, 3, 2, 4, 5)), (n, rows, columns, depth))


@lower("DepthToSpace")
def depth_to_space(b: Builder, x: Value, *, block_size: int, data_format: str) -> Value:
    """An image's channels become blocks of pixels."""
    channels_last(b, data_format)
    n, h, w, c = b.shape(x)
    depth = _parts(b, c, block_size**2)
    cut = b.reshape(x, (n, h, w, block_size, block_size, depth))
    joined = b.transpose(cut, (0, 1, 3, 2, 4, 5))
    return b.reshape(joined, (n, d.simplify(h * block_size), d.simplify(w * block_size), depth))


def _space_to_batch(b: Builder, x: Value, block: Sequence[int], borders: Sequence[Dim]) -> Value:
    """block: sizes in dims 1, 2, …; borders: padding before and after each of them."""
    spatial = len(block)
    for n in borders:
        b.require_le(0, n, "paddings are not negative")
    if any(n != 0 for n in borders):
        rest = [0] * (x.type.rank - 1 - spatial)
        low, high = [0, *borders[::2], *rest], [0, *borders[1::2], *rest]
        x = b.pad(x, number(b, 0, x), low, high)
    batch, *dims = b.shape(x)
    counts = [_parts(b, n, size) for n, size in zip(dims, block, strict=False)]
    rest_dims = dims[spatial:]
    pairs = [n for pair in zip(counts, block, strict=True) for n in pair]
    cut = b.reshape(x, (batch, *pairs, *rest_dims))
    inside = [2 + 2 * i for i in range(spatial)]
    outside = [1 + 2 * i for i in range(spatial)]
    last = range(1 + 2 * spatial, cut.type.rank)
    moved = b.transpose(cut, (*inside, 0, *outside, *last))
    return b.reshape(moved, (d.product([*block, batch]), *counts, *rest_dims))


def _batch_to_space(b: Builder, x: Value, block: Sequence[int], crops: Sequence[Dim]) -> Value:
    """block: sizes for dims 1, 2, …; crops: what goes before and after in each of them."""
    spatial = len(block)
    batch, *dims = b.shape(x)
    size = d.product(list(block))
    rest_batch = _parts(b, batch, int(size))
    cut = b.reshape(x, (*block, rest_batch, *dims))
    pairs = [axis for i in range(spatial) for axis in (spatial + 1 + i, i)]
    last = range(2 * spatial + 1, cut.type.rank)
    moved = b.transpose(cut, (spatial, *pairs, *last))
    joined = [d.simplify(n * s) for n, s in zip(dims, block, strict=False)]
    whole = b.reshape(moved, (rest_batch, *joined, *dims[spatial:]))
    starts: list[Dim] = [0] * x.type.rank
    limits = list(b.shape(whole))
    for i, (before, after) in enumerate(zip(crops[::2], crops[1::2], strict=True)):
        for n in (before, after):
            b.require_le(0, n, "crops are not negative")
        starts[1 + i] = before
        limits[1 + i] = d.simplify(limits[1 + i] - after)
        b.require_le(before, limits[1 + i], "the crops leave something")
    if all(n == 0 for n in crops):
        return whole
    return b.slice(whole, starts, limits)


def _block_shape(b: Builder, block_shape: Value, rank: int, borders: list[Dim]) -> list[int]:
    block = [int(n) for n in constant(b, block_shape, "block_shape").flat]
    if len(block) >= rank or len(borders) != 2 * len(block) or any(n < 1 for n in block):
        raise UnsupportedError(f"block_shape {block} for rank {rank}", b.source)
    return block


@lower("SpaceToBatch", dtypes={"Tpaddings": INDICES}, contents=[1])
def space_to_batch(b: Builder, x: Value, paddings: Value, *, block_size: int) -> Value:
    """Square blocks of an image's pixels, after padding, become entries of the batch."""
    return _space_to_batch(b, x, [block_size] * 2, content(b, paddings, "paddings"))


@lower(
    "SpaceToBatchND",
    dtypes={"Tblock_shape": INDICES, "Tpaddings": INDICES},
    constants=[1],
    contents=[2],
)
def space_to_batch_nd(b: Builder, x: Value, block_shape: Value, paddings: Value) -> Value:
    """Blocks of dims 1, 2, …, after padding, become entries of the batch."""
    borders = content(b, paddings, "paddings")
    return _space_to_batch(b, x, _block_shape(b, block_shape, x.type.rank, borders), borders)


@lower("BatchToSpace", dtypes={"Tidx": INDICES}, contents=[1])
def batch_to_space(b: Builder, x: Value, crops: Value, *, block_size: int) -> Value:
    """Entries of the batch become square blocks of an image's pixels; then the border is cut."""
    return _batch_to_space(b, x, [block_size] * 2, content(b, crops, "crops"))


@lower(
    "BatchToSpaceND",
    dtypes={"Tblock_shape": INDICES, "Tcrops": INDICES},
    constants=[1],
    contents=[2],
)
def batch_to_space_nd(b: Builder, x: Value, block_shape: Value, crops: Value) -> Value:
    """Entries of the batch become blocks of dims 1, 2, …; then the border is cut."""
    borders = content(b, crops, "crops")
    return _batch_to_space(b, x, _block_shape(b, block_shape, x.type.rank, borders), borders)
