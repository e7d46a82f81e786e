"""Kernels as C++ functions over a range of units: rows, tiles or elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tf_blade.compiler.emit import c
from tf_blade.compiler.emit.scope import KernelText, Scope
from tf_blade.compiler.fuse import cost
from tf_blade.compiler.fuse.index import LoopVar, mul
from tf_blade.compiler.ir import dims as d
from tf_blade.compiler.ir.dims import Dim
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.ir.types import DType
from tf_blade.compiler.schedule.kernel import (
    Accumulate,
    Blocks,
    ColumnReduce,
    Inside,
    Kernel,
    Pass,
    Store,
)

# Elements added up in f32 before the sum goes into a wider or outer total.
SUM_BLOCK = 2048
# Accumulators of a column reduction that stay in the first-level cache.
TILE = 256
# Bytes of one thread's stack for values kept from pass to pass; longer rows use a temporary.
SCRATCH_BYTES = 1 << 15

_SIGNS = {"sum": "+", "prod": "*", "and": "&", "or": "|"}


@dataclass
class LongScratch:
    """A temporary of `rows * row` elements, needed only when `row` is more than `capacity`."""

    rows: Dim
    row: Dim
    capacity: int


@dataclass
class Function:
    """A printed kernel. units: how many there are; unit_cost: cycles of one, as (factor, dim)."""

    body: list[str]
    text: KernelText
    units: Dim
    unit_cost: list[tuple[float, Dim]] = field(default_factory=list)
    long_scratch: dict[Value, LongScratch] = field(default_factory=dict)


def kernel_function(kernel: Kernel, text: KernelText) -> Function:
    """Prints a loop, row_reduce, concatenate or pad kernel."""
    units: Dim = kernel.passes[0].loops[0].extent if kernel.flat else 1
    for v in kernel.rows:
        units = mul(units, v.extent)
    top = Scope(vars=frozenset())
    long_scratch = _declare_scratch(kernel, text, top, units)
    if kernel.flat:
        (only,) = kernel.passes
        _print_pass(kernel, only, text, top, bounds=("begin", "end"))
    else:
        _print_rows(kernel, text, top)
    return Function(_finished(top, text), text, units, _cost(kernel), long_scratch)


def _declare_scratch(
    kernel: Kernel, text: KernelText, top: Scope, units: Dim
) -> dict[Value, LongScratch]:
    """Rows that fit are kept on the stack, longer ones in a temporary of the whole size."""
    long = _long_scratch(kernel)
    for value, count in kernel.scratch.items():
        kind, name = c.type_name(value.type.dtype), f"{text.value_name(value)}_scratch"
        text.scratch[value] = name
        if value in long:
            top.lines.append(f"alignas(64) {kind} {name}_stack[{long[value][0]}];")
        else:
            top.lines.append(f"alignas(64) {kind} {name}[{max(int(count), 1)}];")
    return {v: LongScratch(units, count, capacity) for v, (capacity, count) in long.items()}


def _print_rows(kernel: Kernel, text: KernelText, top: Scope) -> None:
    long = _long_scratch(kernel)
    row = top.inner(kernel.rows) if kernel.rows else top
    if long and not kernel.rows:
        top.lines.append("const i64 unit = 0;")
    for value, (capacity, count) in long.items():
        name, kind, size = text.scratch[value], c.type_name(value.type.dtype), text.dim(count)
        text.buffers[value] = True
        text.scratch.pop(value)
        place = f"{text.pointer(value, written=True)} + unit * {size}"
        text.scratch[value] = name
        row.lines.append(f"{kind}* {name} = {size} <= {capacity} ? {name}_stack : {place};")
    for p in kernel.passes:
        _print_guarded(kernel, p, text, row)
    for store in kernel.row_stores:
        _print_store(store, text, row)
    _print_odometer(kernel.rows, row, top, text, needs_unit=bool(long))


def _long_scratch(kernel: Kernel) -> dict[Value, tuple[int, Dim]]:
    """Scratch that may not fit on the stack: (elements that fit, elements of a row)."""
    each = SCRATCH_BYTES // max(1, len(kernel.scratch))
    found: dict[Value, tuple[int, Dim]] = {}
    for value, count in kernel.scratch.items():
        capacity = each // value.type.dtype.size
        if not (isinstance(count, int) and count <= capacity):
            found[value] = (capacity, count)
    return found


def _print_odometer(
    rows: Sequence[LoopVar], row: Scope, top: Scope, text: KernelText, *, needs_unit: bool
) -> None:
    """The loop over [begin, end) around a finished row block: counters are divided out once and
    then counted on."""
    if not rows:
        return
    if len(rows) == 1 and not needs_unit:
        name = rows[0].name
        top.close(row, f"for (i64 {name} = begin; {name} < end; ++{name})")
        return
    stride: Dim = 1
    for v in reversed(rows):
        start = "begin" if stride == 1 else f"begin / {text.dim(stride)}"
        if v is not rows[0]:
            start = f"{start} % {text.dim(v.extent)}"
        top.lines.append(f"i64 {v.name} = {start};")
        stride = mul(stride, v.extent)
    step = f"++{rows[0].name};"
    for v in rows[1:]:
        if v is rows[1]:
            step = f"if (++{v.name} == {text.dim(v.extent)}) {v.name} = 0, ++{rows[0].name};"
        else:
            outer = step
            step = f"if (++{v.name} == {text.dim(v.extent)}) {{ {v.name} = 0; {outer} }}"
    row.lines.append(step)
    top.close(row, "for (i64 unit = begin; unit < end; ++unit)")


def _print_guarded(kernel: Kernel, p: Pass, text: KernelText, row: Scope) -> None:
    if not p.inside and not p.outside:
        _print_pass(kernel, p, text, row)
        return
    condition = _condition([*p.inside, *p.outside], text, row)
    block = row.inner(i.inner for i in p.inside)
    for i in p.inside:
        block.lines.append(f"const i64 {i.inner.name} = {_row_name(i)} - {text.dim(i.low)};")
    _print_pass(kernel, p, text, block)
    row.close(block, f"if ({condition})" if p.inside else f"if (!{condition})")


def _row_name(i: Inside) -> str:
    return "0" if i.row.extent == 1 else i.row.name


def _condition(bounds: Sequence[Inside], text: KernelText, row: Scope) -> str:
    key = ("inside", tuple((b.row, b.low) for b in bounds))
    found = row.find(key)
    if found is None:
        tests = [
            f"{_row_name(b)} >= {text.dim(b.low)} && "
            f"{_row_name(b)} - {text.dim(b.low)} < {text.dim(b.inner.extent)}"
            for b in bounds
        ]
        found = text.unique("inside")
        row.lines.append(f"const bool {found} = {' && '.join(tests)};")
        row.names[key] = found
    return found


def _print_pass(
    kernel: Kernel,
    p: Pass,
    text: KernelText,
    around: Scope,
    bounds: tuple[str, str] | None = None,
) -> None:
    accumulators = [_Accumulator(a, p, text) for a in p.accumulates]
    for a in accumulators:
        around.lines += a.declarations()
    if not p.loops:
        block = around.inner()
        _print_statements(p, accumulators, text, block)
        around.lines += _braced(block)
    else:
        blocks: list[tuple[str, Scope]] = []
        scope = around
        for v in p.loops[:-1]:
            begin, end = _bounds(v, kernel.blocks, text, scope)
            inner = scope.inner([v])
            blocks.append((_loop(v, begin, end), inner))
            scope = inner
        _print_innermost(kernel, p, accumulators, text, scope, bounds)
        outer = [around, *(b for _, b in blocks)]
        for parent, (header, inner) in reversed(list(zip(outer, blocks, strict=False))):
            parent.close(inner, header)
            parent.flags |= inner.flags
    for a in accumulators:
        around.lines += a.result()
        around.names[a.local] = a.name


def _bounds(
    v: LoopVar, blocks: Mapping[LoopVar, Blocks], text: KernelText, scope: Scope
) -> tuple[str, str]:
    """The range of the loop: all of it, or the row's block."""
    cut = blocks.get(v)
    if cut is None:
        return "0", text.dim(v.extent)
    text.functions.add("dim_min")
    begin, end = f"{cut.block.name} * {cut.size}", f"{v.name}_last"
    extent = text.dim(v.extent)
    scope.lines.append(f"const i64 {end} = dim_min({begin} + {cut.size}, {extent});")
    return begin, end


