"""Steps that combine elements, choose among them or make new ones."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from tests.compiler.random_programs.maker import (
    MAX_BOUND,
    Fact,
    Maker,
    capped_exp,
)
from tf_blade.compiler.ir.dims import Dim, is_static
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.ir.types import DType


def reduce(m: Maker) -> None:
    x = m.value(lambda v: v.type.rank >= 1)
    if x is None:
        return
    dims = sorted(m.draw(st.sets(st.integers(0, x.type.rank - 1), min_size=1)))
    dtype, fact = x.type.dtype, m.facts[x]
    count = max(math.prod(m.sizes(m.shape(x))[i] for i in dims), 1)
    if dtype is DType.BOOL:
        m.keep(m.builder.reduce(m.choose(["and", "or"]), x, dims), Fact(1))
        return
    kind = m.choose(["sum", "max", "min", "prod"])
    if kind in ("max", "min"):
        # The neutral element of an empty maximum is infinite.
        if dtype.is_float and m.may_be_empty(x):
            return
        result = m.rounded(dtype, fact, 0) if dtype.is_float else m.rounded(dtype, Fact(math.inf))
    elif kind == "prod":
        if count > 8 and dtype.is_float:
            return
        bound = max(fact.bound, 1.0)
        if dtype.is_float and bound**count > MAX_BOUND:
            return
        error = count * bound ** (count - 1) * fact.error if dtype.is_float else 0
        total = Fact(capped_exp(count * math.log(bound)), error, fact.grain * count)
        result = m.rounded(dtype, total, count)
    else:
        result = m.rounded(dtype, Fact(count * fact.bound, count * fact.error, fact.grain), count)
    if m.legal(dtype, result):
        m.keep(m.builder.reduce(kind, x, dims), result)


def gather(m: Maker) -> None:
    """Indices are any integers, brought into the range by a floor_mod with the dim."""
    params = m.value(lambda v: v.type.rank >= 1)
    indices = m.value(lambda v: v.type.dtype in (DType.I32, DType.I64) and v.type.rank <= 2)
    if params is None or indices is None:
        return
    axis = m.integer(0, params.type.rank - 1)
    batch = 0
    if axis and indices.type.rank and m.shape(params)[0] == m.shape(indices)[0] and m.flag():
        batch = 1
    p, i = m.shape(params), m.shape(indices)
    if not m.fits((*p[:axis], *i[batch:], *p[axis + 1 :])):
        return
    size = m.builder.shape_value(p[axis], indices.type.dtype)
    inside = m.builder.binary("floor_mod", indices, size)
    m.same_fact(m.builder.gather(params, inside, axis, batch), params)


def scan(m: Maker) -> None:
    x = m.value(lambda v: v.type.rank >= 1 and v.type.dtype is not DType.BOOL)
    if x is None:
        return
    dim, dtype, fact = m.integer(0, x.type.rank - 1), x.type.dtype, m.facts[x]
    count = max(m.sizes(m.shape(x))[dim], 1)
    total = Fact(count * fact.bound, count * fact.error, fact.grain)
    result = m.rounded(dtype, total, count)
    if m.legal(dtype, result):
        exclusive, reverse = m.flag(), m.flag()
        m.keep(m.builder.scan("sum", x, dim, exclusive=exclusive, reverse=reverse), result)


def top_k(m: Maker) -> None:
    x = m.value(lambda v: v.type.rank >= 1 and v.type.dtype is not DType.BOOL and m.exact(v))
    if x is None:
        return
    last = m.shape(x)[-1]
    fewest = last if is_static(last) else 0
    if fewest:
        m.keep(m.builder.top_k(x, m.integer(1, min(fewest, 4))), Fact(fewest))


def scatter(m: Maker) -> None:
    """Rows of a tensor put into others of its rows."""
    target = m.value(lambda v: v.type.rank >= 1)
    indices = m.value(lambda v: v.type.dtype in (DType.I32, DType.I64) and v.type.rank == 1)
    if target is None or indices is None:
        return
    rows, count, dtype = m.shape(target)[0], m.shape(indices)[0], target.type.dtype
    if not m.fits((count, *m.shape(target)[1:])) or not m.sizes((rows,))[0]:
        return
    size = m.builder.shape_value(rows, indices.type.dtype)
    inside = m.builder.binary("floor_mod", indices, size)
    updates = m.builder.gather(target, m.builder.reverse(inside, [0]), 0)
    kind = "set" if dtype is DType.BOOL else m.choose(["set", "sum", "max", "min"])
    fact, terms = m.facts[target], m.sizes((count,))[0] + 1 if kind == "sum" else 1
    result = m.rounded(dtype, Fact(terms * fact.bound, terms * fact.error, fact.grain), terms)
    if m.legal(dtype, result):
        places = m.choose([indices, inside])
        m.keep(m.builder.scatter(target, places, updates, kind), result)


def dot_general(m: Maker) -> None:
    a = m.value(lambda v: v.type.dtype.is_float and v.type.rank >= 2)
    if a is None:
        return
    dtype, transpose_a = a.type.dtype, m.flag()
    k = m.shape(a)[-2 if transpose_a else -1]

    def fits(v: Value) -> bool:
        shape = m.shape(v)
        return (
            v.type.dtype is dtype
            and v.type.rank in (2, a.type.rank)
            and k in shape[-2:]
            and (v.type.rank == 2 or shape[:-2] == m.shape(a)[:-2])
        )

    b = m.value(fits)
    if b is None:
        if not is_static(k):
            return
        b = m.constant(dtype, [int(k), m.integer(1, 5)])
    transpose_b = m.shape(b)[-2] != k
    n = m.shape(b)[-2 if transpose_b else -1]
    rows = m.shape(a)[-1 if transpose_a else -2]
    if not m.fits((*m.shape(a)[:-2], rows, n)):
        return
    x, y, count = m.facts[a], m.facts[b], max(m.sizes((k,))[0], 1)
    fact = Fact(
        count * x.bound * y.bound,
        count * (x.error * y.bound + y.error * x.bound),
        x.grain + y.grain,
    )
    fact = m.rounded(dtype, fact, count)
    bias = m.value(lambda v: v.type.dtype is dtype and m.shape(v) == (n,)) if m.flag() else None
    if bias is not None:
        c = m.facts[bias]
        summed = Fact(fact.bound + c.bound, fact.error + c.error, max(fact.grain, c.grain))
        fact = m.rounded(dtype, summed)
    if not m.legal(dtype, fact):
        return
    inside, outside = m.flag(), m.flag()
    result = m.builder.dot_general(
        a,
        b,
        transpose_a=transpose_a,
        transpose_b=transpose_b,
        bias=bias if inside else None,
        activation="relu" if inside and outside else "none",
    )
    m.keep(result, fact)
    if bias is not None and not inside:
        result = m.keep(m.builder.add(result, bias), fact)
    if outside and not inside:
        m.keep(m.builder.binary("max", result, m.builder.constant(0, dtype)), fact)


def conv(m: Maker) -> None:
    """A constant filter over any dims between the first and the last."""
    x = m.value(lambda v: v.type.dtype.is_float and 3 <= v.type.rank <= 5)
    if x is None or not is_static(m.shape(x)[-1]) or m.shape(x)[-1] < 1:
        return
    dtype, all_channels, spatial = x.type.dtype, int(m.shape(x)[-1]), x.type.rank - 2
    groups = m.choose([n for n in range(1, all_channels + 1) if all_channels % n == 0])
    window = [m.integer(1, 3) for _ in range(spatial)]
    filters = groups * m.integer(1, 3)
    constant = m.constant(dtype, [*window, all_channels // groups, filters])
    sizes = [m.choose([n, m.integer(1, 3)]) for n in m.shape(x)[1:-1]]
    if not m.fits((m.shape(x)[0], *sizes, filters)):
        return
    count = math.prod(window) * all_channels // groups
    a, f = m.facts[x], m.facts[constant]
    terms = Fact(count * a.bound * f.bound, count * a.error * f.bound, a.grain + f.grain)
    fact = m.rounded(dtype, terms, count)
    if m.legal(dtype, fact):
        result = m.builder.conv(
            x,
            constant,
            strides=[m.integer(1, 2) for _ in range(spatial)],
            dilations=[m.integer(1, 2) for _ in range(spatial)],
            low=[m.integer(0, n - 1) for n in window],
            sizes=sizes,
            groups=groups,
        )
        m.keep(result, fact)


def fourier(m: Maker) -> None:
    """A transform, or the inverse of what may be one."""
    x = m.value(
        lambda v: v.type.dtype is DType.F32 and v.type.rank >= 1 and is_static(m.shape(v)[-1])
    )
    if x is None or m.shape(x)[-1] < 1:
        return
    fact, last = m.facts[x], int(m.shape(x)[-1])
    if m.flag():
        y = m.value(lambda v: v.type.dtype is DType.F32 and m.shape(v) == m.shape(x)) or x
        length = m.choose([2 * last - 1, max(2 * last - 2, 1)])
        if length // 2 + 1 == last and m.fits((*m.shape(x)[:-1], length)):
            other = m.facts[y]
            bound, error = max(fact.bound, other.bound), max(fact.error, other.error)
            result = m.rounded(DType.F32, Fact(3 * bound, 3 * error, 60), 16)
            if m.legal(DType.F32, result):
                m.keep(m.builder.irfft(x, y, length), result)
        return
    if x.type.rank < 5 and m.fits((2, *m.shape(x)[:-1], last // 2 + 1)):
        result = m.rounded(DType.F32, Fact(last * fact.bound, last * fact.error, 60), 16)
        if m.legal(DType.F32, result):
            m.keep(m.builder.rfft(x), result)


def iota(m: Maker) -> None:
    pool: list[Dim] = [1, 2, 5, *m.symbols.values()]
    shape = tuple(m.choose(pool) for _ in range(m.integer(1, 2)))
    dtype = m.choose([DType.I32, DType.I64, DType.F32])
    m.keep(m.builder.iota(dtype, shape, m.integer(0, len(shape) - 1)), Fact(max(m.sizes(shape))))


def shape_value(m: Maker) -> None:
    x = m.value(lambda v: v.type.rank >= 1)
    if x is not None:
        dtype = m.choose([DType.I32, DType.I64])
        bound = max(m.sizes(m.shape(x)))
        m.keep(m.builder.shape_value(list(m.shape(x)), dtype), Fact(bound))


def constant(m: Maker) -> None:
    sizes = [m.choose([1, 2, 3]) for _ in range(m.integer(0, 2))]
    m.constant(m.choose(m.dtypes), sizes)
