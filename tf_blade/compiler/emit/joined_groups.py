"""Reductions over short runs: the runs of neighbouring rows lie side by side and are done together.

Of x[n, spots, groups, channels], reduced over spots and channels, a row has runs of a few channels,
but the runs of all groups are one run. It is reduced over the outer loops, a vector at a time; then
what belongs to a row is joined. What depends on the row alone is repeated for each of its elements.

    for (; i1_first < i1_stop; i1_first += i1_step) {
      for (i64 j1_first = 0; j1_first < elements; j1_first += LANES) {
        f32 v3_lanes[LANES];
        for (i64 j0 = 0; j0 < s3; ++j0)
          for (i32 lane = 0; lane < LANES; ++lane) v3_lanes[lane] += p2_row[j1_first + lane];
        (v3_lanes go into v3_part)
      }
      (v3_row[i1 - i1_first] = the sum of the row's elements of v3_part)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tf_blade.compiler.emit import c
from tf_blade.compiler.emit.joined_rows import is_joined
from tf_blade.compiler.emit.narrow import all_scalars, outermost, running_type
from tf_blade.compiler.emit.nest import loop_header, odometer, print_store
from tf_blade.compiler.emit.operations import may_refuse
from tf_blade.compiler.emit.reduction import SUM_BLOCK, combine, neutral
from tf_blade.compiler.emit.scope import KernelText, Scope
from tf_blade.compiler.fuse.index import LoopVar, substitute
from tf_blade.compiler.fuse.scalar import Pool, Scalar, rename
from tf_blade.compiler.ir import dims as d
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.schedule.collapse import scalars_of
from tf_blade.compiler.schedule.kernel import Accumulate, Kernel, Pass, Store

# The most elements of a run: longer ones fill vectors well enough.
SHORT = 16
# The fewest runs side by side that are worth it.
FEW = 4
# Elements that are done together, at most: what is kept of them stays in the first-level cache.
TILE = 512


def has_short_runs(kernel: Kernel) -> bool:
    """Whether the kernel can be printed so and its runs may be short."""
    if kernel.group.kind != "row_reduce" or kernel.blocks or kernel.scratch or not kernel.rows:
        return False
    nests = {p.loops for p in kernel.passes}
    if len(nests) != 1 or len(loops := nests.pop()) < 2:
        return False
    row, inner = kernel.rows[-1], loops[-1]
    if not (isinstance(row.extent, int) and row.extent >= FEW):
        return False
    if isinstance(inner.extent, int) and inner.extent > SHORT:
        return False
    sums = [a for p in kernel.passes for a in p.accumulates]
    if any(a.root.type.dtype.size != 4 for a in sums):  # of the lanes
        return False
    rows, both = frozenset(kernel.rows), {row, inner}
    scalars = all_scalars(kernel)
    if any(may_refuse(s) or (s.kind == "index" and s.vars & both) for s in scalars):
        return False
    loads = [s for s in scalars if s.kind == "load" and s.vars & both and not s.vars <= rows]
    indices = [s.index for s in loads] + [s.index for p in kernel.passes for s in p.stores]
    return all(is_joined(x, row, inner) for x in indices)


def condition(kernel: Kernel, text: KernelText) -> str:
    """C++ that tells whether runs are short, and sums of them not too long for f32."""
    *outer, inner = kernel.passes[0].loops
    width, steps = text.dim(inner.extent), text.dim(d.product([v.extent for v in outer]))
    return f"{width} > 0 && {width} <= {SHORT} && {steps} <= {SUM_BLOCK}"


def print_joined_groups(kernel: Kernel, text: KernelText, top: Scope) -> None:
    """Appends the loop over the kernel's units to `top`."""
    _JoinedGroups(kernel, text, top).print()


