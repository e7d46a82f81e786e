"""Short rows of a loop kernel, many of them as one.

Rows of a few elements leave vectors half empty. Where what is read and written lies row after row,
many rows are one long one; what lies apart is copied into tiles in which rows follow each other,
and what is the same for all rows is computed once and repeated in a tile.

    if (s1 > 0 && s1 <= SHORT && s0 >= FEW) {
      for (i64 unit = begin; unit < end;) {
        i64 i0 = unit; …
        (p0_tile = p0[i1] for a row, then copied for the others)
        for (; i0 < i0_stop; i0 += i0_step) {
          const i64 count = dim_min(i0_step, i0_stop - i0), elements = count * s1;
          for (i64 i1_flat = 0; i1_flat < elements; ++i1_flat)
            v1_row[i1_flat] = p1_row[i1_flat] + p0_tile[i1_flat];
"""

from __future__ import annotations

from collections.abc import Sequence

from tf_blade.compiler.emit import c
from tf_blade.compiler.emit.nest import loop_header, odometer
from tf_blade.compiler.emit.operations import may_refuse
from tf_blade.compiler.emit.prefetch import Prefetches
from tf_blade.compiler.emit.scope import KernelText, Scope
from tf_blade.compiler.emit.vector_loop import VectorLoop
from tf_blade.compiler.fuse.index import Affine, LoopVar, mul, sub, substitute, vars_of
from tf_blade.compiler.fuse.scalar import Pool, Scalar, rename
from tf_blade.compiler.ir.types import DType
from tf_blade.compiler.schedule.collapse import scalars_of
from tf_blade.compiler.schedule.kernel import Kernel, Pass, Store

# The most elements of a row: of longer ones the whole vectors are most of the work.
SHORT = 128
# The same where some have to be copied.
SHORT_APART = 24
# The fewest rows that are worth it.
FEW = 8
# Elements of the rows that become one, about: tiles stay in the first-level cache.
TILE = 512
_MOST_TILES = 8
# A multiple of all vectors' lanes.
_LANES = 16


def has_short_rows(kernel: Kernel) -> bool:
    """Whether the kernel can be printed so and its rows may be short."""
    if len(kernel.passes) != 1 or kernel.row_stores or kernel.transposed or not _rows(kernel):
        return False
    (only,) = kernel.passes
    if len(only.loops) != 1 or only.accumulates or only.inside or only.outside:
        return False
    row, (inner,) = _rows(kernel)[-1], only.loops
    apart = _apart(only, row, inner)
    if isinstance(inner.extent, int) and not (
        inner.extent <= _longest(apart) and inner.extent % _LANES != 0
    ):
        return False
    if isinstance(row.extent, int) and row.extent < FEW:
        return False
    found = scalars_of(only.scalars())
    by_row = [s for s in found if row in s.vars]
    if any(may_refuse(s) for s in found) or not all(inner in s.vars for s in by_row):
        return False
    if any(s.kind == "index" or not _is_plain(s.index, row, inner) for s in by_row):
        return False
    if not all(is_joined(s.index, row, inner) for s in only.stores):
        return False
    return len(apart) + len(_repeated(only, row, inner)) <= _MOST_TILES


def condition(kernel: Kernel, text: KernelText) -> str:
    """C++ that tells whether rows are short and many; empty if they are known to be."""
    (only,), row = kernel.passes, _rows(kernel)[-1]
    (inner,) = only.loops
    tests: list[str] = []
    if not isinstance(inner.extent, int):
        width = text.dim(inner.extent)
        tests += [f"{width} > 0", f"{width} <= {_longest(_apart(only, row, inner))}"]
    if not isinstance(row.extent, int):
        tests.append(f"{text.dim(row.extent)} >= {FEW}")
    return " && ".join(tests)


def print_joined_rows(kernel: Kernel, text: KernelText, top: Scope) -> None:
    """Appends the loop over the kernel's units to `top`."""
    _JoinedRows(kernel, text, top).print()


def _longest(apart: Sequence[Scalar]) -> int:
    return SHORT_APART if apart else SHORT


def _apart(p: Pass, row: LoopVar, inner: LoopVar) -> list[Scalar]:
    """What is read in rows that don't follow each other."""
    loads = [s for s in scalars_of(p.scalars()) if s.kind == "load" and row in s.vars]
    return [s for s in loads if not is_joined(s.index, row, inner)]


def _rows(kernel: Kernel) -> tuple[LoopVar, ...]:
    """The loops over rows; short rows are one block."""
    blocks = {b.block for b in kernel.blocks.values()}
    return tuple(v for v in kernel.rows if v not in blocks)


def _is_plain(x: Affine | None, row: LoopVar, inner: LoopVar) -> bool:
    """Whether neighbours in a row are neighbours in memory, and rows the same distance apart."""
    if x is None:
        return True
    loops = [a for a, _ in x.terms if vars_of(a) & {row, inner}]
    return x.coefficient(inner) == 1 and all(isinstance(a, LoopVar) for a in loops)


