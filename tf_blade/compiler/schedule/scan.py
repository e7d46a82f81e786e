"""Schedule of scans: everything but the scanned dim is independent."""

from __future__ import annotations

from collections.abc import Mapping

from tf_blade.compiler.fuse import index as ix
from tf_blade.compiler.fuse.groups import Group, spread, squeezed
from tf_blade.compiler.fuse.index import LoopVar
from tf_blade.compiler.fuse.scalar import Pool, Tracer
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.schedule.collapse import Collapse
from tf_blade.compiler.schedule.kernel import Scan, Store


def scan_kernel(group: Group, roots: Mapping[Value, object]) -> Scan:
    """The kernel of a scan group."""
    (root,) = group.roots
    assert root.op is not None
    attrs, shape = root.op.attrs, root.type.shape
    dim = attrs["dim"]
    outer = tuple(LoopVar(f"i{i}", n) for i, n in enumerate(squeezed(shape[:dim])))
    inner = tuple(LoopVar(f"j{i}", n) for i, n in enumerate(squeezed(shape[dim + 1 :])))
    along = LoopVar("k", shape[dim])
    place = ix.Affine(((along, 1),))
    if attrs["reverse"]:
        place = place.times(-1).plus(ix.sub(shape[dim], 1))
    index = (*spread(outer, shape[:dim]), place, *spread(inner, shape[dim + 1 :]))
    pool = Pool()
    store = Store(root, ix.linear(index, shape), Tracer(pool, roots).at(root.op.operands[0], index))
    collapse = Collapse(pool, [store.scalar], [store.index])
    rows, rest = collapse.merge(outer), collapse.merge(inner)
    if attrs["kind"] == "logsumexp" and not rest:
        # Each step waits long for the one before: go along several rows at once.
        rows, rest = rows[:-1], rows[-1:]
    return Scan(
        group,
        attrs["kind"],
        attrs["exclusive"],
        (*rows, *rest[:-1]),
        along,
        rest[-1] if rest else None,
        collapse.stores([store])[0],
    )
