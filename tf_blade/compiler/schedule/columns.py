"""Schedule of column_reduce groups."""

from __future__ import annotations

from collections.abc import Container, Mapping

from tf_blade.compiler.fuse import index as ix
from tf_blade.compiler.fuse.groups import REDUCE, Group
from tf_blade.compiler.fuse.index import Affine
from tf_blade.compiler.fuse.scalar import Pool, Scalar, Tracer
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.schedule.collapse import Collapse
from tf_blade.compiler.schedule.kernel import Accumulate, ColumnReduce, Pass, Store
from tf_blade.compiler.schedule.loops import runs_of


def column_reduce_kernel(
    group: Group, roots: Mapping[Value, object], stored: Container[Value]
) -> ColumnReduce:
    """The kernel of a column_reduce group: one pass, then what is computed from its sums."""
    pool = Pool()
    local: dict[Value, tuple[tuple[Affine, ...], Scalar]] = {}
    accumulates: list[Accumulate] = []
    outer: list[Accumulate] = []
    stores: list[Store] = []
    for root in group.roots:
        assert root.op is not None
        body = group.body(Tracer(pool, roots, local), root)
        if group.roles[root] == REDUCE:
            result = pool.local(root, group.variables(root))
            sums = outer if group.is_outer(root) else accumulates
            sums.append(Accumulate(root, root.op.attrs["kind"], body, result))
            body = result
        local[root] = (group.home(root), body)
        if root in stored:
            stores.append(Store(root, ix.linear(group.home(root), root.type.shape), body))
    scalars = [a.scalar for a in (*accumulates, *outer)] + [s.scalar for s in stores]
    # Loops that only some roots live over stay apart from those of all.
    homes = [ix.linear(group.home(a.root), a.root.type.shape) for a in outer]
    collapse = Collapse(pool, scalars, [*(s.index for s in stores), *homes])
    rows = [v for run in runs_of(group.loops, group.rows) for v in collapse.merge(run)]
    reduced = [v for run in runs_of(group.loops, group.columns) for v in collapse.merge(run)]
    return ColumnReduce(
        group,
        tuple(rows[:-1]),
        tuple(reduced),
        rows[-1],
        collapse.accumulates(accumulates),
        collapse.stores(stores),
        [Pass(tuple(reduced), [a]) for a in collapse.accumulates(outer)],
    )
