"""Where every root lives: outputs, temporaries that share memory, scratch, or registers only.

Temporaries are laid out before any size is known: a slot is a piece of memory that several
temporaries use one after another, as large as the largest of them turns out to be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tf_blade.compiler.fuse.index import is_nonnegative, mul, sub
from tf_blade.compiler.fuse.matrices import base
from tf_blade.compiler.fuse.plan import Plan
from tf_blade.compiler.ir.dims import Dim
from tf_blade.compiler.ir.program import Program, Value
from tf_blade.compiler.ir.sizes import live_ops


@dataclass
class Slot:
    """Memory used by `values` at different times. sizes: bytes of each, without repeats."""

    values: list[Value] = field(default_factory=list)
    sizes: list[Dim] = field(default_factory=list)

    def add(self, value: Value, size: Dim) -> None:
        self.values.append(value)
        if size not in self.sizes:
            self.sizes.append(size)


@dataclass
class Memory:
    """outputs: the result that each root's buffer is. slots: the temporaries.

    copies: results (by number) that repeat the buffer of an earlier result.
    forwards: results that are a parameter's elements, by number of result, number of parameter.
    """

    outputs: dict[Value, int] = field(default_factory=dict)
    slots: list[Slot] = field(default_factory=list)
    copies: dict[int, int] = field(default_factory=dict)
    forwards: dict[int, int] = field(default_factory=dict)

    @property
    def stored(self) -> set[Value]:
        """The roots that have a buffer."""
        return set(self.outputs) | {v for slot in self.slots for v in slot.values}


def plan_memory(plan: Plan) -> Memory:
    """Outputs are written in place; what other groups read gets a slot for as long as it lives."""
    memory = Memory()
    _place_results(plan.program, memory)
    made = {r: i for i, g in enumerate(plan.groups) for r in g.roots}
    last_read: dict[Value, int] = {}
    for number, group in enumerate(plan.groups):
        for value in plan.reads(group):
            if value in made and value not in memory.outputs:
                last_read[value] = number
    for size in live_ops(plan.program)[1].values():
        count = base(size.value)  # read as soon as it is there, whoever needs it
        if count in made and count not in memory.outputs:
            last_read.setdefault(count, made[count])
    _assign_slots(plan, last_read, memory)
    return memory


def _place_results(program: Program, memory: Memory) -> None:
    params: Mapping[Value, int] = {p: i for i, p in enumerate(program.params)}
    for number, result in enumerate(program.results):
        origin = base(result)
        if origin in params:
            memory.forwards[number] = params[origin]
        elif origin in memory.outputs:
            memory.copies[number] = memory.outputs[origin]
        else:
            memory.outputs[origin] = number


def _assign_slots(plan: Plan, last_read: Mapping[Value, int], memory: Memory) -> None:
    free: list[Slot] = []
    leaving: dict[int, list[Slot]] = {}
    for number, group in enumerate(plan.groups):
        for root in group.roots:
            if root not in last_read:
                continue
            size = mul(root.type.size, root.type.dtype.size)
            slot = _best(free, size)
            if slot is None:
                slot = Slot()
                memory.slots.append(slot)
            else:
                free.remove(slot)
            slot.add(root, size)
            leaving.setdefault(last_read[root], []).append(slot)
        # What this group reads last is free for the next one, the most recently used first.
        free = leaving.pop(number, []) + free


def _best(free: Sequence[Slot], size: Dim) -> Slot | None:
    """A free slot that needs not grow, else any: sharing never takes more than a new slot."""

    def fits(slot: Slot) -> int:
        if any(s == size for s in slot.sizes):
            return 0
        return 1 if any(is_nonnegative(sub(s, size)) for s in slot.sizes) else 2

    return min(free, key=fits, default=None)
