"""Rules for what follows a concatenation: it is computed part by part, and joined last. A
concatenation is always written to memory, so what is computed from it afterwards would be written,
too, and the parts read again (rotary embeddings, which turn halves around)."""

from __future__ import annotations

from tf_blade.compiler.ir.dims import Dim
from tf_blade.compiler.ir.ops import ELEMENTWISE
from tf_blade.compiler.ir.program import Op, Value
from tf_blade.compiler.ir.refusals import may_refuse
from tf_blade.compiler.rewrite.rules import Decline, Match, RuleSet, op, splat_of

rules = RuleSet("concatenations")

# More parts would be as many short loops.
_MOST_PARTS = 4
# Computed again for each part, at little cost; from operands that are in memory anyway.
_CHEAP = frozenset("add sub mul neg convert select compare and or not".split())
_MOVES = frozenset("broadcast_in_dim slice reshape transpose".split())
_STORED = frozenset("dot_general conv reduce concatenate pad scan gather".split())


# f(concatenate(a, b), y) -> concatenate(f(a, y[:n]), f(b, y[n:])), where parts of y are cheap
@rules.rule(op(" ".join(sorted(ELEMENTWISE))))
def elementwise_of_concatenation(m: Match) -> Value | Decline | None:
    joined = [v for v in m.root.operands if _concatenation(v) is not None]
    if not joined or may_refuse(m.root):
        return None
    first = _concatenation(joined[0])
    assert first is not None
    dim, parts = first.attrs["dim"], first.operands
    if len(parts) > _MOST_PARTS:
        return Decline("many parts")
    if not m.single_use(joined[0]) or not m.single_use(first.result):
        return Decline("the concatenation is used elsewhere")
    if not all(v is joined[0] or _is_cheap(v) for v in m.root.operands):
        return Decline("another operand would be computed in parts")
    pieces: list[Value] = []
    start: Dim = 0
    for number, part in enumerate(parts):
        size = part.type.shape[dim]
        operands = [
            part if v is joined[0] else _part(m, v, first, number, start) for v in m.root.operands
        ]
        pieces.append(m.make(m.root.kind, operands, **m.root.attrs))
        start = start + size
    return m.reshape(m.make("concatenate", pieces, dim=dim), m.type.shape)


def _concatenation(v: Value) -> Op | None:
    """The concatenation that `v` is, perhaps with a dim written in another form."""
    if v.op is not None and v.op.kind == "reshape":
        inner = _concatenation(v.op.operands[0])
        if inner is None or inner.result.type.rank != v.type.rank:
            return None
        shapes = zip(inner.result.type.shape, v.type.shape, strict=True)
        others = (a == b for i, (a, b) in enumerate(shapes) if i != inner.attrs["dim"])
        return inner if all(others) else None
    return v.op if v.op is not None and v.op.kind == "concatenate" else None


def _is_cheap(v: Value, depth: int = 2) -> bool:
    """Whether a part of the value costs little more than reading it."""
    if v.op is None or v.op.kind in ("constant", "iota") or v.op.kind in _STORED:
        return True
    if v.op.kind in _MOVES:
        return _is_cheap(v.op.operands[0], depth)
    return (
        v.op.kind in _CHEAP
        and depth > 0
        and not may_refuse(v.op)
        and all(_is_cheap(x, depth - 1) for x in v.op.operands)
    )


def _part(m: Match, v: Value, joined: Op, number: int, start: Dim) -> Value:
    """What belongs to a part that begins at `start`."""
    dim, part = joined.attrs["dim"], joined.operands[number].type.shape
    other = _concatenation(v)
    if other is not None and other.attrs["dim"] == dim:
        sizes = [[x.type.shape[dim] for x in c.operands] for c in (joined, other)]
        if sizes[0] == sizes[1]:
            return other.operands[number]
    scalar = splat_of(v)
    if scalar is not None:
        return m.broadcast(m.make("constant", [], value=scalar), part, ())
    if v.op is not None and v.op.kind == "broadcast_in_dim":
        source, dims = v.op.operands[0], v.op.attrs["dims"]
        if dim not in dims or source.type.shape[dims.index(dim)] == 1:
            return m.broadcast(source, part, dims)
        return m.broadcast(_slice(m, source, dims.index(dim), start, part[dim]), part, dims)
    return _slice(m, v, dim, start, part[dim])


def _slice(m: Match, v: Value, dim: int, start: Dim, size: Dim) -> Value:
    rank = v.type.rank
    starts: list[Dim] = [0] * rank
    limits = list(v.type.shape)
    starts[dim], limits[dim] = start, start + size
    return m.make("slice", [v], start=tuple(starts), limit=tuple(limits), stride=(1,) * rank)
