"""top_k kernels: a short sorted list for each row, into which larger elements are put."""

from __future__ import annotations

from tf_blade.compiler.emit import c
from tf_blade.compiler.emit.nest import Function, finished, loop_header, print_odometer
from tf_blade.compiler.emit.scope import KernelText, Scope
from tf_blade.compiler.fuse import cost
from tf_blade.compiler.fuse.index import mul
from tf_blade.compiler.ir.dims import Dim
from tf_blade.compiler.schedule.kernel import TopK

# Cycles of comparing an element with the list's last, and of one step in the list.
_LOOK, _STEP = 2.0, 2.0


def top_k_function(kernel: TopK, text: KernelText) -> Function:
    """Prints a top_k kernel. A unit is a row."""
    (root,) = kernel.group.roots
    assert root.op is not None
    k, dtype = int(kernel.rank.extent), kernel.element.dtype
    kind = c.type_name(dtype)
    units: Dim = 1
    for v in kernel.rows:
        units = mul(units, v.extent)
    top = Scope()
    row = top.inner(kernel.rows) if kernel.rows else top
    row.lines += [f"{kind} best[{k}];", f"i32 at_rank[{k}];", "i64 known = 0;"]
    each = row.inner([kernel.along])
    x, j = text.text(kernel.element, each), kernel.along.name
    if dtype.is_float:
        flag = text.flag(root.op, "NaN has no place in an order")
        each.lines.append(f"{flag} |= {x} != {x};")
    each.lines += [
        f"if (known == {k} && !({x} > best[{k - 1}])) continue;",
        f"i64 to = known < {k} ? known++ : {k - 1};",
        f"for (; to > 0 && {x} > best[to - 1]; --to) {{",
        "  best[to] = best[to - 1];",
        "  at_rank[to] = at_rank[to - 1];",
        "}",
        f"best[to] = {x};",
        f"at_rank[to] = (i32){j};",
    ]
    row.close(each, loop_header(kernel.along, "0", text.dim(kernel.along.extent)))
    out = row.inner([kernel.rank])
    place = text.address(root, kernel.place, out, written=True)
    out.lines.append(f"{place} = at_rank[{kernel.rank.name}];")
    row.close(out, loop_header(kernel.rank, "0", str(k)))
    if kernel.rows:
        print_odometer(kernel.rows, row, top, text, needs_unit=False)
    each_cost = _LOOK + cost.of_scalars([kernel.element])
    costs: list[tuple[float, Dim]] = [(each_cost, kernel.along.extent), (_STEP * k * k, 1)]
    return Function(finished(top, text), text, units, costs)