class _JoinedGroups:
    def __init__(self, kernel: Kernel, text: KernelText, top: Scope) -> None:
        self.kernel, self.text, self.top = kernel, text, top
        self.row, self.rows = kernel.rows[-1], frozenset(kernel.rows)
        *outer, self.inner = kernel.passes[0].loops
        self.outer = tuple(outer)
        self.width = text.dim(self.inner.extent)
        self.first = LoopVar(f"{self.row.name}_first", self.row.extent)
        self.flat = LoopVar(f"{self.inner.name}_flat", self.inner.extent)
        self.pool = Pool()
        self.unit = top.inner(kernel.rows[:-1])
        self.block = self.unit.inner([self.first])
        # Where what depends on the row alone is found, in loops over rows.
        self.per_row: dict[Scalar, str] = {}

    def print(self) -> None:
        row, first = self.row.name, self.first.name
        self.text.functions.update(["dim_min", "lane_accumulators", "one_by_one"])
        self.top.lines.append(f"const i64 {row}_step = {TILE} / {self.width};")
        counters, _ = odometer((*self.kernel.rows[:-1], self.first), "unit", self.text)
        self.unit.lines += counters
        stop = f"dim_min({self.text.dim(self.row.extent)}, {first} + end - unit)"
        self.unit.lines += [f"const i64 {row}_stop = {stop};", f"unit += {row}_stop - {first};"]
        self.block.lines += [
            f"const i64 count = dim_min({row}_step, {row}_stop - {first});",
            "const i64 whole_rows = (count + LANES - 1) & -LANES;",
            f"const i64 elements = count * {self.width}, whole = elements & -LANES;",
        ]
        for p in self.kernel.passes:
            self._row_values(p.scalars())
            self._print_pass(p)
        self._row_stores()
        header = f"for (; {first} < {row}_stop; {first} += {row}_step)"
        self.unit.close(self.block, header)
        self.top.close(self.unit, "for (i64 unit = begin; unit < end;)")

    def _array(self, value: Value | None, suffix: str, kind: str) -> str:
        """Declares an array with a place for each element of the runs, and for those of so many
        rows more that the rows are whole vectors."""
        hint = "index" if value is None else self.text.value_name(value)
        name = self.text.unique(f"{hint}_{suffix}")
        self.top.lines.append(f"alignas(64) {kind} {name}[{TILE} + LANES * {SHORT}];")
        return name

    def _flat(self, scalars: Sequence[Scalar]) -> list[Scalar]:
        """The scalars in terms of the runs' common loop."""
        return rename(self.pool, list(scalars), {self.row: self.first, self.inner: self.flat})

    # -- what there is once a row -----------------------------------------------------------

    def _row_values(self, scalars: Iterable[Scalar]) -> None:
        """Computes what depends on the row alone, and repeats it for each element."""
        wanted = outermost(scalars, self.rows, simple=())
        for s, known in zip(wanted, self._flat(wanted), strict=True):
            if self.block.find(known) is not None:
                continue
            kind = c.type_name(s.dtype)
            row, wide = self._array(s.value, "row", kind), self._array(s.value, "wide", kind)
            scope = self._row_scope()
            scope.lines.append(f"{row}[row] = {self.text.text(s, scope)};")
            reads = any(x.kind in ("load", "index") for x in scalars_of([s]))
            self._close_row(scope, "count" if reads else "whole_rows")
            source = self._per_element(row, wide, kind)
            self.block.names[known] = f"{source}[{self.flat.name}]"

    def _per_element(self, row: str, wide: str, kind: str) -> str:
        """Repeats each row's number in `row` for its elements. Returns where they are: where rows
        have one element they need not be copied."""
        place = f"{wide}[row * {self.width} + i]"
        lines = [f"const {kind} x = {row}[row];", *self._for_elements(f"{place} = x;")]
        return self._unless_rows_are_elements(row, wide, kind, lines)

    def _for_elements(self, statement: str) -> list[str]:
        header = f"for (i64 i = 0; i < {self.width}; ++i) {{"
        return [header, "  ONE_BY_ONE;", f"  {statement}", "}"]

    def _unless_rows_are_elements(
        self, source: str, to: str, kind: str, lines: Sequence[str]
    ) -> str:
        """A loop over rows that makes `to` of `source`, and the pointer to what there is then."""
        pointer = self.text.unique(f"{to}_ptr")
        loop, rows = Scope(), Scope()
        rows.lines += lines
        loop.close(rows, "for (i64 row = 0; row < count; ++row)")
        loop.lines.append(f"{pointer} = {to};")
        self.block.lines.append(f"const {kind}* {pointer} = {source};")
        self.block.close(loop, f"if ({self.width} > 1)")
        return pointer

    def _row_scope(self) -> Scope:
        scope = self.block.inner([self.row])
        scope.names |= self.per_row
        return scope

    def _close_row(self, scope: Scope, rows: str) -> None:
        place = f"[[maybe_unused]] const i64 {self.row.name} = {self.first.name} + row;"
        scope.lines.insert(0, place)
        self.block.lines.append("#pragma omp simd")
        self.block.close(scope, f"for (i64 row = 0; row < {rows}; ++row)")

    def _row_stores(self) -> None:
        scope = self._row_scope()
        for store in self.kernel.row_stores:
            print_store(store, self.text, scope)
        if scope.lines:
            self._close_row(scope, "count")

    # -- passes -------------------------------------------------------------------------------

    def _print_pass(self, p: Pass) -> None:
        parts = [self._array(a.root, "part", running_type(a)) for a in p.accumulates]
        name = f"{self.flat.name}_first"
        for left, header in (
            (False, f"for (i64 {name} = 0; {name} < whole; {name} += LANES)"),
            (True, f"for (i64 {name} = whole; {name} < elements; {name} += LANES)"),
        ):
            vector = self.block.inner()
            self._print_vector(p, parts, vector, left)
            self.block.close(vector, header)
        for a, part in zip(p.accumulates, parts, strict=True):
            self._join(a, part)

    def _print_vector(self, p: Pass, parts: Sequence[str], vector: Scope, left: bool) -> None:
        """All that a pass does to one vector of neighbours; left: of what is left over."""
        lanes = [f"{part}_lanes" for part in parts]
        for a, part in zip(p.accumulates, parts, strict=True):
            start = neutral(a.kind, a.root.type.dtype)
            vector.lines.append(f"Lanes<{running_type(a)}, 1> {part}_all({start});")
        scope, blocks = vector, []
        for v in self.outer:
            scope = scope.inner([v])
            blocks.append((loop_header(v, "0", self.text.dim(v.extent)), scope))
        first = f"{self.flat.name}_first"
        lane = scope.inner([self.flat])
        lane.lines.append(f"const i64 {self.flat.name} = {first} + lane;")
        some = Scope(lane, frozenset([self.flat])) if left else lane
        steps: list[str] = []
        elements = self._flat([a.scalar for a in p.accumulates])
        for a, name, x in zip(p.accumulates, lanes, elements, strict=True):
            dtype, element = a.root.type.dtype, self.text.text(x, some)
            if left:
                # Lanes without an element take part with the neutral one.
                lane.lines.append(f"{running_type(a)} {name}_x = {neutral(a.kind, dtype)};")
                some.lines.append(f"{name}_x = {element};")
                element = f"{name}_x"
            step = combine(a.kind, dtype, f"{name}[lane]", element)
            steps.append(f"{name}[lane] = {step};")
            if dtype.is_float and a.kind in ("max", "min"):
                self.text.functions.add(f"{a.kind}_{running_type(a)}")
        to_flat = {self.row: self.first, self.inner: self.flat}
        for store, x in zip(p.stores, self._flat([s.scalar for s in p.stores]), strict=True):
            print_store(Store(store.root, substitute(store.index, to_flat), x), self.text, some)
        if left:
            lane.close(some, f"if (lane < (i32)(elements - {first}))")
        lane.lines += steps
        for a, part, name in zip(p.accumulates, parts, lanes, strict=True):
            scope.lines += [f"{running_type(a)} {name}[LANES];", f"{part}_all.get({name});"]
        scope.lines.append("#pragma omp simd")
        scope.close(lane, "for (i32 lane = 0; lane < LANES; ++lane)")
        scope.lines += [f"{part}_all.set({name});" for part, name in zip(parts, lanes, strict=True)]
        for parent, (header, inner) in reversed(
            list(zip([vector, *(b for _, b in blocks)], blocks, strict=False))
        ):
            parent.close(inner, header)
        vector.lines += [f"{part}_all.get({part} + {first});" for part in parts]

    def _join(self, a: Accumulate, part: str) -> None:
        """Joins each row's elements of `part`."""
        kind, dtype = running_type(a), a.root.type.dtype
        row = self._array(a.root, "row", kind)
        step = combine(a.kind, dtype, "x", f"{part}[row * {self.width} + i]")
        start = f"{kind} x = {neutral(a.kind, dtype)};"
        lines = [start, *self._for_elements(f"x = {step};"), f"{row}[row] = x;"]
        pointer = self._unless_rows_are_elements(part, row, kind, lines)
        self.per_row[a.local] = f"({c.type_name(dtype)}){pointer}[row]"
