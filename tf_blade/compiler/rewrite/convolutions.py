"""Rules for what surrounds a convolution's window: a border of zeros, blocks of pixels that are
moved to the batch and back, results that nobody reads. All become the window's own geometry.

Between them and the convolution there may be a reshape that adds or drops dims of size 1: what a
convolution over sequences is made of.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

from tf_blade.compiler.ir.dims import Dim, Shape, floor_div, is_static, simplify
from tf_blade.compiler.ir.program import Op, Value
from tf_blade.compiler.rewrite.rules import Decline, Match, RuleSet, op, splat_of

rules = RuleSet("convolutions")

CONV = op("conv", name="conv")


def _op(v: Value) -> Op:
    assert v.op is not None
    return v.op


def _placements(small: Shape, large: Shape) -> set[tuple[int, ...]]:
    """Which dims of `large` the dims of `small` may be, in order, when all others are 1."""
    found = set()
    for places in combinations(range(len(large)), len(small)):
        others = [n for i, n in enumerate(large) if i not in places]
        if tuple(large[i] for i in places) == tuple(small) and all(n == 1 for n in others):
            found.add(places)
    return found


def _only(places: set[tuple[int, ...]]) -> tuple[int, ...] | None:
    return next(iter(places)) if len(places) == 1 else None


def _spread(values: tuple[Any, ...], places: tuple[int, ...], rank: int, other: Any) -> list[Any]:
    """The values at their places, `other` elsewhere."""
    at = dict(zip(places, values, strict=True))
    return [at.get(i, other) for i in range(rank)]


# conv(pad(x, 0), window) -> conv(x, window), which begins earlier; and so for conv(reshape(pad(x)))
@rules.rule(op("conv"))
def conv_of_pad(m: Match) -> Value | Decline | None:
    x = m.root.operands[0]
    padded = _op(x).operands[0] if x.op is not None and x.op.kind == "reshape" else x
    if padded.op is None or padded.op.kind != "pad":
        return None
    places = _only(_placements(padded.type.shape, x.type.shape))
    if places is None:
        return Decline("the reshape does more than add dims of size 1")
    if splat_of(padded.op.operands[1]) != 0:
        return Decline("the border is not of zeros")
    attrs, rank = m.root.attrs, x.type.rank
    low = _spread(padded.op.attrs["low"], places, rank, 0)
    high = _spread(padded.op.attrs["high"], places, rank, 0)
    if any(n != 0 for n in (low[0], high[0], low[-1], high[-1])):
        return Decline("the border is around the batch or the channels")
    inner = padded.op.operands[0]
    inner = m.reshape(inner, _spread(inner.type.shape, places, rank, 1))
    sums = (simplify(a + b) for a, b in zip(attrs["low"], low[1:-1], strict=True))
    return m.make("conv", [inner, *m.root.operands[1:]], **{**attrs, "low": tuple(sums)})


# batch_to_space(conv(space_to_batch(x, block), window)) -> conv(x, window dilated by block)
@rules.rule(op("transpose", op("reshape", CONV, name="split")))
def dilated_conv(m: Match) -> Value | Decline | None:
    conv, moved = _op(m.conv), _moved_to_batch(_op(m.conv).operands[0])
    if moved is None:
        return None
    count = _blocked_dims(moved)
    blocks, rest = moved.type.shape[:count], moved.type.shape[count:]
    split = m.split.type.shape
    if count == 0 or m.root.attrs["perm"] != _to_space(count, len(split)):
        return None
    if not all(map(is_static, blocks)) or (split[:count], split[count]) != (blocks, rest[0]):
        return Decline("the blocks come back in another form")
    x_shape, y_shape = _op(m.conv).operands[0].type.shape, m.conv.type.shape
    places = _only(
        _placements(rest[1:], x_shape[1:]) & _placements(split[count + 1 :], y_shape[1:])
    )
    if places is None:
        return Decline("the reshapes do more than move blocks")
    factors = _spread(blocks, places[:count], len(x_shape) - 1, 1)[:-1]
    if any(n > 1 and step > 1 for n, step in zip(factors, conv.attrs["strides"], strict=True)):
        return Decline("windows that skip pixels of a block")
    if not m.single_use(m.conv) or not m.single_use(m.split):
        return Decline("the blocks are read elsewhere")

    def scaled(of: tuple[Dim, ...]) -> tuple[Dim, ...]:
        return tuple(simplify(n * factor) for n, factor in zip(of, factors, strict=True))

    attrs = {
        **conv.attrs,
        "dilations": scaled(conv.attrs["dilations"]),
        "low": scaled(conv.attrs["low"]),
        "sizes": scaled(conv.attrs["sizes"]),
    }
    x = _op(_op(moved).operands[0]).operands[0]
    if _is_cut_into(x.type.shape, rest, blocks):  # its dims, in words that a border has too
        x = m.reshape(x, [rest[0], *_spread(x.type.shape[1:], places, len(factors) + 1, 1)])
    else:
        x = m.reshape(x, [rest[0], *scaled(x_shape[1:-1]), x_shape[-1]])
    return m.reshape(m.make("conv", [x, *conv.operands[1:]], **attrs), m.type.shape)


def _moved_to_batch(x: Value) -> Value | None:
    """The transpose in reshape(transpose(reshape(y)))."""
    if x.op is None or x.op.kind != "reshape":
        return None
    moved = x.op.operands[0]
    if moved.op is None or moved.op.kind != "transpose":
        return None
    cut = moved.op.operands[0]
    return moved if cut.op is not None and cut.op.kind == "reshape" else None


def _blocked_dims(moved: Value) -> int:
    """How many dims' blocks the transpose moves before the batch; 0 if it isn't that."""
    rank = moved.type.rank
    perms = {_to_batch(count, rank): count for count in range(1, (rank - 1) // 2 + 1)}
    return perms.get(_op(moved).attrs["perm"], 0)


def _to_batch(count: int, rank: int) -> tuple[int, ...]:
    """[n, parts, block, …] -> [block…, n, parts…]"""
    blocks, parts = (range(start, 2 * count + 1, 2) for start in (2, 1))
    return (*blocks, 0, *parts, *range(2 * count + 1, rank))


def _to_space(count: int, rank: int) -> tuple[int, ...]:
    """[block…, n, parts…] -> [n, parts, block, …]"""
    pairs = [axis for i in range(count) for axis in (count + 1 + i, i)]
    return (count, *pairs, *range(2 * count + 1, rank))


def _is_cut_into(shape: Shape, parts: Shape, blocks: Shape) -> bool:
    """Whether the parts are those of blocks in the dims of `shape` after the first."""
    sizes = (1, *blocks, *[1] * (len(parts) - 1 - len(blocks)))
    return len(shape) == len(parts) and all(
        floor_div(n, size) == part for n, part, size in zip(shape, parts, sizes, strict=True)
    )


# slice(conv(x)) -> conv(x) at the places that are read; and so for slice(reshape(conv(x)))
@rules.rule(op("slice", CONV), op("slice", op("reshape", CONV, name="reshaped")))
def slice_of_conv(m: Match) -> Value | Decline | None:
    conv, sliced, rank = _op(m.conv), m.root.operands[0], m.conv.type.rank
    places = _only(_placements(sliced.type.shape, m.conv.type.shape))
    if places is None:
        return Decline("the reshape does more than drop dims of size 1")
    if not m.single_use(m.conv) or not m.single_use(sliced):
        return Decline("the whole is read elsewhere")
    start, step = (
        _spread(m.root.attrs[name], places, rank, other)
        for name, other in (("start", 0), ("stride", 1))
    )
    shape = _spread(m.type.shape, places, rank, 1)
    if (shape[0], shape[-1]) != (m.conv.type.shape[0], m.conv.type.shape[-1]):
        return Decline("a part of the batch or of the channels")
    low: list[Dim] = []
    for before, first, stride in zip(
        conv.attrs["low"], start[1:-1], conv.attrs["strides"], strict=True
    ):
        low.append(simplify(before - first * stride))
        if not (low[-1] >= 0 if isinstance(low[-1], int) else low[-1].is_nonnegative):
            return Decline("the first window would begin inside of x")
    strides = tuple(a * b for a, b in zip(conv.attrs["strides"], step[1:-1], strict=True))
    attrs = {**conv.attrs, "strides": strides, "low": tuple(low), "sizes": tuple(shape[1:-1])}
    return m.reshape(m.make("conv", conv.operands, **attrs), m.type.shape)
