"""Rules for rows divided by their sums. They round differently, by half a unit in the last place:
TensorFlow's own softmax multiplies by the inverse, too."""

from __future__ import annotations

from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.ir.signs import is_spread_back, largest_is_zero
from tf_blade.compiler.rewrite.rules import Decline, Match, RuleSet, op, value

rules = RuleSet("normalize")

E = value("e")


# e / sum(e) -> e * (1 / sum(e)), for e = exp(x - max(x))
@rules.rule(op("div", E, op("broadcast_in_dim", op("reduce", E, name="sum"), name="spread")))
def softmax_by_inverse(m: Match) -> Value | Decline | None:
    if m.e.op is None or m.e.op.kind != "exp" or not m.type.dtype.is_float:
        return None
    reduction = m.sum.op
    assert reduction is not None and m.spread.op is not None
    if reduction.attrs["kind"] != "sum" or not is_spread_back(m.spread, reduction):
        return None
    if largest_is_zero(m.e.op.operands[0]) != tuple(reduction.attrs["dims"]):
        return Decline("the inverse of a sum that may be tiny overflows")
    one = m.constant(1)
    if m.sum.type.rank:
        one = m.broadcast(one, m.sum.type.shape, ())
    inverse = m.make("div", [one, m.sum])
    return m.make("mul", [m.e, m.broadcast(inverse, m.type.shape, m.spread.op.attrs["dims"])])
