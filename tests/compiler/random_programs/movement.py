"""Steps that put elements elsewhere."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from tests.compiler.random_programs.maker import (
    MAX_RANK,
    MAX_SIZE,
    Fact,
    Maker,
)
from tf_blade.compiler.ir.dims import Dim, is_static, product
from tf_blade.compiler.ir.program import Value


def transpose(m: Maker) -> None:
    x = m.value(lambda v: v.type.rank >= 2)
    if x is not None:
        perm = m.draw(st.permutations(range(x.type.rank)))
        m.same_fact(m.builder.transpose(x, perm), x)


def reshape(m: Maker) -> None:
    """Flattens, merges two dims, splits one, adds or drops a 1."""
    x = m.value()
    assert x is not None
    shape = list(m.shape(x))
    forms: list[list[Dim]] = [[product(shape)], [1, *shape], [*shape, 1]]
    for i in range(len(shape)):
        dim = shape[i]
        if i + 1 < len(shape):
            forms.append([*shape[:i], product(shape[i : i + 2]), *shape[i + 2 :]])
        if dim == 1:
            forms.append(shape[:i] + shape[i + 1 :])
        elif isinstance(dim, int) and dim % 2 == 0:
            forms.append([*shape[:i], 2, dim // 2, *shape[i + 1 :]])
    target = m.choose(forms)
    if m.fits(tuple(target)):
        m.same_fact(m.builder.reshape(x, target), x)


def slice(m: Maker) -> None:
    x = m.value(lambda v: v.type.rank >= 1)
    if x is None:
        return
    start: list[Dim] = []
    limit: list[Dim] = []
    stride: list[int] = []
    for dim, size in zip(m.shape(x), m.sizes(m.shape(x)), strict=True):
        first = m.integer(0, size)
        end = m.integer(first, size)
        stride.append(m.integer(1, 3))
        if is_static(dim):
            start.append(first)
            limit.append(end)
        elif m.integer(0, 4) == 0:
            # Bounds that arrive with the request.
            low, high = m.element(first), m.element(end)
            m.builder.require_le(0, low, "a slice starts in the dim")
            m.builder.require_le(low, high, "a slice starts before its end")
            m.builder.require_le(high, dim, "a slice ends in the dim")
            start.append(low)
            limit.append(high)
        elif m.flag():
            start.append(0)
            limit.append(dim)
        else:
            m.builder.require_le(first, dim, "a slice starts in the dim")
            start.append(first)
            limit.append(dim)
    m.same_fact(m.builder.slice(x, start, limit, stride), x)


def reverse(m: Maker) -> None:
    x = m.value(lambda v: v.type.rank >= 1)
    if x is not None:
        dims = sorted(m.draw(st.sets(st.integers(0, x.type.rank - 1), min_size=1)))
        m.same_fact(m.builder.reverse(x, dims), x)


def concatenate(m: Maker) -> None:
    x = m.value(lambda v: v.type.rank >= 1)
    if x is None:
        return
    dim = m.integer(0, x.type.rank - 1)

    def fits(v: Value) -> bool:
        if v.type.dtype is not x.type.dtype or v.type.rank != x.type.rank:
            return False
        a, b = m.shape(x), m.shape(v)
        return a[:dim] == b[:dim] and a[dim + 1 :] == b[dim + 1 :]

    others = [m.value(fits) for _ in range(m.integer(1, 2))]
    parts = [x, *(v for v in others if v is not None)]
    if sum(int(math.prod(m.sizes(m.shape(v)))) for v in parts) > MAX_SIZE:
        return
    facts = [m.facts[v] for v in parts]
    fact = Fact(
        max(f.bound for f in facts), max(f.error for f in facts), max(f.grain for f in facts)
    )
    m.keep(m.builder.concatenate(parts, dim), m.rounded(x.type.dtype, fact, 0))


def pad(m: Maker) -> None:
    x = m.value(lambda v: v.type.rank >= 1)
    if x is None:
        return
    low = [m.integer(0, 2) for _ in range(x.type.rank)]
    high = [m.integer(0, 2) for _ in range(x.type.rank)]
    shape = tuple(a + n + b for a, n, b in zip(low, m.shape(x), high, strict=True))
    if m.fits(shape):
        fill, fact = m.constant(x.type.dtype), m.facts[x]
        padded = Fact(max(fact.bound, m.facts[fill].bound), fact.error, max(fact.grain, 2))
        m.keep(m.builder.pad(x, fill, low, high), m.rounded(x.type.dtype, padded, 0))


def broadcast(m: Maker) -> None:
    """New dims anywhere, 1s stretched."""
    x = m.value(lambda v: v.type.rank < MAX_RANK)
    if x is None:
        return
    pool: list[Dim] = [1, 2, 3, *m.symbols.values()]
    shape: list[Dim] = []
    dims: list[int] = []
    for n in m.shape(x):
        if len(shape) - len(dims) + x.type.rank < MAX_RANK and m.flag():
            shape.append(m.choose(pool))
        dims.append(len(shape))
        shape.append(m.choose(pool) if n == 1 else n)
    if len(shape) < MAX_RANK and m.flag():
        shape.append(m.choose(pool))
    if m.fits(tuple(shape)):
        m.same_fact(m.builder.broadcast_in_dim(x, tuple(shape), dims), x)
