"""A Fourier transform as a call of the host's fft."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tf_blade.compiler.emit import c
from tf_blade.compiler.ir.dims import product
from tf_blade.compiler.schedule.kernel import Fft

if TYPE_CHECKING:
    from tf_blade.compiler.emit.run import RunPrinter


def fft_call(printer: RunPrinter, step: Fft) -> list[str]:
    """Lines that transform all rows."""
    (root,) = step.group.roots
    assert root.op is not None
    x, *imaginary = root.op.operands
    inverse = root.op.kind == "irfft"
    numbers = root if inverse else x
    *leading, length = numbers.type.shape
    name = f"{printer.prefix}{step.group.name}_call"
    fields = {
        "dtype": "BLADE_F32",
        "inverse": str(int(inverse)),
        "rows": printer.dim(product(leading)),
        "length": printer.dim(length),
        "x": printer.buffer(x),
        "imaginary": printer.buffer(imaginary[0]) if imaginary else "nullptr",
        "y": f"{printer.names[root]}_ptr",
    }
    return [
        *c.comment(f"{step.group.name}: {root.op}"),
        f"BladeFft {name} = {{}};",
        *(f"{name}.{key} = {value};" for key, value in fields.items()),
        f"if (host->fft(ctx, &{name}) != 0) return BLADE_HOST_ERROR;",
    ]
