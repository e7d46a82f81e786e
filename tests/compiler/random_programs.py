"""Random valid IR programs with inputs that fit them, as a hypothesis strategy.

    @given(cases())
    def test_something(case):
        expected = case.expected()          # None: the reference refuses these inputs
        if expected is not None:
            case.check(my_backend(case.program, case.inputs))

A failing case prints as IR text that `parser.parse` reads, with its inputs.

Values stay tame: for every value a bound of its magnitude and of its rounding error is followed
while the program grows, and an op whose result would leave the limits is not taken. Operations
that jump (comparisons, floor, conversion to integers, remainders) are applied only to floats that
every correct evaluation computes exactly, which is known from the number of bits they need.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import sympy
from hypothesis import strategies as st

from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.dims import Dim, Shape, evaluate, is_static, product
from tf_blade.compiler.ir.interpreter import Refused, run
from tf_blade.compiler.ir.ops import DIRECTIONS
from tf_blade.compiler.ir.program import InputDim, Program, Value
from tf_blade.compiler.ir.types import DType

MAX_SIZE = 4000  # elements in any one tensor
MAX_RANK = 4
MAX_BOUND = 1e4
MAX_ERROR = 1e-2
DTYPES = (DType.F32, DType.F32, DType.F32, DType.F64, DType.I32, DType.I64, DType.U8, DType.BOOL)
_EPSILON = {DType.F32: 2.0**-23, DType.F64: 2.0**-52}
_BITS = {DType.F32: 24, DType.F64: 53}
INTEGERS = tuple(d for d in DType if d.is_integer)


@dataclass(frozen=True)
class Fact:
    """What is known of a tensor's elements: |x| <= bound, any two correct evaluations differ by
    <= error, and, when error is 0 and x is a float, x is a multiple of 2**-grain."""

    bound: float
    error: float = 0.0
    grain: int = 0


@dataclass
class Case:
    """A program, inputs for it, and how much each float result may differ from the reference."""

    program: Program
    inputs: list[np.ndarray]
    tolerances: list[float] = field(default_factory=list)

    def expected(self) -> list[np.ndarray] | None:
        """The reference's results, or None when it refuses."""
        try:
            return run(self.program, self.inputs)
        except Refused:
            return None

    def check(self, results: Sequence[np.ndarray]) -> None:
        """Raises AssertionError unless `results` are the reference's within the tolerances."""
        expected = run(self.program, self.inputs)
        assert len(results) == len(expected)
        for value, got, want, tolerance in zip(
            self.program.results, results, expected, self.tolerances, strict=True
        ):
            assert got.dtype == want.dtype, f"{value}: {got.dtype} instead of {want.dtype}"
            np.testing.assert_allclose(
                got, want, rtol=0, atol=tolerance, err_msg=f"{value} of\n{self.program}"
            )

    def __repr__(self) -> str:
        with np.printoptions(threshold=20):
            inputs = "\n".join(
                f"{p} = {x!r}" for p, x in zip(self.program.params, self.inputs, strict=True)
            )
        return f"\n{self.program}\n{inputs}\n"


@st.composite
def cases(
    draw: st.DrawFn,
    *,
    min_ops: int = 3,
    max_ops: int = 25,
    dtypes: Sequence[DType] = DTYPES,
    empty_dims: bool = True,
) -> Case:
    """Programs of about min_ops to max_ops ops, with inputs.

    dtypes: what parameters are drawn from. empty_dims: a symbolic dim may be 0.
    """
    maker = _Maker(draw, dtypes, empty_dims)
    for _ in range(draw(st.integers(1, 4))):
        maker.param()
    for _ in range(draw(st.integers(min_ops, max_ops))):
        draw(st.sampled_from(_STEPS))(maker)
    return maker.finish()


