"""column_reduce kernels: sums over outer loops, a tile of columns at a time."""

from __future__ import annotations

from tf_blade.compiler.emit import c
from tf_blade.compiler.emit.kernels import print_pass
from tf_blade.compiler.emit.nest import (
    Function,
    bounds_of,
    finished,
    iterations,
    loop_header,
    print_odometer,
    print_store,
)
from tf_blade.compiler.emit.reduction import SIGNS, SUM_BLOCK, combine, neutral
from tf_blade.compiler.emit.scope import KernelText, Scope
from tf_blade.compiler.fuse import cost
from tf_blade.compiler.fuse.index import LoopVar, mul
from tf_blade.compiler.ir import dims as d
from tf_blade.compiler.ir.dims import Dim
from tf_blade.compiler.schedule.kernel import Accumulate, ColumnReduce, Kernel

# Accumulators that stay in the first-level cache.
TILE = 256
# To begin and end a line of a tile.
LINE_CYCLES = 4.0


def column_reduce_function(kernel: ColumnReduce, text: KernelText) -> Function:
    """Prints a column_reduce kernel. A unit is one tile of columns of one row."""
    v = kernel.tile
    tiles = LoopVar("tile", d.ceil_div(v.extent, TILE))
    rows = (*kernel.rows, tiles)
    units: Dim = 1
    for row_var in rows:
        units = mul(units, row_var.extent)
    top = Scope()
    row = top.inner(rows)
    text.functions.add("dim_min")
    row.lines += [
        f"const i64 first = tile * {TILE};",
        f"const i64 last = dim_min(first + {TILE}, {text.dim(v.extent)});",
    ]
    for p in kernel.row_passes:
        around = text.home(p.accumulates[0].local, row)
        print_pass(Kernel(kernel.group, (), [p]), p, text, around)
    accumulators = [_ColumnAccumulator(a, text) for a in kernel.accumulates]
    column = f"{v.name} - first"
    for a in accumulators:
        row.lines += a.declarations()
    _column_loop(row, v, [a.initial(column) for a in accumulators])
    blocked = [a for a in accumulators if a.blocked]
    innermost = kernel.reduced[-1]
    short = isinstance(innermost.extent, int) and innermost.extent <= SUM_BLOCK
    blocks: list[tuple[str, Scope]] = []
    scope = row
    for loop in kernel.reduced[:-1]:
        begin, end = bounds_of(loop, kernel.blocks, text, scope)
        inner = scope.inner([loop])
        blocks.append((loop_header(loop, begin, end), inner))
        scope = inner
    begin, end = bounds_of(innermost, kernel.blocks, text, scope)
    if blocked:
        part = scope.inner()
        _column_loop(part, v, [a.start_part(column) for a in blocked])
        name = innermost.name
        start, stop = (begin, end) if short else (f"{name}_block", f"{name}_end")
        if not short:
            part.lines.append(f"const i64 {stop} = dim_min({start} + {SUM_BLOCK}, {end});")
        _column_step(part, innermost, start, stop, v, accumulators, column, text, hoist=scope)
        _column_loop(part, v, [a.end_part(column) for a in blocked])
        if short:
            scope.lines += part.lines
        else:
            header = f"for (i64 {start} = {begin}; {start} < {end}; {start} += {SUM_BLOCK})"
            scope.close(part, header)
    else:
        _column_step(scope, innermost, begin, end, v, accumulators, column, text, hoist=scope)
    outer = [row, *(b for _, b in blocks)]
    for parent, (header, inner) in reversed(list(zip(outer, blocks, strict=False))):
        parent.close(inner, header)
    finish = row.inner([v])
    for a in accumulators:
        finish.lines.append(a.result(column))
        finish.names[a.what.local] = a.name
    for store in kernel.stores:
        print_store(store, text, finish)
    row.lines.append(_simd(finish))
    row.close(finish, loop_header(v, "first", "last"))
    print_odometer(rows, row, top, text, needs_unit=False)
    scalars = [a.scalar for a in kernel.accumulates]
    per_tile = d.product([iterations(r, kernel.blocks) for r in kernel.reduced])
    each = (cost.of_scalars(scalars) + 2 * len(scalars)) * cost.CYCLES
    width = d.smaller(v.extent, TILE)
    cycles = [(each, mul(per_tile, width)), (LINE_CYCLES, per_tile), (1.0, width)]
    return Function(finished(top, text), text, units, cycles)


def _simd(block: Scope) -> str:
    clauses = [f"reduction(| : {f})" for f in sorted(block.flags)]
    return " ".join(["#pragma omp simd", *clauses])


def _column_loop(scope: Scope, v: LoopVar, statements: list[str]) -> None:
    if statements:
        inner = scope.inner([v])
        inner.lines += statements
        scope.close(inner, loop_header(v, "first", "last"))


def _column_step(
    scope: Scope,
    innermost: LoopVar,
    start: str,
    stop: str,
    v: LoopVar,
    accumulators: list[_ColumnAccumulator],
    column: str,
    text: KernelText,
    hoist: Scope,
) -> None:
    line = Scope(hoist, frozenset([innermost]))
    inner = line.inner([v])
    for a in accumulators:
        inner.lines.append(a.step(column, text.text(a.what.scalar, inner)))
    line.lines.append(_simd(inner))
    line.close(inner, loop_header(v, "first", "last"))
    scope.close(line, loop_header(innermost, start, stop))


class _ColumnAccumulator:
    """The tile of running results of one reduction; see _Accumulator."""

    def __init__(self, what: Accumulate, text: KernelText) -> None:
        self.what = what
        self.dtype = what.root.type.dtype
        self.name = text.unique(text.value_name(what.root))
        self.part = f"{self.name}_part"
        self.blocked = self.dtype.is_float and what.kind in ("sum", "prod")
        if self.dtype.is_float and what.kind in ("max", "min"):
            text.functions.add(f"{what.kind}_{c.type_name(self.dtype)}")

    def declarations(self) -> list[str]:
        kind = c.type_name(self.dtype)
        lines = [f"alignas(64) {kind} {self.part}[{TILE}];"]
        if self.blocked:
            lines.append(f"alignas(64) {kind} {self.name}_total[{TILE}];")
        return lines

    def initial(self, column: str) -> str:
        target = f"{self.name}_total" if self.blocked else self.part
        return f"{target}[{column}] = {neutral(self.what.kind, self.dtype)};"

    def start_part(self, column: str) -> str:
        return f"{self.part}[{column}] = {neutral(self.what.kind, self.dtype)};"

    def end_part(self, column: str) -> str:
        sign = SIGNS[self.what.kind]
        return f"{self.name}_total[{column}] {sign}= {self.part}[{column}];"

    def step(self, column: str, element: str) -> str:
        part = f"{self.part}[{column}]"
        kind = c.type_name(self.dtype)
        return f"{part} = ({kind})({combine(self.what.kind, self.dtype, part, element)});"

    def result(self, column: str) -> str:
        source = f"{self.name}_total" if self.blocked else self.part
        return f"const {c.type_name(self.dtype)} {self.name} = {source}[{column}];"
