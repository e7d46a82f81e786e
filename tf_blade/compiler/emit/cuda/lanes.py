"""The innermost loop of a pass for one thread: N neighbouring elements, side by side in registers.

Where neighbours are neighbours in memory too, all of them are read and written at once.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence

from tf_blade.compiler.emit import c
from tf_blade.compiler.emit.masks import is_even
from tf_blade.compiler.emit.nest import print_store
from tf_blade.compiler.emit.scope import KernelText, Scope
from tf_blade.compiler.fuse.index import Affine, LoopVar
from tf_blade.compiler.fuse.scalar import Scalar
from tf_blade.compiler.ir.dims import Dim
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.schedule.kernel import Pass

# Lanes of the two versions of each kernel.
WIDE, NARROW = 4, 1


def neighbours(index: Affine | None, v: LoopVar) -> bool:
    """Whether the loop's neighbouring iterations are at neighbouring places."""
    return index is not None and index.coefficient(v) == 1 and is_even(index, v)


def loads_of_neighbours(p: Pass, v: LoopVar) -> list[Scalar]:
    """What the pass loads from neighbouring places, without repeats."""
    found: dict[Scalar, None] = {}
    seen: set[Scalar] = set()
    todo = list(reversed(p.scalars()))
    while todo:
        s = todo.pop()
        if s in seen:
            continue
        seen.add(s)
        todo.extend(s.needs())
        if s.kind == "load" and neighbours(s.index, v):
            found[s] = None
    return list(found)


def strides(p: Pass, v: LoopVar) -> list[Dim]:
    """What must be a multiple of WIDE for WIDE lanes to be at an aligned place."""
    indices = [s.index for s in loads_of_neighbours(p, v)] + [s.index for s in p.stores]
    found: dict[Dim, None] = {}
    for index in indices:
        if index is not None and neighbours(index, v):
            for atom, coefficient in index.terms:
                if atom != v:
                    found[coefficient] = None
            found[index.const] = None
    return [n for n in found if not (isinstance(n, int) and n % WIDE == 0)]


def read_lanes(load: Scalar, to: str, text: KernelText, scope: Scope) -> str:
    """The statement that reads the lanes of `load`."""
    assert load.value is not None and load.index is not None
    return f"read_lanes<N>({to}, &{text.address(load.value, load.index, scope, written=False)});"


def lanes_scope(around: Scope, v: LoopVar) -> Scope:
    """A block for lanes `first`, `first` + 1, … of the loop `v`, which is the first of them."""
    scope = around.inner([v])
    scope.lines.append(f"[[maybe_unused]] const i64 {v.name} = first;")
    return scope


def print_lanes(
    p: Pass,
    v: LoopVar,
    text: KernelText,
    scope: Scope,
    *,
    steps: Sequence[Callable[[Scope], None]] = (),
    read: Mapping[Scalar, str] | None = None,
    kept: Mapping[Value, str] | None = None,
    only_kept: Container[Value] = (),
) -> None:
    """Prints the pass for the lanes of `scope`, a `lanes_scope` of the loop `v`.

    steps: print those of the pass's reductions. read: the arrays of N elements that have
    been read already. kept: the arrays that what is stored goes to, besides its buffer, or
    (`only_kept`) in its place.
    """
    read, kept = read or {}, kept or {}
    lane = Scope(scope, frozenset([v]))
    lane.lines.append(f"[[maybe_unused]] const i64 {v.name} = first + lane;")
    for load in loads_of_neighbours(p, v):
        name = read.get(load)
        if name is None:
            assert load.value is not None
            name = text.unique(f"{text.value_name(load.value)}_x")
            scope.lines.append(f"{c.type_name(load.dtype)} {name}[N];")
            scope.lines.append(read_lanes(load, name, text, scope))
        lane.names[load] = f"{name}[lane]"
    writes: list[str] = []
    for step in steps:
        step(lane)
    for store in p.stores:
        name = kept.get(store.root, "")
        if not name and not neighbours(store.index, v):
            print_store(store, text, lane)
            continue
        if not name:
            name = text.unique(f"{text.value_name(store.root)}_y")
            scope.lines.append(f"{c.type_name(store.root.type.dtype)} {name}[N];")
        lane.lines.append(f"{name}[lane] = {text.text(store.scalar, lane)};")
        if store.root not in only_kept:
            place = text.address(store.root, store.index, scope, written=True)
            writes.append(f"write_lanes<N>(&{place}, {name});")
    scope.lines.append("#pragma unroll")
    scope.close(lane, "for (int lane = 0; lane < N; ++lane)")
    scope.lines += writes
    scope.flags |= lane.flags