class _Maker:
    """A program that grows by one step at a time, with the concrete sizes it will run at."""

    def __init__(self, draw: st.DrawFn, dtypes: Sequence[DType], empty_dims: bool) -> None:
        self.draw = draw
        self.dtypes = dtypes
        self.builder = Builder("random")
        self.values: list[Value] = []
        self.facts: dict[Value, Fact] = {}
        self.inputs: list[np.ndarray] = []
        self.bindings: dict[sympy.Symbol, int] = {}
        smallest = 0 if empty_dims and self.integer(0, 9) == 9 else 1
        self.symbol_sizes = [
            self.integer(smallest, 7) for _ in range(self.choose([1, 2, 0, 1, 2, 3]))
        ]
        self.symbols: dict[int, sympy.Symbol] = {}  # by index in symbol_sizes
        self.random = np.random.default_rng(self.integer(0, 2**16))

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def flag(self) -> bool:
        return self.draw(st.booleans())

    def choose(self, items: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(items))

    def value(self, accept: Callable[[Value], bool] = lambda v: True) -> Value | None:
        """One that is accepted, more often a recent one: programs are long chains."""
        found = [v for v in self.values if accept(v)]
        if len(found) > 3 and self.integer(0, 2):
            found = found[-3:]
        return self.choose(found) if found else None

    def sizes(self, shape: Shape) -> list[int]:
        return [evaluate(self.builder.canonical(n), self.bindings) for n in shape]

    def shape(self, value: Value) -> Shape:
        return self.builder.shape(value)

    def fits(self, shape: Shape) -> bool:
        return len(shape) <= MAX_RANK and math.prod(self.sizes(shape)) <= MAX_SIZE

    def keep(self, value: Value, fact: Fact) -> Value:
        self.facts[value] = fact
        if value not in self.values:
            self.values.append(value)
        return value

    def same_fact(self, result: Value, source: Value) -> Value:
        return self.keep(result, self.facts[source])

    # -- parameters -----------------------------------------------------------------------

    def param(self) -> None:
        dtype = self.choose(self.dtypes)
        choices: list[Any] = [1, 2, 3, 4, 8]
        choices += [("symbol", i) for i in range(len(self.symbol_sizes))] * 3
        picks = [self.choose(choices) for _ in range(self.integer(0, 3))]
        value = self.builder.param(dtype, [None if isinstance(p, tuple) else p for p in picks])
        sizes = []
        for axis, pick in enumerate(picks):
            if not isinstance(pick, tuple):
                sizes.append(pick)
                continue
            index = pick[1]
            sizes.append(self.symbol_sizes[index])
            own = value.type.shape[axis]
            self.bindings[own] = self.symbol_sizes[index]
            if index in self.symbols:
                self.builder.same_dim(self.symbols[index], own, "sizes that belong together")
            else:
                self.symbols[index] = own
        self.inputs.append(self._data(dtype, sizes))
        self.keep(value, _param_fact(dtype))

    def element(self, value: int) -> sympy.Symbol:
        """A symbol for the element of a new i32[1] parameter, with this value."""
        param = self.builder.param(DType.I32, [1])
        self.inputs.append(np.array([value], np.int32))
        self.keep(param, Fact(abs(value)))
        content = self.builder.content(param)
        assert content is not None
        symbol = content[0]
        self.bindings[symbol] = value
        return symbol

    def _data(self, dtype: DType, sizes: list[int]) -> np.ndarray:
        if dtype is DType.BOOL:
            return np.asarray(self.random.random(sizes) < 0.5)
        if dtype.is_float:  # quarters in [-2, 2]
            return np.asarray(self.random.integers(-8, 9, sizes) / 4, dtype.numpy)
        lowest = -9 if dtype.is_signed else 0
        return np.asarray(self.random.integers(lowest, 10, sizes), dtype.numpy)

    def constant(self, dtype: DType, shape: Sequence[int] = ()) -> Value:
        return self.keep(
            self.builder.constant(self._data(dtype, list(shape)), dtype), _param_fact(dtype)
        )

    # -- results --------------------------------------------------------------------------

    def finish(self) -> Case:
        users = self.builder.program.users()
        leaves = [v for v in self.values if v.op is not None and not users[v]]
        results = leaves[-6:] or [self.values[-1]]
        if self.flag():
            results.append(self.choose(self.values))  # used inside too, or a parameter
        program = self.builder.finish(results)
        for symbol, source in program.symbols.items():
            array = self.inputs[source.param]
            expected = (
                array.shape[source.axis]
                if isinstance(source, InputDim)
                else int(array.flat[source.index])
            )
            assert self.bindings.get(symbol, expected) == expected
        return Case(program, self.inputs, [2 * self.facts[v].error for v in results])

    # -- facts ----------------------------------------------------------------------------

    def legal(self, dtype: DType, fact: Fact) -> bool:
        return not dtype.is_float or (fact.bound <= MAX_BOUND and fact.error <= MAX_ERROR)

    def exact(self, value: Value) -> bool:
        return self.facts[value].error == 0

    def rounded(self, dtype: DType, fact: Fact, ulps: float = 1) -> Fact:
        """The fact after rounding to dtype: integers wrap, floats keep their bits if they fit."""
        if dtype is DType.BOOL:
            return Fact(1)
        if not dtype.is_float:
            limit = float(np.iinfo(dtype.numpy).max)
            # Unsigned numbers wrap below zero too.
            return Fact(fact.bound if dtype.is_signed and fact.bound <= limit else limit + 1)
        if fact.error == 0 and fact.bound * 2.0**fact.grain < 2 ** _BITS[dtype]:
            return fact
        error = fact.error + ulps * _EPSILON[dtype] * (fact.bound + 2.0**-20)
        return Fact(fact.bound, error)


