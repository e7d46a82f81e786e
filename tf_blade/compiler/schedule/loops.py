"""Schedules of loop and row_reduce groups, concatenations and paddings."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from tf_blade.compiler.fuse import index as ix
from tf_blade.compiler.fuse.groups import (
    FULL,
    REDUCE,
    ROW,
    Group,
    depends,
    is_few,
    spread,
    squeezed,
    stages,
    trace,
)
from tf_blade.compiler.fuse.index import Affine, LoopVar
from tf_blade.compiler.fuse.scalar import Pool, Scalar, Tracer
from tf_blade.compiler.ir import dims as d
from tf_blade.compiler.ir.dims import Dim
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.schedule.collapse import Collapse, scalars_of
from tf_blade.compiler.schedule.kernel import Accumulate, Blocks, Inside, Kernel, Pass, Store

# Rows longer than this are shared among threads, block by block.
BLOCK = 1 << 14
# Sides of the blocks in which data is transposed, tile by tile: a block fits the second-level
# cache, and its pages the processor's table of them.
TRANSPOSED = 256


def loop_kernel(group: Group, roots: Mapping[Value, object], stored: Container[Value]) -> Kernel:
    """The kernel of a loop group. roots: values in memory; stored: those that need a buffer."""
    pool = Pool()
    bodies = _inlined(group, roots, pool)
    stores = [_store(group, r, bodies[r]) for r in group.roots if r in stored]
    collapse = Collapse(pool, [s.scalar for s in stores], [s.index for s in stores])
    loops = collapse.merge(group.loops)
    return _loop_nest(group, loops, collapse.stores(stores))


def _loop_nest(group: Group, loops: tuple[LoopVar, ...], stores: list[Store]) -> Kernel:
    if len(loops) <= 1:
        return Kernel(group, (), [Pass(loops, stores=stores)], flat=bool(loops))
    rows, inner = loops[:-1], loops[-1]
    across, transposed = _read_across(inner, rows, stores)
    if across is not None:
        cut = (across, inner)
        blocks = {v: _blocks(v, f"{v.name}_block", TRANSPOSED) for v in cut}
        rows = (*(v for v in rows if v is not across), *(b.block for b in blocks.values()))
        return Kernel(group, rows, [Pass(cut, stores=stores)], blocks=blocks, transposed=transposed)
    if isinstance(inner.extent, int) and inner.extent <= BLOCK:
        return Kernel(group, rows, [Pass((inner,), stores=stores)])
    blocks = {inner: _blocks(inner, "block", BLOCK)}
    rows = (*rows, *(b.block for b in blocks.values()))
    return Kernel(group, rows, [Pass((inner,), stores=stores)], blocks=blocks)


def _blocks(v: LoopVar, name: str, size: int) -> Blocks:
    return Blocks(LoopVar(name, d.ceil_div(v.extent, size)), size)


def _read_across(
    inner: LoopVar, rows: Sequence[LoopVar], stores: Sequence[Store]
) -> tuple[LoopVar | None, tuple[Scalar, ...]]:
    """The row loop whose neighbours lie next to each other in memory where those of the inner loop
    don't, and the loads of which that is so (of a transpose); None where there are none."""
    found: dict[LoopVar, list[Scalar]] = {}
    for s in scalars_of(store.scalar for store in stores):
        if s.kind != "load" or s.index is None or s.index.coefficient(inner) in (-1, 0, 1):
            continue
        for v in rows:
            short = isinstance(v.extent, int) and v.extent < 4
            if s.index.coefficient(v) == 1 and not short and _is_plain(s.index, (v, inner)):
                found.setdefault(v, []).append(s)
    across = next(iter(found), None)
    return across, tuple(found[across]) if across is not None else ()


def _is_plain(index: Affine, loops: Sequence[LoopVar]) -> bool:
    """Whether steps along these loops are the same everywhere."""
    atoms = (a for a, _ in index.terms if not isinstance(a, LoopVar))
    return not any(ix.vars_of(a).intersection(loops) for a in atoms)


