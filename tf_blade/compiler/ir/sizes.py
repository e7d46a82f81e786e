"""Sizes that a program computes itself: how many elements pass a filter, how many differ.

    symbol n3 = size(%4, s0)
    %4: i64[] = reduce(%3, kind=sum, dims=[0])
    %5: i64[n3] = positions(%2, shape=[n3])

What mentions such a symbol comes after the op that makes its number, though it reads nothing of
it; the number is needed as long as the symbol is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import sympy

from tf_blade.compiler.ir import dims as d
from tf_blade.compiler.ir.dims import Dim
from tf_blade.compiler.ir.loops import nested_programs
from tf_blade.compiler.ir.program import ComputedSize, Op, Program, SymbolSource

Sizes = dict[sympy.Symbol, ComputedSize]


def computed_sizes(program: Program) -> Sizes:
    """The symbols whose numbers the program's ops make."""
    made = {op.result for op in program.ops}
    return {
        symbol: source
        for symbol, source in program.symbols.items()
        if isinstance(source, ComputedSize) and source.value in made
    }


def mentioned(op: Op) -> set[sympy.Symbol]:
    """The symbols in an op's result and attributes, and in the programs that it runs."""
    found: set[sympy.Symbol] = set()
    for dim in _dims((op.result.type.shape, *op.attrs.values())):
        found |= d.symbols_of(dim)
    for nested in nested_programs(op):
        for inner in nested.ops:
            found |= mentioned(inner)
    return found


def _dims(attr: object) -> Iterator[Dim]:
    if isinstance(attr, tuple):
        for item in attr:
            yield from _dims(item)
    elif isinstance(attr, sympy.Expr):
        yield attr


def live_ops(program: Program) -> tuple[list[Op], Sizes]:
    """The ops that results and checks depend on, in order, and the computed sizes among that."""
    sizes = computed_sizes(program)
    live, used = set(program.results), set[sympy.Symbol]()

    def use(symbols: set[sympy.Symbol]) -> None:
        for symbol in (symbols & sizes.keys()) - used:
            used.add(symbol)
            live.add(sizes[symbol].value)
            use(d.symbols_of(sizes[symbol].at_most))

    if sizes:
        for constraint in program.constraints:
            use(d.symbols_of(constraint.left) | d.symbols_of(constraint.right))
    kept: list[Op] = []
    for op in reversed(program.ops):
        if op.result in live:
            live.update(op.operands)
            if sizes:
                use(mentioned(op))
            kept.append(op)
    return kept[::-1], {symbol: size for symbol, size in sizes.items() if symbol in used}


def upper_bound(dim: Dim, symbols: Mapping[sympy.Symbol, SymbolSource]) -> Dim | None:
    """A dim that is never less and mentions no computed size; None if there is none in sight."""

    def bound(e: sympy.Expr) -> sympy.Expr | None:
        if not any(isinstance(symbols.get(s), ComputedSize) for s in e.free_symbols):
            return e
        if e.is_Symbol:
            source = symbols[e]
            assert isinstance(source, ComputedSize)
            return bound(sympy.sympify(source.at_most))
        if e.is_Mul and e.as_coeff_Mul()[0] < 0:
            # What is taken away from a size is nothing at least.
            return sympy.Integer(0) if (-e).is_nonnegative else None
        if isinstance(e, d.FloorDiv):
            if not (e.args[1].is_Integer and e.args[1].is_positive):
                return bound(e.args[0]) if e.is_nonnegative else None
        elif isinstance(e, d.FloorMod):
            return bound(e.args[1]) if e.args[1].is_nonnegative else None
        elif isinstance(e, d.Smaller):
            found = [b for b in map(bound, e.args) if b is not None]
            return d.Smaller(*found) if len(found) == 2 else next(iter(found), None)
        args = [b for b in map(bound, e.args) if b is not None]
        if len(args) < len(e.args):
            return None
        if isinstance(e, d.IfNegative):
            return d.Larger(args[1], args[2])
        if e.is_Mul:
            args = [a if a.is_nonnegative else d.Larger(a, sympy.Integer(0)) for a in args]
        return e.func(*args)

    most = dim if isinstance(dim, int) else bound(dim)
    return None if most is None else d.simplify(most)
