"""Errors of nodes that are only asked for their shape.

TensorFlow runs a node that nothing but a Shape reads, and reports its errors. In a program shapes
are symbolic: nothing of the node would be left. So its conditions are tied to a result.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence

from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.dims import is_static
from tf_blade.compiler.ir.program import Op, Value
from tf_blade.compiler.ir.refusals import may_refuse

# The ops and the values that a TensorFlow node became.
Lowered = tuple[Sequence[Op], Sequence[Value]]


def _in_range(b: Builder, op: Op) -> Value:
    params, indices = op.operands
    limit = b.shape_value(b.shape(params)[op.attrs["axis"]], indices.type.dtype)
    low = b.compare("GE", indices, b.constant(0, indices.type.dtype))
    return b.binary("and", low, b.compare("LT", indices, limit))


def _row_in_range(b: Builder, op: Op) -> Value:
    array, index, _ = op.operands
    limit = b.shape_value(b.shape(array)[0], index.type.dtype)
    low = b.compare("GE", index, b.constant(0, index.type.dtype))
    return b.binary("and", low, b.compare("LT", index, limit))


def _not_zero(b: Builder, op: Op) -> Value:
    return b.compare("NE", op.operands[1], b.constant(0, op.operands[1].type.dtype))


def _not_negative(b: Builder, op: Op) -> Value:
    return b.compare("GE", op.operands[1], b.constant(0, op.operands[1].type.dtype))


# What must hold where a primitive runs that may refuse.
_CONDITIONS: dict[str, Callable[[Builder, Op], Value]] = {
    "checked": lambda b, op: op.operands[1],
    "gather": _in_range,
    **dict.fromkeys(("div", "floor_div", "rem", "floor_mod"), _not_zero),
    "pow": _not_negative,
    "dynamic_update": _row_in_range,
    "while": lambda b, op: b.compare("GE", op.result, b.constant(0, op.result.type.dtype)),
}


def keep_errors(b: Builder, results: Sequence[Value], nodes: Sequence[Lowered]) -> list[Value]:
    """The results, depending on what is an error in nodes that none of them depends on.

    Args:
      b: the program, not finished.
      nodes: what was lowered, in order. A node that is in use in part is left alone: what its
        lowering made besides is no check of TensorFlow's.
    """
    live = _sources(results)
    conditions: list[Value] = []
    for ops, values in reversed(nodes):
        if any(v in live or v.op is None or b.content(v) is not None for v in values):
            continue
        for op in filter(may_refuse, ops):
            b.source = op.source  # a refusal names it
            condition = _CONDITIONS[op.kind](b, op)
            conditions.append(b.reduce("and", condition, range(condition.type.rank)))
            live |= _sources(conditions[-1:])
    if not conditions:
        return list(results)
    holds = functools.reduce(lambda x, y: b.binary("and", x, y), conditions)
    at = next((i for i, v in enumerate(results) if _has_elements(b, v)), 0)
    return [b.checked(v, holds) if i == at else v for i, v in enumerate(results)]


def _has_elements(b: Builder, value: Value) -> bool:
    """Whether a condition that each element is checked with is checked at all."""
    return all(is_static(n) and n != 0 for n in b.shape(value))


def _sources(values: Iterable[Value]) -> set[Value]:
    """All that these values are computed from, and they."""
    found: set[Value] = set()
    stack = list(values)
    while stack:
        value = stack.pop()
        if value not in found:
            found.add(value)
            stack += value.op.operands if value.op else []
    return found
