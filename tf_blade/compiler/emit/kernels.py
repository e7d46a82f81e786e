"""Kernels as C++ functions over a range of units: rows, tiles or elements."""

from __future__ import annotations

from collections.abc import Sequence

from tf_blade.compiler.emit import c
from tf_blade.compiler.emit.accumulators import Accumulator, LaneAccumulator
from tf_blade.compiler.emit.masks import fills_lanes, may_end_masked
from tf_blade.compiler.emit.narrow import is_narrow_kernel, print_narrow, row_elements
from tf_blade.compiler.emit.nest import (
    Function,
    LongScratch,
    bounds_of,
    braced,
    finished,
    iterations,
    loop_header,
    print_odometer,
    print_store,
)
from tf_blade.compiler.emit.reduction import SUM_BLOCK
from tf_blade.compiler.emit.scope import KernelText, Scope
from tf_blade.compiler.emit.tiles import print_tiles, tile_bounds
from tf_blade.compiler.fuse import cost
from tf_blade.compiler.fuse.index import LoopVar, mul
from tf_blade.compiler.ir import dims as d
from tf_blade.compiler.ir.dims import Dim
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.schedule.kernel import Inside, Kernel, Pass

# Bytes of one thread's stack for values kept from pass to pass; longer rows use a temporary.
SCRATCH_BYTES = 1 << 15
# Elements of the longest vector of any instruction set.
WIDEST_VECTOR = 16


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
    elif is_narrow_kernel(kernel):
        _print_rows_of_any_width(kernel, text, top)
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
            top.lines.append(f"alignas(64) {kind} {name}[{max(int(_padded(count)), 1)}];")
    return {
        v: LongScratch(units, _padded(count), capacity) for v, (capacity, count) in long.items()
    }


def _padded(count: Dim) -> Dim:
    """Room for whole vectors."""
    return mul(d.ceil_div(count, WIDEST_VECTOR), WIDEST_VECTOR)


def _print_rows_of_any_width(kernel: Kernel, text: KernelText, top: Scope) -> None:
    columns = row_elements(kernel)
    assert columns is not None
    narrow = top.inner()
    print_narrow(kernel, text, narrow)
    narrow.lines.append("return;")
    text.functions.add("narrow")
    top.close(narrow, f"if ({text.dim(columns)} <= NARROW)")
    _print_rows(kernel, text, top)


def _print_rows(kernel: Kernel, text: KernelText, top: Scope) -> None:
    long = _long_scratch(kernel)
    row = top.inner(kernel.rows) if kernel.rows else top
    if long and not kernel.rows:
        top.lines.append("const i64 unit = 0;")
    for value, (capacity, count) in long.items():
        name, kind = text.scratch[value], c.type_name(value.type.dtype)
        size = text.dim(_padded(count))
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
        capacity = each // value.type.dtype.size // WIDEST_VECTOR * WIDEST_VECTOR
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
    accumulators = _accumulators(p, text)
    for a in accumulators:
        around.lines += a.declarations()
    if not p.loops:
        block = around.inner()
        _print_statements(p, accumulators, text, block)
        around.lines += braced(block)
    else:
        blocks: list[tuple[str, Scope]] = []
        scope = around
        if kernel.transposed:
            blocks = print_tiles(kernel, text, around)
            scope = blocks[-1][1]
            bounds = tile_bounds(p.loops[-1])
        for v in p.loops[:-1]:
            if kernel.transposed:
                begin, end = tile_bounds(v)
            else:
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
        around.names[a.what.local] = a.name


def _accumulators(p: Pass, text: KernelText) -> list[Accumulator]:
    if not (p.accumulates and p.loops and fills_lanes(p, p.loops[-1])):
        return [Accumulator(a, p, text) for a in p.accumulates]
    # Cheap steps wait for the ones before them; dear ones are slow enough.
    cheap = len(p.loops) == 1 and cost.of_scalars(p.scalars()) <= cost.CHEAP
    return [LaneAccumulator(a, p, text, 2 if cheap else 1) for a in p.accumulates]