def row_reduce_kernel(
    group: Group, roots: Mapping[Value, object], stored: Container[Value]
) -> Kernel:
    """The kernel of a row_reduce group: one pass for each step of its chain of reductions."""
    pool = Pool()
    bodies = trace(group, roots, pool)
    stage = stages(group, bodies)
    reads = depends(group, bodies)

    def pass_of(root: Value) -> int:
        return stage[root] - 1 if group.roles[root] == REDUCE else stage[root]

    in_columns = [r for r in group.roots if group.roles[r] != ROW]
    # Elements that a later pass needs again are kept: in their buffer, or for this row only.
    kept = [
        root
        for root in in_columns
        if group.roles[root] == FULL
        and any(root in reads[r] and pass_of(root) < pass_of(r) for r in in_columns)
    ]
    row_size = d.product([v.extent for v in group.columns])
    scratch = {r: row_size for r in kept if r not in stored}

    row_local: dict[Value, tuple[tuple[Affine, ...], Scalar]] = {
        r: (group.home(r), pool.local(r, group.variables(r)))
        for r in group.roots
        if group.roles[r] == REDUCE
    }
    row_stores = [
        _store(group, r, row_local[r][1])
        for r in group.roots
        if group.roles[r] == REDUCE and r in stored
    ]
    for root in group.roots:
        if group.roles[root] == ROW:
            body = group.body(Tracer(pool, roots, row_local), root)
            row_local[root] = (group.home(root), body)
            if root in stored:
                row_stores.append(_store(group, root, body))

    def place(root: Value) -> Affine:
        loops = group.columns if root in scratch else group.loops
        return ix.linear(tuple(ix.variable(v) for v in loops), tuple(v.extent for v in loops))

    passes: list[Pass] = []
    for number in range(1 + max((pass_of(r) for r in in_columns), default=-1)):
        local = dict(row_local)
        for root in kept:
            if pass_of(root) < number:
                # Scratch has no place for each row, but another content.
                element = pool.load(root, place(root), frozenset(group.loops))
                local[root] = (group.home(root), element)
        nest = Pass(group.columns)
        for root in in_columns:
            if pass_of(root) != number:
                continue
            body = group.body(Tracer(pool, roots, local), root)
            if group.roles[root] == REDUCE:
                assert root.op is not None
                result = row_local[root][1]
                nest.accumulates.append(Accumulate(root, root.op.attrs["kind"], body, result))
                continue
            local[root] = (group.home(root), body)
            if root in stored or root in scratch:
                nest.stores.append(Store(root, place(root), body))
        if nest.accumulates or nest.stores:
            passes.append(nest)

    kernel = Kernel(group, group.rows, passes, row_stores, scratch)
    return _collapsed(kernel, pool, runs_of(group.loops, group.rows))


def runs_of(loops: Sequence[LoopVar], chosen: Sequence[LoopVar]) -> list[list[LoopVar]]:
    """The chosen loops in runs of neighbours in `loops`."""
    runs: list[list[LoopVar]] = [[]]
    for v in loops:
        if v in chosen:
            runs[-1].append(v)
        elif runs[-1]:
            runs.append([])
    return [r for r in runs if r]


def _collapsed(
    kernel: Kernel,
    pool: Pool,
    row_runs: Sequence[Sequence[LoopVar]],
    fixed: Sequence[Affine] = (),
) -> Kernel:
    """The kernel with its loops merged where possible.

    row_runs: row loops that are neighbours. fixed: expressions that keep their loops apart.
    """
    scalars = [s for p in kernel.passes for s in p.scalars()]
    scalars += [s.scalar for s in kernel.row_stores]
    stores = [s for p in kernel.passes for s in p.stores] + kernel.row_stores
    collapse = Collapse(pool, scalars, [*(s.index for s in stores), *fixed])
    rows = tuple(v for run in row_runs for v in collapse.merge(run))
    done: dict[tuple[LoopVar, ...], tuple[LoopVar, ...]] = {}
    passes: list[Pass] = []
    for p in kernel.passes:
        if p.loops not in done:
            runs = runs_of(kernel.group.loops, p.loops) if kernel.group.loops else [list(p.loops)]
            done[p.loops] = tuple(v for run in runs for v in collapse.merge(run))
    for p in kernel.passes:
        passes.append(
            Pass(
                done[p.loops],
                collapse.accumulates(p.accumulates),
                collapse.stores(p.stores),
                p.inside,
                p.outside,
            )
        )
    return Kernel(kernel.group, rows, passes, collapse.stores(kernel.row_stores), kernel.scratch)


def _inlined(group: Group, roots: Mapping[Value, object], pool: Pool) -> dict[Value, Scalar]:
    """The bodies of a loop group's roots, in terms of values from outside only."""
    local: dict[Value, tuple[tuple[Affine, ...], Scalar]] = {}
    for root in group.roots:
        local[root] = (group.home(root), group.body(Tracer(pool, roots, local), root))
    return {root: scalar for root, (_, scalar) in local.items()}


