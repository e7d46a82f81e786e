"""Rows of a few elements: vectors run across many rows instead of along one.

A tile of rows is copied so that the elements of a column lie side by side; every statement of the
kernel is then a loop over the tile's rows, and what the kernel stores is copied back. Rows of
neighbouring elements become columns in registers; others are read one column after the other, from
where each row begins.

    if (s1 <= NARROW) {
      for (i64 first = begin; first < end; first += ROWS) {
        (rows_at[lane] = where the rows begin)
        columns_of_rows<ROWS>(p0_tile, p0_ptr, rows_at, count, s1, s0 * s1);
        for (i64 j0 = 0; j0 < s1; ++j0)
          for (i32 lane = 0; lane < ROWS; ++lane) v0[lane] = max_f32(p0_tile[at + lane], v0[lane]);
        ...

Lanes past the last row compute something from what is there, which is never copied back.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence

from tf_blade.compiler.emit import c
from tf_blade.compiler.emit.nest import braced, loop_header, odometer, print_store
from tf_blade.compiler.emit.operations import may_refuse
from tf_blade.compiler.emit.reduction import combine, neutral
from tf_blade.compiler.emit.scope import KernelText, Scope
from tf_blade.compiler.fuse.index import Affine, LoopVar, sub, vars_of
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


def is_narrow_kernel(kernel: Kernel) -> bool:
    """Whether the kernel can be printed so: rows that may be short, and that are reduced."""
    columns, rows = row_elements(kernel), frozenset(_rows(kernel))
    if not rows or columns is None or (isinstance(columns, int) and columns > NARROW):
        return False
    scalars = all_scalars(kernel)
    # A reduction in blocks is of long rows.
    reduces = kernel.group.kind == "row_reduce" and not kernel.blocks
    if kernel.transposed or not reduces:
        return False
    if any(may_refuse(s) or (s.kind == "index" and s.vars & rows) for s in scalars):
        return False
    stores = [s for p in kernel.passes for s in p.stores]
    indices = [s.index for s in scalars if s.index is not None] + [s.index for s in stores]
    if any(vars_of(a) & rows and vars_of(a) - rows for x in indices for a, _ in x.terms):
        return False
    stored = {s.root for s in stores}
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


def condition(kernel: Kernel, text: KernelText) -> str:
    """C++ that tells whether rows are that short."""
    columns = row_elements(kernel)
    assert columns is not None
    text.functions.add("narrow")
    return f"{text.dim(columns)} <= NARROW"


def print_narrow(kernel: Kernel, text: KernelText, top: Scope) -> None:
    """Appends the loop over tiles to `top`."""
    _Narrow(kernel, text, top).print()


def all_scalars(kernel: Kernel) -> list[Scalar]:
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
        # The parts of indices that depend on the row, with the arrays of where rows begin.
        self.places: dict[Affine, str] = {}
        # Loops of tiles that have only some, with the name of where a column begins there.
        self.parts: dict[tuple[LoopVar, ...], str] = {}

    def print(self) -> None:
        self.text.functions.update(["dim_min"])
        self.tile.lines.append(f"const i32 count = (i32)dim_min({ROWS}, end - first);")
        loads = [s for s in all_scalars(self.kernel) if s.kind == "load"]
        copied = [s for s in loads if s.vars & self.rows and s.value not in self.stored]
        written = [s for s in self._stores() if s.root not in self.kernel.scratch]
        indices = [s.index for s in copied if s.index is not None]
        self._find_rows([*indices, *(s.index for s in written)])
        own = {s.root: self._array(s.root, ROWS * NARROW, "tile") for s in self._stores()}
        self._copy_in(copied)
        for s in loads:
            if s.value in own:
                self.tile.names[s] = f"{own[s.value]}[at + lane]"
        for p in self.kernel.passes:
            self._row_values(p.scalars())
            self._print_pass(p, own)
        self._row_values([s.scalar for s in self.kernel.row_stores])
        self._copy_out(written, own)
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

    def _find_rows(self, indices: Iterable[Affine]) -> None:
        """Declares where the tile's rows begin, for each way in which they lie."""
        row = self.tile.inner(self.row_loops)
        for index in indices:
            part = _part_of(index, self.rows)
            if part not in self.places:
                name = self.text.unique("rows_at")
                self.top.lines.append(f"alignas(64) i64 {name}[{ROWS}];")
                self.places[part] = name
                row.lines.append(f"{name}[lane] = {self.text.index(part, row)};")
        self._close_rows(row)
        for name in self.places.values():
            # Lanes without a row read the first one.
            self.tile.lines.append(
                f"for (i32 lane = count; lane < {ROWS}; ++lane) {name}[lane] = {name}[0];"
            )

    def _copy_in(self, loads: Sequence[Scalar]) -> None:
        """Copies what depends on the rows into tiles, where `loads` are found from then on."""
        for s in loads:
            assert s.value is not None and s.index is not None
            pointer = self.text.pointer(s.value, written=False)
            rows_at = self.places[_part_of(s.index, self.rows)]
            rest = _rest_of(s.index, self.rows)
            loops = tuple(v for v in self.loops if v in s.vars)
            array = self._array(s.value, ROWS * NARROW if loops else ROWS, "tile")
            element = f"{array}[lane]"
            if self._in_squares(rest, s.dtype):
                self.text.functions.add("columns_of_rows")
                size = self.text.dim(sub(s.value.type.size, rest.const))
                self.tile.lines.append(
                    f"columns_of_rows<{ROWS}>({array}, {self._from(pointer, rest)}, {rows_at}, "
                    f"count, {self.text.dim(self.loops[0].extent)}, {size});"
                )
                element = f"{array}[at + lane]"
            else:
                body = self.tile.inner(loops)
                if loops:
                    name = "_".join(["at", *(v.name for v in loops)])
                    name = "at" if loops == self.loops else self.parts.setdefault(loops, name)
                    body.lines.append(self._place_in_tile(loops))
                    element = f"{array}[{name} + lane]"
                source = f"{pointer}[{rows_at}[lane] + {self.text.index(rest, body)}]"
                body.lines += _over_lanes([f"{element} = {source};"])
                self.tile.lines += self._nested(loops, body.lines)
            if s.dtype is DType.BOOL:
                self.text.functions.add("is_set")
                element = f"is_set({element})"
            self.tile.names[s] = element

    def _copy_out(self, stores: Sequence[Store], own: dict[Value, str]) -> None:
        for store in stores:
            pointer = self.text.pointer(store.root, written=True)
            rows_at = self.places[_part_of(store.index, self.rows)]
            rest = _rest_of(store.index, self.rows)
            if self._in_squares(rest, store.root.type.dtype):
                self.text.functions.add("rows_of_columns")
                self.tile.lines.append(
                    f"rows_of_columns<{ROWS}>({self._from(pointer, rest)}, {rows_at}, "
                    f"{own[store.root]}, count, {self.text.dim(self.loops[0].extent)});"
                )
                continue
            self.text.functions.add("one_by_one")
            body = self._columns(self.tile)
            place = f"{pointer}[{rows_at}[lane] + {self.text.index(rest, body)}]"
            body.lines += [
                "for (i32 lane = 0; lane < count; ++lane) {",
                "  ONE_BY_ONE;",
                f"  {place} = {own[store.root]}[at + lane];",
                "}",
            ]
            self._close_columns(self.tile, body)
        row = self.tile.inner(self.row_loops)
        for store in self.kernel.row_stores:
            print_store(store, self.text, row)
        if row.lines:
            self._close_rows(row)

    def _in_squares(self, rest: Affine, dtype: DType) -> bool:
        """Whether rows are neighbouring elements, which registers can turn into columns."""
        simple = len(self.loops) == 1 and rest.terms == ((self.loops[0], 1),)
        return simple and dtype.size in (4, 8)

    def _from(self, pointer: str, rest: Affine) -> str:
        return f"{pointer} + {self.text.dim(rest.const)}" if rest.const != 0 else pointer

    def _close_rows(self, row: Scope) -> None:
        counters, step = odometer(self.row_loops, "first", self.text)
        row.lines.append(step)
        block = Scope()
        block.lines += counters
        block.close(row, "for (i32 lane = 0; lane < count; ++lane)")
        self.tile.lines += braced(block)

    # -- statements -----------------------------------------------------------------------

    def _print_pass(self, p: Pass, own: dict[Value, str]) -> None:
        sums = [(a, self._array(a.root, ROWS, "row", running_type(a))) for a in p.accumulates]
        for a, row in sums:
            start = neutral(a.kind, a.root.type.dtype)
            self.tile.lines.append(f"for ({running_type(a)}& x : {row}) x = {start};")
        body = self._columns(self.tile)
        lane = body.inner(self.rows)
        for a, row in sums:
            element = self.text.text(a.scalar, lane)
            step = combine(a.kind, a.root.type.dtype, f"{row}[lane]", element)
            lane.lines.append(f"{row}[lane] = {step};")
            if a.root.type.dtype.is_float and a.kind in ("max", "min"):
                self.text.functions.add(f"{a.kind}_{running_type(a)}")
        for store in p.stores:
            value = self.text.text(store.scalar, lane)
            lane.lines.append(f"{own[store.root]}[at + lane] = {value};")
        body.lines += _over_lanes(lane.lines)
        self._close_columns(self.tile, body)
        for a, row in sums:
            self.tile.names[a.local] = f"({c.type_name(a.root.type.dtype)}){row}[lane]"

    def _row_values(self, scalars: Iterable[Scalar]) -> None:
        """Computes what depends on the row alone once a row, for the statements that follow."""
        wanted = [s for s in outermost(scalars, self.rows) if self.tile.find(s) is None]
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
        """A block in the loops over columns, which knows where a column begins in each tile."""
        body = around.inner(self.loops)
        body.lines += [self._place_in_tile(loops) for loops in (self.loops, *self.parts)]
        return body

    def _place_in_tile(self, loops: Sequence[LoopVar]) -> str:
        """Declares where a column begins in a tile that has only these loops' elements."""
        position = loops[0].name
        for v in loops[1:]:
            position = f"({position} * {self.text.dim(v.extent)} + {v.name})"
        name = self.parts.get(tuple(loops), "at")
        return f"[[maybe_unused]] const i64 {name} = {position} * {ROWS};"

    def _close_columns(self, around: Scope, body: Scope) -> None:
        if len(body.lines) > 1 + len(self.parts):
            around.lines += self._nested(self.loops, body.lines)

    def _nested(self, loops: Sequence[LoopVar], lines: list[str]) -> list[str]:
        for v in reversed(loops):
            header = loop_header(v, "0", self.text.dim(v.extent))
            lines = [f"{header} {{", *(f"  {line}" for line in lines), "}"]
        return lines


