"""Symbolic dimensions.

A `Dim` is a Python int, or a sympy expression over integer symbols. Symbols stand for what is
known only when a request arrives: a dimension of an input, or an element of a small integer
input (a shape computed elsewhere). The language of expressions is closed: + and * with integer
coefficients, and the functions below. Each has the meaning of the integer operation of its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import sympy

Dim: TypeAlias = int | sympy.Expr
Shape: TypeAlias = tuple[Dim, ...]


class FloorDiv(sympy.Function):
    """floor(a / b); b is not zero."""

    nargs = 2
    is_integer = True

    @classmethod
    def eval(cls, a: sympy.Expr, b: sympy.Expr) -> sympy.Expr | None:
        if a.is_Integer and b.is_Integer and b != 0:
            return sympy.Integer(int(a) // int(b))
        if b == 1 or a == 0:
            return a
        # (b * c) // b -> c, the case a reshape back and forth makes.
        quotient = sympy.cancel(a / b)
        if (
            quotient.is_polynomial()
            and all(c.is_Integer for c in sympy.Poly(quotient, *quotient.free_symbols).coeffs())
            if quotient.free_symbols and not quotient.atoms(sympy.Function)
            else quotient.is_Integer
        ):
            return sympy.expand(quotient)
        return None

    def _eval_is_nonnegative(self) -> bool | None:
        a, b = self.args
        return True if a.is_nonnegative and b.is_nonnegative else None


class FloorMod(sympy.Function):
    """a - b * floor(a / b)."""

    nargs = 2
    is_integer = True

    @classmethod
    def eval(cls, a: sympy.Expr, b: sympy.Expr) -> sympy.Expr | None:
        if a.is_Integer and b.is_Integer and b != 0:
            return sympy.Integer(int(a) % int(b))
        if b == 1 or a == 0 or a == b:
            return sympy.Integer(0)
        return None

    def _eval_is_nonnegative(self) -> bool | None:
        return True if self.args[1].is_nonnegative else None


class Larger(sympy.Function):
    """max(a, b)."""

    nargs = 2
    is_integer = True

    @classmethod
    def eval(cls, a: sympy.Expr, b: sympy.Expr) -> sympy.Expr | None:
        difference = a - b
        if difference.is_nonnegative:
            return a
        if difference.is_nonpositive:
            return b
        return None

    def _eval_is_nonnegative(self) -> bool | None:
        return True if any(x.is_nonnegative for x in self.args) else None

    def _eval_is_positive(self) -> bool | None:
        return True if any(x.is_positive for x in self.args) else None


class Smaller(sympy.Function):
    """min(a, b)."""

    nargs = 2
    is_integer = True

    @classmethod
    def eval(cls, a: sympy.Expr, b: sympy.Expr) -> sympy.Expr | None:
        difference = a - b
        if difference.is_nonnegative:
            return b
        if difference.is_nonpositive:
            return a
        return None

    def _eval_is_nonnegative(self) -> bool | None:
        return True if all(x.is_nonnegative for x in self.args) else None

    def _eval_is_positive(self) -> bool | None:
        return True if all(x.is_positive for x in self.args) else None


class IfNegative(sympy.Function):
    """b if a < 0 else c."""

    nargs = 3
    is_integer = True

    @classmethod
    def eval(cls, a: sympy.Expr, b: sympy.Expr, c: sympy.Expr) -> sympy.Expr | None:
        if a.is_negative:
            return b
        if a.is_nonnegative:
            return c
        return None

    def _eval_is_nonnegative(self) -> bool | None:
        a, b, c = self.args
        return True if b.is_nonnegative and (c.is_nonnegative or c == a) else None


FUNCTIONS: dict[str, type[sympy.Function]] = {
    "floor_div": FloorDiv,
    "floor_mod": FloorMod,
    "max": Larger,
    "min": Smaller,
    "if_negative": IfNegative,
}
_NAMES = {function: name for name, function in FUNCTIONS.items()}


def dimension_symbol(name: str) -> sympy.Symbol:
    """A symbol for a dimension: an integer >= 0."""
    return sympy.Symbol(name, integer=True, nonnegative=True)


def element_symbol(name: str) -> sympy.Symbol:
    """A symbol for an element of an integer input: any integer."""
    return sympy.Symbol(name, integer=True)


def simplify(dim: Dim) -> Dim:
    """The canonical form: sums of products expanded, plain integers as int."""
    if isinstance(dim, int | sympy.Symbol):
        return dim
    expanded = sympy.expand(sympy.sympify(dim))
    return int(expanded) if expanded.is_Integer else expanded


def product(dims: Shape | list[Dim]) -> Dim:
    result: Dim = 1
    for dim in dims:
        result = result * dim
    return simplify(result)


def floor_div(a: Dim, b: Dim) -> Dim:
    return simplify(FloorDiv(sympy.sympify(a), sympy.sympify(b)))


def ceil_div(a: Dim, b: Dim) -> Dim:
    return floor_div(a + b - 1, b)


def floor_mod(a: Dim, b: Dim) -> Dim:
    return simplify(FloorMod(sympy.sympify(a), sympy.sympify(b)))


def larger(a: Dim, b: Dim) -> Dim:
    return simplify(Larger(sympy.sympify(a), sympy.sympify(b)))


def smaller(a: Dim, b: Dim) -> Dim:
    return simplify(Smaller(sympy.sympify(a), sympy.sympify(b)))


def if_negative(a: Dim, b: Dim, c: Dim) -> Dim:
    return simplify(IfNegative(sympy.sympify(a), sympy.sympify(b), sympy.sympify(c)))


def is_static(dim: Dim) -> bool:
    return isinstance(dim, int)


def symbols_of(dim: Dim) -> set[sympy.Symbol]:
    return set() if isinstance(dim, int) else set(dim.free_symbols)


def substitute(dim: Dim, mapping: Mapping[sympy.Symbol, Dim]) -> Dim:
    if isinstance(dim, int) or not mapping or not (dim.free_symbols & mapping.keys()):
        return dim
    return simplify(dim.subs(mapping, simultaneous=True))


def evaluate(dim: Dim, values: Mapping[sympy.Symbol, int]) -> int:
    """The dimension's value; `values` binds every symbol in it."""
    if isinstance(dim, int):
        return dim
    result = dim.subs(dict(values))
    if not result.is_Integer:
        raise ValueError(f"dimension {to_text(dim)} has unbound symbols")
    return int(result)


