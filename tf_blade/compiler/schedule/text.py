"""A schedule as text, for people: buffers, then each kernel's loops and what they store.

    row_reduce_0: rows i0 < s0
      for j0 < 10:
        %5 max= %4[10*i0 + j0]
      %5[i0] = %5

Expressions used twice are named (`let t4 = …`), so that the text is as long as the code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from tf_blade.compiler.fuse.index import Affine, Atom, LoopVar, Quotient, Remainder
from tf_blade.compiler.fuse.scalar import Scalar
from tf_blade.compiler.ir.dims import to_text
from tf_blade.compiler.schedule.kernel import (
    ColumnReduce,
    Conv,
    Fft,
    FirstEqual,
    Gemm,
    HostStores,
    Kernel,
    Positions,
    RowUpdate,
    Scan,
    Scatter,
    Step,
    Store,
    TopK,
    WhileLoop,
)

if TYPE_CHECKING:
    from tf_blade.compiler.schedule.schedule import Schedule

# Too short to be named, however often they are used.
_SHORT = ("literal", "dim", "local", "load", "index")


def schedule_text(schedule: Schedule) -> str:
    """The schedule's buffers and steps."""
    lines = [f"schedule {schedule.plan.program.name} {{"]
    for value, output in schedule.memory.outputs.items():
        lines.append(f"  buffer {value} = output {output}")
    for number, slot in enumerate(schedule.memory.slots):
        names = ", ".join(map(str, slot.values))
        sizes = ", ".join(to_text(size) for size in slot.sizes)
        lines.append(f"  buffer {names} = temporary {number}, bytes: {sizes}")
    for result, parameter in schedule.memory.forwards.items():
        lines.append(f"  output {result} = {schedule.plan.program.params[parameter]}")
    for result, other in schedule.memory.copies.items():
        lines.append(f"  output {result} = output {other}")
    for step in schedule.steps:
        lines += [f"  {line}" for line in _step(step)]
    return "\n".join([*lines, "}"])


def _step(step: Step) -> Iterator[str]:
    name = step.group.name
    if isinstance(step, Gemm):
        end = str(step.product.epilogue)
        yield f"{name}: library call {step.product.op}{f' with {end}' if end else ''}"
    elif isinstance(step, Conv | Fft):
        yield f"{name}: library call {step.group.roots[0].op}"
    elif isinstance(step, HostStores | RowUpdate | Positions | FirstEqual):
        yield f"{name}: by the calling thread {step.group.roots[0].op}"
    elif isinstance(step, WhileLoop):
        yield f"{name}: while"
        for nested in (step.condition, step.body):
            yield from (f"  {line}" for line in schedule_text(nested).splitlines())
    elif isinstance(step, Kernel):
        yield f"{name}: rows {_loops(step.rows)}"
        for part in step.passes:
            bounds = [
                f"{to_text(b.low)} <= {b.row.name} < {to_text(b.low)} + {to_text(b.inner.extent)}"
                for b in (*part.inside, *part.outside)
            ]
            depth = "  "
            if bounds:
                yield f"  {'unless' if part.outside else 'if'} {' and '.join(bounds)}:"
                depth = "    "
            yield f"{depth}for {_loops(part.loops)}:"
            sums = [(f"{a.root} {a.kind}= ", a.scalar) for a in part.accumulates]
            yield from _indented(depth, [*sums, *_stores(part.stores)])
        yield from _indented("", _stores(step.row_stores))
    elif isinstance(step, ColumnReduce):
        yield f"{name}: rows {_loops(step.rows)}, tiles of {_loops([step.tile])}"
        for part in step.row_passes:
            yield f"  for {_loops(part.loops)}:"
            sums = [(f"{a.root} {a.kind}= ", a.scalar) for a in part.accumulates]
            yield from _indented("  ", sums)
        yield f"  for {_loops([*step.reduced, step.tile])}:"
        sums = [(f"{a.root} {a.kind}= ", a.scalar) for a in step.accumulates]
        yield from _indented("  ", sums)
        yield from _indented("", _stores(step.stores))
    elif isinstance(step, Scan):
        kind = f"{'exclusive ' if step.exclusive else ''}{step.kind}"
        yield f"{name}: rows {_loops(step.rows)}, {kind} along {_loops([step.along])}"
        yield from _indented("", _stores([step.store]))
    elif isinstance(step, Scatter):
        yield f"{name}: rows {_loops([step.row])}"
        yield f"  for {_loops(step.fill_loops)}:"
        yield from _indented("  ", _stores([step.fill]))
        yield f"  for {_loops([step.update, *step.step_loops])}, {step.kind}:"
        yield from _indented("  ", [(f"{step.at.name} = ", step.index), *_stores([step.step])])
    elif isinstance(step, TopK):
        yield f"{name}: rows {_loops(step.rows)}"
        yield f"  largest {_loops([step.rank])} of {_loops([step.along])}:"
        yield from _indented(
            "  ", [(f"{step.group.roots[0]}[{_index(step.place)}] of ", step.element)]
        )


