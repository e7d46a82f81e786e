"""Reductions. Their axes are constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tf_blade.compiler.ir import dims as d
from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.ir.types import DType
from tf_blade.compiler.lower.elementwise import number
from tf_blade.compiler.lower.operands import axes, one_axis
from tf_blade.compiler.lower.registry import FLOATS, NUMBERS, DTypes, lower

_MEAN: DTypes = FLOATS | {DType.I32, DType.I64}


def _reduced(b: Builder, kind: str, x: Value, over: Sequence[int], keep_dims: bool) -> Value:
    result = b.reduce(kind, x, over)
    if not keep_dims:
        return result
    return b.reshape(result, [1 if i in over else n for i, n in enumerate(b.shape(x))])


def _reduction(kind: str) -> Callable[..., Value]:
    def lowering(b: Builder, x: Value, reduction_indices: Value, *, keep_dims: bool) -> Value:
        return _reduced(b, kind, x, axes(b, reduction_indices, x.type.rank), keep_dims)

    lowering.__doc__ = f"The {kind} over the given axes."
    return lowering


for _op, _kind in {"Sum": "sum", "Prod": "prod", "Max": "max", "Min": "min"}.items():
    lower(_op, dtypes=NUMBERS, constants=[1])(_reduction(_kind))
for _op, _kind in {"All": "and", "Any": "or"}.items():
    lower(_op, constants=[1])(_reduction(_kind))


@lower("Mean", dtypes=_MEAN, constants=[1])
def mean(b: Builder, x: Value, reduction_indices: Value, *, keep_dims: bool) -> Value:
    """The sum over the axes, divided by the number of elements (integers: rounded toward zero).

    The mean of nothing is NaN, for integers 0.
    """
    dtype = x.type.dtype
    over = axes(b, reduction_indices, x.type.rank)
    count = d.product([b.shape(x)[i] for i in over])
    if dtype.is_integer:
        count = d.larger(count, 1)
    size = b.constant(count, dtype) if isinstance(count, int) else None
    if size is None:
        size = b.convert(b.shape_value(count, DType.I64), dtype)
    return b.div(_reduced(b, "sum", x, over, keep_dims), size)


@lower("EuclideanNorm", dtypes=FLOATS, constants=[1])
def euclidean_norm(b: Builder, x: Value, reduction_indices: Value, *, keep_dims: bool) -> Value:
    """The root of the sum of squares over the axes."""
    over = axes(b, reduction_indices, x.type.rank)
    return b.unary("sqrt", _reduced(b, "sum", b.mul(x, x), over, keep_dims))


@lower("L2Loss", dtypes=FLOATS)
def l2_loss(b: Builder, x: Value) -> Value:
    """Half the sum of all squares."""
    total = b.reduce("sum", b.mul(x, x), range(x.type.rank))
    return b.mul(total, number(b, 0.5, x))


def _arg_extreme(kind: str) -> Callable[..., Value]:
    def lowering(b: Builder, x: Value, dimension: Value, *, output_type: DType) -> Value:
        axis = one_axis(b, dimension, x.type.rank)
        shape = b.shape(x)
        b.require_le(1, shape[axis], "there is an element to find")
        if x.type.dtype.is_float:
            # TensorFlow starts from the lowest finite number, and NaN never wins.
            worst = np.finfo(x.type.dtype.numpy).max * (-1 if kind == "max" else 1)
            better = b.compare("GT" if kind == "max" else "LT", x, number(b, worst, x))
            x = b.select(better, x, number(b, worst, x))
        best = _reduced(b, kind, x, [axis], keep_dims=True)
        # Twice as many i32 as i64 are compared at once.
        b.require_le(shape[axis], 2**31 - 1, "positions are i32")
        positions = b.iota(DType.I32, shape, axis)
        none = b.shape_value(shape[axis], DType.I32)
        candidates = b.select(b.compare("EQ", x, best), positions, none)
        return b.convert(b.reduce("min", candidates, [axis]), output_type)

    lowering.__doc__ = f"The first position of the {kind}imum along one axis."
    return lowering


_ARG_OUTPUTS: DTypes = frozenset([DType.I32, DType.I64])
for _op, _kind in {"ArgMax": "max", "ArgMin": "min"}.items():
    lower(_op, dtypes={"T": NUMBERS, "output_type": _ARG_OUTPUTS}, constants=[1])(
        _arg_extreme(_kind)
    )
