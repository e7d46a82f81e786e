"""Loop kernels: every element for itself."""

from __future__ import annotations

from tf_blade.compiler.emit.cuda.function import DeviceFunction, print_row_variables
from tf_blade.compiler.emit.cuda.lanes import lanes_scope, print_lanes, strides
from tf_blade.compiler.emit.nest import finished
from tf_blade.compiler.emit.scope import KernelText, Scope
from tf_blade.compiler.fuse.index import LoopVar
from tf_blade.compiler.schedule.kernel import Kernel

# The loop of a kernel that has none.
_ONCE = LoopVar("once", 1)


def loop_function(kernel: Kernel, text: KernelText) -> DeviceFunction:
    """Prints what one thread does: elements `first`, `first` + 1, … of the row `row`.

    Blocks and tiles suit the caches of processors; here the loops that they cut are whole.
    """
    (only,) = kernel.passes
    blocks = {b.block for b in kernel.blocks.values()}
    inner = only.loops[-1] if only.loops else _ONCE
    rows = [v for v in (*kernel.rows, *only.loops[:-1]) if v not in blocks]
    top = Scope(vars=frozenset(rows))
    units = print_row_variables(rows, "row", top, text)
    # The loops around this are of these extents; and texts of kernels are equal only if they are.
    top.lines.insert(0, f"// row < {text.dim(units)}, first < {text.dim(inner.extent)}")
    lanes = lanes_scope(top, inner)
    print_lanes(only, inner, text, lanes)
    top.lines += lanes.lines
    return DeviceFunction(
        finished(top, text), text, units, width=inner.extent, strides=strides(only, inner)
    )