def to_text(dim: Dim) -> str:
    """Infix text: `2*s0 + floor_div(s1, 4)`. Also valid C for + and *; see emit for functions."""
    if isinstance(dim, int):
        return str(dim)
    if dim.is_Integer:
        return str(int(dim))
    if dim.is_Symbol:
        return str(dim.name)
    if dim.is_Add:
        terms = [to_text(a) for a in dim.as_ordered_terms()]
        text = terms[0]
        for term in terms[1:]:
            text += f" - {term[1:]}" if term.startswith("-") else f" + {term}"
        return text
    if dim.is_Mul:
        coefficient, rest = dim.as_coeff_mul()
        factors = [f"({to_text(a)})" if a.is_Add else to_text(a) for a in rest]
        if coefficient == -1:
            return "-" + "*".join(factors)
        if coefficient != 1:
            factors.insert(0, str(int(coefficient)))
        return "*".join(factors)
    if dim.is_Pow and dim.exp.is_Integer and dim.exp > 0:
        base = f"({to_text(dim.base)})" if dim.base.is_Add else to_text(dim.base)
        return "*".join([base] * int(dim.exp))
    if type(dim) in _NAMES:
        return f"{_NAMES[type(dim)]}({', '.join(to_text(a) for a in dim.args)})"
    raise ValueError(f"not a dimension expression: {dim}")
