"""What is known of a program's dims beyond their expressions.

    facts = Facts(program)
    facts.are_equal(a * b, c)   # by the algebra, or because a constraint says so
    facts.divisor(n)            # n is a multiple of this
    facts.bounds(n)             # the least and the greatest that n can be
    facts.likely(n)             # what n is in the sample inputs
    print(facts)                # a line a symbol and a constraint

Everything but likely values follows from what the executable checks before it runs: a constraint
that doesn't hold refuses the run. Dims that ops have shown to be equal are one expression in a
program already; what is left are relations between products and sums, as a reshape with unknown
dims leaves them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import gcd

import sympy

from tf_blade.compiler.ir.dims import (
    Dim,
    FloorDiv,
    FloorMod,
    evaluate,
    simplify,
    symbols_of,
    to_text,
)
from tf_blade.compiler.ir.program import ComputedSize, Constraint, InputDim, Program

# More equations than this are taken one by one: a basis of their ideal may take long to compute.
_MOST_EQUATIONS = 8


@dataclass(frozen=True)
class Bounds:
    """low <= dim <= high; None where there is no bound."""

    low: int | None
    high: int | None


def divisor(dim: Dim, known: Mapping[sympy.Symbol, int] | None = None) -> int:
    """An integer that the dim is a multiple of, whatever its symbols are; 0 for 0.

    Args:
      known: divisors of symbols.
    """
    if isinstance(dim, int):
        return abs(dim)
    found = 0
    for term in sympy.Add.make_args(sympy.expand(dim)):
        coefficient, factors = term.as_coeff_mul()
        part = abs(int(coefficient))
        for factor in factors:
            base, power = factor.as_base_exp()
            part *= (known or {}).get(base, 1) ** int(power)
        found = gcd(found, part)
    return found


@dataclass
class Facts:
    """The facts of a program."""

    program: Program
    _unknown: dict[sympy.Expr, sympy.Symbol] = field(default_factory=dict, init=False, repr=False)

    # -- equality -------------------------------------------------------------------------

    def are_equal(self, a: Dim, b: Dim) -> bool:
        """Whether the two are the same number in every run that isn't refused, as far as known."""
        difference = self._polynomial(simplify(sympy.sympify(a) - sympy.sympify(b)))
        if difference == 0:
            return True
        for basis in self._bases:
            if difference.free_symbols & set(basis.gens):
                symbols = sorted(difference.free_symbols | set(basis.gens), key=str)
                _, difference = sympy.reduced(difference, basis.exprs, *symbols, order="grevlex")
        return bool(difference == 0)

    @cached_property
    def _bases(self) -> list[sympy.GroebnerBasis]:
        """Of the ideals that the equations span: a difference in one of them is 0."""
        equations = [
            self._polynomial(simplify(sympy.sympify(c.left) - sympy.sympify(c.right)))
            for c in self.program.constraints
            if c.kind == "eq"
        ]
        equations = [e for e in equations if e.free_symbols]
        together = [equations] if len(equations) <= _MOST_EQUATIONS else [[e] for e in equations]
        return [sympy.groebner(group, order="grevlex") for group in together if group]

    def _polynomial(self, dim: Dim) -> sympy.Expr:
        """The dim with a symbol in place of each function, which equations may know."""
        expression = sympy.sympify(dim)
        functions = sorted(expression.atoms(sympy.Function), key=str)
        for function in functions:
            name = f"_{len(self._unknown)}"
            self._unknown.setdefault(function, sympy.Symbol(name, integer=True))
        return sympy.expand(expression.xreplace({f: self._unknown[f] for f in functions}))

    # -- divisors -------------------------------------------------------------------------

    def divisor(self, dim: Dim) -> int:
        """An integer that the dim is a multiple of."""
        return divisor(dim, self._divisors)

    @cached_property
    def _divisors(self) -> dict[sympy.Symbol, int]:
        """Of symbols that are equal to an expression: s0 == 4 * floor_div(s0, 4)."""
        found: dict[sympy.Symbol, int] = {}
        for constraint in self.program.constraints:
            for symbol, other in _sides(constraint):
                if constraint.kind == "eq" and isinstance(symbol, sympy.Symbol):
                    found[symbol] = _least_common(found.get(symbol, 1), divisor(other))
        return found

    # -- bounds ---------------------------------------------------------------------------

    def bounds(self, dim: Dim) -> Bounds:
        """The least and the greatest that the dim can be."""
        return self._bounds(sympy.sympify(dim), own=True)

    def _bounds(self, dim: sympy.Expr, own: bool) -> Bounds:
        """own: constraints count, too."""
        if dim.is_Integer:
            return Bounds(int(dim), int(dim))
        low, high = (0 if dim.is_nonnegative else None), None
        if dim.is_positive:
            low = 1
        if dim.is_Add or dim.is_Mul:
            parts = [self._bounds(part, own) for part in dim.args]
            found = _sum(parts) if dim.is_Add else _product(parts)
            low, high = _larger(low, found.low), found.high
        elif isinstance(dim, FloorMod) and dim.args[1].is_Integer and dim.args[1] > 0:
            low, high = 0, int(dim.args[1]) - 1
        elif isinstance(dim, FloorDiv) and dim.args[1].is_Integer and dim.args[1] > 0:
            inside = self._bounds(dim.args[0], own)
            by = int(dim.args[1])
            low = _larger(low, None if inside.low is None else inside.low // by)
            high = None if inside.high is None else inside.high // by
        source = self.program.symbols.get(dim)
        if isinstance(source, ComputedSize):
            high = self._bounds(sympy.sympify(source.at_most), own).high
        for constraint in self.program.constraints if own else []:
            for side, other in _sides(constraint):
                if side != dim:
                    continue
                known = self._bounds(sympy.sympify(other), own=False)
                if constraint.kind == "eq" or side is constraint.left:
                    high = _smaller(high, known.high)
                if constraint.kind == "eq" or side is constraint.right:
                    low = _larger(low, known.low)
        return Bounds(low, high)

    # -- likely values --------------------------------------------------------------------

    def likely(self, dim: Dim) -> int | None:
        """What the dim is likely to be; None where that isn't known of all of its symbols."""
        likely = self.program.likely
        return evaluate(dim, likely) if symbols_of(dim) <= likely.keys() else None

    # -- text -----------------------------------------------------------------------------

    def __str__(self) -> str:
        lines = []
        for symbol, source in self.program.symbols.items():
            if isinstance(source, ComputedSize):
                meaning = f"what {source.value} is, at most {to_text(source.at_most)}"
            elif isinstance(source, InputDim):
                meaning = f"dim {source.axis} of {self.program.params[source.param]}"
            else:
                meaning = f"element {source.index} of {self.program.params[source.param]}"
            known = self.bounds(symbol)
            low = "" if known.low is None else f"{known.low} <= "
            high = "" if known.high is None else f" <= {known.high}"
            multiple = self.divisor(symbol)
            more = f", a multiple of {multiple}" if multiple > 1 else ""
            if symbol in self.program.likely:
                more += f", likely {self.program.likely[symbol]}"
            lines.append(f"{low}{symbol}{high}: {meaning}{more}")
        for constraint in self.program.constraints:
            sign = "=" if constraint.kind == "eq" else "<="
            left, right = to_text(constraint.left), to_text(constraint.right)
            lines.append(f"{left} {sign} {right}: {constraint.reason}")
        return "\n".join(lines)


def _sides(constraint: Constraint) -> tuple[tuple[Dim, Dim], tuple[Dim, Dim]]:
    return (constraint.left, constraint.right), (constraint.right, constraint.left)


def _least_common(a: int, b: int) -> int:
    return a * b // gcd(a, b) if a and b else 0


def _sum(parts: list[Bounds]) -> Bounds:
    low = None if any(p.low is None for p in parts) else sum(p.low or 0 for p in parts)
    high = None if any(p.high is None for p in parts) else sum(p.high or 0 for p in parts)
    return Bounds(low, high)


def _product(parts: list[Bounds]) -> Bounds:
    low, high = parts[0].low, parts[0].high
    for part in parts[1:]:
        ends = [low, high, part.low, part.high]
        if any(end is None for end in ends):
            known = low is not None and part.low is not None and min(low, part.low) >= 0
            low, high = (low * part.low if known else None), None  # type: ignore[operator]
        else:
            products = [x * y for x in (low, high) for y in (part.low, part.high)]  # type: ignore[operator]
            low, high = min(products), max(products)
    return Bounds(low, high)


def _larger(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else max(a, b)


def _smaller(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else min(a, b)
