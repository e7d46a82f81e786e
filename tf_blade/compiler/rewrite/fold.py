"""Constant folding: ops whose operands are all known are run by the interpreter, once, here.

Splats stay what they are, a scalar and a broadcast, however large: `f(splat)` is folded on the
scalar (rule `elementwise_of_broadcasts`), and a result of equal elements becomes a splat.
"""

from __future__ import annotations

import numpy as np

from tf_blade.compiler.ir.dims import is_static
from tf_blade.compiler.ir.interpreter import Refused, run_op
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.rewrite.rules import Decline, Match, RuleSet, op, splat_of

# Constants that a cluster holds as literals are of this size at most, in bytes.
MAX_BYTES = 1024

rules = RuleSet("fold")

_FOLDED = (
    "neg abs sign exp expm1 log log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh "
    "acosh atanh logistic erf erfc floor ceil round not is_finite is_inf is_nan add sub mul div "
    "floor_div rem floor_mod pow max min atan2 and or xor shift_left shift_right compare select "
    "convert iota shape_value reshape transpose slice reverse concatenate pad gather reduce "
    "scan scatter top_k "
    "dot_general conv"
)


# a constant of equal elements -> splat
@rules.rule(op("constant"))
def constant_to_splat(m: Match) -> Value | None:
    number = splat_of(m.root.result)
    if m.type.rank == 0 or number is None:
        return None
    return m.splat(number)


# f(constants) -> constant
@rules.rule(op(_FOLDED))
def constant_result(m: Match) -> Value | Decline | None:
    if not _small(m.root.result):
        return None
    operands = [_literal(v) for v in m.root.operands]
    known = [x for x in operands if x is not None]
    if len(known) < len(operands) or not _static(m):
        return None
    try:
        with np.errstate(all="ignore"):
            result = run_op(m.root, known, {})
    except Refused as refusal:
        return Decline(f"the op refuses: {refusal.reason}")
    return m.constant(np.ascontiguousarray(result).reshape(result.shape))


def _literal(v: Value) -> np.ndarray | None:
    """The elements of a small constant or broadcast constant."""
    if v.op is None or not _small(v):
        return None
    if v.op.kind == "constant":
        array: np.ndarray = v.op.attrs["value"]
        return array
    if v.op.kind != "broadcast_in_dim":
        return None
    source = _literal(v.op.operands[0])
    return None if source is None else run_op(v.op, [source], {})


def _small(v: Value) -> bool:
    return all(is_static(n) for n in v.type.shape) and v.type.size * v.type.dtype.size <= MAX_BYTES


def _static(m: Match) -> bool:
    """Whether no attribute holds a symbol: slice bounds, elements of a shape."""
    dims = [n for attr in m.root.attrs.values() if isinstance(attr, tuple) for n in attr]
    return all(isinstance(n, int) for n in dims)
