"""A program that grows step by step, with what is known of its values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy
from hypothesis import strategies as st

from tests.compiler.random_programs.case import Case
from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.dims import Shape, evaluate
from tf_blade.compiler.ir.program import ComputedSize, InputDim, Value
from tf_blade.compiler.ir.types import DType

MAX_SIZE = 4000  # elements in any one tensor
MAX_RANK = 4
MAX_BOUND = 1e4
MAX_ERROR = 1e-2
DTYPES = (DType.F32, DType.F32, DType.F32, DType.F64, DType.I32, DType.I64, DType.U8, DType.BOOL)
EPSILON = {DType.F32: 2.0**-23, DType.F64: 2.0**-52, DType.F16: 2.0**-10, DType.BF16: 2.0**-7}
BITS = {DType.F32: 24, DType.F64: 53, DType.F16: 11, DType.BF16: 8}
INTEGERS = tuple(d for d in DType if d.is_integer)


@dataclass(frozen=True)
class Fact:
    """What is known of a tensor's elements: |x| <= bound, any two correct evaluations differ by
    <= error, and, when error is 0 and x is a float, x is a multiple of 2**-grain."""

    bound: float
    error: float = 0.0
    grain: int = 0


class Maker:
    """A program that grows by one step at a time, with the concrete sizes it will run at."""

    # Whether every correct evaluation of a power is exact where the result can be.
    exact_powers = True

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

    def may_be_empty(self, value: Value) -> bool:
        """Whether the tensor may have no elements in a run."""
        return 0 in self.sizes(self.shape(value))

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
        while math.prod(self._size(p) for p in picks) > MAX_SIZE:
            picks.pop()
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
        self.inputs.append(param_data(self.random, dtype, sizes))
        self.keep(value, param_fact(dtype))

    def _size(self, pick: Any) -> int:
        return self.symbol_sizes[pick[1]] if isinstance(pick, tuple) else int(pick)

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

    def constant(self, dtype: DType, shape: Sequence[int] = ()) -> Value:
        data = param_data(self.random, dtype, list(shape))
        return self.keep(self.builder.constant(data, dtype), param_fact(dtype))

    # -- results --------------------------------------------------------------------------

    def finish(self) -> Case:
        users = self.builder.program.users()
        leaves = [v for v in self.values if v.op is not None and not users[v]]
        results = leaves[-6:] or [self.values[-1]]
        if self.flag():
            results.append(self.choose(self.values))  # used inside too, or a parameter
        program = self.builder.finish(results)
        for symbol, source in program.symbols.items():
            if isinstance(source, ComputedSize):
                continue
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
        if dtype not in BITS:
            limit = float(np.iinfo(dtype.numpy).max)
            # Unsigned numbers wrap below zero too.
            return Fact(fact.bound if dtype.is_signed and fact.bound <= limit else limit + 1)
        if ulps == 0 or (fact.error == 0 and fact.bound * 2.0**fact.grain < 2 ** BITS[dtype]):
            return fact
        error = fact.error + ulps * EPSILON[dtype] * (fact.bound + 2.0**-20)
        return Fact(fact.bound, error)


def param_data(random: np.random.Generator, dtype: DType, sizes: Sequence[int]) -> np.ndarray:
    """Elements for a parameter; `param_fact` is true of them."""
    if dtype is DType.BOOL:
        return np.asarray(random.random(sizes) < 0.5)
    if dtype.is_float:  # quarters in [-2, 2]
        return np.asarray(random.integers(-8, 9, sizes) / 4, dtype.numpy)
    lowest = -9 if dtype.is_signed else 0
    return np.asarray(random.integers(lowest, 10, sizes), dtype.numpy)


def param_fact(dtype: DType) -> Fact:
    return Fact(2, 0, 2) if dtype.is_float else Fact(9)


def capped_exp(bound: float) -> float:
    """exp(bound), or something that is beyond every limit."""
    return math.exp(min(bound, 99.0))