def _loops(loops: Iterable[LoopVar]) -> str:
    return ", ".join(f"{v.name} < {to_text(v.extent)}" for v in loops) or "(one)"


def _stores(stores: Iterable[Store]) -> list[tuple[str, Scalar]]:
    return [(f"{s.root}[{_index(s.index)}] = ", s.scalar) for s in stores]


def _indented(depth: str, assigned: Sequence[tuple[str, Scalar]]) -> Iterator[str]:
    """Lines that assign each scalar to the text before it, shared expressions named first."""
    uses = _uses([scalar for _, scalar in assigned])
    shared = {s for s, n in uses.items() if n > 1 and s.kind not in _SHORT}
    for scalar in uses:
        if scalar in shared:
            yield f"{depth}  let t{scalar.number} = {_expression(scalar, shared, named=False)}"
    for text, scalar in assigned:
        yield f"{depth}  {text}{_expression(scalar, shared)}"


def _uses(scalars: Sequence[Scalar]) -> Counter[Scalar]:
    """How often each expression is used, those that others need first."""
    uses: Counter[Scalar] = Counter()
    counts: Counter[Scalar] = Counter()

    def visit(scalar: Scalar) -> None:
        counts[scalar] += 1
        if counts[scalar] == 1:
            for needed in scalar.needs():
                visit(needed)
            uses[scalar] = 0  # after what it needs

    for scalar in scalars:
        visit(scalar)
    for scalar in uses:
        uses[scalar] = counts[scalar]
    return uses


def _expression(scalar: Scalar, shared: set[Scalar], named: bool = True) -> str:
    if named and scalar in shared:
        return f"t{scalar.number}"
    if scalar.kind == "literal":
        return str(scalar.payload)
    if scalar.kind == "dim":
        return to_text(scalar.payload)
    if scalar.kind == "local":
        return str(scalar.value)
    if scalar.kind == "load":
        return f"{scalar.value}[{_index(scalar.index, shared)}]"
    if scalar.kind == "index":
        return _index(scalar.index, shared)
    arguments = ", ".join(_expression(a, shared) for a in scalar.args)
    return f"{scalar.kind}({arguments})"


def _index(index: Affine | None, shared: set[Scalar] | None = None) -> str:
    assert index is not None
    shared = shared or set()
    parts = []
    for atom, coefficient in index.terms:
        text = _atom(atom, shared)
        parts.append(text if coefficient == 1 else f"{_factor(to_text(coefficient))}*{text}")
    if index.const != 0 or not parts:
        parts.append(to_text(index.const))
    return " + ".join(parts)


def _factor(text: str) -> str:
    return f"({text})" if " " in text else text


def _atom(atom: Atom, shared: set[Scalar]) -> str:
    if isinstance(atom, LoopVar):
        return atom.name
    if isinstance(atom, Quotient):
        return f"(({_index(atom.of, shared)}) / {_factor(to_text(atom.by))})"
    if isinstance(atom, Remainder):
        return f"(({_index(atom.of, shared)}) % {_factor(to_text(atom.by))})"
    return _expression(atom.scalar, shared)
