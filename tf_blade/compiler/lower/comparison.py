"""Comparisons, logic and choice."""

from __future__ import annotations

from collections.abc import Callable

from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.lower.registry import COMPARABLE, FLOATS, NUMBERS, lower

_ORDER = {"Less": "LT", "LessEqual": "LE", "Greater": "GT", "GreaterEqual": "GE"}
_LOGIC = {"LogicalAnd": "and", "LogicalOr": "or"}
_CLASSIFY = {"IsNan": "is_nan", "IsInf": "is_inf", "IsFinite": "is_finite"}


def _comparison(direction: str) -> Callable[[Builder, Value, Value], Value]:
    def lowering(b: Builder, x: Value, y: Value) -> Value:
        return b.compare(direction, x, y)

    lowering.__doc__ = f"x {direction} y, broadcasting; false where one is NaN"
    return lowering


def _logic(kind: str) -> Callable[[Builder, Value, Value], Value]:
    def lowering(b: Builder, x: Value, y: Value) -> Value:
        return b.binary(kind, x, y)

    lowering.__doc__ = f"x {kind} y, broadcasting"
    return lowering


def _classify(kind: str) -> Callable[[Builder, Value], Value]:
    def lowering(b: Builder, x: Value) -> Value:
        return b.unary(kind, x)

    lowering.__doc__ = f"{kind}(x)"
    return lowering


for _op, _direction in _ORDER.items():
    lower(_op, dtypes=NUMBERS)(_comparison(_direction))
for _op, _kind in _LOGIC.items():
    lower(_op)(_logic(_kind))
for _op, _kind in _CLASSIFY.items():
    lower(_op, dtypes=FLOATS)(_classify(_kind))


# With incompatible_shape_error=False, shapes that don't broadcast give one bool. Where that could
# happen the rank is unknown and the op stays in TensorFlow; where the shapes turn out to be
# incompatible only at run time the run is refused.
@lower("Equal", dtypes=COMPARABLE, ignores=["incompatible_shape_error"])
def equal(b: Builder, x: Value, y: Value) -> Value:
    """x = y, broadcasting"""
    return b.compare("EQ", x, y)


@lower("NotEqual", dtypes=COMPARABLE, ignores=["incompatible_shape_error"])
def not_equal(b: Builder, x: Value, y: Value) -> Value:
    """x ≠ y, broadcasting; true where one is NaN"""
    return b.compare("NE", x, y)


@lower("ApproximateEqual", dtypes=FLOATS)
def approximate_equal(b: Builder, x: Value, y: Value, *, tolerance: float) -> Value:
    """|x - y| < tolerance"""
    distance = b.unary("abs", b.sub(x, y))
    return b.compare("LT", distance, b.constant(tolerance, x.type.dtype))


@lower("LogicalNot")
def logical_not(b: Builder, x: Value) -> Value:
    """not x"""
    return b.unary("not", x)


@lower("SelectV2")
def select_v2(b: Builder, condition: Value, x: Value, y: Value) -> Value:
    """x where the condition holds, else y; all three broadcast"""
    return b.select(condition, x, y)


@lower("Select")
def select(b: Builder, condition: Value, x: Value, y: Value) -> Value:
    """x where the condition holds, else y; a vector condition chooses whole rows"""
    rank = x.type.rank
    if condition.type.rank == 1 and rank > 1:
        b.same_dim(condition.type.shape[0], x.type.shape[0], "one condition for each row")
        condition = b.reshape(condition, (*b.shape(condition), *([1] * (rank - 1))))
    return b.select(condition, x, y)
