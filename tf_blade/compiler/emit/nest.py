"""What all kinds of kernels are printed with: loops over rows, bounds, stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tf_blade.compiler.emit.scope import KernelText, Scope
from tf_blade.compiler.fuse.index import LoopVar, mul
from tf_blade.compiler.ir import dims as d
from tf_blade.compiler.ir.dims import Dim
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.schedule.kernel import Blocks, Store


@dataclass
class LongScratch:
    """A temporary of `rows * row` elements, needed only when `row` is more than `capacity`."""

    rows: Dim
    row: Dim
    capacity: int


@dataclass
class Function:
    """A printed kernel. units: how many there are; unit_cost: cycles of one, as (factor, dim);
    likely: sizes, by symbol, that it gets a version for."""

    body: list[str]
    text: KernelText
    units: Dim
    unit_cost: list[tuple[float, Dim]] = field(default_factory=list)
    long_scratch: dict[Value, LongScratch] = field(default_factory=dict)
    likely: dict[str, int] = field(default_factory=dict)


def print_odometer(
    rows: Sequence[LoopVar], row: Scope, top: Scope, text: KernelText, *, needs_unit: bool
) -> None:
    """The loop over [begin, end) around a finished row block: counters are divided out once and
    then counted on."""
    if not rows:
        return
    if len(rows) == 1 and not needs_unit:
        name = rows[0].name
        top.close(row, f"for (i64 {name} = begin; {name} < end; ++{name})")
        return
    counters, step = odometer(rows, "begin", text)
    top.lines += counters
    row.lines.append(step)
    top.close(row, "for (i64 unit = begin; unit < end; ++unit)")


def odometer(rows: Sequence[LoopVar], unit: str, text: KernelText) -> tuple[list[str], str]:
    """Counters that stand at iteration `unit` of the rows, and the line that moves them on."""
    lines: list[str] = []
    stride: Dim = 1
    for v in reversed(rows):
        start = unit if stride == 1 else f"{unit} / {text.dim(stride)}"
        if v is not rows[0]:
            start = f"{start} % {text.dim(v.extent)}"
        lines.append(f"i64 {v.name} = {start};")
        stride = mul(stride, v.extent)
    step = f"++{rows[0].name};"
    for v in rows[1:]:
        if v is rows[1]:
            step = f"if (++{v.name} == {text.dim(v.extent)}) {v.name} = 0, ++{rows[0].name};"
        else:
            outer = step
            step = f"if (++{v.name} == {text.dim(v.extent)}) {{ {v.name} = 0; {outer} }}"
    return lines, step


def bounds_of(
    v: LoopVar, blocks: Mapping[LoopVar, Blocks], text: KernelText, scope: Scope
) -> tuple[str, str]:
    """The range of the loop: all of it, or the row's block."""
    cut = blocks.get(v)
    if cut is None:
        return "0", text.dim(v.extent)
    text.functions.add("dim_min")
    begin, end = f"{cut.block.name} * {cut.size}", f"{v.name}_last"
    extent = text.dim(v.extent)
    scope.lines.append(f"const i64 {end} = dim_min({begin} + {cut.size}, {extent});")
    return begin, end


def loop_header(v: LoopVar, begin: str, end: str) -> str:
    return f"for (i64 {v.name} = {begin}; {v.name} < {end}; ++{v.name})"


def braced(block: Scope) -> list[str]:
    """The lines of a finished block that no loop or condition heads."""
    return ["{", *(f"  {line}" for line in block.lines), "}"]


def print_store(store: Store, text: KernelText, scope: Scope) -> None:
    value = text.text(store.scalar, scope)
    place = text.address(store.root, store.index, scope, written=True)
    scope.lines.append(f"{place} = {value};")


def finished(top: Scope, text: KernelText) -> list[str]:
    flags = [f"i32 {f} = 0;" for f in text.flags.values()]
    dims = [f"const i64 {name} = {dim};" for dim, name in text.dims.items()]
    return [*flags, *dims, *top.lines]


def iterations(v: LoopVar, blocks: Mapping[LoopVar, Blocks]) -> Dim:
    """How many iterations of the loop a row does."""
    return d.smaller(v.extent, blocks[v].size) if v in blocks else v.extent
