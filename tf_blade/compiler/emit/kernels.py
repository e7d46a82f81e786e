"""Kernels as C++ functions over a range of units: rows, tiles or elements."""

from __future__ import annotations

from collections.abc import Sequence

from tf_blade.compiler.emit import c, joined_groups, joined_rows, narrow
from tf_blade.compiler.emit.joined_groups import has_short_runs, print_joined_groups
from tf_blade.compiler.emit.joined_rows import has_short_rows, print_joined_rows
from tf_blade.compiler.emit.narrow import NARROW, is_narrow_kernel, print_narrow, row_elements
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
from tf_blade.compiler.emit.prefetch import prefetches
from tf_blade.compiler.emit.scope import KernelText, Scope
from tf_blade.compiler.emit.tiles import print_tiles, tile_bounds
from tf_blade.compiler.emit.vector_loop import VectorLoop, accumulators_of, print_statements
from tf_blade.compiler.fuse import cost
from tf_blade.compiler.fuse.index import add, mul
from tf_blade.compiler.ir import dims as d
from tf_blade.compiler.ir.dims import Dim
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.schedule.kernel import Inside, Kernel, Pass

# Bytes of one thread's stack for values kept from pass to pass; longer rows use a temporary.
SCRATCH_BYTES = 1 << 15
# Cycles to begin and end a pass, for one unit of cost of what is computed once a row, and for a row
# that is joined with others.
PASS_CYCLES, ROW_CYCLES, JOINED_CYCLES = 10.0, 1.0, 2.0
# Elements of the longest vector of any instruction set.
WIDEST_VECTOR = 16


# Versions for short rows, the first that is possible: whether it is, what must hold when the kernel
# runs (as C++; empty: nothing), and what prints it.
_VERSIONS = (
    (has_short_runs, joined_groups.condition, print_joined_groups),
    (is_narrow_kernel, narrow.condition, print_narrow),
    (has_short_rows, joined_rows.condition, print_joined_rows),
)


def kernel_function(kernel: Kernel, text: KernelText) -> Function:
    """Prints a loop, row_reduce, concatenate or pad kernel."""
    units: Dim = kernel.passes[0].loops[0].extent if kernel.flat else 1
    for v in kernel.rows:
        units = mul(units, v.extent)
    top = Scope(vars=frozenset())
    long_scratch = _declare_scratch(kernel, text, top, units)
    if kernel.flat:
        (only,) = kernel.passes
        print_pass(kernel, only, text, top, bounds=("begin", "end"))
    else:
        _print_versions(kernel, text, top)
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
            top.lines.append(f"alignas(64) {kind} {name}[{max(int(_padded(kernel, count)), 1)}];")
    return {
        v: LongScratch(units, _padded(kernel, count), capacity)
        for v, (capacity, count) in long.items()
    }


def _padded(kernel: Kernel, count: Dim) -> Dim:
    """Room for `count` elements that are written in whole vectors. Where passes have loops in
    loops, the last vector may begin anywhere."""
    vectors = d.ceil_div(count, WIDEST_VECTOR)
    if any(len(p.loops) > 1 for p in kernel.passes):
        vectors = add(vectors, 1)
    return mul(vectors, WIDEST_VECTOR)


def _print_versions(kernel: Kernel, text: KernelText, top: Scope) -> None:
    """The loop over rows as it is, after a version for short ones where they may be short."""
    for may_be, condition, print_version in _VERSIONS:
        if not may_be(kernel):
            continue
        are_short = condition(kernel, text)
        if not are_short:
            print_version(kernel, text, top)
            return
        short = top.inner()
        print_version(kernel, text, short)
        short.lines.append("return;")
        top.close(short, f"if ({are_short})")
        break
    _print_rows(kernel, text, top)


def _print_rows(kernel: Kernel, text: KernelText, top: Scope) -> None:
    long = _long_scratch(kernel)
    row = top.inner(kernel.rows) if kernel.rows else top
    if long and not kernel.rows:
        top.lines.append("const i64 unit = 0;")
    for value, (capacity, count) in long.items():
        name, kind = text.scratch[value], c.type_name(value.type.dtype)
        size = text.dim(_padded(kernel, count))
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
        size = _padded(kernel, count)
        if not (isinstance(size, int) and size <= capacity):
            found[value] = (capacity, count)
    return found


def _print_guarded(kernel: Kernel, p: Pass, text: KernelText, row: Scope) -> None:
    if not p.inside and not p.outside:
        print_pass(kernel, p, text, row)
        return
    condition = _condition([*p.inside, *p.outside], text, row)
    block = row.inner(i.inner for i in p.inside)
    for i in p.inside:
        block.lines.append(f"const i64 {i.inner.name} = {_row_name(i)} - {text.dim(i.low)};")
    print_pass(kernel, p, text, block)
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


def print_pass(
    kernel: Kernel,
    p: Pass,
    text: KernelText,
    around: Scope,
    bounds: tuple[str, str] | None = None,
) -> None:
    """The loops of a pass; what it reduces has its name in `around` then.

    bounds: of its last loop, where that isn't run from end to end.
    """
    accumulators = accumulators_of(p, text)
    for a in accumulators:
        around.lines += a.declarations()
    if not p.loops:
        block = around.inner()
        print_statements(p, accumulators, text, block)
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
        begin, end = bounds or bounds_of(p.loops[-1], kernel.blocks, text, scope)
        fetches = prefetches(kernel, p, text, around)
        VectorLoop(p, accumulators, text, kernel.transposed, fetches).print(scope, begin, end)
        outer = [around, *(b for _, b in blocks)]
        for parent, (header, inner) in reversed(list(zip(outer, blocks, strict=False))):
            parent.close(inner, header)
            parent.flags |= inner.flags
    for a in accumulators:
        around.lines += a.result()
        around.names[a.what.local] = a.name


def _cost(kernel: Kernel) -> list[tuple[float, Dim]]:
    """Cycles of one unit."""
    parts: list[tuple[float, Dim]] = []
    once = 0.0 if kernel.flat else PASS_CYCLES * len(kernel.passes)
    for p in kernel.passes:
        scalars = p.scalars()
        each = cost.of_scalars(scalars, p.loops)
        once += (cost.of_scalars(scalars) - each) * ROW_CYCLES
        size: Dim = 1 if kernel.flat else d.product([v.extent for v in p.loops])
        if kernel.blocks:
            size = d.product([iterations(v, kernel.blocks) for v in p.loops])
        parts.append(((each + len(p.stores)) * cost.CYCLES, size))
    # Rows that are done side by side share what is done once.
    if has_short_rows(kernel):
        return [*parts, (JOINED_CYCLES, 1)]
    columns = kernel.passes[0].loops[-1].extent if has_short_runs(kernel) else row_elements(kernel)
    if columns is not None and (has_short_runs(kernel) or is_narrow_kernel(kernel)):
        return [*parts, (once / NARROW, d.smaller(columns, NARROW)), (1.0, 1)]
    return [*parts, (once, 1)]
