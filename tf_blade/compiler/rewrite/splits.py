"""Rules for dims that a reduction has split (the groups of a group normalisation): what follows
element by element is computed over the split dims too, so that it can share the reduction's loops.
"""

from __future__ import annotations

from tf_blade.compiler.ir.dims import Dim, Shape
from tf_blade.compiler.ir.ops import ELEMENTWISE
from tf_blade.compiler.ir.program import Op, Value
from tf_blade.compiler.rewrite.rules import Decline, Match, RuleSet, op, splat_of

rules = RuleSet("splits")

# Ops that are looked at to find the reduction that an expression depends on.
_NEAR = 32


def _op(v: Value) -> Op:
    assert v.op is not None
    return v.op


# f(reshape(x: [n, 8, c]): [n, 8*c], y) -> reshape(f(x, reshape(y))), where x is computed from
# reductions over [n, 8, c]
@rules.rule(op(" ".join(sorted(ELEMENTWISE))))
def elementwise_of_joined(m: Match) -> Value | Decline | None:
    for v in m.root.operands:
        if v.op is None or v.op.kind != "reshape":
            continue
        x = v.op.operands[0]
        place = _split_dim(v.type.shape, x.type.shape)
        if place is None or x.op is None or x.op.kind not in ELEMENTWISE:
            continue
        if not m.single_use(v):
            return Decline("the joined tensor is used elsewhere")
        if not _depends_on_reduction(x, x.type.shape):
            return Decline("nothing is reduced over the split dims")
        inner = [_split(m, y, x.type.shape, *place) for y in m.root.operands]
        return m.reshape(m.make(m.root.kind, inner, **m.root.attrs), m.type.shape)
    return None


def _split_dim(joined: Shape, split: Shape) -> tuple[int, int] | None:
    """(the dim of `joined` that is several dims in `split`, how many); None if no single one is."""
    left = 0
    while left < min(len(joined), len(split)) and joined[left] == split[left]:
        left += 1
    right = 0
    most = min(len(joined), len(split)) - left
    while right < most and joined[-1 - right] == split[-1 - right]:
        right += 1
    count = len(split) - left - right
    return (left, count) if len(joined) - left - right == 1 and count > 1 else None


def _split(m: Match, y: Value, shape: Shape, dim: int, count: int) -> Value:
    """y with dim `dim` cut into `count`; a broadcast stays one, from an operand cut likewise."""
    number = splat_of(y)
    if number is not None:
        return m.broadcast(m.make("constant", [], value=number), shape, ())
    if y.op is not None and y.op.kind == "reshape" and y.op.operands[0].type.shape == shape:
        return y.op.operands[0]
    if y.op is None or y.op.kind != "broadcast_in_dim":
        return m.reshape(y, shape)
    source, dims = y.op.operands[0], y.op.attrs["dims"]
    cut: list[Dim] = []
    places: list[int] = []
    for n, d in zip(source.type.shape, dims, strict=True):
        if d == dim and n != 1:
            cut += shape[dim : dim + count]
            places += range(dim, dim + count)
        else:
            cut.append(n)
            places.append(d if d <= dim else d + count - 1)
    return m.broadcast(m.reshape(source, cut), shape, places)


def _depends_on_reduction(x: Value, shape: Shape) -> bool:
    """Whether a reduction of a tensor of this shape is part of x's expression."""
    todo, seen = [x], set[Value]()
    while todo and len(seen) < _NEAR:
        v = todo.pop()
        if v in seen or v.op is None:
            continue
        seen.add(v)
        if v.op.kind == "reduce":
            if v.op.operands[0].type.shape == shape:
                return True
        elif v.op.kind in ELEMENTWISE or v.op.kind in ("broadcast_in_dim", "reshape"):
            todo += v.op.operands
    return False
