"""The fusion plan: which kernels a program becomes.

    row_reduce_0 rows [s0] columns [64] -> %4, %7
      %3: ...

`plan` finds the roots, makes a group of each, and merges groups that share a space of loops, as
long as no value has to travel from one part of the merged group to the other through a third.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial

import sympy

from tf_blade.compiler.fuse import cost
from tf_blade.compiler.fuse.groups import (
    REDUCE,
    Group,
    is_few,
    loop_group,
    merged,
    reduce_group,
    stages,
    trace,
)
from tf_blade.compiler.fuse.index import LoopVar
from tf_blade.compiler.fuse.matrices import base
from tf_blade.compiler.fuse.products import product_of
from tf_blade.compiler.fuse.roots import find_roots
from tf_blade.compiler.fuse.scalar import NotInPlace, Scalar
from tf_blade.compiler.ir.dims import product, to_text
from tf_blade.compiler.ir.loops import carried_of
from tf_blade.compiler.ir.program import Op, Program, Value
from tf_blade.compiler.ir.sizes import Sizes, computed_sizes, mentioned
from tf_blade.steps import Description, Steps

# A kernel that reads and writes more streams than this gains nothing from being one.
MAX_ROOTS = 12
MAX_STREAMS = 24
# What a tile of columns may spend on each element of what is reduced for all columns at once: a
# few hundredths of what it spends on a load and an addition in each of its columns.
MAX_PER_TILE = 4 * cost.CHEAP


@dataclass
class Plan:
    """groups: in execution order. roots: every value with storage of its own, and why.

    `str(plan)` lists, for each group, its loops, the roots it makes and the ops computed in it.
    """

    program: Program
    groups: list[Group] = field(default_factory=list)
    roots: dict[Value, str] = field(default_factory=dict)

    def reads(self, group: Group) -> list[Value]:
        """The values from outside that the group reads, in program order; the numbers of the sizes
        that it mentions are among them."""
        reads = external_reads(group.roots, self.roots)
        reads |= numbers_of(mentioned_in(group.roots, self.roots, self._sizes), self._sizes)
        return sorted(reads - set(group.roots), key=self._position.__getitem__)

    def ops(self, group: Group) -> list[Op]:
        """The ops computed in the group, in program order."""
        inside = sorted(_closure(group.roots, self.roots), key=self._position.__getitem__)
        return [value.op for value in inside if value.op is not None]

    @cached_property
    def _sizes(self) -> Sizes:
        return computed_sizes(self.program)

    @cached_property
    def _position(self) -> dict[Value, int]:
        return {value: i for i, value in enumerate(self.program.values())}

    def __str__(self) -> str:
        lines = [f"plan {self.program.name} {{"]
        outside = {r for g in self.groups for r in self.reads(g)}
        outside |= {base(v) for v in self.program.results}
        for group in self.groups:
            made = ", ".join(str(r) for r in group.roots if r in outside)
            lines.append(f"  {group.name}{_loops_text(group)} -> {made} {{")
            lines += [f"    {op}" for op in self.ops(group)]
            lines.append("  }")
        return "\n".join([*lines, "}"])


def plan(program: Program, steps: Steps | None = None) -> Plan:
    """Decides how a program is cut into kernels. The program must be verified.

    Args:
      steps: watches and limits what is inlined and fused. None: everything is.
    """
    found = find_roots(program, steps)
    results = {base(v) for v in program.results}
    # Constants and shapes are written out where they are read, unless they are results.
    roots = {v: reason for v, reason in found.reasons.items() if not _is_known(v)}
    groups = [
        _single(program, v, roots)
        for v in found.roots
        if (v in roots or v in results) and not (v.op is not None and v.op.kind == "carried")
    ]
    grouping = _Grouping(program, roots, groups, steps)
    grouping.merge_reductions()
    grouping.merge_loops()
    ordered = _updates_last(program, grouping.ordered())
    counts: dict[str, int] = {}
    for group in ordered:
        group.roots.sort(key=grouping.position.__getitem__)
        number = counts[group.kind] = counts.get(group.kind, -1) + 1
        group.name = f"{group.kind}_{number}"
    return Plan(program, ordered, roots)


def _is_known(value: Value) -> bool:
    """Whether the elements are known while the program is compiled, or are dims."""
    return value.op is not None and value.op.kind in ("constant", "shape_value")


def _updates_last(program: Program, groups: list[Group]) -> list[Group]:
    """Updates of rows that no group reads come after all that may read the array before."""
    users = program.users()

    def is_last(group: Group) -> bool:
        return group.kind == "dynamic_update" and not any(users[r] for r in group.roots)

    return sorted(groups, key=is_last)


def _single(program: Program, root: Value, stored: Mapping[Value, str]) -> Group:
    assert root.op is not None
    kind = root.op.kind
    if kind == "while":
        return Group(kind, [root, *carried_of(program, root.op)])
    if kind == "reduce":
        return reduce_group(root)
    if kind in (
        "concatenate",
        "pad",
        "scan",
        "scatter",
        "top_k",
        "positions",
        "first_equal",
        "dot_general",
        "conv",
        "rfft",
        "irfft",
        "dynamic_update",
    ):
        return Group(kind, [root])
    if product_of(root, stored) is not None:
        return Group("dot_general", [root])
    if kind == "shape_value":
        return Group("host", [root])
    return loop_group(root)


def external_reads(roots: Iterable[Value], stored: Mapping[Value, object]) -> set[Value]:
    """Parameters and roots that computing `roots` reads, except `roots` themselves."""
    own = set(roots)
    leaves: set[Value] = set()
    for value in _closure(own, stored):
        if value.op is not None:
            leaves.update(v for v in value.op.operands if v.op is None or v in stored)
    return leaves - own


def mentioned_in(
    roots: Iterable[Value], stored: Mapping[Value, object], sizes: Sizes
) -> set[sympy.Symbol]:
    """The computed sizes that computing `roots` takes."""
    if not sizes:
        return set()
    ops = [value.op for value in _closure(roots, stored) if value.op is not None]
    return set().union(*map(mentioned, ops)) & sizes.keys()


def numbers_of(symbols: Iterable[sympy.Symbol], sizes: Sizes) -> set[Value]:
    """The values in memory that hold the numbers of computed sizes, but for known ones."""
    found = {base(sizes[symbol].value) for symbol in symbols}
    return {value for value in found if not _is_known(value)}


def _closure(roots: Iterable[Value], stored: Mapping[Value, object]) -> set[Value]:
    """The values computed in a group: its roots and what is inlined into them."""
    inside: set[Value] = set()
    todo = list(roots)
    own = set(todo)
    while todo:
        value = todo.pop()
        if value in inside or value.op is None or (value in stored and value not in own):
            continue
        inside.add(value)
        todo.extend(value.op.operands)
    return inside


def _loops_text(group: Group) -> str:
    def text(loops: Iterable[LoopVar]) -> str:
        return "[" + ", ".join(to_text(v.extent) for v in loops) + "]"

    if group.is_reduction:
        return f" rows {text(group.rows)} columns {text(group.columns)}"
    return f" {text(group.loops)}" if group.kind == "loop" else ""


class _Grouping:
    """The groups while they are being merged."""

    def __init__(
        self,
        program: Program,
        roots: dict[Value, str],
        groups: list[Group],
        steps: Steps | None,
    ) -> None:
        self.program = program
        self.roots = roots
        self.steps = steps
        self.position = {v: i for i, v in enumerate(program.values())}
        self.groups = groups
        self.owner = {r: g for g in groups for r in g.roots}
        self.sizes = computed_sizes(program)
        # What is computed within a size has to wait for its number.
        self.reads = {r: external_reads([r], roots) | self._numbers([r]) for r in self.owner}
        self.readers: dict[Value, set[Value]] = {}
        for reader, values in self.reads.items():
            for value in values:
                self.readers.setdefault(value, set()).add(reader)

    def _numbers(self, roots: Iterable[Value]) -> set[Value]:
        """The numbers of the sizes that computing the roots takes."""
        return numbers_of(mentioned_in(roots, self.roots, self.sizes), self.sizes)

    def merge_reductions(self) -> None:
        """Softmax, normalisations, means: reductions over the same columns and what is computed
        from them row by row become one kernel."""
        self._merge_until_stable(lambda a, b: a.is_reduction or b.is_reduction)

    def merge_loops(self) -> None:
        """Element-wise roots over the same space that read each other or the same values."""
        self._merge_until_stable(lambda a, b: a.kind == b.kind == "loop")

    def ordered(self) -> list[Group]:
        """Producers before consumers, otherwise in program order."""
        done: dict[Group, None] = {}

        def visit(start: Group) -> None:
            stack = [(start, False)]
            while stack:
                group, expanded = stack.pop()
                if group in done:
                    continue
                if expanded:
                    done[group] = None
                    continue
                stack.append((group, True))
                producers = sorted(self._producers(group), key=self._rank, reverse=True)
                stack.extend((p, False) for p in producers)

        for group in sorted(self.groups, key=self._rank):
            visit(group)
        return list(done)

    def _rank(self, group: Group) -> int:
        return min(self.position[r] for r in group.roots)

    def _producers(self, group: Group) -> set[Group]:
        values = set[Value]().union(*(self.reads[r] for r in group.roots))
        return {self.owner[v] for v in values if v in self.owner} - {group}

    def _consumers(self, group: Group) -> set[Group]:
        found = set[Group]()
        for root in group.roots:
            found.update(self.owner[r] for r in self.readers.get(root, ()))
        return found - {group}

    def _neighbours(self, group: Group) -> list[Group]:
        """Groups that read it, that it reads, or that read what it reads; nearest first."""
        near = self._consumers(group) | self._producers(group)
        values = set[Value]().union(*(self.reads[r] for r in group.roots))
        size = product([v.extent for v in group.loops])
        siblings = set[Group]()
        for value in values:
            # Sharing a bias or a scalar is no reason to run in one kernel.
            if value.type.size == size:
                siblings.update(self.owner[r] for r in self.readers[value])
        siblings -= near | {group}
        return sorted(near, key=self._rank) + sorted(siblings, key=self._rank)

    def _merge_until_stable(self, wanted: Callable[[Group, Group], bool]) -> None:
        todo = sorted((g for g in self.groups if g.is_fusible), key=self._rank)
        alive = set(todo)
        while todo:
            group = todo.pop(0)
            if group not in alive:
                continue
            for other in self._neighbours(group):
                if not (other.is_fusible and wanted(group, other)):
                    continue
                joined = self._try_merge(group, other)
                if joined is not None:
                    alive -= {group, other}
                    alive.add(joined)
                    todo.insert(0, joined)
                    break

    def _try_merge(self, a: Group, b: Group) -> Group | None:
        if len(a.roots) + len(b.roots) > MAX_ROOTS:
            return None
        joined = merged(a, b)
        if joined is None:
            return None
        streams = external_reads(joined.roots, self.roots)
        if len(streams) + len(joined.roots) > MAX_STREAMS:
            return None
        if self._numbers(joined.roots) & set(joined.roots):
            return None  # a size is read where the group before has ended
        if self._reaches_around(a, b) or self._reaches_around(b, a):
            return None
        joined.roots.sort(key=self.position.__getitem__)
        try:
            bodies = trace(joined, self.roots)
        except NotInPlace:
            return None
        if not self._is_schedulable(joined, bodies):
            return None
        describe = partial(self._describe, a, b, joined)
        if self.steps is not None and not self.steps.allow("fuse", joined.kind, describe):
            return None
        self.groups = [g for g in self.groups if g is not a and g is not b] + [joined]
        self.owner.update(dict.fromkeys(joined.roots, joined))
        return joined

    def _describe(self, a: Group, b: Group, joined: Group) -> Description:
        ops = {r: r.op for group in (a, b) for r in group.roots if r.op is not None}

        def text(group: Group) -> str:
            lines = [f"{group.kind}{_loops_text(group)} {{"]
            lines += [f"  {ops[root]}" for root in group.roots if root in ops]
            return "\n".join([*lines, "}"])

        sources = dict.fromkeys(name for op in ops.values() for name in op.source.split(", "))
        return f"{text(a)}\n{text(b)}", text(joined), ", ".join(filter(None, sources))

    def _is_schedulable(self, group: Group, bodies: dict[Value, Scalar]) -> bool:
        """Column reductions and reductions split among threads make one pass; what is computed
        from them afterwards has one element a row."""
        if group.kind == "loop":
            return True
        # Every tile of columns computes what lives over outer rows, and none stores it.
        outer = [r for r in group.roots if group.is_outer(r)]
        if any(self._is_needed_outside(r, group) for r in outer):
            return False
        if cost.of_scalars([bodies[r] for r in outer]) > MAX_PER_TILE:
            return False
        stage = stages(group, bodies)
        several = [r for r in group.roots if group.roles[r] == REDUCE and stage[r] > 1]
        return not several or not (group.kind == "column_reduce" or is_few(group.rows))

    def _is_needed_outside(self, root: Value, group: Group) -> bool:
        return self.roots[root] == "result" or not self.readers[root] <= set(group.roots)

    def _reaches_around(self, source: Group, target: Group) -> bool:
        """Whether a path leads from source to target through another group."""
        last = max(self.position[r] for r in target.roots)
        todo = [g for g in self._consumers(source) if g is not target]
        seen = set(todo)
        while todo:
            group = todo.pop()
            if group is target:
                return True
            for consumer in self._consumers(group):
                if consumer not in seen and self._rank(consumer) <= last:
                    seen.add(consumer)
                    todo.append(consumer)
        return False