def _store(group: Group, root: Value, scalar: Scalar) -> Store:
    return Store(root, ix.linear(group.home(root), root.type.shape), scalar)


def concatenate_kernels(group: Group, roots: Mapping[Value, object]) -> list[Kernel]:
    """One pass for each operand, which writes its part of the row; rows are the dims before the
    concatenated one. Without such dims each operand is a kernel of its own."""
    (root,) = group.roots
    assert root.op is not None
    dim, shape = root.op.attrs["dim"], root.type.shape
    outer = tuple(LoopVar(f"i{i}", n) for i, n in enumerate(squeezed(shape[:dim])))
    pool = Pool()
    tracer = Tracer(pool, roots)
    passes: list[Pass] = []
    offset: Dim = 0
    for number, operand in enumerate(root.op.operands):
        inner_shape = operand.type.shape[dim:]
        inner = tuple(LoopVar(f"j{number}_{i}", n) for i, n in enumerate(squeezed(inner_shape)))
        index = (*spread(outer, shape[:dim]), *spread(inner, inner_shape))
        target = (*index[:dim], index[dim].plus(offset), *index[dim + 1 :])
        scalar = tracer.at(operand, index)
        store = Store(root, ix.linear(target, shape), scalar)
        passes.append(Pass(inner, stores=[store]))
        offset = ix.add(offset, operand.type.shape[dim])
    if not is_few(outer):
        return [_collapsed(Kernel(group, outer, passes), pool, [outer])]
    kernels: list[Kernel] = []
    for p in passes:
        collapse = Collapse(pool, p.scalars(), [s.index for s in p.stores])
        loops = collapse.merge((*outer, *p.loops))
        stores = collapse.stores(p.stores)
        kernels.append(_loop_nest(group, loops, stores))
    return kernels


def pad_kernel(group: Group, roots: Mapping[Value, object]) -> Kernel:
    """Rows are the dims before the last padded one. A row inside the operand's part is padding,
    elements, padding; any other row is padding only."""
    (root,) = group.roots
    assert root.op is not None
    operand, fill = root.op.operands
    low, high, shape = root.op.attrs["low"], root.op.attrs["high"], root.type.shape
    padded = [i for i in range(len(shape)) if low[i] != 0 or high[i] != 0]
    last = padded[-1] if padded else 0
    pool = Pool()
    tracer = Tracer(pool, roots)
    rows: list[LoopVar] = []
    inside: list[Inside] = []
    row_index: list[Affine] = []
    inner_index: list[Affine] = []
    for axis in range(last):
        row = LoopVar(f"i{axis}", shape[axis])
        if shape[axis] != 1:
            rows.append(row)
        row_index.append(ix.variable(row))
        if axis in padded:
            inner = LoopVar(f"k{axis}", operand.type.shape[axis])
            inside.append(Inside(row, inner, low[axis]))
            inner_index.append(Affine(((inner, 1),)))
        else:
            inner_index.append(ix.variable(row))
    tail = operand.type.shape[last:]
    loops = tuple(LoopVar(f"j{i}", n) for i, n in enumerate(squeezed(tail)))
    tail_index = spread(loops, tail)
    target = (*row_index, tail_index[0].plus(low[last]), *tail_index[1:]) if tail else ()
    element = tracer.at(operand, (*inner_index, *tail_index))
    copy = Pass(loops, stores=[Store(root, ix.linear(target, shape), element)])
    copy.inside = tuple(inside)
    stride = d.product(shape[last + 1 :])
    row_start = ix.linear((*row_index, *([ix.ZERO] * (len(shape) - last))), shape)

    def filling(name: str, start: Dim, count: Dim) -> Pass:
        var = LoopVar(name, count)
        position = row_start + ix.variable(var).plus(start)
        return Pass((var,), stores=[Store(root, position, tracer.at(fill, ()))])

    passes: list[Pass] = []
    if inside:
        whole = filling("whole", 0, d.product(shape[last:]))
        whole.outside = tuple(inside)
        passes.append(whole)
    if tail:
        before = filling("before", 0, ix.mul(low[last], stride))
        after = filling(
            "after",
            ix.mul(ix.add(low[last], tail[0]), stride),
            ix.mul(high[last], stride),
        )
        before.inside = after.inside = tuple(inside)
        passes += [p for p in (before, after) if p.loops[0].extent != 0]
    passes.append(copy)
    fixed = [Affine(((i.row, 1),)) for i in inside] + [Affine(((i.inner, 1),)) for i in inside]
    return _collapsed(Kernel(group, tuple(rows), passes), pool, [rows], fixed)
