"""Rules for ops that move elements without computing: transpose, reshape, slice, concatenate,
pad, reverse, and reductions over dims of size 1. Broadcasts are in `broadcasts.py`."""

from __future__ import annotations

from tf_blade.compiler.ir.dims import Dim, simplify
from tf_blade.compiler.ir.program import Op, Value
from tf_blade.compiler.rewrite.rules import (
    Decline,
    Match,
    RuleSet,
    X,
    Y,
    op,
    splat,
    splat_of,
    value,
)

rules = RuleSet("layout")


def _op(v: Value) -> Op:
    assert v.op is not None
    return v.op


# transpose with the identity permutation -> x
# a transpose that only moves dims of size 1 -> reshape
@rules.rule(op("transpose", X))
def trivial_transpose(m: Match) -> Value | None:
    perm = list(m.root.attrs["perm"])
    if perm == sorted(perm):
        return m.x
    moved = [p for p in perm if m.x.type.shape[p] != 1]
    return m.reshape(m.x, m.type.shape) if moved == sorted(moved) else None


# transpose(transpose(x, p), q) -> transpose(x, p[q])
@rules.rule(op("transpose", op("transpose", X, name="inner")))
def transpose_of_transpose(m: Match) -> Value:
    inner = _op(m.inner).attrs["perm"]
    return m.make("transpose", [m.x], perm=tuple(inner[p] for p in m.root.attrs["perm"]))


# reshape to the shape it has -> x
@rules.rule(op("reshape", X))
def trivial_reshape(m: Match) -> Value | None:
    return m.x if m.x.type.shape == m.type.shape else None


# reshape(reshape(x)) -> reshape(x)
@rules.rule(op("reshape", op("reshape", X)))
def reshape_of_reshape(m: Match) -> Value | None:
    size, target = m.x.type.size, m.type.size
    if isinstance(size, int) and isinstance(target, int) and size != target:
        return None  # holds only under a constraint that is never true: refused at run time
    return m.reshape(m.x, m.type.shape)


# reverse(reverse(x, a), b) -> reverse(x, dims that are in one of them)
@rules.rule(op("reverse", op("reverse", X, name="inner")))
def reverse_of_reverse(m: Match) -> Value:
    dims = tuple(sorted(set(_op(m.inner).attrs["dims"]) ^ set(m.root.attrs["dims"])))
    return m.make("reverse", [m.x], dims=dims) if dims else m.x


# reverse along dims of size 1 does nothing
@rules.rule(op("reverse", X))
def trivial_reverse(m: Match) -> Value | None:
    dims = tuple(m.root.attrs["dims"])
    kept = tuple(d for d in dims if m.type.shape[d] != 1)
    if kept == dims and kept:
        return None
    return m.make("reverse", [m.x], dims=kept) if kept else m.x


# slice of all there is -> x
@rules.rule(op("slice", X))
def slice_of_whole(m: Match) -> Value | None:
    attrs = m.root.attrs
    whole = (
        all(n == 0 for n in attrs["start"])
        and attrs["limit"] == m.x.type.shape
        and all(n == 1 for n in attrs["stride"])
    )
    return m.x if whole else None


# slice(slice(x)) -> slice(x)
@rules.rule(op("slice", op("slice", X, name="inner")))
def slice_of_slice(m: Match) -> Value | Decline:
    inner, outer = _op(m.inner).attrs, m.root.attrs
    start: list[Dim] = []
    limit: list[Dim] = []
    for i, step in enumerate(inner["stride"]):
        start.append(simplify(inner["start"][i] + outer["start"][i] * step))
        count = m.type.shape[i]
        if step == 1:
            limit.append(simplify(inner["start"][i] + outer["limit"][i]))
        elif not isinstance(count, int):
            return Decline("where a strided slice of unknown size ends depends on its being empty")
        else:
            # Right after the last element: a round number of strides may pass the dim's end.
            after = (count - 1) * step * outer["stride"][i] + 1 if count else 0
            limit.append(simplify(start[i] + after))
    return m.make(
        "slice",
        [m.x],
        start=tuple(start),
        limit=tuple(limit),
        stride=tuple(a * b for a, b in zip(inner["stride"], outer["stride"], strict=True)),
    )


# slice(concatenate(a, b, …)) -> slice(b), where it lies within b
@rules.rule(op("slice", op("concatenate", name="joined")))
def slice_of_concatenate(m: Match) -> Value | Decline:
    dim = _op(m.joined).attrs["dim"]
    start, limit = list(m.root.attrs["start"]), list(m.root.attrs["limit"])
    offset: Dim = 0
    for part in _op(m.joined).operands:
        end = simplify(offset + part.type.shape[dim])
        if _known_le(offset, start[dim]) and _known_le(limit[dim], end):
            start[dim] = simplify(start[dim] - offset)
            limit[dim] = simplify(limit[dim] - offset)
            return m.make(
                "slice",
                [part],
                start=tuple(start),
                limit=tuple(limit),
                stride=m.root.attrs["stride"],
            )
        offset = end
    return Decline("the slice spans several parts, or may do so")


def _known_le(a: Dim, b: Dim) -> bool:
    difference = simplify(b - a)
    return difference >= 0 if isinstance(difference, int) else bool(difference.is_nonnegative)


