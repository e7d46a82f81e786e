"""Schedule of top_k: rows are independent."""

from __future__ import annotations

from collections.abc import Mapping

from tf_blade.compiler.fuse import index as ix
from tf_blade.compiler.fuse.groups import Group, spread, squeezed
from tf_blade.compiler.fuse.index import Affine, LoopVar
from tf_blade.compiler.fuse.scalar import Pool, Tracer
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.schedule.collapse import Collapse
from tf_blade.compiler.schedule.kernel import Store, TopK


def top_k_kernel(group: Group, roots: Mapping[Value, object]) -> TopK:
    """The kernel of a top_k group."""
    (root,) = group.roots
    assert root.op is not None
    source = root.op.operands[0]
    rows = tuple(LoopVar(f"i{i}", n) for i, n in enumerate(squeezed(root.type.shape[:-1])))
    outer = spread(rows, root.type.shape[:-1])
    along, rank = LoopVar("j", source.type.shape[-1]), LoopVar("rank", root.type.shape[-1])
    pool = Pool()
    element = Tracer(pool, roots).at(source, (*outer, Affine(((along, 1),))))
    place = ix.linear((*outer, Affine(((rank, 1),))), root.type.shape)
    collapse = Collapse(pool, [element], [place])
    merged = collapse.merge(rows)
    store = collapse.stores([Store(root, place, element)])[0]
    return TopK(group, merged, along, store.scalar, rank, store.index)
