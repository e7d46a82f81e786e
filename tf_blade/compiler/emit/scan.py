"""scan kernels: a running total for each row, or for each column of a tile."""

from __future__ import annotations

from tf_blade.compiler.emit import c
from tf_blade.compiler.emit.nest import Function, finished, loop_header, print_odometer
from tf_blade.compiler.emit.reduction import combine, neutral
from tf_blade.compiler.emit.scope import KernelText, Scope
from tf_blade.compiler.fuse import cost
from tf_blade.compiler.fuse.index import LoopVar, mul
from tf_blade.compiler.ir import dims as d
from tf_blade.compiler.ir.dims import Dim
from tf_blade.compiler.schedule.kernel import Scan

# Totals that stay in the first-level cache.
TILE = 256
# Cycles of one step that waits for the one before it.
_STEP = {"sum": 4.0, "prod": 4.0, "logsumexp": 60.0}


def scan_function(kernel: Scan, text: KernelText) -> Function:
    """Prints a scan kernel. A unit is one row, or one tile of one row."""
    dtype = kernel.store.root.type.dtype
    kind = c.type_name(dtype)
    v, rows = kernel.tile, kernel.rows
    if v is not None:
        tiles = LoopVar("tile", d.ceil_div(v.extent, TILE))
        rows = (*rows, tiles)
    units: Dim = 1
    for row_var in rows:
        units = mul(units, row_var.extent)
    top = Scope()
    row = top.inner(rows) if rows else top
    start = _start(kernel, text)
    step = row.inner([kernel.along])
    if v is None:
        row.lines.append(f"{kind} total = {start};")
        _print_step(kernel, text, step, "total")
    else:
        text.functions.add("dim_min")
        row.lines += [
            f"const i64 first = tile * {TILE};",
            f"const i64 last = dim_min(first + {TILE}, {text.dim(v.extent)});",
            f"alignas(64) {kind} totals[{TILE}];",
            f"{loop_header(v, 'first', 'last')} totals[{v.name} - first] = {start};",
        ]
        inner = step.inner([v])
        _print_step(kernel, text, inner, f"totals[{v.name} - first]")
        clauses = [f"reduction(| : {f})" for f in sorted(inner.flags)]
        step.lines.append(" ".join(["#pragma omp simd", *clauses]))
        step.close(inner, loop_header(v, "first", "last"))
    row.close(step, loop_header(kernel.along, "0", text.dim(kernel.along.extent)))
    if rows:
        print_odometer(rows, row, top, text, needs_unit=False)
    each = (cost.of_scalars([kernel.store.scalar]) + 2) * cost.CYCLES
    width = 1 if v is None else TILE
    costs = [(_STEP[kernel.kind] + each * width, kernel.along.extent), (10.0, 1)]
    return Function(finished(top, text), text, units, costs)


def _start(kernel: Scan, text: KernelText) -> str:
    dtype = kernel.store.root.type.dtype
    if kernel.kind != "logsumexp":
        return neutral(kernel.kind, dtype)
    text.functions.add(f"logaddexp_{c.type_name(dtype)}")
    return c.literal(float("-inf"), dtype)


def _print_step(kernel: Scan, text: KernelText, scope: Scope, total: str) -> None:
    dtype = kernel.store.root.type.dtype
    element = text.text(kernel.store.scalar, scope)
    place = text.address(kernel.store.root, kernel.store.index, scope, written=True)
    if kernel.kind == "logsumexp":
        added = f"logaddexp_{c.type_name(dtype)}({total}, {element})"
    else:
        added = f"({c.type_name(dtype)})({combine(kernel.kind, dtype, total, element)})"
    update, write = f"{total} = {added};", f"{place} = {total};"
    scope.lines += [write, update] if kernel.exclusive else [update, write]
