"""What primitives cost: estimated processor cycles per element on one core.

Vectorised f32 on 8 lanes is the unit of thought: an add is one eighth of an instruction, but loads
and stores bound such kernels anyway. Only ratios matter: they decide what is computed twice and
how work is spread over threads.
"""

from __future__ import annotations

from tf_blade.compiler.fuse.scalar import Scalar
from tf_blade.compiler.ir.program import Op
from tf_blade.compiler.ir.types import DType

# Relative to an add (1).
_KINDS: dict[str, float] = {
    **dict.fromkeys("div sqrt".split(), 4),
    **dict.fromkeys("rsqrt".split(), 6),
    **dict.fromkeys("exp log logistic tanh erf".split(), 14),
    **dict.fromkeys("asin acos atan sinh cosh".split(), 18),
    **dict.fromkeys("expm1 log1p sin cos erfc".split(), 22),
    **dict.fromkeys("rem floor_mod".split(), 20),
    **dict.fromkeys("floor_div".split(), 5),
    **dict.fromkeys("tan asinh acosh atanh atan2".split(), 40),
    "pow": 60,
}
_INTEGER_DIVISION = 20.0
LOAD = 1.0
TAKEN = 3.0
# Cycles of one unit of the scale above in a vectorised loop.
CYCLES = 0.25

# A value this cheap is computed wherever it is needed; a dearer one only once.
CHEAP = 4.0
# An expression with more primitives than this is cut: it would not stay in registers.
LONGEST = 96


def of_kind(kind: str, dtype: DType) -> float:
    """The cost of one elementwise primitive."""
    if dtype.is_integer and kind in ("div", "floor_div", "rem", "floor_mod"):
        return _INTEGER_DIVISION
    cost = _KINDS.get(kind, 1.0)
    # f64 has half the lanes, and its functions are not vectorised.
    return cost * (2.0 if dtype is DType.F64 and cost <= 6 else 4.0 if dtype is DType.F64 else 1.0)


def of_op(op: Op) -> float:
    return of_kind(op.kind, op.operands[0].type.dtype if op.operands else op.result.type.dtype)


def of_scalars(scalars: list[Scalar]) -> float:
    """The cost of computing all of them once."""
    total, seen, todo = 0.0, set[Scalar](), list(scalars)
    while todo:
        s = todo.pop()
        if s in seen:
            continue
        seen.add(s)
        todo.extend(s.needs())
        if s.kind == "load":
            total += LOAD
        elif s.kind == "taken":
            total += TAKEN
        elif s.kind not in ("literal", "dim", "index", "local"):
            total += of_kind(s.kind, s.args[0].dtype)
    return total
