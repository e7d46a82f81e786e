"""What each primitive computes, in numpy: the reference that generated code is compared with.

One function (or table entry) a primitive, from arrays and attributes to an array; attributes come
with every dim already evaluated to an int. `interpreter.py` runs programs with them.

Precision: `+ - * /`, comparisons, rounding and `sqrt` are IEEE operations of the element type.
Transcendental functions of f32 are computed in f64 and rounded once, f32 sums, products and
matrix products accumulate in f64; a kernel is therefore judged in ulps against a correctly
rounded result. f64 is computed in f64. A float outside the range of the integer type that it is
converted to gives an unspecified integer, as in C.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tf_blade.compiler.ir.ops import IrError
from tf_blade.compiler.ir.types import DType

Array = np.ndarray


class Refused(Exception):
    """The program doesn't answer for these inputs; the host runs the TensorFlow fallback.

    `reason` says which condition failed and names the op it belongs to.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def _rounded(function: Callable[..., Array]) -> Callable[..., Array]:
    """The function computed in f64, its result rounded to the operands' type."""

    def apply(*operands: Array) -> Array:
        wide = [x.astype(np.float64) for x in operands]
        return np.asarray(function(*wide)).astype(operands[0].dtype)

    return apply


def _on_floats(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Rounding functions leave integers as they are."""
    return lambda x: function(x) if x.dtype.kind == "f" else x


def _logistic(x: Array) -> Array:
    small = np.exp(-np.abs(x))  # in [0, 1]: never overflows
    return np.where(x >= 0, 1.0, small) / (1.0 + small)


def _check_divisor(y: Array) -> None:
    if y.dtype.kind != "f" and np.any(y == 0):
        raise Refused("integer division by zero")


def _div(x: Array, y: Array) -> Array:
    """Floats: IEEE. Integers: rounds toward zero; the one overflow (MIN / -1) wraps to MIN."""
    if x.dtype.kind == "f":
        return x / y
    _check_divisor(y)
    quotient = x // y
    inexact = quotient * y != x
    return quotient + (inexact & ((x < 0) != (y < 0))).astype(x.dtype)


def _floor_div(x: Array, y: Array) -> Array:
    """Floats: floor(x / y), x / y rounded first. Integers: rounds toward minus infinity."""
    if x.dtype.kind == "f":
        return np.floor(x / y)
    _check_divisor(y)
    return x // y


def _rem(x: Array, y: Array) -> Array:
    _check_divisor(y)
    return np.fmod(x, y)


def _floor_mod(x: Array, y: Array) -> Array:
    """The remainder with the divisor's sign."""
    _check_divisor(y)
    remainder = np.fmod(x, y)
    return np.where((remainder != 0) & ((remainder < 0) != (y < 0)), remainder + y, remainder)


def _pow(x: Array, y: Array) -> Array:
    if x.dtype.kind == "f":
        return _rounded(np.power)(x, y)
    if np.any(y < 0):
        raise Refused("integer raised to a negative power")
    return np.power(x, y)


def _shift_amount(x: Array, amount: Array) -> Array:
    """TensorFlow clamps the amount to [0, bits - 1]."""
    return np.clip(amount, 0, x.dtype.itemsize * 8 - 1).astype(x.dtype)


UNARY: dict[str, Callable[[Array], Array]] = {
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "exp": _rounded(np.exp),
    "expm1": _rounded(np.expm1),
    "log": _rounded(np.log),
    "log1p": _rounded(np.log1p),
    "sqrt": np.sqrt,
    "rsqrt": _rounded(lambda x: 1.0 / np.sqrt(x)),
    "sin": _rounded(np.sin),
    "cos": _rounded(np.cos),
    "tan": _rounded(np.tan),
    "asin": _rounded(np.arcsin),
    "acos": _rounded(np.arccos),
    "atan": _rounded(np.arctan),
    "sinh": _rounded(np.sinh),
    "cosh": _rounded(np.cosh),
    "tanh": _rounded(np.tanh),
    "asinh": _rounded(np.arcsinh),
    "acosh": _rounded(np.arccosh),
    "atanh": _rounded(np.arctanh),
    "logistic": _rounded(_logistic),
    "erf": _rounded(np.vectorize(math.erf, otypes=[np.float64])),
    "erfc": _rounded(np.vectorize(math.erfc, otypes=[np.float64])),
    "floor": _on_floats(np.floor),
    "ceil": _on_floats(np.ceil),
    "round": _on_floats(np.rint),  # halves to even
    "not": np.invert,
    "is_finite": np.isfinite,
    "is_inf": np.isinf,
    "is_nan": np.isnan,
}

BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _div,
    "floor_div": _floor_div,
    "rem": _rem,
    "floor_mod": _floor_mod,
    "pow": _pow,
    "max": np.maximum,  # both propagate NaN
    "min": np.minimum,
    "atan2": _rounded(np.arctan2),
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shift_left": lambda x, y: np.left_shift(x, _shift_amount(x, y)),
    "shift_right": lambda x, y: np.right_shift(x, _shift_amount(x, y)),
}

COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}


def _compare(x: Array, y: Array, *, direction: str) -> Array:
    return COMPARISONS[direction](x, y)


def _select(predicate: Array, on_true: Array, on_false: Array) -> Array:
    return np.where(predicate, on_true, on_false)


def _convert(x: Array, *, dtype: DType) -> Array:
    """Floats to integers round toward zero; to bool: x != 0 (NaN is true). To and from halves by
    way of f32."""
    if DType.from_numpy(x.dtype).is_half or dtype.is_half:
        x = x.astype(np.float32)
    return x != 0 if dtype is DType.BOOL else x.astype(dtype.numpy)


def _checked(x: Array, condition: Array) -> Array:
    if not np.all(condition):
        raise Refused("a value that TensorFlow reports as an error")
    return x


def _constant(*, value: Array) -> Array:
    return value


def _iota(*, dtype: DType, shape: tuple[int, ...], dim: int) -> Array:
    view = [1] * len(shape)
    view[dim] = shape[dim]
    return np.broadcast_to(np.arange(shape[dim]).astype(dtype.numpy).reshape(view), shape)


def _shape_value(*, dtype: DType, shape: tuple[int, ...], elements: tuple[int, ...]) -> Array:
    wrapped = [n % 2**64 for n in elements]
    return np.array(wrapped, dtype=np.uint64).astype(dtype.numpy).reshape(shape)


def _broadcast_in_dim(x: Array, *, shape: tuple[int, ...], dims: tuple[int, ...]) -> Array:
    view = [1] * len(shape)
    for size, dim in zip(x.shape, dims, strict=True):
        view[dim] = size
    return np.broadcast_to(x.reshape(view), shape)


def _reshape(x: Array, *, shape: tuple[int, ...]) -> Array:
    return x.reshape(shape)


def _transpose(x: Array, *, perm: tuple[int, ...]) -> Array:
    return np.transpose(x, perm)


def _slice(x: Array, *, start: Any, limit: Any, stride: Any) -> Array:
    for first, end, size in zip(start, limit, x.shape, strict=True):
        if not 0 <= first <= end <= size:
            raise IrError(f"slice [{first}, {end}) leaves a dim of {size}; a constraint is missing")
    return x[tuple(slice(*bounds) for bounds in zip(start, limit, stride, strict=True))]


def _reverse(x: Array, *, dims: tuple[int, ...]) -> Array:
    return np.flip(x, dims)


def _concatenate(*operands: Array, dim: int) -> Array:
    return np.concatenate(operands, axis=dim)


def _pad(x: Array, fill: Array, *, low: tuple[int, ...], high: tuple[int, ...]) -> Array:
    if any(n < 0 for n in (*low, *high)):
        raise IrError(f"negative padding: low={low} high={high}; a constraint is missing")
    result = np.full([a + n + b for a, n, b in zip(low, x.shape, high, strict=True)], fill)
    result[tuple(slice(a, a + n) for a, n in zip(low, x.shape, strict=True))] = x
    return result


