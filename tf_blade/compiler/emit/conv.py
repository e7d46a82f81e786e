"""A convolution as a call of the host's conv: three spatial dims, whatever the op has."""

from __future__ import annotations

from dataclasses import dataclass

from tf_blade.compiler.fuse.matrices import base
from tf_blade.compiler.ir.dims import Dim, floor_div
from tf_blade.compiler.ir.program import Value


@dataclass(frozen=True)
class ConvCall:
    """y = activation(x * window + bias).

    x, window, bias: what is in memory. sizes: the numbers in BladeConv, by the names of its fields.
    """

    x: Value
    window: Value
    bias: Value | None
    sizes: dict[str, Dim]
    activation: str


def conv_call(root: Value) -> ConvCall:
    """The call that writes `root`."""
    op = root.op
    assert op is not None
    x, window = op.operands[:2]
    attrs, groups = op.attrs, op.attrs["groups"]
    *places, channels, filters = window.type.shape
    sizes: dict[str, Dim] = {
        "batch": x.type.shape[0],
        "groups": groups,
        "channels": channels,
        "filters": floor_div(filters, groups),
    }
    missing = 3 - len(places)
    for name, dims, neutral in (
        ("in", x.type.shape[1:-1], 1),
        ("window", places, 1),
        ("out", attrs["sizes"], 1),
        ("stride", attrs["strides"], 1),
        ("dilation", attrs["dilations"], 1),
        ("low", attrs["low"], 0),
    ):
        for axis, n in enumerate([*[neutral] * missing, *dims]):
            sizes[f"{name}[{axis}]"] = n
    return ConvCall(
        base(x),
        base(window),
        base(op.operands[2]) if len(op.operands) == 3 else None,
        sizes,
        attrs["activation"],
    )
