"""scatter kernels: a range of rows is filled, then updated."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tf_blade.compiler.emit import c
from tf_blade.compiler.emit.nest import Function, finished, loop_header, print_store
from tf_blade.compiler.emit.reduction import combine
from tf_blade.compiler.emit.scope import KernelText, Scope
from tf_blade.compiler.fuse import cost
from tf_blade.compiler.fuse.index import LoopVar, mul
from tf_blade.compiler.ir import dims as d
from tf_blade.compiler.ir.dims import Dim
from tf_blade.compiler.schedule.kernel import Scatter

# With slices of fewer elements, looking at the indices is most of the work: one thread does it.
_NARROW = 8
# Cycles of looking at an index.
_LOOK = 2.0


def scatter_function(kernel: Scatter, text: KernelText) -> Function:
    """Prints a scatter. A unit is a row, or all rows where slices are narrow."""
    width = d.product([v.extent for v in kernel.fill_loops])
    alone = isinstance(width, int) and width < _NARROW
    rows: Dim = kernel.row.extent
    first, last = ("0", text.dim(rows)) if alone else ("begin", "end")
    top = Scope()
    _print_loops(
        top,
        text,
        [kernel.row, *kernel.fill_loops],
        (first, last),
        lambda scope: print_store(kernel.fill, text, scope),
    )
    each = top.inner([kernel.update])
    at = each.inner([kernel.at])
    at.lines.append(f"const i64 {kernel.at.name} = {text.text(kernel.index, each)};")
    at.lines.append(f"if ({kernel.at.name} < {first} || {kernel.at.name} >= {last}) continue;")
    _print_slice(at, text, kernel.step_loops, lambda scope: _print_step(kernel, text, scope))
    each.lines += at.lines
    each.flags |= at.flags
    top.close(each, loop_header(kernel.update, "0", text.dim(kernel.update.extent)))
    fill = (cost.of_scalars([kernel.fill.scalar]) + 1) * cost.CYCLES
    step = (cost.of_scalars([kernel.step.scalar]) + 2) * cost.CYCLES
    updates = kernel.update.extent
    if alone:
        costs = [(fill, mul(rows, width)), (step, mul(updates, width)), (_LOOK, updates), (1.0, 1)]
        return Function(finished(top, text), text, 1, costs)
    per_row = d.ceil_div(updates, d.larger(rows, 1))
    costs = [(fill, width), (step, mul(per_row, width)), (_LOOK, per_row), (1.0, 1)]
    return Function(finished(top, text), text, rows, costs)


def _print_step(kernel: Scatter, text: KernelText, scope: Scope) -> None:
    value = text.text(kernel.step.scalar, scope)
    place = text.address(kernel.step.root, kernel.step.index, scope, written=True)
    dtype = kernel.step.root.type.dtype
    if kernel.kind != "set":
        if dtype.is_float and kernel.kind in ("max", "min"):
            text.functions.add(f"{kernel.kind}_{c.type_name(dtype)}")
        value = f"({c.type_name(dtype)})({combine(kernel.kind, dtype, place, value)})"
    scope.lines.append(f"{place} = {value};")


def _print_slice(
    scope: Scope, text: KernelText, loops: Sequence[LoopVar], body: Callable[[Scope], None]
) -> None:
    """The loops over a slice around `body`; the innermost is to be vectorised."""
    if loops:
        _print_loops(scope, text, loops, ("0", text.dim(loops[0].extent)), body)
    else:
        body(scope)


def _print_loops(
    scope: Scope,
    text: KernelText,
    loops: Sequence[LoopVar],
    bounds: tuple[str, str],
    body: Callable[[Scope], None],
) -> None:
    """Nested loops around `body`, the first with the given bounds."""
    inner = scope.inner([loops[0]])
    _print_slice(inner, text, loops[1:], body)
    if len(loops) == 1:
        clauses = [f"reduction(| : {f})" for f in sorted(inner.flags)]
        scope.lines.append(" ".join(["#pragma omp simd", *clauses]))
    scope.close(inner, loop_header(loops[0], *bounds))
    scope.flags |= inner.flags
