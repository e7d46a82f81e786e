"""Schedule of scatters.

Rows are shared out among threads. Each thread looks at all indices and applies, in their order, the
updates for its own rows: no locks, and the same sums whatever the number of threads.
"""

from __future__ import annotations

from collections.abc import Mapping

from tf_blade.compiler.fuse import index as ix
from tf_blade.compiler.fuse.groups import Group, spread, squeezed
from tf_blade.compiler.fuse.index import Affine, LoopVar
from tf_blade.compiler.fuse.scalar import Pool, Tracer
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.schedule.collapse import Collapse
from tf_blade.compiler.schedule.kernel import Scatter, Store


def scatter_kernel(group: Group, roots: Mapping[Value, object]) -> Scatter:
    """The kernel of a scatter group."""
    (root,) = group.roots
    assert root.op is not None
    target, indices, updates = root.op.operands
    shape = root.type.shape
    row, at = LoopVar("row", shape[0]), LoopVar("place", shape[0])
    update = LoopVar("update", indices.type.shape[0])
    loops = tuple(LoopVar(f"j{i}", n) for i, n in enumerate(squeezed(shape[1:])))
    inside = spread(loops, shape[1:])
    pool = Pool()
    tracer = Tracer(pool, roots)

    def moved(operand: Value, source: LoopVar, place: LoopVar) -> tuple[tuple[LoopVar, ...], Store]:
        """The loops over a slice, and the operand's slice `source` put into the result's `place`.

        A dim of 1 is a loop here, too: the variables are set in any case.
        """
        scalar = tracer.at(operand, (_itself(source), *inside))
        store = Store(root, ix.linear((_itself(place), *inside), shape), scalar)
        collapse = Collapse(pool, [scalar], [store.index])
        merged = collapse.merge(loops)
        return merged, collapse.stores([store])[0]

    index = tracer.at(indices, (_itself(update),))
    fill_loops, fill = moved(target, row, row)
    step_loops, step = moved(updates, update, at)
    kind = root.op.attrs["kind"]
    return Scatter(group, kind, row, update, at, index, fill_loops, fill, step_loops, step)


def _itself(v: LoopVar) -> Affine:
    return Affine(((v, 1),))
