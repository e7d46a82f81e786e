"""The arithmetic of reductions: neutral elements and steps."""

from __future__ import annotations

import numpy as np

from tf_blade.compiler.emit import c
from tf_blade.compiler.ir.types import DType

# Elements added up in f32 before the sum goes into a wider or outer total.
SUM_BLOCK = 2048

# Reductions that C++ has an operator for.
SIGNS = {"sum": "+", "prod": "*", "and": "&", "or": "|"}


def combine(kind: str, dtype: DType, total: str, element: str) -> str:
    """The expression of one step of a reduction."""
    if kind in SIGNS:
        return f"{total} {SIGNS[kind]} {element}"
    if dtype.is_float:
        # The total second: then a step waits only for one comparison with the last one's result.
        return f"{kind}_{c.type_name(dtype)}({element}, {total})"
    return f"{total} {'>' if kind == 'max' else '<'} {element} ? {total} : {element}"


def neutral(kind: str, dtype: DType) -> str:
    """The value of an empty reduction."""
    if kind in ("sum", "or"):
        return "0"
    if kind in ("prod", "and"):
        return "1"
    if dtype.is_float:
        return c.literal(float("-inf") if kind == "max" else float("inf"), dtype)
    bounds = np.iinfo(dtype.numpy)
    return c.literal(bounds.min if kind == "max" else bounds.max, dtype)