def _param_fact(dtype: DType) -> Fact:
    return Fact(2, 0, 2) if dtype.is_float else Fact(9)


# -- steps ----------------------------------------------------------------------------------


def _e(bound: float) -> float:
    return math.exp(min(bound, 99.0))


# Functions of floats: argument form, bound of the result, Lipschitz constant; both from the
# argument's bound. Forms: "any", "positive" (|x| + 0.5), "unit" (sin(x) / 2), "above one"
# (|x| + 1.5).
_FUNCTIONS: dict[str, tuple[str, Callable[[float], float], Callable[[float], float]]] = {
    "exp": ("any", _e, _e),
    "expm1": ("any", _e, _e),
    "log": ("positive", lambda b: max(math.log(b), 0.7), lambda b: 2),
    "log1p": ("positive", math.log1p, lambda b: 1),
    "sqrt": ("positive", math.sqrt, lambda b: 0.71),
    "rsqrt": ("positive", lambda b: 1.42, lambda b: 1.42),
    "sin": ("any", lambda b: 1, lambda b: 1),
    "cos": ("any", lambda b: 1, lambda b: 1),
    "tan": ("unit", lambda b: 0.55, lambda b: 1.31),
    "asin": ("unit", lambda b: 0.53, lambda b: 1.16),
    "acos": ("unit", lambda b: 2.1, lambda b: 1.16),
    "atan": ("any", lambda b: 1.58, lambda b: 1),
    "sinh": ("any", _e, _e),
    "cosh": ("any", _e, _e),
    "tanh": ("any", lambda b: 1, lambda b: 1),
    "asinh": ("any", math.asinh, lambda b: 1),
    "acosh": ("above one", math.acosh, lambda b: 0.9),
    "atanh": ("unit", lambda b: 0.55, lambda b: 1.34),
    "logistic": ("any", lambda b: 1, lambda b: 0.25),
    "erf": ("any", lambda b: 1, lambda b: 1.13),
    "erfc": ("any", lambda b: 2, lambda b: 1.13),
}


def _argument(m: _Maker, form: str, x: Value) -> Value:
    dtype, fact, b = x.type.dtype, m.facts[x], m.builder
    if form in ("positive", "above one"):
        offset = 0.5 if form == "positive" else 1.5
        result = b.add(b.unary("abs", x), b.constant(offset, dtype))
        moved = Fact(fact.bound + offset, fact.error, max(fact.grain, 1))
        return m.keep(result, m.rounded(dtype, moved))
    if form == "unit":
        result = b.mul(b.unary("sin", x), b.constant(0.5, dtype))
        return m.keep(result, Fact(0.5, fact.error + 4 * _EPSILON[dtype]))
    return x


