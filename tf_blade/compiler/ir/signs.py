"""What is known of values' signs, whatever the inputs: NaN aside, which has none."""

from __future__ import annotations

from tf_blade.compiler.ir.program import Op, Value


def is_nonpositive(v: Value) -> bool:
    """Whether no element is above 0."""
    if v.op is None:
        return False
    if v.op.kind == "neg":
        return _is_nonnegative(v.op.operands[0])
    return largest_is_zero(v) is not None


def largest_is_zero(v: Value) -> tuple[int, ...] | None:
    """The dims that `v` is moved along so that its largest element is 0: `x - max(x)`; None where
    it isn't that."""
    if v.op is None or v.op.kind != "sub":
        return None
    x, subtracted = v.op.operands
    maximum = _source(subtracted, "broadcast_in_dim")
    if maximum is None or maximum.op is None or maximum.op.kind != "reduce":
        return None
    reduction = maximum.op
    if reduction.attrs["kind"] != "max" or reduction.operands[0] is not x:
        return None
    return tuple(reduction.attrs["dims"]) if is_spread_back(subtracted, reduction) else None


def is_spread_back(v: Value, reduction: Op) -> bool:
    """Whether `v` broadcasts the reduction's result to the shape of what was reduced, each element
    to where it came from."""
    reduced = reduction.operands[0].type
    kept = [i for i in range(reduced.rank) if i not in reduction.attrs["dims"]]
    return (
        _source(v, "broadcast_in_dim") is reduction.result
        and v.type.shape == reduced.shape
        and v.op is not None
        and list(v.op.attrs["dims"]) == kept
    )


def _is_nonnegative(v: Value) -> bool:
    if v.op is None:
        return False
    squared = v.op.kind == "mul" and v.op.operands[0] is v.op.operands[1]
    return squared or v.op.kind == "abs"


def _source(v: Value, kind: str) -> Value | None:
    return v.op.operands[0] if v.op is not None and v.op.kind == kind else None
