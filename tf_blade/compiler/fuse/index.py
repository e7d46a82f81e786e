"""Index algebra: where an element lies, as an affine expression of loop variables.

An `Affine` is `const + sum(coefficient * atom)`. Atoms are loop variables, quotients and remainders
that don't simplify (reshapes that cut across dims), and indices read from memory (gather).
Coefficients and constants are `Dim`s. All expressions are >= 0 where they are evaluated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from tf_blade.compiler.ir import dims as d
from tf_blade.compiler.ir.dims import Dim, Shape

if TYPE_CHECKING:
    from tf_blade.compiler.fuse.scalar import Scalar


def add(a: Dim, b: Dim) -> Dim:
    return a + b if isinstance(a, int) and isinstance(b, int) else d.simplify(a + b)


def sub(a: Dim, b: Dim) -> Dim:
    return a - b if isinstance(a, int) and isinstance(b, int) else d.simplify(a - b)


def mul(a: Dim, b: Dim) -> Dim:
    return a * b if isinstance(a, int) and isinstance(b, int) else d.simplify(a * b)


def is_nonnegative(dim: Dim) -> bool:
    """Whether the dim is known to be >= 0."""
    return dim >= 0 if isinstance(dim, int) else bool(dim.is_nonnegative)


def exact_quotient(a: Dim, b: Dim) -> Dim | None:
    """a / b when b is known to divide a, else None."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b and a % b == 0 else None
    if b == 0:
        return None
    quotient = d.floor_div(a, b)
    return quotient if mul(quotient, b) == a else None


@dataclass(frozen=True)
class LoopVar:
    """A loop's counter, in [0, extent)."""

    name: str
    extent: Dim

    @cached_property
    def key(self) -> str:
        return self.name


@dataclass(frozen=True)
class Quotient:
    """floor(of / by)"""

    of: Affine
    by: Dim

    @cached_property
    def key(self) -> str:
        return f"({self.of.key})/({d.to_text(self.by)})"


@dataclass(frozen=True)
class Remainder:
    """of - by * floor(of / by)"""

    of: Affine
    by: Dim

    @cached_property
    def key(self) -> str:
        return f"({self.of.key})%({d.to_text(self.by)})"


@dataclass(frozen=True)
class Taken:
    """An integer read from memory, checked to lie in [0, extent)."""

    scalar: Scalar
    extent: Dim

    @cached_property
    def key(self) -> str:
        return f"taken{self.scalar.number}"


Atom: TypeAlias = LoopVar | Quotient | Remainder | Taken


@dataclass(frozen=True)
class Affine:
    """const + sum(coefficient * atom); terms are sorted and have coefficients other than 0."""

    terms: tuple[tuple[Atom, Dim], ...] = ()
    const: Dim = 0

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.terms, self.const))

    @cached_property
    def key(self) -> str:
        parts = [f"{d.to_text(c)}*{atom.key}" for atom, c in self.terms]
        return "+".join([*parts, d.to_text(self.const)])

    @cached_property
    def vars(self) -> frozenset[LoopVar]:
        """Every loop variable it depends on, through atoms too."""
        return frozenset(v for atom, _ in self.terms for v in vars_of(atom))

    def coefficient(self, atom: Atom) -> Dim:
        return next((c for a, c in self.terms if a == atom), 0)

    def __add__(self, other: Affine) -> Affine:
        if not other.terms and other.const == 0:
            return self
        if not self.terms and self.const == 0:
            return other
        return make([*self.terms, *other.terms], add(self.const, other.const))

    def plus(self, offset: Dim) -> Affine:
        return Affine(self.terms, add(self.const, offset)) if offset != 0 else self

    def times(self, factor: Dim) -> Affine:
        if factor == 1:
            return self
        return make([(a, mul(c, factor)) for a, c in self.terms], mul(self.const, factor))

    def affines(self) -> Iterator[Affine]:
        """This expression and those inside its quotients and remainders."""
        yield self
        for atom, _ in self.terms:
            if isinstance(atom, Quotient | Remainder):
                yield from atom.of.affines()

    def taken(self) -> Iterator[Taken]:
        """The indices read from memory it depends on."""
        for affine in self.affines():
            for atom, _ in affine.terms:
                if isinstance(atom, Taken):
                    yield atom

    def maximum(self) -> Dim | None:
        """An upper bound that is reached only inside the loops' ranges; None when unknown."""
        result = self.const
        for atom, coefficient in self.terms:
            if not is_nonnegative(coefficient):
                return None
            if isinstance(atom, LoopVar | Taken):
                last: Dim = sub(atom.extent, 1)
            elif isinstance(atom, Remainder):
                last = sub(atom.by, 1)
            else:
                return None
            result = add(result, mul(coefficient, last))
        return result

    def is_below(self, bound: Dim) -> bool:
        """Whether it is known to lie in [0, bound)."""
        maximum = self.maximum()
        return (
            maximum is not None
            and is_nonnegative(self.const)
            and is_nonnegative(sub(sub(bound, 1), maximum))
        )


ZERO = Affine()


