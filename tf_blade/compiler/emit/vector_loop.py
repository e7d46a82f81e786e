"""The innermost loop of a pass: whole vectors, then what is left of the row under a mask.

    for (i64 j0_first = 0; j0_first < j0_whole; j0_first += LANES) {
      for (i32 lane = 0; lane < LANES; ++lane) …
    }
    for (i64 j0_first = j0_whole; j0_first < s1; j0_first += LANES) {
      for (i32 lane = 0; lane < LANES; ++lane) … if (lane < s1 - j0_first) …
    }

Loops whose vectors have nothing to share are written as one, for the compiler to vectorise.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from tf_blade.compiler.emit import c
from tf_blade.compiler.emit.accumulators import Accumulator, LaneAccumulator
from tf_blade.compiler.emit.masks import fills_lanes, may_end_masked
from tf_blade.compiler.emit.nest import loop_header, print_store
from tf_blade.compiler.emit.prefetch import Prefetches
from tf_blade.compiler.emit.reduction import SUM_BLOCK
from tf_blade.compiler.emit.scope import KernelText, Scope
from tf_blade.compiler.fuse import cost
from tf_blade.compiler.fuse.index import LoopVar
from tf_blade.compiler.fuse.scalar import Scalar
from tf_blade.compiler.schedule.kernel import Pass


def accumulators_of(p: Pass, text: KernelText) -> list[Accumulator]:
    """The variables of the pass's reductions."""
    if not (p.accumulates and p.loops and fills_lanes(p, p.loops[-1])):
        return [Accumulator(a, p, text) for a in p.accumulates]
    # Cheap steps wait for the ones before them; dear ones are slow enough.
    cheap = len(p.loops) == 1 and cost.of_scalars(p.scalars()) <= cost.CHEAP
    return [LaneAccumulator(a, p, text, 2 if cheap else 1) for a in p.accumulates]