def _function(m: _Maker) -> None:
    x = m.value(lambda v: v.type.dtype.is_float)
    if x is None:
        return
    kind = m.choose(sorted(_FUNCTIONS))
    form, bound_of, slope_of = _FUNCTIONS[kind]
    x = _argument(m, form, x)
    fact = m.facts[x]
    bound = bound_of(fact.bound)
    ulp = _EPSILON[x.type.dtype] * max(bound, 2.0**-20)
    result = Fact(bound * 1.001, slope_of(fact.bound) * fact.error + 4 * ulp)
    if m.legal(x.type.dtype, result):
        m.keep(m.builder.unary(kind, x), result)


def _simple_unary(m: _Maker) -> None:
    x = m.value()
    assert x is not None
    dtype, fact = x.type.dtype, m.facts[x]
    if dtype is DType.BOOL:
        m.keep(m.builder.unary("not", x), Fact(1))
        return
    kinds = ["neg", "abs"]
    if m.exact(x):
        kinds += ["sign", "floor", "ceil", "round"]
    kinds += ["is_finite", "is_inf", "is_nan"] if dtype.is_float else ["not"]
    kind = m.choose(kinds)
    if kind.startswith("is_"):
        fact = Fact(1)
    elif kind == "not":
        fact = m.rounded(dtype, Fact(fact.bound + 1))
    elif kind == "sign":
        fact = Fact(1)
    elif dtype.is_float and kind in ("floor", "ceil", "round"):
        fact = Fact(fact.bound + 1)
    else:
        fact = m.rounded(dtype, fact)
    m.keep(m.builder.unary(kind, x), fact)


def _broadcastable(m: _Maker, a: Value, b: Value) -> bool:
    x, y = m.shape(a), m.shape(b)
    pairs = zip(x[::-1], y[::-1], strict=False)
    if not all(n in (1, k) or k == 1 for n, k in pairs):
        return False
    return m.fits(m.builder.broadcast_shapes(x, y))


def _pair(m: _Maker, accept: Callable[[Value], bool]) -> tuple[Value, Value] | None:
    """Two values of one dtype that broadcast together."""
    a = m.value(accept)
    if a is None:
        return None
    if m.integer(0, 4) == 0:
        b = m.constant(a.type.dtype)
    else:
        found = m.value(
            lambda v: accept(v) and v.type.dtype is a.type.dtype and _broadcastable(m, a, v)
        )
        assert found is not None
        b = found
    return (a, b) if m.flag() else (b, a)


def _arithmetic(m: _Maker) -> None:
    pair = _pair(m, lambda v: v.type.dtype is not DType.BOOL)
    if pair is None:
        return
    (x, y), dtype = pair, pair[0].type.dtype
    a, b = m.facts[x], m.facts[y]
    kind = m.choose(["add", "sub", "mul", "max", "min"])
    grain = max(a.grain, b.grain)
    if kind == "mul":
        error = a.error * b.bound + b.error * a.bound
        fact = Fact(a.bound * b.bound, error, a.grain + b.grain)
    elif kind in ("max", "min"):
        fact = Fact(max(a.bound, b.bound), max(a.error, b.error), grain)
    else:
        fact = Fact(a.bound + b.bound, a.error + b.error, grain)
    fact = m.rounded(dtype, fact)
    if m.legal(dtype, fact):
        m.keep(m.builder.binary(kind, x, y), fact)


def _division(m: _Maker) -> None:
    pair = _pair(m, lambda v: v.type.dtype is not DType.BOOL)
    if pair is None:
        return
    (x, y), dtype = pair, pair[0].type.dtype
    a, b = m.facts[x], m.facts[y]
    if not dtype.is_float:
        if m.integer(0, 9):  # otherwise a zero refuses the run
            y = m.builder.binary("max", y, m.builder.constant(1, dtype))
        kind = m.choose(["div", "floor_div", "rem", "floor_mod"])
        m.keep(m.builder.binary(kind, x, y), m.rounded(dtype, Fact(max(a.bound, b.bound) + 1)))
        return
    if m.exact(x) and m.flag():
        # A power of two divides exactly, so that no evaluation jumps.
        divisor = m.builder.constant(m.choose([0.5, 2.0, -2.0]), dtype)
        kind = m.choose(["floor_div", "rem", "floor_mod"])
        fact = Fact(2 * a.bound + 1) if kind == "floor_div" else Fact(2, 0, max(a.grain, 1))
        if m.legal(dtype, fact) and a.bound * 2.0 ** (a.grain + 1) < 2 ** _BITS[dtype]:
            m.keep(m.builder.binary(kind, x, divisor), fact)
        return
    y = _argument(m, "positive", y)
    b = m.facts[y]
    fact = m.rounded(dtype, Fact(2 * a.bound, 2 * a.error + 4 * a.bound * b.error + 1e-30), 2)
    if m.legal(dtype, fact):
        m.keep(m.builder.binary("div", x, y), fact)


