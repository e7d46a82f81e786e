"""Elementwise identities. Each is exact, for every float: NaN, infinities and the sign of zero
included. (`x + 0.0` is no identity, since it turns -0.0 into 0.0; `x * 0.0` isn't either.)"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sympy import sympify

from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.ir.types import DType
from tf_blade.compiler.rewrite.rules import (
    Decline,
    Match,
    RuleSet,
    X,
    Y,
    op,
    splat,
    splat_of,
    value,
)

rules = RuleSet("algebra")

C = splat("c")


def _number(m: Match) -> Any:
    found = splat_of(m.c)
    assert found is not None
    return found[()]


def _is_float(v: Value) -> bool:
    return v.type.dtype.is_float


# x * 1 -> x;  x * -1 -> -x;  integers: x * 0 -> 0
@rules.rule(op("mul", X, C))
def mul_by_constant(m: Match) -> Value | Decline | None:
    number = _number(m)
    if number == 1:
        return m.x
    if number == -1 and m.type.dtype.is_signed:
        return m.make("neg", [m.x])
    if number == 0:
        if _is_float(m.x):
            return Decline("x * 0 is NaN where x is NaN or infinite")
        return m.splat(0)
    return None


# x + 0 -> x, for floats only with -0.0
@rules.rule(op("add", X, C))
def add_zero(m: Match) -> Value | Decline | None:
    number = _number(m)
    if number != 0:
        return None
    if _is_float(m.x) and not np.signbit(number):
        return Decline("x + 0.0 turns -0.0 into 0.0")
    return m.x


# x - 0 -> x, for floats only with 0.0
@rules.rule(op("sub", X, C))
def sub_zero(m: Match) -> Value | Decline | None:
    number = _number(m)
    if number != 0:
        return None
    if _is_float(m.x) and np.signbit(number):
        return Decline("x - -0.0 turns -0.0 into 0.0")
    return m.x


# x / 1 -> x;  floats: x / 2^k -> x * 2^-k
@rules.rule(op("div", X, C))
def div_by_constant(m: Match) -> Value | Decline | None:
    number = _number(m)
    if number == 1:
        return m.x
    if not _is_float(m.x) or number == 0 or not math.isfinite(number):
        return None
    with np.errstate(over="ignore"):
        inverse = m.type.dtype.numpy.type(1 / np.float64(number))
    tiny = np.finfo(m.type.dtype.numpy).tiny
    if abs(math.frexp(number)[0]) != 0.5 or not tiny <= abs(inverse) < math.inf:
        return Decline("multiplying by the inverse rounds differently")
    return m.make("mul", [m.x, m.splat(inverse)])


# integers: floor_div(x, 1) -> x
@rules.rule(op("floor_div", X, C))
def floor_div_by_one(m: Match) -> Value | None:
    return m.x if _number(m) == 1 and not _is_float(m.x) else None


# neg(neg(x)) -> x;  not(not(x)) -> x
@rules.rule(op("neg", op("neg", X)), op("not", op("not", X)))
def double_negation(m: Match) -> Value:
    return m.x


# abs(abs(x)) -> abs(x);  abs(neg(x)) -> abs(x)
@rules.rule(op("abs", op("abs neg", X)))
def abs_ignores_sign(m: Match) -> Value:
    return m.make("abs", [m.x])


# x + -y -> x - y
@rules.rule(op("add", X, op("neg", Y)))
def add_of_neg(m: Match) -> Value:
    return m.make("sub", [m.x, m.y])


# x - -y -> x + y
@rules.rule(op("sub", X, op("neg", Y)))
def sub_of_neg(m: Match) -> Value:
    return m.make("add", [m.x, m.y])


# integers: x - x -> 0;  x ^ x -> 0
@rules.rule(op("sub", X, X), op("xor", X, X))
def minus_itself(m: Match) -> Value | Decline:
    if _is_float(m.x):
        return Decline("x - x is NaN where x is NaN or infinite")
    return m.splat(0)


# max(x, x) -> x, and so for min, and, or
@rules.rule(op("max min and or", X, X))
def idempotent(m: Match) -> Value:
    return m.x


# max(max(x, y), y) -> max(x, y), and so for min
@rules.rule(
    op("max", op("max", X, Y, name="inner"), Y), op("min", op("min", X, Y, name="inner"), Y)
)
def absorbed(m: Match) -> Value:
    return m.inner


# floor, ceil, round of a whole number -> itself
@rules.rule(op("floor ceil round", op("floor ceil round", name="inner")))
def rounding_of_rounded(m: Match) -> Value:
    return m.inner


# floor, ceil, round of an integer -> itself
@rules.rule(op("floor ceil round", X))
def rounding_of_integer(m: Match) -> Value | None:
    return None if _is_float(m.x) else m.x


# bool: x & true -> x;  x & false -> false;  x | true -> true;  x | false -> x
@rules.rule(op("and or", X, C))
def logic_with_constant(m: Match) -> Value | None:
    if m.type.dtype is not DType.BOOL:
        return None
    neutral = m.root.kind == "and"
    return m.x if bool(_number(m)) == neutral else m.splat(not neutral)


# pow(x, 0) -> 1;  pow(x, 1) -> x;  pow(x, 2) -> x * x;  floats: pow(x, -1) -> 1 / x
# where x is never negative: pow(x, 0.5) -> sqrt(x);  pow(x, -0.5) -> rsqrt(x)
@rules.rule(op("pow", X, C))
def pow_by_constant(m: Match) -> Value | Decline | None:
    exponent = _number(m)
    if exponent == 0:
        return m.splat(1)
    if exponent == 1:
        return m.x
    if exponent == 2:
        return m.make("mul", [m.x, m.x])
    if not _is_float(m.x):
        return None
    if exponent == -1:
        return m.make("div", [m.splat(1), m.x])
    if abs(exponent) == 0.5:
        if not never_negative(m.x):
            return Decline("pow(x, 0.5) and sqrt(x) differ for -0.0 and -infinity")
        return m.make("sqrt" if exponent > 0 else "rsqrt", [m.x])
    return Decline("a chain of products rounds more than once")


def never_negative(v: Value, depth: int = 8) -> bool:
    """Whether no element has a sign bit, NaN aside: it is 0.0, positive, or NaN."""
    if v.op is None or depth == 0:
        return False
    kind, operands = v.op.kind, v.op.operands

    def all_of(values: list[Value]) -> bool:
        return all(never_negative(x, depth - 1) for x in values)

    if kind == "constant":
        return not np.signbit(v.op.attrs["value"]).any()
    if kind in ("abs", "exp", "logistic", "cosh", "erfc"):
        return True
    if kind == "mul" and operands[0] is operands[1]:
        return True
    if kind == "shape_value":
        return all(n.is_nonnegative or False for n in map(sympify, v.op.attrs["elements"]))
    if kind == "convert":
        sizes = operands[0].op is not None and operands[0].op.kind == "shape_value"
        return (sizes or operands[0].type.dtype.is_float) and all_of(operands)
    if kind in ("broadcast_in_dim", "reshape", "transpose", "slice", "reverse", "sqrt", "rsqrt"):
        return all_of(operands)
    if kind in ("add", "mul", "div", "max", "min", "concatenate", "pad"):
        return all_of(operands)
    if kind == "select":
        return all_of(operands[1:])
    if kind == "reduce" and v.op.attrs["kind"] in ("sum", "prod"):
        return all_of(operands)
    return False


# select(true, x, y) -> x;  select(false, x, y) -> y
@rules.rule(op("select", C, X, Y))
def select_by_constant(m: Match) -> Value:
    return m.x if _number(m) else m.y


# select(p, x, x) -> x
@rules.rule(op("select", Y, X, X))
def select_of_same(m: Match) -> Value:
    return m.x


# select(not(p), x, y) -> select(p, y, x)
@rules.rule(op("select", op("not", value("p")), X, Y))
def select_by_not(m: Match) -> Value:
    return m.make("select", [m.p, m.y, m.x])


# convert to its own dtype -> itself;  convert(convert(x)) -> convert(x) where nothing is lost
@rules.rule(op("convert", X))
def convert_to_same(m: Match) -> Value | None:
    return m.x if m.x.type.dtype is m.type.dtype else None


@rules.rule(op("convert", op("convert", X, name="inner")))
def convert_of_convert(m: Match) -> Value | Decline:
    source, middle, target = m.x.type.dtype, m.inner.type.dtype, m.type.dtype
    # Narrowing integers keeps the low bits: so do two steps of it.
    bits_only = all(d.is_integer for d in (source, middle, target)) and target.size <= middle.size
    if not is_lossless(source, middle) and not bits_only:
        return Decline(f"{source.value} does not fit into {middle.value}")
    if source is target:
        return m.x
    return m.make("convert", [m.x], dtype=target)


def is_lossless(source: DType, target: DType) -> bool:
    """Whether every value of `source` is a value of `target`."""
    if source is target or source is DType.BOOL:
        return True
    if target is DType.BOOL or target.is_half:
        return False
    if source.is_float or source.is_half:
        return target.is_float and target.size >= source.size
    low, high = np.iinfo(source.numpy).min, np.iinfo(source.numpy).max
    if target.is_float:
        return high <= 2 ** (np.finfo(target.numpy).nmant + 1)
    return np.iinfo(target.numpy).min <= low and high <= np.iinfo(target.numpy).max
