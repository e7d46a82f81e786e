"""Running sums and products along an axis."""

from __future__ import annotations

from collections.abc import Callable

from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.lower.operands import one_axis
from tf_blade.compiler.lower.registry import FLOATS, INDICES, NUMBERS, lower


def _running(kind: str) -> Callable[..., Value]:
    def lowering(b: Builder, x: Value, axis: Value, *, exclusive: bool, reverse: bool) -> Value:
        dim = one_axis(b, axis, x.type.rank)
        return b.scan(kind, x, dim, exclusive=exclusive, reverse=reverse)

    lowering.__doc__ = f"The {kind} of the elements up to each one, along an axis."
    return lowering


for _op, _kind in {"Cumsum": "sum", "Cumprod": "prod"}.items():
    lower(_op, dtypes={"T": NUMBERS, "Tidx": INDICES}, constants=[1])(_running(_kind))
lower("CumulativeLogsumexp", dtypes={"T": FLOATS, "Tidx": INDICES}, constants=[1])(
    _running("logsumexp")
)
