"""Elements of one dim in another order: rolled, or partly reversed."""

from __future__ import annotations

from tf_blade.compiler.ir import dims as d
from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.dims import Dim
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.lower.elementwise import number
from tf_blade.compiler.lower.operands import constant, content, from_front
from tf_blade.compiler.lower.registry import INDICES, lower
from tf_blade.errors import UnsupportedError


@lower("Roll", dtypes={"Tshift": INDICES, "Taxis": INDICES}, constants=[2], contents=[1])
def roll(b: Builder, x: Value, shift: Value, axis: Value) -> Value:
    """Elements moved along axes; what leaves at one end comes in at the other."""
    shifts: dict[int, Dim] = {}
    found = [from_front(b, int(a), x.type.rank) for a in constant(b, axis, "the axes").flat]
    for at, by in zip(found, content(b, shift, "the shifts"), strict=True):
        shifts[at] = d.simplify(shifts.get(at, 0) + by)
    for at, by in shifts.items():
        n = b.shape(x)[at]
        split = d.simplify(n - d.floor_mod(by, d.larger(n, 1)))
        x = b.concatenate([_part(b, x, at, split, n), _part(b, x, at, 0, split)], at)
    return x


def _part(b: Builder, x: Value, axis: int, start: Dim, limit: Dim) -> Value:
    starts: list[Dim] = [0] * x.type.rank
    limits = list(b.shape(x))
    starts[axis], limits[axis] = start, limit
    return b.slice(x, starts, limits)


@lower("ReverseSequence", dtypes={"Tlen": INDICES})
def reverse_sequence(
    b: Builder, x: Value, seq_lengths: Value, *, seq_dim: int, batch_dim: int
) -> Value:
    """For each entry of the batch dim, the first seq_lengths[entry] elements turned around."""
    rank = x.type.rank
    sequence, batch = from_front(b, seq_dim, rank), from_front(b, batch_dim, rank)
    if sequence == batch:
        raise UnsupportedError("the batch dim is the dim to reverse", b.source)
    b.same_dim(b.shape(seq_lengths)[0], b.shape(x)[batch], "one length for each entry")
    seq_lengths = b.retype(seq_lengths, [b.shape(x)[batch]])
    n, count = b.shape(x)[sequence], b.shape(x)[batch]
    limit = b.shape_value(n, seq_lengths.type.dtype)
    fits = b.binary(
        "and",
        b.compare("GE", seq_lengths, number(b, 0, seq_lengths)),
        b.compare("LE", seq_lengths, limit),
    )
    lengths = b.broadcast_in_dim(b.checked(seq_lengths, fits), (count, n), [0])
    places = b.iota(seq_lengths.type.dtype, (count, n), 1)
    turned = b.sub(b.sub(lengths, places), number(b, 1, lengths))
    taken = b.select(b.compare("LT", places, lengths), turned, places)
    order = [batch, sequence, *(i for i in range(rank) if i not in (batch, sequence))]
    moved = b.gather(b.transpose(x, order), taken, 1, 1)
    return b.transpose(moved, [order.index(i) for i in range(rank)])
