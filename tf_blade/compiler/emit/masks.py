"""Which loops fill the lanes of vectors evenly, so that their ends may be masked vectors."""

from __future__ import annotations

from collections.abc import Container

from tf_blade.compiler.emit.operations import may_refuse
from tf_blade.compiler.fuse.index import Affine, LoopVar, vars_of
from tf_blade.compiler.fuse.scalar import Scalar
from tf_blade.compiler.ir.types import DType
from tf_blade.compiler.schedule.kernel import Pass
from tf_blade.compiler.shape import divisor

_LANES = 8
_MOST_LANES = 16  # of all instruction sets
_TYPES = frozenset([DType.F32, DType.I32, DType.U32])


def may_end_masked(v: LoopVar) -> bool:
    """Whether whole vectors may leave something over. If not, the compiler sees that, too, of a
    number; very short loops it unrolls."""
    if isinstance(v.extent, int):
        return v.extent > _LANES and v.extent % _LANES != 0
    return divisor(v.extent) % _MOST_LANES != 0


def fills_lanes(p: Pass, v: LoopVar, tiled: Container[Scalar] = ()) -> bool:
    """Whether the pass's innermost loop `v` reads and writes neighbouring elements of four bytes
    only, or what is the same for all of them: instruction sets have masks for these.

    tiled: loads that are copied to neighbouring places before.
    """
    if isinstance(v.extent, int) and v.extent < _LANES:
        return False
    if not all(s.root.type.dtype in _TYPES and is_even(s.index, v) for s in p.stores):
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
        if s.kind in ("taken", "index") or may_refuse(s):
            return False
        if s.dtype not in _TYPES and s.dtype is not DType.BOOL:
            return False
        if s.kind == "load" and s.dtype is DType.BOOL:
            return False
        if s.kind == "load" and not (s in tiled or is_even(s.index, v)):
            return False
    return True


def is_even(index: Affine | None, v: LoopVar) -> bool:
    """Whether neighbouring iterations are at neighbouring places, or at one."""
    if index is None or index.coefficient(v) not in (0, 1):
        return False
    return all(isinstance(atom, LoopVar) for atom, _ in index.terms if v in vars_of(atom))
