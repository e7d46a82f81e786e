"""Rows of a few elements: vectors run across many rows instead of along one.

A tile of rows is copied so that the elements of a column lie side by side; every statement of the
kernel is then a loop over the tile's rows, and what the kernel stores is copied back. Copies are
plain loops over rows: all of a tile is written long before it is read again.

    if (s1 <= NARROW) {
      for (i64 first = begin; first < end; first += ROWS) {
        (copies into p0_tile)
        for (i64 j0 = 0; j0 < s1; ++j0)
          for (i32 lane = 0; lane < ROWS; ++lane) v0[lane] = max_f32(p0_tile[at + lane], v0[lane]);
        ...

Lanes past the last row compute something from what is there, which is never copied back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tf_blade.compiler.emit import c
from tf_blade.compiler.emit.nest import braced, loop_header, odometer, print_store
from tf_blade.compiler.emit.operations import may_refuse
from tf_blade.compiler.emit.reduction import combine, neutral
from tf_blade.compiler.emit.scope import KernelText, Scope
from tf_blade.compiler.fuse import cost
from tf_blade.compiler.fuse.index import LoopVar
from tf_blade.compiler.fuse.scalar import Scalar
from tf_blade.compiler.ir import dims as d
from tf_blade.compiler.ir.dims import Dim
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.ir.types import DType
from tf_blade.compiler.schedule.kernel import Accumulate, Kernel, Pass, Store

# The most elements of a row: where they are more than the prelude's NARROW, which depends on the
# instruction set, vectors along the row are filled well enough.
NARROW = 16
# Rows of a tile. Vectors of all targets divide it.
ROWS = 64
# All tiles stay in the first-level cache.
_MOST_TILES = 8
# What an element that isn't reduced must cost.
_DEAR = 12.0


def is_narrow_kernel(kernel: Kernel) -> bool:
    """Whether the kernel can be printed so: rows that may be short, and that are reduced or take
    much longer to compute than to copy."""
    columns, rows = row_elements(kernel), frozenset(_rows(kernel))
    if not rows or columns is None or (isinstance(columns, int) and columns > NARROW):
        return False
    scalars = _all_scalars(kernel)
    dear = kernel.group.kind == "loop" and cost.of_scalars(scalars) >= _DEAR
    # A reduction in blocks is of long rows.
    reduces = kernel.group.kind == "row_reduce" and not kernel.blocks
    if kernel.transposed or not (dear or reduces):
        return False
    if any(may_refuse(s) or (s.kind == "index" and s.vars & rows) for s in scalars):
        return False
    stored = {s.root for p in kernel.passes for s in p.stores}
    loads = [s for s in scalars if s.kind == "load" and s.value not in stored]
    tiles = [s for s in loads if s.vars & rows and s.vars - rows]
    return len(tiles) + len(stored) <= _MOST_TILES


def _rows(kernel: Kernel) -> tuple[LoopVar, ...]:
    """The loops over rows; short rows are one block."""
    blocks = {b.block for b in kernel.blocks.values()}
    return tuple(v for v in kernel.rows if v not in blocks)


def row_elements(kernel: Kernel) -> Dim | None:
    """Elements of a row; None where there are none."""
    loops = {p.loops for p in kernel.passes}
    if len(loops) != 1 or loops == {()}:
        return None
    return d.product([v.extent for v in loops.pop()])


def print_narrow(kernel: Kernel, text: KernelText, top: Scope) -> None:
    """Appends the loop over tiles to `top`."""
    _Narrow(kernel, text, top).print()


def _all_scalars(kernel: Kernel) -> list[Scalar]:
    """Every expression in the kernel, inner ones before those that need them."""
    found: dict[Scalar, None] = {}

    def visit(s: Scalar) -> None:
        if s not in found:
            for needed in s.needs():
                visit(needed)
            found[s] = None

    for p in kernel.passes:
        for scalar in p.scalars():
            visit(scalar)
    for store in kernel.row_stores:
        visit(store.scalar)
    return list(found)


class _Narrow:
    def __init__(self, kernel: Kernel, text: KernelText, top: Scope) -> None:
        self.kernel, self.text, self.top = kernel, text, top
        self.row_loops = _rows(kernel)
        self.rows = frozenset(self.row_loops)
        self.loops = kernel.passes[0].loops
        self.tile = top.inner()
        self.stored = {s.root for p in kernel.passes for s in p.stores}

    def print(self) -> None:
        self.text.functions.update(["dim_min", "one_by_one"])
        self.tile.lines.append(f"const i32 count = (i32)dim_min({ROWS}, end - first);")
        loads = [s for s in _all_scalars(self.kernel) if s.kind == "load"]
        self._copy_in([s for s in loads if s.vars & self.rows and s.value not in self.stored])
        own = {s.root: self._array(s.root, ROWS * NARROW, "tile") for s in self._stores()}
        for s in loads:
            if s.value in own:
                self.tile.names[s] = f"{own[s.value]}[at + lane]"
        for p in self.kernel.passes:
            self._row_values(p.scalars())
            self._print_pass(p, own)
        self._row_values([s.scalar for s in self.kernel.row_stores])
        self._copy_out(own)
        self.top.close(self.tile, f"for (i64 first = begin; first < end; first += {ROWS})")

    def _stores(self) -> Iterator[Store]:
        for p in self.kernel.passes:
            yield from p.stores

    def _array(self, value: Value, size: int, suffix: str, kind: str = "") -> str:
        """Declares an array before the loop over tiles."""
        name = self.text.unique(f"{self.text.value_name(value)}_{suffix}")
        self.top.lines.append(
            f"alignas(64) {kind or c.type_name(value.type.dtype)} {name}[{size}];"
        )
        return name

    # -- copies ---------------------------------------------------------------------------

    def _copy_in(self, loads: Sequence[Scalar]) -> None:
        row = self.tile.inner(self.row_loops)
        body = self._columns(row)
        for s in loads:
            assert s.value is not None and s.index is not None
            by_column = bool(s.vars - self.rows)
            array = self._array(s.value, ROWS * NARROW if by_column else ROWS, "tile")
            scope, at = (body, "at + lane") if by_column else (row, "lane")
            place = self.text.address(s.value, s.index, scope, written=False)
            if by_column:
                scope.lines.append("ONE_BY_ONE;")
            scope.lines.append(f"{array}[{at}] = {place};")
            self.tile.names[s] = f"{array}[{at}]"
            if s.dtype is DType.BOOL:
                self.text.functions.add("is_set")
                self.tile.names[s] = f"is_set({array}[{at}])"
        self._close_columns(row, body)
        self._close_rows(row)

    def _copy_out(self, own: dict[Value, str]) -> None:
        row = self.tile.inner(self.row_loops)
        body = self._columns(row)
        for store in self._stores():
            if store.root in self.kernel.scratch:
                continue
            place = self.text.address(store.root, store.index, body, written=True)
            body.lines += ["ONE_BY_ONE;", f"{place} = {own[store.root]}[at + lane];"]
        self._close_columns(row, body)
        for store in self.kernel.row_stores:
            print_store(store, self.text, row)
        self._close_rows(row)

    def _close_rows(self, row: Scope) -> None:
        counters, step = odometer(self.row_loops, "first", self.text)
        row.lines.append(step)
        block = Scope()
        block.lines += counters
        block.close(row, "for (i32 lane = 0; lane < count; ++lane)")
        self.tile.lines += braced(block)

    # -- statements -----------------------------------------------------------------------

    def _print_pass(self, p: Pass, own: dict[Value, str]) -> None:
        sums = [(a, self._array(a.root, ROWS, "row", _kind(a))) for a in p.accumulates]
        for a, row in sums:
            start = neutral(a.kind, a.root.type.dtype)
            self.tile.lines.append(f"for ({_kind(a)}& x : {row}) x = {start};")
        body = self._columns(self.tile)
        lane = body.inner(self.rows)
        for a, row in sums:
            element = self.text.text(a.scalar, lane)
            step = combine(a.kind, a.root.type.dtype, f"{row}[lane]", element)
            lane.lines.append(f"{row}[lane] = {step};")
            if a.root.type.dtype.is_float and a.kind in ("max", "min"):
                self.text.functions.add(f"{a.kind}_{_kind(a)}")
        for store in p.stores:
            value = self.text.text(store.scalar, lane)
            lane.lines.append(f"{own[store.root]}[at + lane] = {value};")
        body.lines += _over_lanes(lane.lines)
        self._close_columns(self.tile, body)
        for a, row in sums:
            self.tile.names[a.local] = f"({c.type_name(a.root.type.dtype)}){row}[lane]"

    def _row_values(self, scalars: Iterable[Scalar]) -> None:
        """Computes what depends on the row alone once a row, for the statements that follow."""
        wanted = [s for s in _outermost(scalars, self.rows) if self.tile.find(s) is None]
        if not wanted:
            return
        lane = self.tile.inner(self.rows)
        names: dict[Scalar, str] = {}
        for s in wanted:
            assert s.value is not None
            names[s] = self._array(s.value, ROWS, "row", c.type_name(s.dtype))
            lane.lines.append(f"{names[s]}[lane] = {self.text.text(s, lane)};")
        self.tile.lines += _over_lanes(lane.lines)
        for s, name in names.items():
            self.tile.names[s] = f"{name}[lane]"

    # -- loops over columns ---------------------------------------------------------------

    def _columns(self, around: Scope) -> Scope:
        body = around.inner(self.loops)
        position = self.loops[0].name
        for v in self.loops[1:]:
            position = f"({position} * {self.text.dim(v.extent)} + {v.name})"
        body.lines.append(f"const i64 at = {position} * {ROWS};")
        return body

    def _close_columns(self, around: Scope, body: Scope) -> None:
        if len(body.lines) == 1:
            return
        lines = body.lines
        for v in reversed(self.loops):
            header = loop_header(v, "0", self.text.dim(v.extent))
            lines = [f"{header} {{", *(f"  {line}" for line in lines), "}"]
        around.lines += lines


def _kind(a: Accumulate) -> str:
    """The type of a running result: narrow integers add up modulo their range in any wider one."""
    dtype = a.root.type.dtype
    return "i32" if dtype.size < 4 else c.type_name(dtype)


def _over_lanes(lines: Sequence[str]) -> list[str]:
    loop = f"for (i32 lane = 0; lane < {ROWS}; ++lane) {{"
    return ["#pragma omp simd", loop, *(f"  {line}" for line in lines), "}"]


def _outermost(scalars: Iterable[Scalar], rows: frozenset[LoopVar]) -> list[Scalar]:
    """The largest parts of the expressions that depend on the rows alone."""
    found: dict[Scalar, None] = {}
    seen: set[Scalar] = set()
    todo = list(scalars)
    while todo:
        s = todo.pop()
        if s in seen:
            continue
        seen.add(s)
        if s.vars and s.vars <= rows:
            if s.kind not in ("load", "local", "index"):
                found[s] = None
        else:
            todo.extend(s.needs())
    return list(found)