# slice(pad(x)) that takes x out again -> x
@rules.rule(op("slice", op("pad", X, value("fill"), name="padded")))
def slice_of_pad(m: Match) -> Value | None:
    low, attrs = _op(m.padded).attrs["low"], m.root.attrs
    ends = tuple(simplify(a + n) for a, n in zip(low, m.x.type.shape, strict=True))
    exactly = attrs["start"] == low and attrs["limit"] == ends
    return m.x if exactly and all(n == 1 for n in attrs["stride"]) else None


# concatenate: of one part -> the part; without parts of size 0; nested along one dim -> flat;
# neighbouring slices of one tensor -> one slice
@rules.rule(op("concatenate"))
def simpler_concatenate(m: Match) -> Value | None:
    dim, parts = m.root.attrs["dim"], m.root.operands
    flat: list[Value] = []
    for part in parts:
        nested = part.op is not None and part.op.kind == "concatenate"
        if nested and _op(part).attrs["dim"] == dim and m.single_use(part):
            flat += _op(part).operands
        elif part.type.shape[dim] != 0:
            flat.append(part)
    joined: list[Value] = []
    for part in flat:
        merged = _joined_slices(m, joined[-1], part, dim) if joined else None
        if merged is None:
            joined.append(part)
        else:
            joined[-1] = merged
    if not joined:
        return parts[0]  # all are empty
    if len(joined) == 1:
        return joined[0]
    return None if joined == parts else m.make("concatenate", joined, dim=dim)


def _joined_slices(m: Match, a: Value, b: Value, dim: int) -> Value | None:
    """The slice that a and b are together, if they are slices of one tensor side by side."""
    if a.op is None or b.op is None or a.op.kind != "slice" or b.op.kind != "slice":
        return None
    first, second = a.op.attrs, b.op.attrs
    if a.op.operands != b.op.operands or {1} != {*first["stride"], *second["stride"]}:
        return None
    for i in range(a.type.rank):
        if i == dim:
            if first["limit"][i] != second["start"][i]:
                return None
        elif (first["start"][i], first["limit"][i]) != (second["start"][i], second["limit"][i]):
            return None
    limit = list(first["limit"])
    limit[dim] = second["limit"][dim]
    return m.make(
        "slice", a.op.operands, start=first["start"], limit=tuple(limit), stride=first["stride"]
    )


# pad by nothing -> x
@rules.rule(op("pad", X, Y))
def trivial_pad(m: Match) -> Value | None:
    attrs = m.root.attrs
    return m.x if all(n == 0 for n in (*attrs["low"], *attrs["high"])) else None


# pad(splat(c), c) -> splat(c), and so for slice, reverse and transpose
@rules.rule(op("pad", splat("c"), splat("d")))
def pad_of_splat(m: Match) -> Value | None:
    number, fill = splat_of(m.c), splat_of(m.d)
    assert number is not None and fill is not None
    return m.splat(number) if number.tobytes() == fill.tobytes() else None


@rules.rule(
    op("slice", splat("c")),
    op("reverse", splat("c")),
    op("transpose", splat("c")),
)
def move_of_splat(m: Match) -> Value:
    return m.splat(splat_of(m.c))


# reduce over dims of size 1 only -> reshape;  over some -> reduce over the others of a reshape
@rules.rule(op("reduce", X))
def reduce_over_ones(m: Match) -> Value | None:
    dims, shape = m.root.attrs["dims"], m.x.type.shape
    ones = [d for d in dims if shape[d] == 1]
    if not ones and dims:
        return None
    kept = [i for i in range(len(shape)) if i not in ones]
    smaller = m.reshape(m.x, tuple(shape[i] for i in kept))
    left = tuple(i for i, old in enumerate(kept) if old in dims)
    return m.make("reduce", [smaller], kind=m.root.attrs["kind"], dims=left) if left else smaller


# reduce(reduce(x)) of one kind -> one reduce (the order of float additions is nobody's promise)
@rules.rule(op("reduce", op("reduce", X, name="inner")))
def reduce_of_reduce(m: Match) -> Value | Decline | None:
    kind = m.root.attrs["kind"]
    if _op(m.inner).attrs["kind"] != kind:
        return None
    if not m.single_use(m.inner):
        return Decline("the inner result is used elsewhere")
    inner = _op(m.inner).attrs["dims"]
    outer_of = [i for i in range(m.x.type.rank) if i not in inner]
    dims = sorted([*inner, *(outer_of[d] for d in m.root.attrs["dims"])])
    return m.make("reduce", [m.x], kind=kind, dims=tuple(dims))


# reduce(transpose(x)) -> reduce(x), where the dims that stay are in order
@rules.rule(op("reduce", op("transpose", X, name="inner")))
def reduce_of_transpose(m: Match) -> Value | Decline:
    perm, dims = _op(m.inner).attrs["perm"], m.root.attrs["dims"]
    kept = [p for i, p in enumerate(perm) if i not in dims]
    if kept != sorted(kept):
        return Decline("the reduced tensor would need a transpose of its own")
    return m.make(
        "reduce",
        [m.x],
        kind=m.root.attrs["kind"],
        dims=tuple(sorted(perm[d] for d in dims)),
    )