def is_joined(x: Affine | None, row: LoopVar, inner: LoopVar) -> bool:
    """Whether a row begins where the one before it ends."""
    if x is None or not _is_plain(x, row, inner):
        return False
    return sub(x.coefficient(row), inner.extent) == 0


def _repeated(p: Pass, row: LoopVar, inner: LoopVar) -> list[Scalar]:
    """The largest parts of the expressions that depend on the inner loop but not on the row."""
    found: dict[Scalar, None] = {}
    seen: set[Scalar] = set()
    todo = p.scalars()
    while todo:
        s = todo.pop()
        if s in seen or inner not in s.vars:
            continue
        seen.add(s)
        if row in s.vars:
            todo.extend(s.needs())
        else:
            found[s] = None
    return list(found)


class _JoinedRows:
    def __init__(self, kernel: Kernel, text: KernelText, top: Scope) -> None:
        self.text, self.top = text, top
        self.rows = _rows(kernel)
        self.row, (self.only,) = self.rows[-1], kernel.passes
        self.inner = self.only.loops[0]
        self.width = text.dim(self.inner.extent)
        self.flat = LoopVar(f"{self.inner.name}_flat", mul(self.inner.extent, self.row.extent))

    def print(self) -> None:
        row, step = self.row.name, self.text.unique(f"{self.row.name}_step")
        count = f"dim_min({step}, {row}_stop - {row})"
        stop = f"dim_min({self.text.dim(self.row.extent)}, {row} + end - unit)"
        self.text.functions.add("dim_min")
        self.top.lines.append(f"const i64 {step} = {TILE} / {self.width};")
        unit = self.top.inner(self.rows[:-1])
        unit.lines += [
            *odometer(self.rows, "unit", self.text)[0],
            f"const i64 {row}_stop = {stop};",
            f"unit += {row}_stop - {row};",
        ]
        tiles = self._repeat(unit, count)
        block = unit.inner([self.row])
        block.lines.append(f"const i64 count = {count};")
        tiles |= self._join(block)
        self._compute(block, tiles)
        unit.close(block, f"for (; {row} < {row}_stop; {row} += {step})")
        self.top.close(unit, "for (i64 unit = begin; unit < end;)")

    def _tile(self, s: Scalar) -> str:
        hint = "index" if s.value is None else self.text.value_name(s.value)
        name = self.text.unique(f"{hint}_tile")
        # Rows are written in whole vectors.
        self.top.lines.append(f"alignas(64) {c.type_name(s.dtype)} {name}[{TILE + _LANES}];")
        return name

    def _repeat(self, unit: Scope, count: str) -> dict[Scalar, str]:
        """Tiles of what is the same in `count` rows."""
        tiles = {s: self._tile(s) for s in _repeated(self.only, self.row, self.inner)}
        first = unit.inner([self.inner])
        for s, name in tiles.items():
            first.lines.append(f"{name}[{self.inner.name}] = {self.text.text(s, first)};")
        if tiles:
            self.text.functions.add("repeat_row")
            unit.close(first, loop_header(self.inner, "0", self.width))
        unit.lines += [f"repeat_row({name}, {count}, {self.width});" for name in tiles.values()]
        return tiles

    def _join(self, block: Scope) -> dict[Scalar, str]:
        """Tiles of rows that lie apart."""
        tiles: dict[Scalar, str] = {}
        for s in _apart(self.only, self.row, self.inner):
            assert s.value is not None and s.index is not None
            tiles[s] = self._tile(s)
            self.text.functions.add("join_rows")
            start = Affine(tuple(t for t in s.index.terms if t[0] != self.inner), s.index.const)
            place = self.text.address(s.value, start, block, written=False)
            step = self.text.dim(s.index.coefficient(self.row))
            block.lines.append(f"join_rows({tiles[s]}, &{place}, {step}, count, {self.width});")
        return tiles

    def _compute(self, block: Scope, tiles: dict[Scalar, str]) -> None:
        """The loop over the elements of all rows."""
        stores = self.only.stores
        before = [*tiles, *(s.scalar for s in stores)]
        after = rename(Pool(), before, {self.inner: self.flat})
        tiled, scalars = after[: len(tiles)], after[len(tiles) :]
        for s, name in zip(tiled, tiles.values(), strict=True):
            block.names[s] = f"{name}[{self.flat.name}]"
            if s.dtype is DType.BOOL:
                self.text.functions.add("is_set")
                block.names[s] = f"is_set({block.names[s]})"
        p = Pass(
            (self.flat,),
            stores=[
                Store(store.root, substitute(store.index, {self.inner: self.flat}), scalar)
                for store, scalar in zip(stores, scalars, strict=True)
            ],
        )
        loop = VectorLoop(p, [], self.text, frozenset(tiled), Prefetches())
        loop.print(block, "0", f"count * {self.width}")