def _gather(params: Array, indices: Array, *, axis: int, batch_dims: int) -> Array:
    size = params.shape[axis]
    if indices.size and (indices.min() < 0 or indices.max() >= size):
        raise Refused(f"gather index outside [0, {size})")
    batch, outer = params.shape[:batch_dims], params.shape[batch_dims:axis]
    inner, picked = params.shape[axis + 1 :], indices.shape[batch_dims:]
    flat = params.reshape(math.prod(batch), math.prod(outer), size, math.prod(inner))
    rows = indices.reshape(math.prod(batch), math.prod(picked))
    result = np.empty((len(rows), flat.shape[1], rows.shape[1], flat.shape[3]), params.dtype)
    for i, row in enumerate(rows):
        result[i] = flat[i][:, row]
    return result.reshape(batch + outer + picked + inner)


def _reduce(x: Array, *, kind: str, dims: tuple[int, ...]) -> Array:
    if kind in ("and", "or"):
        return np.all(x, axis=dims) if kind == "and" else np.any(x, axis=dims)
    if kind in ("sum", "prod"):
        wide = np.dtype(np.float64) if x.dtype.kind == "f" else x.dtype
        function = np.sum if kind == "sum" else np.prod
        return np.asarray(function(x, axis=dims, dtype=wide)).astype(x.dtype)
    lowest = kind == "max"
    return (np.max if lowest else np.min)(x, axis=dims, initial=extreme(x.dtype, lowest=lowest))


def extreme(dtype: np.dtype, *, lowest: bool) -> Any:
    """The neutral element of max (lowest) or min: an infinity, or the integers' bound."""
    if dtype.kind == "f":
        return -np.inf if lowest else np.inf
    if dtype.kind == "b":
        return not lowest
    return np.iinfo(dtype).min if lowest else np.iinfo(dtype).max


def _scatter(target: Array, indices: Array, updates: Array, *, kind: str) -> Array:
    result = target.copy()
    step = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}.get(kind)
    for at, update in zip(indices, updates, strict=True):
        if 0 <= at < len(result):
            result[at] = update if step is None else step(result[at], update)
    return result


def _log_add(x: Array, y: Array) -> Array:
    """log(exp(x) + exp(y)); NaN for two positive infinities, as in TensorFlow."""
    high, low = np.maximum(x, y), np.minimum(x, y)
    return np.where(high == -np.inf, high, high + np.log1p(np.exp(low - high)))


# What scans do, and what they start from.
_SCANS: dict[str, tuple[Callable[[Array, Array], Array], float]] = {
    "sum": (np.add, 0),
    "prod": (np.multiply, 1),
    "logsumexp": (_rounded(_log_add), -np.inf),
}


def _scan(x: Array, *, kind: str, dim: int, exclusive: bool, reverse: bool) -> Array:
    step, start = _SCANS[kind]
    ordered = np.moveaxis(np.flip(x, dim) if reverse else x, dim, 0)
    result = np.empty_like(ordered)
    total = np.full(ordered.shape[1:], start, x.dtype)
    for place, element in enumerate(ordered):
        following = step(total, element)
        result[place] = total if exclusive else following
        total = following
    result = np.moveaxis(result, 0, dim)
    return np.flip(result, dim) if reverse else result


def _top_k(x: Array, *, k: int) -> Array:
    if x.dtype.kind == "f" and np.isnan(x).any():
        raise Refused("NaN has no place in an order")
    if x.shape[-1] < k:
        raise IrError(f"{k} of {x.shape[-1]} elements; a constraint is missing")
    # A stable sort of the elements from last to first, read backwards: ties in order.
    backwards = np.argsort(np.flip(x, -1), axis=-1, kind="stable")
    positions = x.shape[-1] - 1 - np.flip(backwards, -1)
    return positions[..., :k].astype(np.int32)


