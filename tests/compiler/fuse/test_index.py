"""Index algebra: simplified expressions have the value of what they simplify."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_blade.compiler.fuse.index import (
    ZERO,
    Affine,
    LoopVar,
    Quotient,
    Remainder,
    constant,
    divide,
    linear,
    make,
    reshape_index,
    substitute,
    variable,
)
from tf_blade.compiler.ir.dims import Dim, dimension_symbol, evaluate

S, T = dimension_symbol("s"), dimension_symbol("t")


def value(x: Affine, loops: dict[LoopVar, int]) -> int:
    total = evaluate(x.const, {})
    for atom, coefficient in x.terms:
        if isinstance(atom, LoopVar):
            part = loops[atom]
        else:
            assert isinstance(atom, Quotient | Remainder)
            of, by = value(atom.of, loops), evaluate(atom.by, {})
            part = of // by if isinstance(atom, Quotient) else of % by
        total += part * evaluate(coefficient, {})
    return total


i, j, k = LoopVar("i", S), LoopVar("j", T), LoopVar("k", 6)


def test_equal_terms_are_collected():
    x = variable(i).times(3) + variable(j) + variable(i).times(-3) + constant(4)
    assert x == variable(j).plus(4)


def test_a_loop_of_one_iteration_is_zero():
    assert variable(LoopVar("i", 1)) == ZERO


def test_a_quotient_and_its_remainder_make_the_whole():
    x = variable(i)
    quotient, remainder = divide(x, 4)
    assert quotient.times(4) + remainder == x
    assert quotient.times(4 * T) + remainder.times(T) == x.times(T)


def test_dividing_a_position_by_the_inner_size_gives_the_indices_back():
    position = variable(i).times(T) + variable(j)
    assert divide(position, T) == (variable(i), variable(j))


def test_division_keeps_what_may_reach_the_divisor():
    quotient, remainder = divide(variable(i) + variable(k), 6)
    assert quotient.terms and remainder.terms  # i + k may be 6 or more


def test_reshape_to_the_same_dims_changes_nothing():
    index = (variable(i), ZERO, variable(j))
    assert reshape_index(index, (S, 1, T), (S, T)) == (variable(i), variable(j))
    assert reshape_index((variable(i), variable(j)), (S, T), (1, S, T)) == (
        ZERO,
        variable(i),
        variable(j),
    )


def test_reshape_that_splits_a_dim_is_affine():
    index = (variable(i), variable(LoopVar("a", 2)), variable(LoopVar("b", 3)))
    (row, column) = reshape_index(index, (S, 2, 3), (S, 6))
    assert row == variable(i)
    assert column == variable(LoopVar("a", 2)).times(3) + variable(LoopVar("b", 3))


def test_reshape_there_and_back_is_the_identity():
    flat = LoopVar("f", S * T)
    (row, column) = reshape_index((variable(flat),), (S * T,), (S, T))
    assert reshape_index((row, column), (S, T), (S * T,)) == (variable(flat),)
    assert linear((row, column), (S, T)) == variable(flat)


def shapes_of(size: int) -> list[tuple[int, ...]]:
    def factorings(n: int, most: int) -> list[tuple[int, ...]]:
        found: list[tuple[int, ...]] = [(n,)]
        if most > 1:
            for first in range(1, n + 1):
                if n % first == 0:
                    found += [(first, *rest) for rest in factorings(n // first, most - 1)]
        return found

    return sorted(set(factorings(size, 4)))


@pytest.mark.parametrize("size", [1, 4, 6, 12, 24])
def test_reshape_finds_the_same_element(size: int):
    rng = np.random.default_rng(size)
    shapes = shapes_of(size)
    for _ in range(60):
        shape, source = (shapes[int(rng.integers(len(shapes)))] for _ in range(2))
        loops = tuple(LoopVar(f"i{n}", extent) for n, extent in enumerate(shape))
        index = reshape_index(tuple(variable(v) for v in loops), shape, source)
        array = np.arange(math.prod(source)).reshape(source)
        for at in itertools.product(*map(range, shape)):
            where = dict(zip(loops, at, strict=True))
            place = tuple(value(x, where) for x in index)
            assert array[place] == array.reshape(shape)[at], (shape, source, at)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(-3, 12)), max_size=4),
    st.integers(0, 40),
    st.integers(1, 9),
)
def test_division_is_exact_where_the_expression_is_not_negative(
    terms: list[tuple[int, int]], const: int, by: int
):
    loops = [LoopVar("a", 3), LoopVar("b", 4), LoopVar("c", 5)]
    x = make([(loops[n], c) for n, c in terms], const)
    quotient, remainder = divide(x, by)
    for at in itertools.product(range(3), range(4), range(5)):
        where = dict(zip(loops, at, strict=True))
        whole = value(x, where)
        if whole >= 0:
            assert value(quotient, where) == whole // by
            assert value(remainder, where) == whole % by


def test_merging_loops_drops_the_outer_one():
    joined = LoopVar("j", S * T)
    x = variable(i).times(T) + variable(j)
    assert substitute(x, {i: None, j: joined}) == variable(joined)


def test_bounds_use_the_extents():
    extents: list[Dim] = [S, 6]
    assert variable(i).is_below(extents[0])
    assert not variable(i).is_below(6)
    assert (variable(k).times(2) + constant(1)).is_below(12)
    assert not variable(k).times(2).plus(2).is_below(12)