def _braced(block: Scope) -> list[str]:
    return ["{", *(f"  {line}" for line in block.lines), "}"]


def _loop(v: LoopVar, begin: str, end: str) -> str:
    return f"for (i64 {v.name} = {begin}; {v.name} < {end}; ++{v.name})"


def _print_innermost(
    kernel: Kernel,
    p: Pass,
    accumulators: list[_Accumulator],
    text: KernelText,
    scope: Scope,
    bounds: tuple[str, str] | None,
) -> None:
    v = p.loops[-1]
    begin, end = bounds or _bounds(v, kernel.blocks, text, scope)
    blocked = [a for a in accumulators if a.blocked]
    short = isinstance(v.extent, int) and v.extent <= SUM_BLOCK
    if blocked and not short:
        text.functions.add("dim_min")
        part = scope.inner()
        name = f"{v.name}_block"
        for a in blocked:
            part.lines.append(a.start_part())
        part.lines.append(f"const i64 {v.name}_end = dim_min({name} + {SUM_BLOCK}, {end});")
        _print_vector_loop(p, accumulators, text, part, v, name, f"{v.name}_end", hoist=scope)
        for a in blocked:
            part.lines.append(a.end_part())
        scope.close(part, f"for (i64 {name} = {begin}; {name} < {end}; {name} += {SUM_BLOCK})")
        return
    for a in blocked:
        scope.lines.append(a.start_part())
    _print_vector_loop(p, accumulators, text, scope, v, begin, end, hoist=scope)
    for a in blocked:
        scope.lines.append(a.end_part())


