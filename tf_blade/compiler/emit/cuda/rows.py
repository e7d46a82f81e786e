"""Row kernels: a block of threads for each row, which reduces it and goes through it again.

What later passes need again of a row stays in registers, if the row isn't too long.
"""

from __future__ import annotations

from tf_blade.compiler.emit import c
from tf_blade.compiler.emit.cuda.function import DeviceFunction, print_row_variables
from tf_blade.compiler.emit.cuda.lanes import (
    NARROW,
    WIDE,
    lanes_scope,
    loads_of_neighbours,
    print_lanes,
    read_lanes,
    strides,
)
from tf_blade.compiler.emit.nest import LongScratch, bounds_of, finished, loop_header, print_store
from tf_blade.compiler.emit.reduction import combine, neutral
from tf_blade.compiler.emit.scope import KernelText, Scope
from tf_blade.compiler.fuse.index import LoopVar, mul
from tf_blade.compiler.fuse.scalar import Scalar
from tf_blade.compiler.ir import dims as d
from tf_blade.compiler.ir.dims import Dim
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.schedule.kernel import Accumulate, Kernel, Pass

# Versions of row kernels for rows in registers: lanes, items, threads. Each has room for two or
# four times as many elements as the one before it; row_launch in launch.h takes the first that is
# large enough. Threads are constants, so that a thread's places are at constant distances.
KEPT_VERSIONS = (
    *((WIDE, 1, 32), (WIDE, 1, 128), (WIDE, 1, 256), (WIDE, 2, 256), (WIDE, 4, 256)),
    *((WIDE, 4, 512), (WIDE, 4, 1024)),
    *((NARROW, 1, 32), (NARROW, 4, 32), (NARROW, 4, 128), (NARROW, 4, 256), (NARROW, 8, 256)),
    *((NARROW, 8, 512), (NARROW, 16, 512), (NARROW, 16, 1024)),
)
# Longer rows stay in memory.
_LONGEST_KEPT = max(lanes * items * threads for lanes, items, threads in KEPT_VERSIONS)


def row_function(kernel: Kernel, text: KernelText) -> DeviceFunction:
    """Prints a row_reduce kernel, for rows of any length and for rows in registers."""
    units: Dim = 1
    for v in kernel.rows:
        units = mul(units, v.extent)
    kept: list[str] = []
    if _can_be_kept(kernel):
        kept = _rows(kernel, text, units, in_registers=True)
    arrays = sum("_kept[ITEMS]" in line for line in kept)
    body = _rows(kernel, text, units, in_registers=False)
    needed: dict[Dim, None] = {}
    for p in kernel.passes:
        for v in p.loops[-1:]:
            needed |= dict.fromkeys([*strides(p, v), v.extent])
    cut = [b.size for b in kernel.blocks.values()]
    long = {
        value: LongScratch(units, count, _LONGEST_KEPT if kept else 0)
        for value, count in kernel.scratch.items()
    }
    width = d.product([v.extent for p in kernel.passes[:1] for v in p.loops])
    fixed = [n for n in needed if not (isinstance(n, int) and n % WIDE == 0)]
    return DeviceFunction(
        body,
        text,
        units,
        long_scratch=long,
        width=width,
        strides=[*fixed, *(n for n in cut if n % WIDE)],
        kept=kept,
        kept_arrays=arrays,
    )


def _can_be_kept(kernel: Kernel) -> bool:
    """Whether every pass is the same one loop, so that a thread has the same elements in all."""
    loops = {p.loops for p in kernel.passes}
    return not kernel.blocks and len(loops) == 1 and len(next(iter(loops))) == 1


def _rows(kernel: Kernel, text: KernelText, units: Dim, *, in_registers: bool) -> list[str]:
    top = Scope()
    # What depends on no loop is computed in the outermost block: with a single row that is the row.
    row = top.inner(kernel.rows) if kernel.rows else top
    if not kernel.rows:
        top.lines.append("[[maybe_unused]] const i64 unit = 0;")
    print_row_variables(kernel.rows, "unit", row, text)
    if in_registers:
        _print_kept(kernel, text, row)
    else:
        _print_from_memory(kernel, text, row)
    if kernel.row_stores:
        first = row.inner()
        for store in kernel.row_stores:
            print_store(store, text, first)
        row.close(first, "if (threadIdx.x == 0)")
    if any(p.accumulates for p in kernel.passes):
        row.lines.append("__syncthreads();")
    if kernel.rows:
        top.close(row, f"for (i64 unit = blockIdx.x; unit < {text.dim(units)}; unit += gridDim.x)")
    return finished(top, text)


