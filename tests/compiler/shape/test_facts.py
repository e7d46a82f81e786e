"""Relations between dims that must hold, and ones that must not be taken to hold."""

from __future__ import annotations

import random

import pytest
import sympy

from tf_blade.compiler.ir.dims import (
    FUNCTIONS,
    dimension_symbol,
    element_symbol,
    evaluate,
    floor_div,
    floor_mod,
)
from tf_blade.compiler.ir.parser import parse
from tf_blade.compiler.ir.program import Constraint, InputDim, InputElement, Program, Value
from tf_blade.compiler.ir.types import DType, TensorType
from tf_blade.compiler.shape import Bounds, Facts, divisor

A, B, C, D = (dimension_symbol(name) for name in "abcd")
E = element_symbol("e")


def facts(*constraints, symbols=(A, B, C, D)):
    x = Value("x", TensorType(DType.F32, symbols))
    program = Program("p", [x], symbols={s: InputDim(0, i) for i, s in enumerate(symbols)})
    program.constraints = [Constraint(kind, a, b, why) for kind, a, b, why in constraints]
    return Facts(program)


def eq(a, b):
    return ("eq", a, b, "a reshape keeps the size")


@pytest.mark.parametrize(
    "constraints,a,b",
    [
        ((), A * (B + 1), A * B + A),
        ((), 2 * A * B, B * (A + A)),
        ([eq(A * B, C)], A * B * D, C * D),
        ([eq(A * B, C)], A * B + 2, C + 2),
        ([eq(A * B, C), eq(C, D * D)], A * B, D * D),
        ([eq(A, B + C)], A * A, (B + C) ** 2),
        ([eq(floor_div(A, 4) * 4, A)], 8 * floor_div(A, 4), 2 * A),
        ([eq(A * B, 12), eq(B, 3)], 3 * A, 12),
    ],
)
def test_what_follows_from_the_constraints_is_equal(constraints, a, b):
    assert facts(*constraints).are_equal(a, b)


@pytest.mark.parametrize(
    "constraints,a,b",
    [
        ((), A, B),
        ((), A * B, A + B),
        ([eq(A * B, C)], A, C),
        ([eq(A * B, A * C)], B, C),  # not where A is 0
        ([eq(A * A, B * B)], A, B),  # not by algebra alone
        ([("le", A, B, "a bound")], A, B),
        ([eq(A, B)], A * C, B * D),
        ([eq(floor_div(A, 4) * 4, A)], A, 4),
        ((), floor_div(A, 2) * 2, A),
    ],
)
def test_what_does_not_follow_is_not(constraints, a, b):
    assert not facts(*constraints).are_equal(a, b)


@pytest.mark.parametrize(
    "dim,expected",
    [
        (12, 12),
        (0, 0),
        (A, 1),
        (64 * A, 64),
        (6 * A * B + 4 * C, 2),
        (8 * A * A, 8),
        (4 * floor_div(A, 3), 4),
        (64 * A + 1, 1),
    ],
)
def test_divisors_are_in_the_expression(dim, expected):
    assert divisor(dim) == expected


def test_constraints_tell_of_divisors():
    known = facts(eq(4 * floor_div(A, 4), A), eq(A, 6 * B), eq(C * D, 8 * B))
    assert known.divisor(A) == 12
    assert known.divisor(A * C) == 12 and known.divisor(A + 8) == 4
    assert known.divisor(C) == 1, "8 divides the product only"


@pytest.mark.parametrize(
    "constraints,dim,expected",
    [
        ((), A, Bounds(0, None)),
        ((), A + 3, Bounds(3, None)),
        ((), 7, Bounds(7, 7)),
        ((), floor_mod(E, 5), Bounds(0, 4)),
        ((), E, Bounds(None, None)),
        ((), A - B, Bounds(None, None)),
        ([("le", A, 9, "")], A, Bounds(0, 9)),
        ([("le", A, 9, "")], 2 * A + 1, Bounds(1, 19)),
        ([("le", 2, A, "")], A * B, Bounds(0, None)),
        ([("le", 2, A, ""), ("le", 3, B, "")], A * B, Bounds(6, None)),
        ([("le", A, 9, "")], floor_div(A, 4), Bounds(0, 2)),
        ([eq(A, 5)], A * A, Bounds(0, None)),
        ([("le", A, 9, ""), ("le", -3, E, "")], A * E, Bounds(None, None)),
        ([("le", A, 9, ""), ("le", -3, E, ""), ("le", E, 2, "")], A * E, Bounds(-27, 18)),
    ],
)
def test_bounds(constraints, dim, expected):
    assert facts(*constraints).bounds(dim) == expected


def test_what_is_said_holds_for_random_numbers():
    """Divisors and bounds of random expressions, tried out."""
    rng = random.Random(0)
    symbols = [A, B, C]
    for _ in range(200):
        dim = sympy.Integer(rng.randint(0, 9))
        for _ in range(rng.randint(1, 4)):
            term = rng.randint(-6, 6) * rng.choice(symbols) * rng.choice([*symbols, 1])
            if rng.random() < 0.3:
                function = FUNCTIONS[rng.choice(["floor_div", "floor_mod"])]
                term = function(sympy.sympify(term), sympy.Integer(rng.randint(1, 5)))
            dim = dim + rng.choice([1, 2, 4]) * term
        known = facts(("le", A, 7, ""), ("le", 1, B, ""), symbols=(A, B, C))
        multiple, bounds = known.divisor(dim), known.bounds(dim)
        for _ in range(10):
            values = {A: rng.randint(0, 7), B: rng.randint(1, 9), C: rng.randint(0, 20)}
            number = evaluate(dim, values)
            assert number == 0 if multiple == 0 else number % multiple == 0, (dim, values)
            assert bounds.low is None or bounds.low <= number, (dim, values)
            assert bounds.high is None or number <= bounds.high, (dim, values)


def test_a_computed_size_is_bounded():
    program = parse(
        """program p(%x: bool[6]) -> (%2) {
          symbol n = size(%1, 6)
          %0: i64[6] = convert(%x, dtype=i64)
          %1: i64[] = reduce(%0, kind=sum, dims=[0])
          %2: i64[n] = positions(%x, shape=[n])
        }"""
    )
    (n,) = program.symbols
    known = Facts(program)
    assert known.bounds(n) == Bounds(0, 6)
    assert known.bounds(2 * n + 1) == Bounds(1, 13)
    assert str(known) == "0 <= n <= 6: what %1 is, at most 6"


def test_the_text_tells_all():
    x, n = Value("x", TensorType(DType.F32, (A, B))), Value("n", TensorType(DType.I32, ()))
    program = Program("p", [x, n])
    program.symbols = {A: InputDim(0, 0), B: InputDim(0, 1), E: InputElement(1, 0)}
    program.constraints = [
        Constraint("eq", 4 * floor_div(A, 4), A, "Reshape: reshape keeps the size"),
        Constraint("le", B, 100, "there are k elements"),
    ]
    assert str(Facts(program)).splitlines() == [
        "0 <= a: dim 0 of %x, a multiple of 4",
        "0 <= b <= 100: dim 1 of %x",
        "e: element 0 of %n",
        "4*floor_div(a, 4) = a: Reshape: reshape keeps the size",
        "b <= 100: there are k elements",
    ]


def test_a_dim_is_likely_where_all_of_its_symbols_are():
    known = facts()
    known.program.likely = {A: 6, B: 4}
    assert known.likely(A * B + floor_div(A, 4)) == 25
    assert known.likely(7) == 7
    assert known.likely(A * C) is None
    assert "0 <= a: dim 0 of %x, likely 6" in str(known)
