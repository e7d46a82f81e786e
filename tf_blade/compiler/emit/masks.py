"""Which loops may end with a masked vector."""

from __future__ import annotations

from tf_blade.compiler.fuse.index import Affine, LoopVar, vars_of
from tf_blade.compiler.fuse.scalar import Scalar
from tf_blade.compiler.ir.types import DType
from tf_blade.compiler.schedule.kernel import Pass

_LANES = 8
_TYPES = frozenset([DType.F32, DType.I32, DType.U32])


def can_be_masked(p: Pass, v: LoopVar) -> bool:
    """Whether the pass's innermost loop `v` reads and writes neighbouring elements of four bytes
    only, or what is the same for all of them: instruction sets have masks for these. And whether
    whole vectors may leave something over."""
    if isinstance(v.extent, int) and (v.extent < _LANES or v.extent % _LANES == 0):
        return False  # the compiler sees that nothing is left over, or unrolls the loop
    if p.accumulates and len(p.loops) > 1:
        return False  # adding up a vector's lanes would cost more than a short inner loop
    if not all(s.root.type.dtype in _TYPES and _is_even(s.index, v) for s in p.stores):
        return False
    if not all(a.root.type.dtype in _TYPES for a in p.accumulates):
        return False
    seen: set[Scalar] = set()
    todo = p.scalars()
    while todo:
        s = todo.pop()
        if s in seen or v not in s.vars:
            continue
        seen.add(s)
        todo.extend(s.needs())
        if s.kind in ("taken", "index", "checked"):
            return False
        if s.dtype not in _TYPES and s.dtype is not DType.BOOL:
            return False
        if s.kind == "load" and (s.dtype is DType.BOOL or not _is_even(s.index, v)):
            return False
    return True


def _is_even(index: Affine | None, v: LoopVar) -> bool:
    """Whether neighbouring iterations are at neighbouring places, or at one."""
    if index is None or index.coefficient(v) not in (0, 1):
        return False
    return all(isinstance(atom, LoopVar) for atom, _ in index.terms if v in vars_of(atom))