def _part_of(index: Affine, rows: frozenset[LoopVar]) -> Affine:
    """The part of an index that depends on the row."""
    return Affine(tuple(t for t in index.terms if vars_of(t[0]) & rows))


def _rest_of(index: Affine, rows: frozenset[LoopVar]) -> Affine:
    return Affine(tuple(t for t in index.terms if not vars_of(t[0]) & rows), index.const)


def running_type(a: Accumulate) -> str:
    """The type of a running result: narrow integers add up modulo their range in any wider one."""
    dtype = a.root.type.dtype
    return "i32" if dtype.size < 4 else c.type_name(dtype)


def _over_lanes(lines: Sequence[str]) -> list[str]:
    loop = f"for (i32 lane = 0; lane < {ROWS}; ++lane) {{"
    return ["#pragma omp simd", loop, *(f"  {line}" for line in lines), "}"]


def outermost(
    scalars: Iterable[Scalar],
    rows: frozenset[LoopVar],
    simple: Container[str] = ("load", "local", "index"),
) -> list[Scalar]:
    """The largest parts of the expressions that depend on the rows alone, but for kinds that are
    simple."""
    found: dict[Scalar, None] = {}
    seen: set[Scalar] = set()
    todo = list(scalars)
    while todo:
        s = todo.pop()
        if s in seen:
            continue
        seen.add(s)
        if s.vars and s.vars <= rows:
            if s.kind not in simple:
                found[s] = None
        else:
            todo.extend(s.needs())
    return list(found)
