"""What primitives cost: estimated processor cycles per element on one core.

Vectorised f32 on 8 lanes is the unit of thought: an add is one eighth of an instruction, but loads
and stores bound such kernels anyway. Only ratios matter: they decide what is computed twice and
how work is spread over threads.
"""

from __future__ import annotations

from collections.abc import Collection

from tf_blade.compiler.fuse.index import LoopVar
from tf_blade.compiler.fuse.scalar import Scalar
from tf_blade.compiler.ir.program import Op
from tf_blade.compiler.ir.types import DType

# Relative to an add (1).
_KINDS: dict[str, float] = {
    **dict.fromkeys("div sqrt floor_div".split(), 4),
    **dict.fromkeys("rsqrt exp logistic".split(), 6),
    **dict.fromkeys("log tanh erf".split(), 8),
    **dict.fromkeys("expm1 log1p".split(), 10),
    **dict.fromkeys("erfc atan sinh cosh".split(), 14),
    **dict.fromkeys("asin acos".split(), 25),
    **dict.fromkeys("sin cos".split(), 40),
    **dict.fromkeys("rem floor_mod".split(), 50),
    **dict.fromkeys("tan asinh acosh atanh atan2".split(), 60),
    "pow": 120,
}
_INTEGER_DIVISION = 50.0
LOAD = 1.0
TAKEN = 3.0
# A taken element in a loop: most such loops aren't vectorised.
_TAKEN_ALONE = 8.0
# Cycles of one unit of the scale above in a vectorised loop. Softmax takes 0.8 (AVX-512) to 1.25
# (AVX2) cycles for an element of 12 units, a layer normalisation 0.6 for 13, GELU 1.7 to 2.6 for
# 14.
CYCLES = 0.1

# A value this cheap is computed wherever it is needed; a dearer one only once.
CHEAP = 4.0
# An expression with more primitives than this is cut: it would not stay in registers.
LONGEST = 96


def of_kind(kind: str, dtype: DType) -> float:
    """The cost of one elementwise primitive."""
    if dtype.is_integer and kind in ("div", "floor_div", "rem", "floor_mod"):
        return _INTEGER_DIVISION
    cost = _KINDS.get(kind, 1.0)
    if dtype is DType.F64:  # half the lanes, and functions are the C library's
        cost *= 2.0 if cost <= 4 or kind == "rsqrt" else 10.0
    return cost


def of_op(op: Op) -> float:
    return of_kind(op.kind, op.operands[0].type.dtype if op.operands else op.result.type.dtype)


def of_scalars(scalars: list[Scalar], loops: Collection[LoopVar] | None = None) -> float:
    """The cost of computing all of them once; only of what depends on one of `loops`, if given."""
    total, seen, todo = 0.0, set[Scalar](), list(scalars)
    while todo:
        s = todo.pop()
        if s in seen or (loops is not None and s.vars.isdisjoint(loops)):
            continue
        seen.add(s)
        todo.extend(s.needs())
        if s.kind == "load":
            total += LOAD
        elif s.kind == "taken":
            total += _TAKEN_ALONE
        elif s.kind not in ("literal", "dim", "index", "local"):
            total += of_kind(s.kind, s.args[0].dtype)
    return total
