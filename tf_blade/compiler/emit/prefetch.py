"""Memory that a row_reduce kernel needs next, asked for while it computes.

The first pass over a row reads it from far away and computes little; the passes after it compute,
and memory would wait for them. So the second pass brings in what the first one reads of the next
row, and the pass before a result is written brings in where it goes. Hardware follows such rows
too, but not beyond a page of memory, which a row may be. What is asked for must still be near when
its turn comes: rows that fill the second-level cache by themselves are left alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tf_blade.compiler.emit.scope import KernelText, Scope
from tf_blade.compiler.fuse.index import Affine, LoopVar
from tf_blade.compiler.ir.dims import Dim, product
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.schedule.collapse import scalars_of
from tf_blade.compiler.schedule.kernel import Kernel, Pass

# Elements of a row. One core with 2 MiB of second-level cache, no asking over asking: 1.20 to 1.33
# at rows of 1,024 floats, 1.07 at 65,536, 0.95 to 1.00 at 131,072, 0.69 to 0.75 at 262,144, 0.81 at
# a million.
LONGEST = 1 << 16


@dataclass
class Prefetches:
    """What a pass asks for. reads: elements of the first pass, with the name of the distance from
    this row's to the next row's. writes: where results go. elements: of a row."""

    reads: list[tuple[Value, Affine, str]] = field(default_factory=list)
    writes: list[tuple[Value, Affine]] = field(default_factory=list)
    elements: Dim = 0

    def __bool__(self) -> bool:
        return bool(self.reads or self.writes)

    def lines(
        self, text: KernelText, hoist: Scope, v: LoopVar, first: str, vectors: int
    ) -> list[str]:
        """Asks for so many vectors from iteration `first` of loop `v` on."""
        block = Scope(hoist, frozenset([v]))
        block.lines.append(f"const i64 {v.name} = {first};")
        places = [
            (text.address(value, index, block, written=False), f" + {step}", "")
            for value, index, step in self.reads
        ]
        places += [
            (text.address(value, index, block, written=True), "", ", 1")
            for value, index in self.writes
        ]
        for place, step, write in places:
            for i in range(vectors):
                lanes = f" + {i} * LANES" if i > 0 else ""
                block.lines.append(f"__builtin_prefetch(&{place}{step}{lanes}{write});")
        known = isinstance(self.elements, int)
        head = "{" if known else f"if ({text.dim(self.elements)} <= {LONGEST}) {{"
        return [head, *(f"  {line}" for line in block.lines), "}"] if places else []


def prefetches(kernel: Kernel, p: Pass, text: KernelText, row: Scope) -> Prefetches:
    """What pass `p` of the kernel asks for. Distances are declared in `row`, the block of a row."""
    found = Prefetches(elements=product([v.extent for v in p.loops]))
    if kernel.group.kind != "row_reduce" or not kernel.rows or not p.loops:
        return found
    if isinstance(found.elements, int) and found.elements > LONGEST:
        return found
    v, number = p.loops[-1], kernel.passes.index(p)
    if number == 1:
        _next_row(kernel, v, text, row, found)
    if number + 1 < len(kernel.passes):
        for store in kernel.passes[number + 1].stores:
            if store.root not in kernel.scratch and store.index.coefficient(v) == 1:
                found.writes.append((store.root, store.index))
    return found


def _next_row(kernel: Kernel, v: LoopVar, text: KernelText, row: Scope, found: Prefetches) -> None:
    unit = kernel.rows[0].name if len(kernel.rows) == 1 else "unit"
    for s in scalars_of(kernel.passes[0].scalars()):
        if s.kind != "load" or s.index is None or s.value is None:
            continue
        step = s.index.coefficient(kernel.rows[-1])
        if s.index.coefficient(v) == 1 and step != 0:
            name = text.unique(f"{text.value_name(s.value)}_next")
            # There may be no memory past the last row, and asking for that takes long.
            distance = f"{unit} + 1 < end ? {text.dim(step)} : 0"
            row.lines.append(f"const i64 {name} = {distance};")
            found.reads.append((s.value, s.index, name))
