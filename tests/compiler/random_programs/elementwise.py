"""Steps that compute each element from those at the same place."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tests.compiler.random_programs.maker import (
    BITS,
    EPSILON,
    Fact,
    Maker,
    capped_exp,
)
from tf_blade.compiler.ir.ops import DIRECTIONS
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.ir.types import DType

# Functions of floats: argument form, bound of the result, Lipschitz constant; both from the
# argument's bound. Forms: "any", "positive" (|x| + 0.5), "unit" (sin(x) / 2), "above one"
# (|x| + 1.5).
_FUNCTIONS: dict[str, tuple[str, Callable[[float], float], Callable[[float], float]]] = {
    "exp": ("any", capped_exp, capped_exp),
    "expm1": ("any", capped_exp, capped_exp),
    "log": ("positive", lambda b: max(math.log(b), 0.7), lambda b: 2),
    "log1p": ("positive", math.log1p, lambda b: 1),
    "sqrt": ("positive", math.sqrt, lambda b: 0.71),
    "rsqrt": ("positive", lambda b: 1.42, lambda b: 1.42),
    "sin": ("any", lambda b: 1, lambda b: 1),
    "cos": ("any", lambda b: 1, lambda b: 1),
    "tan": ("unit", lambda b: 0.55, lambda b: 1.31),
    "asin": ("unit", lambda b: 0.53, lambda b: 1.16),
    "acos": ("unit", lambda b: 2.1, lambda b: 1.16),
    "atan": ("any", lambda b: 1.58, lambda b: 1),
    "sinh": ("any", capped_exp, capped_exp),
    "cosh": ("any", capped_exp, capped_exp),
    "tanh": ("any", lambda b: 1, lambda b: 1),
    "asinh": ("any", math.asinh, lambda b: 1),
    "acosh": ("above one", math.acosh, lambda b: 0.9),
    "atanh": ("unit", lambda b: 0.55, lambda b: 1.34),
    "logistic": ("any", lambda b: 1, lambda b: 0.25),
    "erf": ("any", lambda b: 1, lambda b: 1.13),
    "erfc": ("any", lambda b: 2, lambda b: 1.13),
}


def _argument(m: Maker, form: str, x: Value) -> Value:
    dtype, fact, b = x.type.dtype, m.facts[x], m.builder
    if form in ("positive", "above one"):
        offset = 0.5 if form == "positive" else 1.5
        result = b.add(b.unary("abs", x), b.constant(offset, dtype))
        moved = Fact(fact.bound + offset, fact.error, max(fact.grain, 1))
        return m.keep(result, m.rounded(dtype, moved))
    if form == "unit":
        result = b.mul(b.unary("sin", x), b.constant(0.5, dtype))
        return m.keep(result, Fact(0.5, fact.error + 4 * EPSILON[dtype]))
    return x


def function(m: Maker) -> None:
    x = m.value(lambda v: v.type.dtype.is_float)
    if x is None:
        return
    kind = m.choose(sorted(_FUNCTIONS))
    form, bound_of, slope_of = _FUNCTIONS[kind]
    x = _argument(m, form, x)
    fact = m.facts[x]
    bound = bound_of(fact.bound)
    ulp = EPSILON[x.type.dtype] * max(bound, 2.0**-20)
    result = Fact(bound * 1.001, slope_of(fact.bound) * fact.error + 4 * ulp)
    if m.legal(x.type.dtype, result):
        m.keep(m.builder.unary(kind, x), result)


def simple_unary(m: Maker) -> None:
    x = m.value()
    assert x is not None
    dtype, fact = x.type.dtype, m.facts[x]
    if dtype is DType.BOOL:
        m.keep(m.builder.unary("not", x), Fact(1))
        return
    kinds = ["neg", "abs"]
    if m.exact(x):
        kinds += ["sign", "floor", "ceil", "round"]
    kinds += ["is_finite", "is_inf", "is_nan"] if dtype.is_float else ["not"]
    kind = m.choose(kinds)
    if kind.startswith("is_"):
        fact = Fact(1)
    elif kind == "not":
        fact = m.rounded(dtype, Fact(fact.bound + 1))
    elif kind == "sign":
        fact = Fact(1)
    elif dtype.is_float and kind in ("floor", "ceil", "round"):
        fact = Fact(fact.bound + 1)
    else:
        fact = m.rounded(dtype, fact)
    m.keep(m.builder.unary(kind, x), fact)


def _broadcastable(m: Maker, a: Value, b: Value) -> bool:
    x, y = m.shape(a), m.shape(b)
    pairs = zip(x[::-1], y[::-1], strict=False)
    if not all(n in (1, k) or k == 1 for n, k in pairs):
        return False
    return m.fits(m.builder.broadcast_shapes(x, y))


def _pair(m: Maker, accept: Callable[[Value], bool]) -> tuple[Value, Value] | None:
    """Two values of one dtype that broadcast together."""
    a = m.value(accept)
    if a is None:
        return None
    if m.integer(0, 4) == 0:
        b = m.constant(a.type.dtype)
    else:
        found = m.value(
            lambda v: accept(v) and v.type.dtype is a.type.dtype and _broadcastable(m, a, v)
        )
        if found is None:  # a itself may be too large to be computed with once more
            return None
        b = found
    return (a, b) if m.flag() else (b, a)


def arithmetic(m: Maker) -> None:
    pair = _pair(m, lambda v: v.type.dtype is not DType.BOOL)
    if pair is None:
        return
    (x, y), dtype = pair, pair[0].type.dtype
    a, b = m.facts[x], m.facts[y]
    kind = m.choose(["add", "sub", "mul", "max", "min"])
    grain = max(a.grain, b.grain)
    if kind == "mul":
        error = a.error * b.bound + b.error * a.bound
        fact = Fact(a.bound * b.bound, error, a.grain + b.grain)
    elif kind in ("max", "min"):
        fact = Fact(max(a.bound, b.bound), max(a.error, b.error), grain)
    else:
        fact = Fact(a.bound + b.bound, a.error + b.error, grain)
    fact = m.rounded(dtype, fact)
    if m.legal(dtype, fact):
        m.keep(m.builder.binary(kind, x, y), fact)


def division(m: Maker) -> None:
    pair = _pair(m, lambda v: v.type.dtype is not DType.BOOL)
    if pair is None:
        return
    (x, y), dtype = pair, pair[0].type.dtype
    a, b = m.facts[x], m.facts[y]
    if not dtype.is_float:
        if m.integer(0, 9):  # otherwise a zero refuses the run
            y = m.builder.binary("max", y, m.builder.constant(1, dtype))
        kind = m.choose(["div", "floor_div", "rem", "floor_mod"])
        m.keep(m.builder.binary(kind, x, y), m.rounded(dtype, Fact(max(a.bound, b.bound) + 1)))
        return
    if m.exact(x) and m.flag():
        # A power of two divides exactly, so that no evaluation jumps.
        divisor = m.builder.constant(m.choose([0.5, 2.0, -2.0]), dtype)
        kind = m.choose(["floor_div", "rem", "floor_mod"])
        fact = Fact(2 * a.bound + 1) if kind == "floor_div" else Fact(2, 0, max(a.grain, 1))
        if m.legal(dtype, fact) and a.bound * 2.0 ** (a.grain + 1) < 2 ** BITS[dtype]:
            m.keep(m.builder.binary(kind, x, divisor), fact)
        return
    y = _argument(m, "positive", y)
    b = m.facts[y]
    fact = m.rounded(dtype, Fact(2 * a.bound, 2 * a.error + 4 * a.bound * b.error + 1e-30), 2)
    if m.legal(dtype, fact):
        m.keep(m.builder.binary("div", x, y), fact)


def power(m: Maker) -> None:
    x = m.value(lambda v: v.type.dtype is not DType.BOOL)
    if x is None:
        return
    dtype, fact = x.type.dtype, m.facts[x]
    exponent = m.choose([0, 1, 2, 3])
    bound = max(fact.bound, 1.0) ** exponent
    slope = exponent * max(fact.bound, 1.0) ** max(exponent - 1, 0)
    error = slope * fact.error
    if dtype.is_float and not m.exact_powers:
        error += 4 * EPSILON[dtype] * bound
    result = m.rounded(dtype, Fact(bound, error, fact.grain * exponent), 4)
    if m.legal(dtype, result):
        m.keep(m.builder.binary("pow", x, m.builder.constant(exponent, dtype)), result)


def bitwise(m: Maker) -> None:
    pair = _pair(m, lambda v: not v.type.dtype.is_float)
    if pair is None:
        return
    x, y = pair
    kinds = ["and", "or", "xor"]
    if x.type.dtype.is_integer:
        kinds += ["shift_left", "shift_right"]
    m.keep(m.builder.binary(m.choose(kinds), x, y), m.rounded(x.type.dtype, Fact(math.inf)))


def compare(m: Maker) -> None:
    pair = _pair(m, lambda v: v.type.dtype is not DType.BOOL and m.exact(v))
    if pair is not None:
        m.keep(m.builder.compare(m.choose(DIRECTIONS), *pair), Fact(1))


def select(m: Maker) -> None:
    predicate = m.value(lambda v: v.type.dtype is DType.BOOL)
    if predicate is None:
        compare(m)
        return
    pair = _pair(m, lambda v: _broadcastable(m, predicate, v))
    if pair is None:
        return
    x, y = pair
    shape = m.builder.broadcast_shapes(*(m.shape(v) for v in (predicate, x, y)))
    if not m.fits(shape):
        return
    a, b = m.facts[x], m.facts[y]
    fact = Fact(max(a.bound, b.bound), max(a.error, b.error), max(a.grain, b.grain))
    m.keep(m.builder.select(predicate, x, y), m.rounded(x.type.dtype, fact, 0))


def checked(m: Maker) -> None:
    """A condition that always holds, but nobody knows."""
    x = m.value(lambda v: v.type.dtype is not DType.BOOL and m.exact(v))
    if x is not None:
        holds = m.builder.compare("LE", x, x)
        m.same_fact(m.builder.checked(x, holds), x)


def convert(m: Maker) -> None:
    x = m.value()
    assert x is not None
    dtype, fact = m.choose([d for d in DType if not d.is_half]), m.facts[x]
    source = x.type.dtype
    if dtype is source:
        return
    if not dtype.is_float and not m.exact(x):
        return
    if source.is_float and dtype.is_integer:
        # Outside the type's range a conversion is not defined.
        x = m.builder.unary("abs", x)
        if fact.bound >= np.iinfo(dtype.numpy).max:
            return
        fact = Fact(fact.bound)
    result = m.rounded(dtype, fact)
    if m.legal(dtype, result):
        m.keep(m.builder.convert(x, dtype), result)


def round_to_half(m: Maker) -> None:
    x = m.value(lambda v: v.type.dtype is DType.F32)
    if x is None:
        return
    half = m.choose([DType.F16, DType.BF16])
    fact = m.rounded(half, m.facts[x])
    if m.legal(DType.F32, fact):
        m.keep(m.builder.convert(m.builder.convert(x, half), DType.F32), fact)