def _print_innermost(
    kernel: Kernel,
    p: Pass,
    accumulators: list[Accumulator],
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
        _print_vector_loop(kernel, p, accumulators, text, part, v, name, f"{v.name}_end", scope)
        for a in blocked:
            part.lines.append(a.end_part())
        scope.close(part, f"for (i64 {name} = {begin}; {name} < {end}; {name} += {SUM_BLOCK})")
        return
    for a in blocked:
        scope.lines.append(a.start_part())
    _print_vector_loop(kernel, p, accumulators, text, scope, v, begin, end, scope)
    for a in blocked:
        scope.lines.append(a.end_part())


def _print_vector_loop(
    kernel: Kernel,
    p: Pass,
    accumulators: list[Accumulator],
    text: KernelText,
    scope: Scope,
    v: LoopVar,
    begin: str,
    end: str,
    hoist: Scope,
) -> None:
    # What moves out of the loop must land before it, and before the block loop too.
    in_lanes = [a for a in accumulators if isinstance(a, LaneAccumulator)]
    masked = bool(in_lanes) or (fills_lanes(p, v, kernel.transposed) and may_end_masked(v))
    step = f"{max((a.chains for a in in_lanes), default=1)} * LANES".removeprefix("1 * ")
    last = end
    if masked:
        text.functions.add("lanes")
        end = text.unique(f"{v.name}_whole")
        down = f"-({step})" if "*" in step else f"-{step}"
        whole = f"{last} & {down}" if begin == "0" else f"{begin} + (({last} - {begin}) & {down})"
        scope.lines.append(f"const i64 {end} = {whole};")
    if in_lanes:
        first = f"{v.name}_first"
        whole_vectors = _lane_loop(p, in_lanes, text, v, first, step, None, hoist)
        scope.lines += _stepping(first, begin, end, step, whole_vectors)
        rest = _lane_loop(p, in_lanes, text, v, first, "LANES", f"{last} - {first}", hoist)
        scope.lines += _stepping(first, end, last, "LANES", rest)
        return
    inner = Scope(hoist, frozenset([v]))
    _print_statements(p, accumulators, text, inner)
    clauses = [a.clause() for a in accumulators]
    clauses += [f"reduction(| : {f})" for f in sorted(inner.flags)]
    scope.lines.append(" ".join(["#pragma omp simd", *clauses]))
    scope.close(inner, loop_header(v, begin, end))
    if masked:
        tail = _lane_loop(p, [], text, v, end, "LANES", f"{last} - {end}", hoist)
        scope.lines += [f"if ({end} < {last}) {{", *(f"  {x}" for x in tail), "}"]


def _stepping(name: str, begin: str, end: str, step: str, body: list[str]) -> list[str]:
    header = f"for (i64 {name} = {begin}; {name} < {end}; {name} += {step}) {{"
    return [header, *(f"  {line}" for line in body), "}"]


def _lane_loop(
    p: Pass,
    accumulators: list[LaneAccumulator],
    text: KernelText,
    v: LoopVar,
    first: str,
    count: str,
    left: str | None,
    hoist: Scope,
) -> list[str]:
    """`count` iterations from `first` as a loop over lanes; left: as one vector with a mask, which
    that many iterations are left for."""
    lane = Scope(hoist, frozenset([v]))
    lane.lines.append(f"const i64 {v.name} = {first} + lane;")
    some = lane if left is None else Scope(lane, frozenset([v]))
    elements = [text.text(a.what.scalar, some) for a in accumulators]
    whole: list[str] = []
    for store in p.stores:
        if left is None or store.root not in text.scratch:
            print_store(store, text, some)
            continue
        # Scratch has room for the rest of a vector, and what was written whole is read at once.
        kind, name = c.type_name(store.root.type.dtype), text.unique(f"{v.name}_kept")
        lane.lines.append(f"{kind} {name} = 0;")
        some.lines.append(f"{name} = {text.text(store.scalar, some)};")
        place = text.address(store.root, store.index, lane, written=True)
        whole.append(f"{place} = {name};")
    if left is not None:
        # Lanes without an element take part with the neutral one.
        for i, a in enumerate(accumulators):
            name = text.unique(f"{a.part}_x")
            lane.lines.append(f"{a.kind} {name} = {a.neutral};")
            some.lines.append(f"{name} = {elements[i]};")
            elements[i] = name
        lane.close(some, f"if (lane < (i32)({left}))")
    lane.lines += whole
    lane.lines += [a.step(element) for a, element in zip(accumulators, elements, strict=True)]
    loop = Scope()
    for a in accumulators:
        loop.lines += a.load()
    loop.lines.append("#pragma omp simd")
    loop.close(lane, f"for (i32 lane = 0; lane < {count}; ++lane)")
    loop.lines += [a.store() for a in accumulators]
    return loop.lines


def _print_statements(
    p: Pass, accumulators: list[Accumulator], text: KernelText, scope: Scope
) -> None:
    for a in accumulators:
        scope.lines.append(a.step(text.text(a.what.scalar, scope)))
    for store in p.stores:
        print_store(store, text, scope)


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
