"""Rules for means weighted by a mask: the sum of the weights goes along with the weighted sum."""

from __future__ import annotations

from tf_blade.compiler.ir.program import Op, Value
from tf_blade.compiler.rewrite.rules import Decline, Match, RuleSet, op

rules = RuleSet("pooling")

TOTAL = op("reduce", op("mul"), name="total")
SPREAD = op("broadcast_in_dim", name="spread")


# sum(x * spread(w)) / spread(max(sum(w), c)) -> t / max(sum(spread(w)), c), t = sum(x * spread(w))
@rules.rule(op("div", TOTAL, SPREAD))
def masked_mean(m: Match) -> Value | Decline | None:
    """One more addition an element, in the same pass, instead of a kernel for the weights."""
    total, spread = _op(m.total), _op(m.spread)
    weighed = _op(total.operands[0])
    if total.attrs["kind"] != "sum" or weighed.result.type.rank - 1 in total.attrs["dims"]:
        return None  # what is summed up row by row shares a kernel as it is
    bound, least = _unshaped(spread.operands[0]), None
    if bound.op is not None and bound.op.kind == "max":
        for value, other in (bound.op.operands, bound.op.operands[::-1]):
            constant = _op(other).operands[0] if _is(other, "broadcast_in_dim") else other
            if _is(constant, "constant") and constant.type.rank == 0:
                bound, least = _unshaped(value), constant
    if not _is(bound, "reduce") or _op(bound).attrs["kind"] != "sum":
        return None
    for weights in weighed.operands:
        if _is(weights, "broadcast_in_dim") and _sums_up(_op(bound), _op(weights), total, spread):
            if not (m.single_use(m.spread) and m.single_use(bound)):
                return Decline("the sum of the weights is read elsewhere")
            made = m.make("reduce", [weights], **total.attrs)
            if least is not None:
                made = m.make("max", [made, m.broadcast(least, made.type.shape, ())])
            return m.make("div", [m.total, made])
    return None


def _sums_up(reduction: Op, weights: Op, total: Op, spread: Op) -> bool:
    """Whether `spread` repeats what summing `weights` up as `total` does gives."""
    source, summed = weights.operands[0], reduction.operands[0]
    if _unshaped(source) is not _unshaped(summed):
        return False
    places = [d for d, n in zip(weights.attrs["dims"], source.type.shape, strict=True) if n != 1]
    axes = [i for i, n in enumerate(summed.type.shape) if n != 1]
    if [source.type.shape[weights.attrs["dims"].index(d)] for d in places] != [
        summed.type.shape[i] for i in axes
    ]:
        return False
    gone = [d for d, i in zip(places, axes, strict=True) if i in reduction.attrs["dims"]]
    if set(gone) != set(total.attrs["dims"]):
        return False
    # Where the dims that are left end up in the total, and where they are spread to.
    left = [d - sum(g < d for g in gone) for d in places if d not in gone]
    shape = spread.operands[0].type.shape
    return left == [d for d, n in zip(spread.attrs["dims"], shape, strict=True) if n != 1]


def _unshaped(value: Value) -> Value:
    while value.op is not None and value.op.kind == "reshape":
        value = value.op.operands[0]
    return value


def _is(value: Value, kind: str) -> bool:
    return value.op is not None and value.op.kind == kind


def _op(value: Value) -> Op:
    assert value.op is not None
    return value.op
