"""What the printers of CUDA kernels make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tf_blade.compiler.emit.nest import Function
from tf_blade.compiler.emit.scope import KernelText, Scope
from tf_blade.compiler.fuse.index import LoopVar, mul
from tf_blade.compiler.ir.dims import Dim


@dataclass
class DeviceFunction(Function):
    """A printed kernel; its units are rows.

    body: of a function template of N. width: elements of a row. strides: what must be a multiple of
    WIDE for N = WIDE, 0 and more dims. kept: of row kernels, the body for rows that ITEMS times N
    elements a thread hold in registers, in `kept_arrays` arrays; empty if there is none.
    """

    width: Dim = 1
    strides: Sequence[Dim] = ()
    kept: list[str] = field(default_factory=list)
    kept_arrays: int = 0


def print_row_variables(rows: Sequence[LoopVar], row: str, scope: Scope, text: KernelText) -> Dim:
    """Divides the number `row` into the counters of the loops over rows. Returns how many there
    are."""
    units: Dim = 1
    for v in reversed(rows):
        place = row if units == 1 else f"{row} / {text.dim(units)}"
        if v is not rows[0]:
            place = f"{place} % {text.dim(v.extent)}"
        scope.lines.append(f"const i64 {v.name} = {place};")
        units = mul(units, v.extent)
    return units
