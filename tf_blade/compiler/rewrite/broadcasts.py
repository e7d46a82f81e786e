"""Rules for broadcast_in_dim: one at most between two computing ops, from an operand without dims
of size 1, and elementwise work done before the broadcast rather than after it."""

from __future__ import annotations

from tf_blade.compiler.ir.ops import ELEMENTWISE
from tf_blade.compiler.ir.program import Op, Value
from tf_blade.compiler.rewrite.rules import Decline, Match, RuleSet, X, op, splat_of

rules = RuleSet("broadcasts")

# Integer kinds that may refuse the run, which an empty result would not have done.
_MAY_REFUSE = frozenset("div floor_div rem floor_mod pow".split())


def _op(v: Value) -> Op:
    assert v.op is not None
    return v.op


# broadcast to the shape it has -> x
@rules.rule(op("broadcast_in_dim", X))
def trivial_broadcast(m: Match) -> Value | None:
    return m.x if m.x.type.shape == m.type.shape else None


# broadcast(broadcast(x)) -> broadcast(x)
@rules.rule(op("broadcast_in_dim", op("broadcast_in_dim", X, name="inner")))
def broadcast_of_broadcast(m: Match) -> Value:
    outer = m.root.attrs["dims"]
    return m.broadcast(m.x, m.type.shape, [outer[d] for d in _op(m.inner).attrs["dims"]])


# broadcast(x: [n, 1]) -> broadcast(reshape(x): [n]); keepdims and explicit 1s vanish
@rules.rule(op("broadcast_in_dim", X))
def broadcast_of_ones(m: Match) -> Value | None:
    kept = [i for i, n in enumerate(m.x.type.shape) if n != 1]
    if len(kept) == m.x.type.rank:
        return None
    smaller = m.reshape(m.x, [m.x.type.shape[i] for i in kept])
    return m.broadcast(smaller, m.type.shape, [m.root.attrs["dims"][i] for i in kept])


# transpose(broadcast(x)) -> broadcast(x), where x's dims stay in order
@rules.rule(op("transpose", op("broadcast_in_dim", X, name="inner")))
def transpose_of_broadcast(m: Match) -> Value | Decline:
    perm = list(m.root.attrs["perm"])
    dims = [perm.index(d) for d in _op(m.inner).attrs["dims"]]
    if dims != sorted(dims):
        return Decline("the operand would need a transpose of its own")
    return m.broadcast(m.x, m.type.shape, dims)


# reshape(broadcast(scalar)) -> broadcast(scalar)
@rules.rule(op("reshape", op("broadcast_in_dim", X)))
def reshape_of_splat(m: Match) -> Value | None:
    return m.broadcast(m.x, m.type.shape, ()) if m.x.type.rank == 0 else None


# reshape(broadcast(x)) that only adds or drops dims of size 1 -> broadcast(x)
@rules.rule(op("reshape", op("broadcast_in_dim", X, name="inner")))
def reshape_of_broadcast(m: Match) -> Value | None:
    before, after = m.inner.type.shape, m.type.shape
    kept = [i for i, n in enumerate(before) if n != 1]
    places = [i for i, n in enumerate(after) if n != 1]
    if [before[i] for i in kept] != [after[i] for i in places] or 1 in m.x.type.shape:
        return None
    place = dict(zip(kept, places, strict=True))
    return m.broadcast(m.x, after, [place[d] for d in _op(m.inner).attrs["dims"]])


# reduce(broadcast(x)) -> broadcast(reduce(x)), where all dims that are reduced are x's
@rules.rule(op("reduce", op("broadcast_in_dim", X, name="inner")))
def reduce_of_broadcast(m: Match) -> Value | Decline | None:
    places, reduced = _op(m.inner).attrs["dims"], m.root.attrs["dims"]
    if 1 in m.x.type.shape:
        return None  # gone first: broadcast_of_ones
    if not set(reduced) <= set(places):
        return Decline("elements are reduced as often as they are repeated")
    small = m.make(
        "reduce", [m.x], kind=m.root.attrs["kind"], dims=tuple(places.index(d) for d in reduced)
    )
    left = [d - sum(r < d for r in reduced) for d in places if d not in reduced]
    return m.broadcast(small, m.type.shape, left)


# f(broadcast(x), broadcast(y), constants) -> broadcast(f(x, y, constants))
@rules.rule(op(" ".join(sorted(ELEMENTWISE))))
def elementwise_of_broadcasts(m: Match) -> Value | Decline | None:
    operands = m.root.operands
    if not all(v.op is not None and v.op.kind == "broadcast_in_dim" for v in operands):
        return None
    if m.root.kind in _MAY_REFUSE and not operands[0].type.dtype.is_float:
        return Decline("an integer op that may refuse stays where it is")
    if m.root.kind == "checked":
        return Decline("a check of no elements doesn't refuse")
    # All from one place, but for scalars, which are brought there.
    widest = max(operands, key=lambda v: _op(v).operands[0].type.rank)
    shape, dims = _op(widest).operands[0].type.shape, _op(widest).attrs["dims"]
    inner: list[Value] = []
    for v in operands:
        source = _op(v).operands[0]
        if source.type.shape == shape and _op(v).attrs["dims"] == dims:
            inner.append(source)
        elif source.type.rank == 0:
            inner.append(m.broadcast(source, shape, ()))
        else:
            return None
    return m.broadcast(m.make(m.root.kind, inner, **m.root.attrs), m.type.shape, dims)


# concatenate of equal splats -> splat
@rules.rule(op("concatenate"))
def concatenate_of_splats(m: Match) -> Value | None:
    numbers = [splat_of(v) for v in m.root.operands]
    first = numbers[0]
    if first is None or any(n is None or n.tobytes() != first.tobytes() for n in numbers):
        return None
    return m.splat(first)


# concatenate(x: [n, 1], x, …) along the 1 -> broadcast(x); Keras repeats a query for each key so
@rules.rule(op("concatenate"))
def concatenate_of_copies(m: Match) -> Value | None:
    dim, (first, *others) = m.root.attrs["dim"], m.root.operands
    if not others or first.type.shape[dim] != 1 or any(v is not first for v in others):
        return None
    return m.broadcast(first, m.type.shape, range(m.type.rank))