def _print_kept(kernel: Kernel, text: KernelText, row: Scope) -> None:
    (v,) = kernel.passes[0].loops
    read: dict[Scalar, str] = {}  # arrays of ITEMS times N elements
    kept: dict[Value, str] = {}
    for number, p in enumerate(kernel.passes):
        later = {s for q in kernel.passes[number + 1 :] for s in loads_of_neighbours(q, v)}
        loads = loads_of_neighbours(p, v)
        # Of later passes, what only they need isn't kept: registers are few.
        new = [
            s
            for s in loads
            if s not in read and s.value not in kept and (number == 0 or s in later)
        ]
        items = _Items(row, v, text)
        for load in new:
            assert load.value is not None
            read[load] = name = text.unique(f"{text.value_name(load.value)}_kept")
            row.lines.append(f"{c.type_name(load.dtype)} {name}[ITEMS][N];")
            items.inner.lines.append(read_lanes(load, f"{name}[item]", text, items.inner))
        if new:
            items.close()
        for store in p.stores:
            if any(s.value == store.root for s in later):
                kept[store.root] = name = text.unique(f"{text.value_name(store.root)}_kept")
                row.lines.append(f"{c.type_name(store.root.type.dtype)} {name}[ITEMS][N];")
        own = {s: f"{read[s]}[item]" for s in loads if s in read}
        own |= {s: f"{kept[s.value]}[item]" for s in loads if s.value in kept}
        reductions = [_Reduction(a, text, row) for a in p.accumulates]
        items = _Items(row, v, text)
        print_lanes(
            p,
            v,
            text,
            items.inner,
            steps=[r.step for r in reductions],
            read=own,
            kept={root: f"{name}[item]" for root, name in kept.items()},
            only_kept=kernel.scratch,
        )
        items.close()
        for reduction in reductions:
            reduction.finish(row)


class _Items:
    """The loop over a thread's items of a row in registers; what is to be in it goes to `inner`."""

    def __init__(self, row: Scope, v: LoopVar, text: KernelText) -> None:
        self._row, self._width = row, text.dim(v.extent)
        self.inner = lanes_scope(row, v)

    def close(self) -> None:
        loop = Scope()
        loop.lines.append("const int first = (item * THREADS + threadIdx.x) * N;")
        loop.close(self.inner, f"if (first < (int){self._width})")
        self._row.lines.append("#pragma unroll")
        self._row.close(loop, "for (int item = 0; item < ITEMS; ++item)")
        self._row.flags |= self.inner.flags


def _print_from_memory(kernel: Kernel, text: KernelText, row: Scope) -> None:
    for value, count in kernel.scratch.items():
        name, kind = f"{text.value_name(value)}_scratch", c.type_name(value.type.dtype)
        text.scratch.pop(value, None)
        pointer = text.pointer(value, written=True)
        row.lines.append(f"{kind}* const {name} = {pointer} + unit * {text.dim(count)};")
        text.scratch[value] = name
    for p in kernel.passes:
        reductions = [_Reduction(a, text, row) for a in p.accumulates]
        _print_pass(kernel, p, reductions, text, row)
        for reduction in reductions:
            reduction.finish(row, alone=not p.loops)


def _print_pass(
    kernel: Kernel, p: Pass, reductions: list[_Reduction], text: KernelText, row: Scope
) -> None:
    scopes = [row]
    headers: list[str] = []
    for v in p.loops[:-1]:
        begin, end = bounds_of(v, kernel.blocks, text, scopes[-1])
        headers.append(loop_header(v, begin, end))
        scopes.append(scopes[-1].inner([v]))
    inner = p.loops[-1] if p.loops else LoopVar("once", 1)
    begin, end = bounds_of(inner, kernel.blocks, text, scopes[-1])
    if p.loops:
        step = "THREADS * N"
        start = "(i64)threadIdx.x * N" if begin == "0" else f"{begin} + (i64)threadIdx.x * N"
    else:
        start, step = "0", "N"  # every thread does the same
    headers.append(f"for (i64 first = {start}; first < {end}; first += {step})")
    scopes.append(lanes_scope(scopes[-1], inner))
    print_lanes(p, inner, text, scopes[-1], steps=[r.step for r in reductions])
    for outer, scope, header in reversed(list(zip(scopes, scopes[1:], headers, strict=False))):
        outer.close(scope, header)
        outer.flags |= scope.flags


class _Reduction:
    """A thread's part of one reduction, then the block's."""

    def __init__(self, what: Accumulate, text: KernelText, row: Scope) -> None:
        self.what, self.text = what, text
        self.dtype = what.root.type.dtype
        self.name = text.unique(text.value_name(what.root))
        self.part = f"{self.name}_part"
        # Narrow integers add up modulo their range in any wider type.
        self.kind = "i32" if self.dtype.size < 4 else c.type_name(self.dtype)
        self.neutral = f"({self.kind}){neutral(what.kind, self.dtype)}"
        if self.dtype.is_float and what.kind in ("max", "min"):
            text.functions.add(f"{what.kind}_{c.type_name(self.dtype)}")
        row.lines.append(f"{self.kind} {self.part} = {self.neutral};")

    def step(self, lane: Scope) -> None:
        element = self.text.text(self.what.scalar, lane)
        total = combine(self.what.kind, self.dtype, self.part, element)
        lane.lines.append(f"{self.part} = {total};")

    def finish(self, row: Scope, *, alone: bool = False) -> None:
        """alone: every thread has the whole result."""
        result = self.part
        if not alone:
            row.lines.append(f"__shared__ {self.kind} {self.name}_room[32];")
            step = combine(self.what.kind, self.dtype, "a", "b")
            combined = f"[]({self.kind} a, {self.kind} b) -> {self.kind} {{ return {step}; }}"
            arguments = f"{self.part}, {self.name}_room, {self.neutral}, {combined}"
            result = f"reduce_block<THREADS, {self.kind}>({arguments})"
        kind = c.type_name(self.dtype)
        row.lines.append(f"const {kind} {self.name} = ({kind})({result});")
        row.names[self.what.local] = self.name
