"""Adjacent loops that every access walks through as if they were one become one loop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tf_blade.compiler.fuse.index import Affine, LoopVar, mul, substitute
from tf_blade.compiler.fuse.scalar import Pool, Scalar, rename
from tf_blade.compiler.schedule.kernel import Accumulate, Store


def scalars_of(scalars: Iterable[Scalar]) -> list[Scalar]:
    """The scalars and all that they are computed from, each once."""
    seen: dict[Scalar, None] = {}
    todo = list(scalars)
    while todo:
        s = todo.pop()
        if s not in seen:
            seen[s] = None
            todo.extend(s.needs())
    return list(seen)


def affines_of(scalars: Iterable[Scalar]) -> list[Affine]:
    """Every index expression in the scalars."""
    indices = (s.index for s in scalars_of(scalars) if s.index is not None)
    return [affine for index in indices for affine in index.affines()]


class Collapse:
    """Decides merges over all statements of a kernel, then applies them.

    Loops are merged only within the sequences that `merge` is given.
    """

    def __init__(self, pool: Pool, scalars: Iterable[Scalar], indices: Iterable[Affine]) -> None:
        self._pool = pool
        self._affines = affines_of(scalars)
        for index in indices:
            self._affines.extend(index.affines())
        self._merged: dict[LoopVar, LoopVar | None] = {}

    def merge(self, loops: Sequence[LoopVar]) -> tuple[LoopVar, ...]:
        """The loops, outermost first, with neighbours merged where every access allows it."""
        result: list[LoopVar] = []
        for var in reversed(loops):
            if result and self._walks_as_one(var, result[-1]):
                inner = result.pop()
                joined = LoopVar(inner.name, mul(var.extent, inner.extent))
                # The access functions count in the inner loop's steps from now on.
                self._rename({var: None, inner: joined})
                result.append(joined)
            else:
                result.append(var)
        return tuple(reversed(result))

    def _walks_as_one(self, outer: LoopVar, inner: LoopVar) -> bool:
        return all(
            x.coefficient(outer) == mul(x.coefficient(inner), inner.extent) for x in self._affines
        )

    def _rename(self, step: dict[LoopVar, LoopVar | None]) -> None:
        self._affines = [substitute(x, step) for x in self._affines]
        for var, target in self._merged.items():
            if target in step:
                self._merged[var] = step[target]
        self._merged.update(step)

    def scalars(self, scalars: Sequence[Scalar]) -> list[Scalar]:
        return rename(self._pool, list(scalars), self._merged) if self._merged else list(scalars)

    def stores(self, stores: Sequence[Store]) -> list[Store]:
        renamed = self.scalars([s.scalar for s in stores])
        return [
            Store(s.root, substitute(s.index, self._merged), scalar)
            for s, scalar in zip(stores, renamed, strict=True)
        ]

    def accumulates(self, accumulates: Sequence[Accumulate]) -> list[Accumulate]:
        renamed = self.scalars([a.scalar for a in accumulates])
        local = self.scalars([a.local for a in accumulates])
        return [
            Accumulate(a.root, a.kind, scalar, result)
            for a, scalar, result in zip(accumulates, renamed, local, strict=True)
        ]
