"""Transposes: blocks of memory go through tiles in the first-level cache.

for (i64 i0_start = …; i0_start < i0_last; i0_start += 64) {
  for (i64 i1_start = …; i1_start < i1_last; i1_start += 64) {
    transpose_tile<64>(p0_tile, &p0_ptr[i0_start + i1_start * s1], s1, …);
    (the kernel's own loops, over i0 and i1 of the tile)
"""

from __future__ import annotations

from tf_blade.compiler.emit import c
from tf_blade.compiler.emit.nest import bounds_of, braced, loop_header, print_store
from tf_blade.compiler.emit.scope import KernelText, Scope
from tf_blade.compiler.fuse.index import LoopVar, mul
from tf_blade.compiler.fuse.scalar import Scalar
from tf_blade.compiler.ir.types import DType
from tf_blade.compiler.schedule.kernel import Kernel, Pass, Store

# Sides of a tile.
TILE = 64
# A tile of fewer iterations of either loop is thin.
THIN = 8
# Results of more bytes than this aren't in the second-level cache when they are written.
FAR = 1 << 20


def tile_bounds(v: LoopVar) -> tuple[str, str]:
    """The range of the loop in a tile."""
    return f"{v.name}_start", f"{v.name}_stop"


def print_tiles(kernel: Kernel, text: KernelText, around: Scope) -> list[tuple[str, Scope]]:
    """The loops over tiles, outermost first, each with its block. The innermost one begins with
    the copies, and what reads the transposed loads inside it finds them in the tiles."""
    (only,) = kernel.passes
    loops: list[tuple[str, Scope]] = []
    stops: list[str] = []
    scope = around
    text.functions.update(["transpose_tile", "dim_min"])
    for v in only.loops:
        begin, end = bounds_of(v, kernel.blocks, text, scope)
        start, stop = tile_bounds(v)
        stops.append(f"const i64 {stop} = dim_min({start} + {TILE}, {end});")
        scope = scope.inner()
        loops.append((f"for (i64 {start} = {begin}; {start} < {end}; {start} += {TILE})", scope))
    scope.lines += stops
    _print_thin(only, text, scope)
    for s in kernel.transposed:
        _copy(s, only.loops, text, scope, around)
    for store in only.stores:
        _prefetch(store, only.loops, text, scope)
    return loops


def _print_thin(p: Pass, text: KernelText, scope: Scope) -> None:
    """Tiles of a few rows or columns, as of a batch of one, aren't worth their copies."""
    across, inner = p.loops
    for few, many in ((inner, across), (across, inner)):
        block = scope.inner(p.loops)
        for store in p.stores:
            print_store(store, text, block)
        along = Scope()
        if many is inner and not block.flags:
            along.lines.append("#pragma omp simd")
        along.close(block, loop_header(many, *tile_bounds(many)))
        thin = Scope()
        thin.close(along, loop_header(few, *tile_bounds(few)))
        thin.lines.append("continue;")
        start, stop = tile_bounds(few)
        scope.close(thin, f"if ({stop} - {start} < {THIN})")
        scope.flags |= block.flags


def _prefetch(store: Store, loops: tuple[LoopVar, ...], text: KernelText, scope: Scope) -> None:
    """The part of the result that the tile becomes is brought into the cache, if it is far."""
    text.functions.add("prefetch_rows")
    corner, counts = _corner(loops, text, scope)
    first = text.address(store.root, store.index, corner, written=True)
    step = text.dim(store.index.coefficient(loops[0]))
    corner.lines.append(f"prefetch_rows(&{first}, {step}, {counts[0]}, {counts[1]});")
    size = text.dim(mul(store.root.type.size, store.root.type.dtype.size))
    scope.close(corner, f"if ({size} > {FAR})")


def _corner(
    loops: tuple[LoopVar, ...], text: KernelText, scope: Scope
) -> tuple[Scope, tuple[str, ...]]:
    """A block in which the loops stand at the tile's first element, and their iterations."""
    corner = scope.inner(loops)
    for v in loops:
        corner.lines.append(f"const i64 {v.name} = {tile_bounds(v)[0]};")
    return corner, tuple(f"(i32)({tile_bounds(v)[1]} - {v.name})" for v in loops)


def _copy(
    s: Scalar, loops: tuple[LoopVar, ...], text: KernelText, scope: Scope, around: Scope
) -> None:
    assert s.value is not None and s.index is not None
    name = text.unique(f"{text.value_name(s.value)}_tile")
    around.lines.append(f"alignas(64) {c.type_name(s.dtype)} {name}[{TILE * TILE}];")
    corner, counts = _corner(loops, text, scope)
    first = text.address(s.value, s.index, corner, written=False)
    step = text.dim(s.index.coefficient(loops[1]))
    arguments = f"{name}, &{first}, {step}, {counts[1]}, {counts[0]}"
    corner.lines.append(f"transpose_tile<{TILE}>({arguments});")
    scope.lines += braced(corner)
    row, column = (f"({v.name} - {tile_bounds(v)[0]})" for v in loops)
    element = f"{name}[{row} * {TILE} + {column}]"
    if s.dtype is DType.BOOL:
        text.functions.add("is_set")
        element = f"is_set({element})"
    scope.names[s] = element
