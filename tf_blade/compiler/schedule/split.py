"""Reductions with too few rows for the threads there are: chunks of the columns are reduced
independently into a temporary, which a second kernel reduces to the result."""

from __future__ import annotations

from collections.abc import Sequence

from tf_blade.compiler.fuse import index as ix
from tf_blade.compiler.fuse.groups import is_few
from tf_blade.compiler.fuse.index import LoopVar
from tf_blade.compiler.fuse.scalar import Pool, Scalar
from tf_blade.compiler.ir import dims as d
from tf_blade.compiler.ir.dims import Dim
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.ir.types import TensorType
from tf_blade.compiler.schedule.kernel import (
    Accumulate,
    Blocks,
    ColumnReduce,
    Kernel,
    Pass,
    Store,
)

# Elements of a chunk, about.
CHUNK = 1 << 14
# Column reductions this wide have enough tiles to share.
WIDE = 2048


def split_rows(kernel: Kernel) -> tuple[list[Kernel], list[Value]]:
    """The kernel, or two in its place, and the temporaries between them."""
    if len(kernel.passes) != 1 or kernel.passes[0].stores or not is_few(kernel.rows):
        return [kernel], []
    (only,) = kernel.passes
    cut = _chunks(only.loops)
    if cut is None:
        return [kernel], []
    chunk = cut.block
    rows = (*kernel.rows, chunk)
    parts = [_parts(a.root, rows) for a in only.accumulates]
    first = Kernel(
        kernel.group,
        rows,
        [Pass(only.loops, only.accumulates)],
        [
            Store(part, _position(rows), a.local)
            for part, a in zip(parts, only.accumulates, strict=True)
        ],
        blocks={only.loops[0]: cut},
    )
    gathered = Pass((chunk,), _accumulate_parts(parts, only.accumulates, rows))
    return [first, Kernel(kernel.group, kernel.rows, [gathered], kernel.row_stores)], parts


def split_columns(kernel: ColumnReduce) -> tuple[list[ColumnReduce], list[Value]]:
    """As `split_rows`, for reductions over outer loops."""
    width = kernel.tile.extent
    if not is_few(kernel.rows) or not isinstance(width, int) or width > WIDE:
        return [kernel], []
    cut = _chunks(kernel.reduced, width)
    if cut is None:
        return [kernel], []
    chunk = cut.block
    rows = (*kernel.rows, chunk)
    loops = (*rows, kernel.tile)
    parts = [_parts(a.root, loops) for a in kernel.accumulates]
    first = ColumnReduce(
        kernel.group,
        rows,
        kernel.reduced,
        kernel.tile,
        kernel.accumulates,
        [
            Store(part, _position(loops), a.local)
            for part, a in zip(parts, kernel.accumulates, strict=True)
        ],
        blocks={kernel.reduced[0]: cut},
    )
    second = ColumnReduce(
        kernel.group,
        kernel.rows,
        (chunk,),
        kernel.tile,
        _accumulate_parts(parts, kernel.accumulates, loops),
        kernel.stores,
        kernel.row_passes,
    )
    return [first, second], parts


def _chunks(loops: Sequence[LoopVar], width: int = 1) -> Blocks | None:
    """How the first loop is cut; None when that isn't worth it."""
    if not loops:
        return None
    rest = ix.mul(d.product([v.extent for v in loops[1:]]), width)
    size = max(1, CHUNK // max(1, rest)) if isinstance(rest, int) else 64
    first = loops[0].extent
    if isinstance(first, int) and first <= size:
        return None
    return Blocks(LoopVar("chunk", d.ceil_div(first, size)), size)


def _parts(root: Value, loops: Sequence[LoopVar]) -> Value:
    shape: tuple[Dim, ...] = tuple(v.extent for v in loops)
    return Value(f"{root.name}_parts", TensorType(root.type.dtype, shape))


def _position(loops: Sequence[LoopVar]) -> ix.Affine:
    return ix.linear(tuple(ix.variable(v) for v in loops), tuple(v.extent for v in loops))


def _accumulate_parts(
    parts: Sequence[Value], accumulates: Sequence[Accumulate], loops: Sequence[LoopVar]
) -> list[Accumulate]:
    pool = Pool()

    def part(value: Value) -> Scalar:
        return pool.load(value, _position(loops))

    return [
        Accumulate(a.root, a.kind, part(value), a.local)
        for value, a in zip(parts, accumulates, strict=True)
    ]
