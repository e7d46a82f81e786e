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

from collections.abc import Callable, Sequence

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.compiler.random_programs import combining, elementwise, movement
from tests.compiler.random_programs.case import Case, with_special_values
from tests.compiler.random_programs.maker import DTYPES, Maker
from tf_blade.compiler.ir.types import DType

__all__ = ["STEPS", "Case", "cases", "drawn", "with_special_values"]

# One is chosen again and again; those listed twice come twice as often.
STEPS: list[Callable[[Maker], None]] = [
    *[elementwise.arithmetic] * 4,
    *[elementwise.function] * 3,
    *[elementwise.simple_unary] * 2,
    elementwise.division,
    elementwise.power,
    elementwise.bitwise,
    elementwise.compare,
    *[elementwise.select] * 2,
    elementwise.checked,
    elementwise.convert,
    elementwise.round_to_half,
    *[movement.transpose] * 2,
    *[movement.reshape] * 2,
    *[movement.slice] * 2,
    movement.reverse,
    movement.concatenate,
    movement.pad,
    *[movement.broadcast] * 2,
    *[combining.reduce] * 2,
    combining.gather,
    combining.scan,
    combining.scatter,
    combining.top_k,
    *[combining.dot_general] * 2,
    combining.conv,
    combining.fourier,
    combining.iota,
    combining.shape_value,
    combining.constant,
]


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
    maker = Maker(draw, dtypes, empty_dims)
    for _ in range(draw(st.integers(1, 4))):
        maker.param()
    for _ in range(draw(st.integers(min_ops, max_ops))):
        draw(st.sampled_from(STEPS))(maker)
    return maker.finish()


def drawn(number: int, count: int) -> list[Case]:
    """`count` cases, the same each time for a `number`, so that their code comes from the cache."""
    found: list[Case] = []

    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(cases())
    def collect(case: Case) -> None:
        found.append(case)

    collect()
    return found
