"""Common subexpression elimination: ops that compute the same thing become one."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from typing import Any

import numpy as np

from tf_blade.compiler.ir.program import Op, Program, Value
from tf_blade.compiler.rewrite.rules import COMMUTATIVE, RewriteLog, merge_sources
from tf_blade.steps import Description


def share_common(program: Program, log: RewriteLog | None = None) -> bool:
    """Replaces each op by an equal one before it, in place; says whether there were any.

    The op that stays takes the sources of both.
    """
    log = log if log is not None else RewriteLog()
    first: dict[Hashable, Op] = {}
    replaced: dict[Value, Value] = {}
    kept: list[Op] = []
    for op in program.ops:
        op.operands = [replaced.get(v, v) for v in op.operands]
        same = first.setdefault(_key(op), op)
        if same is op or not log.allow("cse", partial(_describe, op, same)):
            kept.append(op)
            continue
        same.source = merge_sources(same.source, op.source)
        replaced[op.result] = same.result
    program.ops = kept
    program.replace_values(replaced)
    return bool(replaced)


def _describe(op: Op, same: Op) -> Description:
    sources = merge_sources(same.source, op.source)
    return f"{same}\n{op}", f"{op.result} is {same.result}", sources


def _key(op: Op) -> Hashable:
    operands = [id(v) for v in op.operands]
    if op.kind in COMMUTATIVE:
        operands.sort()
    attrs = tuple((name, _hashable(op.attrs[name])) for name in sorted(op.attrs))
    return op.kind, tuple(operands), op.result.type, attrs


def _hashable(attr: Any) -> Hashable:
    """An array by its bytes: 0.0 and -0.0 are different constants, a NaN equals itself."""
    if isinstance(attr, np.ndarray):
        return attr.dtype.str, attr.shape, attr.tobytes()
    # True == 1 in Python; no attribute is sometimes a bool and sometimes an int.
    result: Hashable = attr
    return result