def make(terms: Iterable[tuple[Atom, Dim]], const: Dim = 0) -> Affine:
    """The canonical sum: equal atoms collected, quotients joined with their remainders."""
    collected: dict[Atom, Dim] = {}
    for atom, coefficient in terms:
        total = add(collected.get(atom, 0), coefficient)
        if total == 0:
            collected.pop(atom, None)
        else:
            collected[atom] = total
    for atom, coefficient in list(collected.items()):
        # c * (x % d) + c*d * (x / d) = c * x
        if isinstance(atom, Remainder):
            quotient = Quotient(atom.of, atom.by)
            if collected.get(quotient) == mul(coefficient, atom.by):
                del collected[atom], collected[quotient]
                rest = make(collected.items(), const)
                return rest + atom.of.times(coefficient)
    return Affine(tuple(sorted(collected.items(), key=lambda t: t[0].key)), const)


def constant(value: Dim) -> Affine:
    return Affine((), value)


def variable(var: LoopVar) -> Affine:
    """The loop variable itself; 0 when its loop has one iteration."""
    return ZERO if var.extent == 1 else Affine(((var, 1),))


def vars_of(atom: Atom) -> frozenset[LoopVar]:
    if isinstance(atom, LoopVar):
        return frozenset([atom])
    if isinstance(atom, Taken):
        return atom.scalar.vars
    return atom.of.vars


def divide(x: Affine, by: Dim) -> tuple[Affine, Affine]:
    """(floor(x / by), x mod by)."""
    if by == 1:
        return x, ZERO
    multiples: list[tuple[Atom, Dim]] = []
    rest: list[tuple[Atom, Dim]] = []
    for atom, coefficient in x.terms:
        quotient = exact_quotient(coefficient, by)
        if quotient is None:
            rest.append((atom, coefficient))
        else:
            multiples.append((atom, quotient))
    whole: Dim = 0
    const = x.const
    if isinstance(const, int) and isinstance(by, int) and by:
        whole, const = divmod(const, by)
    else:
        quotient = exact_quotient(const, by)
        if quotient is not None:
            whole, const = quotient, 0
    remaining = make(rest, const)
    if remaining.is_below(by):
        return make(multiples, whole), remaining
    if remaining.maximum() is None or not is_nonnegative(remaining.const):
        # Split terms may be negative on their own; only the whole is known to be >= 0.
        return make([(Quotient(x, by), 1)]), make([(Remainder(x, by), 1)])
    quotient_of_rest = make([*multiples, (Quotient(remaining, by), 1)], whole)
    return quotient_of_rest, make([(Remainder(remaining, by), 1)])


def linear(index: tuple[Affine, ...], shape: Shape) -> Affine:
    """The row-major position of `index` in a tensor of `shape`."""
    result = ZERO
    stride: Dim = 1
    for position, size in zip(reversed(index), reversed(shape), strict=True):
        result = result + position.times(stride)
        stride = mul(stride, size)
    return result


def delinear(position: Affine, shape: Shape) -> tuple[Affine, ...]:
    """The index of a row-major position, whose value lies inside the tensor."""
    index: list[Affine] = []
    for axis, size in reversed(list(enumerate(shape))):
        if size == 1:
            index.append(ZERO)
        elif axis == 0 or all(n == 1 for n in shape[:axis]):
            index.append(position)
        else:
            position, remainder = divide(position, size)
            index.append(remainder)
    return tuple(reversed(index))


def reshape_index(index: tuple[Affine, ...], shape: Shape, source: Shape) -> tuple[Affine, ...]:
    """Where element `index` of a tensor of `shape` lies in the tensor of shape `source` that it is
    a reshape of. Runs of dims with equal products map on their own."""
    outer = [(index[i], n) for i, n in enumerate(shape) if n != 1]
    axes = [i for i, n in enumerate(source) if n != 1]
    result = [ZERO] * len(source)
    # Dims that are equal one by one, from the left and then from the right.
    while outer and axes and outer[0][1] == source[axes[0]]:
        result[axes.pop(0)] = outer.pop(0)[0]
    while outer and axes and outer[-1][1] == source[axes[-1]]:
        result[axes.pop()] = outer.pop()[0]
    while outer or axes:
        a, b = _equal_runs([n for _, n in outer], [source[i] for i in axes])
        run, targets = outer[:a], axes[:b]
        outer, axes = outer[a:], axes[b:]
        if len(run) == len(targets) == 1:
            result[targets[0]] = run[0][0]
            continue
        position = linear(tuple(x for x, _ in run), tuple(n for _, n in run))
        for axis, part in zip(
            targets, delinear(position, tuple(source[i] for i in targets)), strict=True
        ):
            result[axis] = part
    return tuple(result)


def _equal_runs(left: list[Dim], right: list[Dim]) -> tuple[int, int]:
    """The lengths of the shortest leading runs of equal product; everything when none is known."""
    for total in range(2, len(left) + len(right)):
        for a in range(1, min(total, len(left) + 1)):
            b = total - a
            if 1 <= b <= len(right) and d.product(left[:a]) == d.product(right[:b]):
                return a, b
    return len(left), len(right)


def substitute(x: Affine, merged: Mapping[LoopVar, LoopVar | None]) -> Affine:
    """The expression with loop variables renamed; one that maps to None is dropped, because its
    part is counted by the variable it was merged into."""
    terms: list[tuple[Atom, Dim]] = []
    for atom, coefficient in x.terms:
        if isinstance(atom, LoopVar):
            target = merged.get(atom, atom)
            if target is not None:
                terms.append((target, coefficient))
        elif isinstance(atom, Quotient | Remainder):
            terms.append((type(atom)(substitute(atom.of, merged), atom.by), coefficient))
        else:
            terms.append((atom, coefficient))
    return make(terms, x.const)
