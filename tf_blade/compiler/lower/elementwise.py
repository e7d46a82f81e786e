"""Arithmetic, one element at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.ir.types import DType
from tf_blade.compiler.lower.registry import FLOATS, INDICES, INTEGERS, NUMBERS, SIGNED, lower
from tf_blade.errors import UnsupportedError

# One primitive each: TensorFlow op -> IR op.
_UNARY = {
    FLOATS: {
        "Exp": "exp",
        "Expm1": "expm1",
        "Log": "log",
        "Log1p": "log1p",
        "Sqrt": "sqrt",
        "Rsqrt": "rsqrt",
        "Sin": "sin",
        "Cos": "cos",
        "Tan": "tan",
        "Asin": "asin",
        "Acos": "acos",
        "Atan": "atan",
        "Sinh": "sinh",
        "Cosh": "cosh",
        "Tanh": "tanh",
        "Asinh": "asinh",
        "Acosh": "acosh",
        "Atanh": "atanh",
        "Sigmoid": "logistic",
        "Erf": "erf",
        "Erfc": "erfc",
        "Floor": "floor",
        "Ceil": "ceil",
        "Rint": "round",
        "Round": "round",
    },
    SIGNED: {"Neg": "neg", "Abs": "abs", "Sign": "sign"},
    INTEGERS: {"Invert": "not"},
}
# Integer division by zero, and integers raised to negative powers, refuse the run: TensorFlow
# reports them as errors, and so does the fallback.
_BINARY = {
    NUMBERS: {
        "Add": "add",
        "AddV2": "add",
        "Sub": "sub",
        "Mul": "mul",
        "Div": "div",
        "FloorDiv": "floor_div",
        "FloorMod": "floor_mod",
        "Mod": "rem",
        "TruncateMod": "rem",
        "Maximum": "max",
        "Minimum": "min",
        "Pow": "pow",
    },
    FLOATS: {"RealDiv": "div", "Atan2": "atan2"},
    INTEGERS: {
        "BitwiseAnd": "and",
        "BitwiseOr": "or",
        "BitwiseXor": "xor",
        "LeftShift": "shift_left",
        "RightShift": "shift_right",
    },
}


def _unary(kind: str) -> Callable[[Builder, Value], Value]:
    def lowering(b: Builder, x: Value) -> Value:
        return b.unary(kind, x)

    lowering.__doc__ = f"y = {kind}(x)"
    return lowering


def _binary(kind: str) -> Callable[[Builder, Value, Value], Value]:
    def lowering(b: Builder, x: Value, y: Value) -> Value:
        return b.binary(kind, x, y)

    lowering.__doc__ = f"z = {kind}(x, y), broadcasting"
    return lowering


for _dtypes, _kinds in _UNARY.items():
    for _op, _kind in _kinds.items():
        lower(_op, dtypes=_dtypes)(_unary(_kind))
for _dtypes, _kinds in _BINARY.items():
    for _op, _kind in _kinds.items():
        lower(_op, dtypes=_dtypes)(_binary(_kind))


def number(b: Builder, value: float, like: Value) -> Value:
    """A scalar constant of the dtype of `like`."""
    return b.constant(value, like.type.dtype)


def is_zero(b: Builder, x: Value) -> Value:
    return b.compare("EQ", x, number(b, 0, x))


def trunc(b: Builder, x: Value) -> Value:
    """Floats rounded toward zero."""
    return b.select(b.compare("LT", x, number(b, 0, x)), b.unary("ceil", x), b.unary("floor", x))


@lower("Square", dtypes=NUMBERS)
def square(b: Builder, x: Value) -> Value:
    """y = x x"""
    return b.mul(x, x)


@lower("SquaredDifference", dtypes=NUMBERS)
def squared_difference(b: Builder, x: Value, y: Value) -> Value:
    """z = (x - y)²"""
    difference = b.sub(x, y)
    return b.mul(difference, difference)


@lower("Reciprocal", "Inv", dtypes=FLOATS)
def reciprocal(b: Builder, x: Value) -> Value:
    """y = 1 / x"""
    return b.div(number(b, 1, x), x)


@lower("AddN", dtypes=NUMBERS)
def add_n(b: Builder, *terms: Value) -> Value:
    """The sum of all inputs, from first to last."""
    total = terms[0]
    for term in terms[1:]:
        total = b.add(total, term)
    return total


@lower("TruncateDiv", dtypes=NUMBERS)
def truncate_div(b: Builder, x: Value, y: Value) -> Value:
    """z = x / y rounded toward zero"""
    quotient = b.div(x, y)
    return trunc(b, quotient) if quotient.type.dtype.is_float else quotient


@lower("DivNoNan", dtypes=FLOATS)
def div_no_nan(b: Builder, x: Value, y: Value) -> Value:
    """z = x / y, 0 where y = 0"""
    return b.select(is_zero(b, y), number(b, 0, x), b.div(x, y))


@lower("MulNoNan", dtypes=FLOATS)
def mul_no_nan(b: Builder, x: Value, y: Value) -> Value:
    """z = x y, 0 where y = 0 (also for infinite or NaN x)"""
    return b.select(is_zero(b, y), number(b, 0, x), b.mul(x, y))


@lower("Xdivy", dtypes=FLOATS)
def xdivy(b: Builder, x: Value, y: Value) -> Value:
    """z = x / y, 0 where x = 0"""
    return b.select(is_zero(b, x), number(b, 0, x), b.div(x, y))


@lower("Xlogy", dtypes=FLOATS)
def xlogy(b: Builder, x: Value, y: Value) -> Value:
    """z = x log(y), 0 where x = 0"""
    return b.select(is_zero(b, x), number(b, 0, x), b.mul(x, b.unary("log", y)))


@lower("Xlog1py", dtypes=FLOATS)
def xlog1py(b: Builder, x: Value, y: Value) -> Value:
    """z = x log(1 + y), 0 where x = 0"""
    return b.select(is_zero(b, x), number(b, 0, x), b.mul(x, b.unary("log1p", y)))


@lower("ClipByValue", dtypes=NUMBERS)
def clip_by_value(b: Builder, x: Value, low: Value, high: Value) -> Value:
    """min(x, high), then the maximum of that and low; NaN in a bound is no bound"""
    # Selects, not min and max: those let NaN through from either side.
    upper = b.select(b.compare("LT", high, x), high, x)
    return b.select(b.compare("LT", upper, low), low, upper)


@lower("CheckNumerics", "CheckNumericsV2", dtypes=FLOATS, ignores=["message"])
def check_numerics(b: Builder, x: Value) -> Value:
    """x, whose elements are all finite."""
    return b.checked(x, b.unary("is_finite", x))


@lower("PopulationCount", dtypes=INTEGERS)
def population_count(b: Builder, x: Value) -> Value:
    """The number of bits that are 1."""
    bits = 8 * x.type.dtype.size
    x = b.convert(x, DType(f"u{bits}"))

    def word(byte: int) -> Value:
        return number(b, int.from_bytes(bytes([byte]) * (bits // 8), "little"), x)

    def shifted(value: Value, by: int) -> Value:
        return b.binary("shift_right", value, number(b, by, value))

    # Sums of neighbours in 2, 4 and 8 bits, then of all bytes in the highest one.
    x = b.sub(x, b.binary("and", shifted(x, 1), word(0x55)))
    x = b.add(b.binary("and", x, word(0x33)), b.binary("and", shifted(x, 2), word(0x33)))
    x = b.binary("and", b.add(x, shifted(x, 4)), word(0x0F))
    return b.convert(shifted(b.mul(x, word(0x01)), bits - 8), DType.U8)


@lower("ZerosLike")
def zeros_like(b: Builder, x: Value) -> Value:
    """Zeros of the shape of x."""
    return b.splat(0, x.type.dtype, b.shape(x))


@lower("OnesLike")
def ones_like(b: Builder, x: Value) -> Value:
    """Ones of the shape of x."""
    return b.splat(1, x.type.dtype, b.shape(x))


@lower("Cast")
def cast(b: Builder, x: Value, *, DstT: DType, Truncate: bool) -> Value:
    """Conversion to another dtype; floats to integers round toward zero.

    A float outside the integer type's range gives what the C++ cast gives, in TensorFlow as here.
    """
    source = x.type.dtype
    fraction_lost = DstT.is_half or (source is DType.F64 and DstT is DType.F32)
    if Truncate and fraction_lost and not source.is_integer:
        raise UnsupportedError("Cast with Truncate=True drops bits instead of rounding", b.source)
    return b.convert(x, DstT)


@lower("Bucketize", dtypes=NUMBERS)
def bucketize(b: Builder, x: Value, *, boundaries: tuple[float, ...]) -> Value:
    """How many boundaries are at most x (NaN: all of them), as i32."""
    shape = b.shape(x)
    if not boundaries:
        return b.splat(0, DType.I32, shape)
    # Boundaries are f32; C++ compares with an integer as f32, with a double as f64.
    compared = b.convert(x, DType.F64 if x.type.dtype is DType.F64 else DType.F32)
    edges = b.constant(np.array(boundaries, np.float32), compared.type.dtype)
    columns = b.reshape(compared, (*shape, 1))
    full = (*shape, len(boundaries))
    below = b.compare("LT", b.broadcast_to(columns, full), b.broadcast_to(edges, full))
    passed = b.convert(b.unary("not", below), DType.I32)
    return b.reduce("sum", passed, [len(shape)])


# Longer sorted rows are better served by TensorFlow's binary search.
_SEARCHED = 256


def _bound(compared: Callable[[Builder, Value, Value], Value]) -> Callable[..., Value]:
    def lowering(b: Builder, sorted_inputs: Value, values: Value, *, out_type: DType) -> Value:
        """For each value, how many elements of its sorted row come before it (or are equal)."""
        rows, count = b.shape(sorted_inputs)
        if not isinstance(count, int) or count > _SEARCHED:
            raise UnsupportedError(
                f"rows to search must have at most {_SEARCHED} elements, a known number", b.source
            )
        rows = b.same_dim(rows, b.shape(values)[0], "one sorted row for each row of values")
        full = (rows, b.shape(values)[1], count)
        left = b.broadcast_in_dim(b.retype(sorted_inputs, (rows, count)), full, (0, 2))
        right = b.broadcast_in_dim(b.retype(values, full[:2]), full, (0, 1))
        return b.reduce("sum", b.convert(compared(b, left, right), out_type), [2])

    return lowering


# Written so that NaN sorts after everything, as in C++'s binary search.
_SEARCHES = {
    "LowerBound": lambda b, element, value: b.compare("LT", element, value),
    "UpperBound": lambda b, element, value: b.unary("not", b.compare("LT", value, element)),
}
for _op, _compared in _SEARCHES.items():
    lower(_op, dtypes={"T": NUMBERS, "out_type": INDICES})(_bound(_compared))
