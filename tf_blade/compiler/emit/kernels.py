"""Kernels as C++ functions over a range of units: rows, tiles or elements."""

from __future__ import annotations

from collections.abc import Sequence

from tf_blade.compiler.emit import c
from tf_blade.compiler.emit.masks import can_be_masked
from tf_blade.compiler.emit.nest import (
    Function,
    LongScratch,
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
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.schedule.kernel import (
    Accumulate,
    Inside,
    Kernel,
    Pass,
)

# Bytes of one thread's stack for values kept from pass to pass; longer rows use a temporary.
SCRATCH_BYTES = 1 << 15


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
    return Function(finished(top, text), text, units, _cost(kernel), long_scratch)


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
        print_store(store, text, row)
    print_odometer(kernel.rows, row, top, text, needs_unit=bool(long))


def _long_scratch(kernel: Kernel) -> dict[Value, tuple[int, Dim]]:
    """Scratch that may not fit on the stack: (elements that fit, elements of a row)."""
    each = SCRATCH_BYTES // max(1, len(kernel.scratch))
    found: dict[Value, tuple[int, Dim]] = {}
    for value, count in kernel.scratch.items():
        capacity = each // value.type.dtype.size
        if not (isinstance(count, int) and count <= capacity):
            found[value] = (capacity, count)
    return found


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
            begin, end = bounds_of(v, kernel.blocks, text, scope)
            inner = scope.inner([v])
            blocks.append((loop_header(v, begin, end), inner))
            scope = inner
        _print_innermost(kernel, p, accumulators, text, scope, bounds)
        outer = [around, *(b for _, b in blocks)]
        for parent, (header, inner) in reversed(list(zip(outer, blocks, strict=False))):
            parent.close(inner, header)
            parent.flags |= inner.flags
    for a in accumulators:
        around.lines += a.result()
        around.names[a.local] = a.name


def _braced(block: Scope) -> list[str]:
    return ["{", *(f"  {line}" for line in block.lines), "}"]


def _print_innermost(
    kernel: Kernel,
    p: Pass,
    accumulators: list[_Accumulator],
    text: KernelText,
    scope: Scope,
    bounds: tuple[str, str] | None,
) -> None:
    v = p.loops[-1]
    begin, end = bounds or bounds_of(v, kernel.blocks, text, scope)
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
    masked = can_be_masked(p, v) and not inner.flags
    if masked:
        text.functions.add("lanes")
        last, end = end, text.unique(f"{v.name}_whole")
        whole = f"{last} & -LANES" if begin == "0" else f"{begin} + (({last} - {begin}) & -LANES)"
        scope.lines.append(f"const i64 {end} = {whole};")
    simd = " ".join(["#pragma omp simd", *clauses])
    scope.lines.append(simd + "".join(f" reduction(| : {f})" for f in sorted(inner.flags)))
    scope.close(inner, loop_header(v, begin, end))
    if masked:
        tail = _masked_tail(p, accumulators, text, v, f"{end} + lane", f"{last} - {end}", hoist)
        scope.lines += [f"if ({end} < {last}) {{", f"  {simd}", *(f"  {x}" for x in tail), "}"]


def _masked_tail(
    p: Pass,
    accumulators: list[_Accumulator],
    text: KernelText,
    v: LoopVar,
    place: str,
    left: str,
    hoist: Scope,
) -> list[str]:
    """The last iterations, less than a vector of them, as one vector with a mask."""
    some = Scope(hoist, frozenset([v]))
    some.lines.append(f"const i64 {v.name} = {place};")
    lane = Scope(hoist, frozenset([v]))
    for a in accumulators:
        element = text.unique(f"{a.part}_x")
        lane.lines.append(f"{a.kind} {element} = {a.neutral};")
        some.lines.append(f"{element} = {text.text(a.what.scalar, some)};")
        some.names[a] = element
    for store in p.stores:
        print_store(store, text, some)
    lane.close(some, f"if (lane < (i32)({left}))")
    lane.lines += [a.step(some.names[a]) for a in accumulators]
    loop = Scope()
    loop.close(lane, "for (i32 lane = 0; lane < LANES; ++lane)")
    return loop.lines


def _print_statements(
    p: Pass, accumulators: list[_Accumulator], text: KernelText, scope: Scope
) -> None:
    for a in accumulators:
        scope.lines.append(a.step(text.text(a.what.scalar, scope)))
    for store in p.stores:
        print_store(store, text, scope)


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
        return f"{self.name}_total {SIGNS[self.what.kind]}= {self.part};"

    def step(self, element: str) -> str:
        return f"{self.part} = {combine(self.what.kind, self.dtype, self.part, element)};"

    def clause(self) -> str:
        sign = self.function or SIGNS.get(self.what.kind, self.what.kind)
        return f"reduction({sign} : {self.part})"

    def result(self) -> list[str]:
        kind = c.type_name(self.dtype)
        source = f"{self.name}_total" if self.blocked else self.part
        return [f"const {kind} {self.name} = ({kind}){source};"]


def _cost(kernel: Kernel) -> list[tuple[float, Dim]]:
    """Cycles of one unit."""
    parts: list[tuple[float, Dim]] = []
    for p in kernel.passes:
        scalars = p.scalars()
        each = (cost.of_scalars(scalars) + len(p.stores)) * cost.CYCLES
        size: Dim = 1 if kernel.flat else d.product([v.extent for v in p.loops])
        if kernel.blocks:
            size = d.product([iterations(v, kernel.blocks) for v in p.loops])
        parts.append((each, size))
        if not kernel.flat:
            parts.append((10.0, 1))
    return parts