def _power(m: _Maker) -> None:
    x = m.value(lambda v: v.type.dtype is not DType.BOOL)
    if x is None:
        return
    dtype, fact = x.type.dtype, m.facts[x]
    exponent = m.choose([0, 1, 2, 3])
    bound = max(fact.bound, 1.0) ** exponent
    slope = exponent * max(fact.bound, 1.0) ** max(exponent - 1, 0)
    result = m.rounded(dtype, Fact(bound, slope * fact.error, fact.grain * exponent), 4)
    if m.legal(dtype, result):
        m.keep(m.builder.binary("pow", x, m.builder.constant(exponent, dtype)), result)


def _bitwise(m: _Maker) -> None:
    pair = _pair(m, lambda v: not v.type.dtype.is_float)
    if pair is None:
        return
    x, y = pair
    kinds = ["and", "or", "xor"]
    if x.type.dtype.is_integer:
        kinds += ["shift_left", "shift_right"]
    m.keep(m.builder.binary(m.choose(kinds), x, y), m.rounded(x.type.dtype, Fact(math.inf)))


def _compare(m: _Maker) -> None:
    pair = _pair(m, lambda v: v.type.dtype is not DType.BOOL and m.exact(v))
    if pair is not None:
        m.keep(m.builder.compare(m.choose(DIRECTIONS), *pair), Fact(1))


def _select(m: _Maker) -> None:
    predicate = m.value(lambda v: v.type.dtype is DType.BOOL)
    if predicate is None:
        _compare(m)
        return
    pair = _pair(m, lambda v: _broadcastable(m, predicate, v))
    if pair is None:
        return
    x, y = pair
    shape = m.builder.broadcast_shapes(*(m.shape(v) for v in (predicate, x, y)))
    if not m.fits(shape):
        return
    a, b = m.facts[x], m.facts[y]
    fact = Fact(max(a.bound, b.bound), max(a.error, b.error), max(a.grain, b.grain))
    m.keep(m.builder.select(predicate, x, y), m.rounded(x.type.dtype, fact, 0))


def _checked(m: _Maker) -> None:
    """A condition that always holds, but nobody knows."""
    x = m.value(lambda v: v.type.dtype is not DType.BOOL and m.exact(v))
    if x is not None:
        holds = m.builder.compare("LE", x, x)
        m.same_fact(m.builder.checked(x, holds), x)


def _convert(m: _Maker) -> None:
    x = m.value()
    assert x is not None
    dtype, fact = m.choose(list(DType)), m.facts[x]
    source = x.type.dtype
    if dtype is source:
        return
    if not dtype.is_float and not m.exact(x):
        return
    if source.is_float and dtype.is_integer:
        # Outside the type's range a conversion is not defined.
        x = m.builder.unary("abs", x)
        if fact.bound >= np.iinfo(dtype.numpy).max:
            return
        fact = Fact(fact.bound)
    result = m.rounded(dtype, fact)
    if m.legal(dtype, result):
        m.keep(m.builder.convert(x, dtype), result)


def _transpose(m: _Maker) -> None:
    x = m.value(lambda v: v.type.rank >= 2)
    if x is not None:
        perm = m.draw(st.permutations(range(x.type.rank)))
        m.same_fact(m.builder.transpose(x, perm), x)


def _reshape(m: _Maker) -> None:
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


def _slice(m: _Maker) -> None:
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