@dataclass
class VectorLoop:
    """Prints one innermost loop.

    p: the pass, of which `v` is the last loop. tiled: loads that are found in tiles.
    fetches: what each vector asks for besides.
    """

    p: Pass
    accumulators: Sequence[Accumulator]
    text: KernelText
    tiled: Container[Scalar]
    fetches: Prefetches

    @property
    def v(self) -> LoopVar:
        return self.p.loops[-1]

    def print(self, scope: Scope, begin: str, end: str) -> None:
        """Appends the loop over [begin, end); long sums go into their totals block by block."""
        blocked = [a for a in self.accumulators if a.blocked]
        short = isinstance(self.v.extent, int) and self.v.extent <= SUM_BLOCK
        part = scope if short or not blocked else scope.inner()
        part.lines += [a.start_part() for a in blocked]
        if part is scope:
            self._print(scope, begin, end, scope)
        else:
            self.text.functions.add("dim_min")
            name, stop = f"{self.v.name}_block", f"{self.v.name}_end"
            part.lines.append(f"const i64 {stop} = dim_min({name} + {SUM_BLOCK}, {end});")
            # What moves out of the loop must land before it, and before the block loop too.
            self._print(part, name, stop, scope)
        part.lines += [a.end_part() for a in blocked]
        if part is not scope:
            scope.lines += _stepping(name, begin, end, str(SUM_BLOCK), part.lines)

    def _print(self, scope: Scope, begin: str, end: str, hoist: Scope) -> None:
        v = self.v
        in_lanes = [a for a in self.accumulators if isinstance(a, LaneAccumulator)]
        even = bool(in_lanes) or fills_lanes(self.p, v, self.tiled)
        by_vector = even and (bool(in_lanes) or bool(self.fetches))
        if not even or not (by_vector or may_end_masked(v)):
            self._print_simple(scope, begin, end, hoist)
            return
        vectors = max((a.chains for a in in_lanes), default=1)
        step = "LANES" if vectors == 1 else f"{vectors} * LANES"
        whole, first = self._whole(scope, begin, end, vectors), f"{v.name}_first"
        self.text.functions.add("lanes")
        if by_vector:
            body = self.fetches.lines(self.text, hoist, v, first, vectors)
            body += self._over_lanes(in_lanes, first, step, None, hoist)
            scope.lines += _stepping(first, begin, whole, step, body)
        else:
            self._print_simple(scope, begin, whole, hoist)
        rest = self._over_lanes(in_lanes, first, "LANES", f"{end} - {first}", hoist)
        scope.lines += _stepping(first, whole, end, "LANES", rest)

    def _whole(self, scope: Scope, begin: str, end: str, vectors: int) -> str:
        """Declares where whole vectors, so many at a time, end."""
        name = self.text.unique(f"{self.v.name}_whole")
        down = "-LANES" if vectors == 1 else f"-({vectors} * LANES)"
        place = f"{end} & {down}" if begin == "0" else f"{begin} + (({end} - {begin}) & {down})"
        scope.lines.append(f"const i64 {name} = {place};")
        return name

    def _print_simple(self, scope: Scope, begin: str, end: str, hoist: Scope) -> None:
        inner = Scope(hoist, frozenset([self.v]))
        print_statements(self.p, self.accumulators, self.text, inner)
        clauses = [a.clause() for a in self.accumulators]
        clauses += [f"reduction(| : {f})" for f in sorted(inner.flags)]
        scope.lines.append(" ".join(["#pragma omp simd", *clauses]))
        scope.close(inner, loop_header(self.v, begin, end))

    def _over_lanes(
        self,
        accumulators: Sequence[LaneAccumulator],
        first: str,
        count: str,
        left: str | None,
        hoist: Scope,
    ) -> list[str]:
        """`count` iterations from `first` as a loop over lanes; left: as one vector with a mask,
        which that many iterations are left for."""
        v, text = self.v, self.text
        lane = Scope(hoist, frozenset([v]))
        lane.lines.append(f"const i64 {v.name} = {first} + lane;")
        some = lane if left is None else Scope(lane, frozenset([v]))
        elements = [text.text(a.what.scalar, some) for a in accumulators]
        whole: list[str] = []
        for store in self.p.stores:
            if left is None or store.root not in text.scratch:
                print_store(store, text, some)
                continue
            # Scratch has room for a whole vector, and what was written whole is read at once.
            kind, name = c.type_name(store.root.type.dtype), text.unique(f"{v.name}_kept")
            lane.lines.append(f"{kind} {name} = 0;")
            some.lines.append(f"{name} = {text.text(store.scalar, some)};")
            place = text.address(store.root, store.index, lane, written=True)
            whole.append(f"{place} = {name};")
        if left is not None:
            # Lanes without an element take part with the neutral one.
            for i, a in enumerate(accumulators):
                name = text.unique(f"{a.part}_x")
                lane.lines.append(f"{a.kind} {name} = {a.neutral};")
                some.lines.append(f"{name} = {elements[i]};")
                elements[i] = name
            lane.close(some, f"if (lane < (i32)({left}))")
        lane.lines += whole
        lane.lines += [a.step(element) for a, element in zip(accumulators, elements, strict=True)]
        loop = Scope()
        for a in accumulators:
            loop.lines += a.load()
        loop.lines.append("#pragma omp simd")
        loop.close(lane, f"for (i32 lane = 0; lane < {count}; ++lane)")
        loop.lines += [a.store() for a in accumulators]
        return loop.lines


def print_statements(
    p: Pass, accumulators: Sequence[Accumulator], text: KernelText, scope: Scope
) -> None:
    """One iteration of the pass."""
    for a in accumulators:
        scope.lines.append(a.step(text.text(a.what.scalar, scope)))
    for store in p.stores:
        print_store(store, text, scope)


def _stepping(name: str, begin: str, end: str, step: str, body: Sequence[str]) -> list[str]:
    header = f"for (i64 {name} = {begin}; {name} < {end}; {name} += {step}) {{"
    return [header, *(f"  {line}" for line in body), "}"]
