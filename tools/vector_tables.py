"""Makes the coefficients of tf_blade/compiler/emit/prelude/tables.h.

    python tools/vector_tables.py > tf_blade/compiler/emit/prelude/tables.h

A function is cut into 32 pieces; x belongs to the piece whose number is nearest to
x * (slope + bend * x). In each it is a polynomial of the distance from a base, a float at which the
function is nearly a float, so that the constant term has no error of its own. The base is the end
at which the function is smaller: there terms have one sign, and where they cancelled, an error of
theirs would be a large part of the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

PIECES = 32
_POINTS = 801
_REFINEMENTS = 40  # of the weights that make a least-squares fit a minimax one
_NEIGHBOURS = 300  # floats around the end of a piece among which its base is chosen
_PER_LINE = 6


@dataclass(frozen=True)
class Table:
    """first: the first piece's number. falling: the function is smaller at the right end of each
    piece; else at the end nearer to 0, and it is odd: x plus a polynomial in the piece around 0.
    """

    name: str
    function: Callable[[np.ndarray], np.ndarray]
    slope: float
    first: int
    degree: int
    bend: float = 0.0
    falling: bool = False

    def inverse(self, number: float) -> float:
        """The x with x * (slope + bend * x) = number."""
        root = math.sqrt(self.slope**2 + 4 * self.bend * number)
        return 2 * number / (self.slope + root)


TABLES = (
    Table("tanh", np.tanh, 1.6, -16, 7),
    Table("erf", np.vectorize(math.erf, otypes=[np.float64]), 3.75, -16, 5),
    Table("erfc", np.vectorize(math.erfc, otypes=[np.float64]), 4.125, -9, 6, 0.4375, True),
)


def rows(table: Table) -> np.ndarray:
    """f32 [degree + 2, 32]: the bases, then the terms, of piece n in column n modulo 32."""
    found = np.zeros((table.degree + 2, PIECES), np.float32)
    for n in range(table.first, table.first + PIECES):
        found[:, n % PIECES] = _piece(table, n)
    return found


def _piece(table: Table, n: int) -> list[np.float32]:
    low, high = table.inverse(n - 0.5), table.inverse(n + 0.5)
    around_zero = n == 0 and not table.falling
    if around_zero:
        base, powers = np.float32(0), range(1, table.degree + 1, 2)
    else:
        base, powers = _base(table, n, low, high), range(1, table.degree + 1)
    turns = np.cos(np.pi * (np.arange(_POINTS) + 0.5) / _POINTS)
    x = (low + high) / 2 + (high - low) / 2 * turns
    distance = x - float(base)
    exact = table.function(x)
    constant = np.float32(table.function(np.array([float(base)]))[0])
    rest = exact - (x if around_zero else float(constant))
    terms = np.zeros(table.degree + 1, np.float32)
    terms[0] = constant
    if (exact.astype(np.float32) == constant).all():
        return [base, *terms]
    # The lowest term is rounded first, and the others are fitted to what is left.
    for i, power in enumerate(powers):
        terms[power] = _minimax(distance, powers[i:], rest / exact, exact)[0]
        if around_zero and power == 1:
            terms[power] = max(terms[power], 0)  # or -0 would give 0
        rest = rest - float(terms[power]) * distance**power
    return [base, *terms]


def _base(table: Table, n: int, low: float, high: float) -> np.float32:
    """The float at an end of the piece whose function is nearest to a float."""
    if n < 0 and not table.falling:
        return -_base(table, -n, -high, -low)  # odd as the function is
    end = np.float32(high if table.falling else low)
    around = np.arange(-_NEIGHBOURS, _NEIGHBOURS + 1, dtype=np.int32)
    floats = (end.view(np.int32) + around).view(np.float32)
    values = table.function(floats.astype(np.float64))
    rounded = values.astype(np.float32)
    return floats[np.argmin(np.abs(values - rounded) / np.spacing(np.abs(rounded)))]


def _minimax(
    distance: np.ndarray, powers: range, target: np.ndarray, scale: np.ndarray
) -> np.ndarray:
    """Coefficients of those powers with the least relative error (Lawson's iteration)."""
    terms = np.stack([distance**power for power in powers], 1) / scale[:, None]
    size = np.abs(terms).max(0)
    weights = np.ones(len(distance))
    for _ in range(_REFINEMENTS):
        root = np.sqrt(weights)
        found = np.linalg.lstsq(terms / size * root[:, None], target * root, rcond=None)[0]
        weights = weights * np.abs(terms / size @ found - target)
        weights /= weights.sum()
    return found / size


def _text(table: Table) -> str:
    lines = [f"//@ {table.name}_table:", "alignas(64) static constexpr f32"]
    lines.append(f"    {table.name.upper()}_TABLE[{table.degree + 2}][{PIECES}] = {{")
    for row in rows(table):
        numbers = [f"{float(v):.9g}" for v in row]
        floats = [f"{v}f" if "." in v or "e" in v else f"{v}.0f" for v in numbers]
        groups = [floats[i : i + _PER_LINE] for i in range(0, PIECES, _PER_LINE)]
        text = ",\n         ".join(", ".join(group) for group in groups)
        lines.append(f"        {{{text}}},")
    return "\n".join([*lines, "};"])


def main() -> None:
    print("// Made by tools/vector_tables.py: bases of pieces of a function, and polynomials.")
    print("// clang-format off")
    for table in TABLES:
        print(f"\n{_text(table)}")


if __name__ == "__main__":
    main()