def _reverse(m: _Maker) -> None:
    x = m.value(lambda v: v.type.rank >= 1)
    if x is not None:
        dims = sorted(m.draw(st.sets(st.integers(0, x.type.rank - 1), min_size=1)))
        m.same_fact(m.builder.reverse(x, dims), x)


def _concatenate(m: _Maker) -> None:
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


def _pad(m: _Maker) -> None:
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


def _broadcast(m: _Maker) -> None:
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


def _reduce(m: _Maker) -> None:
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
        if dtype.is_float and math.prod(m.sizes(m.shape(x))) == 0:
            return
        result = m.rounded(dtype, fact, 0) if dtype.is_float else m.rounded(dtype, Fact(math.inf))
    elif kind == "prod":
        if count > 8 and dtype.is_float:
            return
        bound = max(fact.bound, 1.0)
        if dtype.is_float and bound**count > MAX_BOUND:
            return
        error = count * bound ** (count - 1) * fact.error if dtype.is_float else 0
        total = Fact(_e(count * math.log(bound)), error, fact.grain * count)
        result = m.rounded(dtype, total, count)
    else:
        result = m.rounded(dtype, Fact(count * fact.bound, count * fact.error, fact.grain), count)
    if m.legal(dtype, result):
        m.keep(m.builder.reduce(kind, x, dims), result)


def _gather(m: _Maker) -> None:
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


def _scan(m: _Maker) -> None:
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


def _top_k(m: _Maker) -> None:
    x = m.value(lambda v: v.type.rank >= 1 and v.type.dtype is not DType.BOOL and m.exact(v))
    if x is None:
        return
    last = m.shape(x)[-1]
    fewest = last if is_static(last) else 0
    if fewest:
        m.keep(m.builder.top_k(x, m.integer(1, min(fewest, 4))), Fact(fewest))


def _scatter(m: _Maker) -> None:
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


def _dot_general(m: _Maker) -> None:
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


def _iota(m: _Maker) -> None:
    pool: list[Dim] = [1, 2, 5, *m.symbols.values()]
    shape = tuple(m.choose(pool) for _ in range(m.integer(1, 2)))
    dtype = m.choose([DType.I32, DType.I64, DType.F32])
    m.keep(m.builder.iota(dtype, shape, m.integer(0, len(shape) - 1)), Fact(max(m.sizes(shape))))


def _shape_value(m: _Maker) -> None:
    x = m.value(lambda v: v.type.rank >= 1)
    if x is not None:
        dtype = m.choose([DType.I32, DType.I64])
        bound = max(m.sizes(m.shape(x)))
        m.keep(m.builder.shape_value(list(m.shape(x)), dtype), Fact(bound))


def _constant(m: _Maker) -> None:
    sizes = [m.choose([1, 2, 3]) for _ in range(m.integer(0, 2))]
    m.constant(m.choose(m.dtypes), sizes)


_STEPS: list[Callable[[_Maker], None]] = [
    *[_arithmetic] * 4,
    *[_function] * 3,
    *[_simple_unary] * 2,
    _division,
    _power,
    _bitwise,
    _compare,
    *[_select] * 2,
    _checked,
    _convert,
    *[_transpose] * 2,
    *[_reshape] * 2,
    *[_slice] * 2,
    _reverse,
    _concatenate,
    _pad,
    *[_broadcast] * 2,
    *[_reduce] * 2,
    _gather,
    _scan,
    _scatter,
    _top_k,
    *[_dot_general] * 2,
    _iota,
    _shape_value,
    _constant,
]


def with_special_values(case: Case, seed: int) -> Case:
    """The case with NaN, infinities and negative zero sprinkled over its float inputs; the
    tolerances mean nothing then."""
    random = np.random.default_rng(seed)
    special = [np.nan, np.inf, -np.inf, -0.0]
    inputs = []
    for array in case.inputs:
        if array.dtype.kind == "f" and array.size:
            array = array.copy()
            where = random.random(array.shape) < 0.4
            array[where] = random.choice(special, int(where.sum()))
        inputs.append(array)
    return replace(case, inputs=inputs)