def _print_vector_loop(
    p: Pass,
    accumulators: list[_Accumulator],
    text: KernelText,
    scope: Scope,
    v: LoopVar,
    begin: str,
    end: str,
    hoist: Scope,
) -> None:
    # What moves out of the loop must land before it, and before the block loop too.
    inner = Scope(hoist, frozenset([v]))
    _print_statements(p, accumulators, text, inner)
    clauses = [a.clause() for a in accumulators]
    clauses += [f"reduction(| : {f})" for f in sorted(inner.flags)]
    scope.lines.append(" ".join(["#pragma omp simd", *clauses]))
    scope.close(inner, _loop(v, begin, end))


def _print_statements(
    p: Pass, accumulators: list[_Accumulator], text: KernelText, scope: Scope
) -> None:
    for a in accumulators:
        scope.lines.append(a.step(text.text(a.what.scalar, scope)))
    for store in p.stores:
        _print_store(store, text, scope)


def _print_store(store: Store, text: KernelText, scope: Scope) -> None:
    value = text.text(store.scalar, scope)
    place = text.address(store.root, store.index, scope, written=True)
    scope.lines.append(f"{place} = {value};")


class _Accumulator:
    """The variables of one reduction in a pass: `part` for the loop at hand and, for float sums
    and products, a total that parts go into, so that long sums stay accurate."""

    def __init__(self, what: Accumulate, p: Pass, text: KernelText) -> None:
        self.what = what
        self.dtype = what.root.type.dtype
        self.name = text.unique(text.value_name(what.root))
        self.part = f"{self.name}_part"
        count = d.product([v.extent for v in p.loops])
        short = isinstance(count, int) and count <= SUM_BLOCK
        self.blocked = self.dtype.is_float and what.kind in ("sum", "prod") and not short
        self.local = what.local
        self.text = text
        self.function = ""
        if self.dtype.is_float and what.kind in ("max", "min"):
            self.function = f"{what.kind}_{c.type_name(self.dtype)}"
            text.functions.update([self.function, f"reduce_{self.function}"])

    @property
    def kind(self) -> str:
        """The variables' type: narrow integers add up modulo their range in any wider type."""
        narrow = self.dtype.size < 4
        return "i32" if narrow else c.type_name(self.dtype)

    @property
    def neutral(self) -> str:
        return neutral(self.what.kind, self.dtype)

    def declarations(self) -> list[str]:
        if self.blocked:
            return [f"f64 {self.name}_total = {self.neutral};"]
        return [f"{self.kind} {self.part} = {self.neutral};"]

    def start_part(self) -> str:
        return f"{self.kind} {self.part} = {self.neutral};"

    def end_part(self) -> str:
        return f"{self.name}_total {_SIGNS[self.what.kind]}= {self.part};"

    def step(self, element: str) -> str:
        return f"{self.part} = {combine(self.what.kind, self.dtype, self.part, element)};"

    def clause(self) -> str:
        sign = self.function or _SIGNS.get(self.what.kind, self.what.kind)
        return f"reduction({sign} : {self.part})"

    def result(self) -> list[str]:
        kind = c.type_name(self.dtype)
        source = f"{self.name}_total" if self.blocked else self.part
        return [f"const {kind} {self.name} = ({kind}){source};"]


