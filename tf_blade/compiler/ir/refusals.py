"""Which ops may refuse a run: where TensorFlow may report an error instead of an answer."""

from __future__ import annotations

import numpy as np

from tf_blade.compiler.ir.program import Op, Value

_DIVISIONS = frozenset(["div", "floor_div", "rem", "floor_mod"])


def may_refuse(op: Op) -> bool:
    """Whether the op refuses a run for some values of its operands.

    A program that doesn't run the op answers where TensorFlow reports an error.
    """
    if op.kind in ("checked", "dynamic_update", "while"):
        return True
    if op.kind == "gather":
        indices, size = _constant(op.operands[1]), op.operands[0].type.shape[op.attrs["axis"]]
        if indices is None or not isinstance(size, int):
            return True
        return not bool(np.all((indices >= 0) & (indices < size)))
    if op.result.type.dtype.is_float or op.kind not in {*_DIVISIONS, "pow"}:
        return False
    second = _constant(op.operands[1])
    return second is None or bool(np.any(second == 0 if op.kind in _DIVISIONS else second < 0))


def _constant(value: Value) -> np.ndarray | None:
    """The elements of a constant, also of one that is broadcast."""
    while value.op is not None and value.op.kind in ("broadcast_in_dim", "reshape"):
        (value,) = value.op.operands
    return value.op.attrs["value"] if value.op and value.op.kind == "constant" else None