def _positions(mask: Array, *, shape: tuple[int]) -> Array:
    return np.flatnonzero(mask).astype(np.int64)


def _first_equal(x: Array) -> Array:
    first: dict[Any, int] = {}  # finds a NaN never again: each is an object of its own
    return np.array([first.setdefault(e, i) for i, e in enumerate(x.tolist())], np.int32)


def _dynamic_update(array: Array, index: Array, row: Array) -> Array:
    if not 0 <= index < len(array):
        raise Refused(f"index outside [0, {len(array)})")
    result = array.copy()
    result[int(index)] = row
    return result


def _dot_general(
    a: Array,
    b: Array,
    bias: Array | None = None,
    *,
    transpose_a: bool,
    transpose_b: bool,
    activation: str,
) -> Array:
    left = (a.swapaxes(-1, -2) if transpose_a else a).astype(np.float64)
    right = (b.swapaxes(-1, -2) if transpose_b else b).astype(np.float64)
    return _finished(np.matmul(left, right), bias, activation).astype(a.dtype)


def _conv(
    x: Array,
    window: Array,
    bias: Array | None = None,
    *,
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    low: tuple[int, ...],
    sizes: tuple[int, ...],
    groups: int,
    activation: str,
) -> Array:
    """Place by place of the window: what all windows have there, times the filter's matrix."""
    channels, filters = window.shape[-2], window.shape[-1] // groups
    border = [(0, 0)]
    for axis, n in enumerate(sizes):
        reach = (n - 1) * strides[axis] + (window.shape[axis] - 1) * dilations[axis] + 1
        border.append((low[axis], max(reach - low[axis] - x.shape[axis + 1], 0)))
    padded = np.pad(x.astype(np.float64), [*border, (0, 0)])
    result = np.zeros((x.shape[0], *sizes, window.shape[-1]), np.float64)
    for place in np.ndindex(window.shape[:-2]):
        seen = padded
        for axis, k in enumerate(place):
            at = np.arange(sizes[axis]) * strides[axis] + k * dilations[axis]
            seen = seen.take(at, axis + 1)
        for g in range(groups):
            into = slice(g * filters, (g + 1) * filters)
            matrix = window[place][:, into].astype(np.float64)
            result[..., into] += seen[..., g * channels : (g + 1) * channels] @ matrix
    return _finished(result, bias, activation).astype(x.dtype)


def _rfft(x: Array) -> Array:
    spectrum = np.fft.rfft(x.astype(np.float64))
    return np.stack([spectrum.real, spectrum.imag]).astype(x.dtype)


def _irfft(real: Array, imaginary: Array, *, length: int) -> Array:
    spectrum = real.astype(np.float64) + 1j * imaginary.astype(np.float64)
    return np.fft.irfft(spectrum, length).astype(real.dtype)


def _finished(result: Array, bias: Array | None, activation: str) -> Array:
    """The relu is `v < 0 ? 0 : v`: it lets NaN through, as TensorFlow's Relu does."""
    if bias is not None:
        result = result + bias
    return np.where(result < 0, 0.0, result) if activation == "relu" else result


RULES: dict[str, Callable[..., Array]] = {
    **UNARY,
    **BINARY,
    "compare": _compare,
    "select": _select,
    "convert": _convert,
    "checked": _checked,
    "constant": _constant,
    "iota": _iota,
    "shape_value": _shape_value,
    "broadcast_in_dim": _broadcast_in_dim,
    "reshape": _reshape,
    "transpose": _transpose,
    "slice": _slice,
    "reverse": _reverse,
    "concatenate": _concatenate,
    "pad": _pad,
    "gather": _gather,
    "reduce": _reduce,
    "scatter": _scatter,
    "scan": _scan,
    "top_k": _top_k,
    "positions": _positions,
    "first_equal": _first_equal,
    "dot_general": _dot_general,
    "conv": _conv,
    "rfft": _rfft,
    "irfft": _irfft,
    "dynamic_update": _dynamic_update,
}