def combine(kind: str, dtype: DType, total: str, element: str) -> str:
    """The expression of one step of a reduction."""
    if kind in _SIGNS:
        return f"{total} {_SIGNS[kind]} {element}"
    if dtype.is_float:
        # The total second: then a step waits only for one comparison with the last one's result.
        return f"{kind}_{c.type_name(dtype)}({element}, {total})"
    return f"{total} {'>' if kind == 'max' else '<'} {element} ? {total} : {element}"


def neutral(kind: str, dtype: DType) -> str:
    """The value of an empty reduction."""
    if kind in ("sum", "or"):
        return "0"
    if kind in ("prod", "and"):
        return "1"
    if dtype.is_float:
        return c.literal(float("-inf") if kind == "max" else float("inf"), dtype)
    bounds = np.iinfo(dtype.numpy)
    return c.literal(bounds.min if kind == "max" else bounds.max, dtype)


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
        begin, end = _bounds(loop, kernel.blocks, text, scope)
        inner = scope.inner([loop])
        blocks.append((_loop(loop, begin, end), inner))
        scope = inner
    begin, end = _bounds(innermost, kernel.blocks, text, scope)
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
        _print_store(store, text, finish)
    row.lines.append(_simd(finish))
    row.close(finish, _loop(v, "first", "last"))
    _print_odometer(rows, row, top, text, needs_unit=False)
    scalars = [a.scalar for a in kernel.accumulates]
    per_tile = d.product([_iterations(r, kernel.blocks) for r in kernel.reduced])
    each = (cost.of_scalars(scalars) + 2 * len(scalars)) * cost.CYCLES * TILE
    return Function(_finished(top, text), text, units, [(each, per_tile), (TILE, 1)])


def _simd(block: Scope) -> str:
    clauses = [f"reduction(| : {f})" for f in sorted(block.flags)]
    return " ".join(["#pragma omp simd", *clauses])


def _column_loop(scope: Scope, v: LoopVar, statements: list[str]) -> None:
    if statements:
        inner = scope.inner([v])
        inner.lines += statements
        scope.close(inner, _loop(v, "first", "last"))


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
    line.close(inner, _loop(v, "first", "last"))
    scope.close(line, _loop(innermost, start, stop))


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
        sign = _SIGNS[self.what.kind]
        return f"{self.name}_total[{column}] {sign}= {self.part}[{column}];"

    def step(self, column: str, element: str) -> str:
        part = f"{self.part}[{column}]"
        kind = c.type_name(self.dtype)
        return f"{part} = ({kind})({combine(self.what.kind, self.dtype, part, element)});"

    def result(self, column: str) -> str:
        source = f"{self.name}_total" if self.blocked else self.part
        return f"const {c.type_name(self.dtype)} {self.name} = {source}[{column}];"


def _finished(top: Scope, text: KernelText) -> list[str]:
    flags = [f"i32 {f} = 0;" for f in text.flags.values()]
    return [*flags, *top.lines]


def _cost(kernel: Kernel) -> list[tuple[float, Dim]]:
    """Cycles of one unit."""
    parts: list[tuple[float, Dim]] = []
    for p in kernel.passes:
        scalars = p.scalars()
        each = (cost.of_scalars(scalars) + len(p.stores)) * cost.CYCLES
        size: Dim = 1 if kernel.flat else d.product([v.extent for v in p.loops])
        if kernel.blocks:
            size = d.product([_iterations(v, kernel.blocks) for v in p.loops])
        parts.append((each, size))
        if not kernel.flat:
            parts.append((10.0, 1))
    return parts


def _iterations(v: LoopVar, blocks: Mapping[LoopVar, Blocks]) -> Dim:
    """How many iterations of the loop a row does."""
    return d.smaller(v.extent, blocks[v].size) if v in blocks else v.extent
