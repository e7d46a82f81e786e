"""Groups: roots that one kernel computes together.

Every group iterates over a space of loops. `rows` are the loops that any order of execution may
split among threads; reductions have `columns` too, which are summed up within a row. Each root has
a role that says over which loops it lives:

    full    one element for each iteration of rows and columns
    reduce  reduces its operand, a full expression, over the columns
    row     one element for each iteration of rows

In a column_reduce group, roots of the last two roles may live over the outermost of the rows only:
the sum of a mask over [batch, steps], beside masked sums over [batch, steps, columns].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tf_blade.compiler.fuse import index as ix
from tf_blade.compiler.fuse.index import LoopVar
from tf_blade.compiler.fuse.scalar import Index, Pool, Scalar, Tracer
from tf_blade.compiler.ir.dims import Dim, Shape
from tf_blade.compiler.ir.program import Value

FULL, REDUCE, ROW = "full", "reduce", "row"


def squeezed(shape: Shape) -> Shape:
    """The dims that are not 1: only they are looped over."""
    return tuple(n for n in shape if n != 1)


@dataclass(eq=False)
class Group:
    """Roots computed by one kernel.

    kind: loop, row_reduce, column_reduce, concatenate, pad, scan, scatter, top_k, positions,
      first_equal, dot_general, conv, rfft, irfft, dynamic_update, while, or host (a few numbers
      that the calling thread writes).
    roots: in program order, with their roles in `roles`.
    loops: the loops of the full space, outermost first; `rows` are those not reduced.
    """

    kind: str
    roots: list[Value]
    roles: dict[Value, str] = field(default_factory=dict)
    loops: tuple[LoopVar, ...] = ()
    rows: tuple[LoopVar, ...] = ()
    name: str = ""

    @property
    def columns(self) -> tuple[LoopVar, ...]:
        return tuple(v for v in self.loops if v not in self.rows)

    @property
    def is_reduction(self) -> bool:
        return self.kind in ("row_reduce", "column_reduce")

    @property
    def is_fusible(self) -> bool:
        return self.is_reduction or self.kind == "loop"

    def home(self, root: Value) -> Index:
        """The index of the root's element that an iteration computes."""
        return spread(self._loops_of(root), root.type.shape)

    def variables(self, root: Value) -> frozenset[LoopVar]:
        """The loops that the root's element depends on."""
        return frozenset(self._loops_of(root))

    def _loops_of(self, root: Value) -> tuple[LoopVar, ...]:
        return self.loops if self.roles[root] == FULL else self.rows[: rows_of(root)]

    def is_outer(self, root: Value) -> bool:
        """Whether the root lives over the outermost of the rows only."""
        return self.roles[root] != FULL and rows_of(root) < len(self.rows)

    def body(self, tracer: Tracer, root: Value) -> Scalar:
        """What an iteration computes for the root: its element, or what its reduction adds."""
        assert root.op is not None
        if self.roles[root] == REDUCE:
            operand = root.op.operands[0]
            outside = self.rows[rows_of(root) :]
            loops = [v for v in self.loops if v not in outside]
            return tracer.at(operand, spread(loops, operand.type.shape))
        return tracer.body(root.op, self.home(root))


def rows_of(root: Value) -> int:
    """How many row loops a root that isn't full lives over."""
    return len(squeezed(root.type.shape))


def spread(loops: Sequence[LoopVar], shape: Shape) -> Index:
    """An index with the loops on the dims that are not 1, in order."""
    remaining = iter(loops)
    return tuple(ix.ZERO if n == 1 else ix.variable(next(remaining)) for n in shape)


def loop_group(root: Value) -> Group:
    """A group of one elementwise root."""
    loops = tuple(LoopVar(f"i{i}", n) for i, n in enumerate(squeezed(root.type.shape)))
    return Group("loop", [root], {root: FULL}, loops, loops)


def reduce_group(root: Value) -> Group:
    """A group of one reduction. Loops that are reduced are named j, the others i."""
    assert root.op is not None
    shape, dims = root.op.operands[0].type.shape, root.op.attrs["dims"]
    loops: list[LoopVar] = []
    rows: list[LoopVar] = []
    for axis, n in enumerate(shape):
        if n == 1:
            continue
        if axis in dims:
            loops.append(LoopVar(f"j{len(loops) - len(rows)}", n))
        else:
            rows.append(LoopVar(f"i{len(rows)}", n))
            loops.append(rows[-1])
    by_column = bool(loops) and loops[-1] in rows and len(rows) < len(loops)
    kind = "column_reduce" if by_column else "row_reduce"
    return Group(kind, [root], {root: REDUCE}, tuple(loops), tuple(rows))


def trace(
    group: Group, roots: Mapping[Value, object], pool: Pool | None = None
) -> dict[Value, Scalar]:
    """The body of each root, with the other roots of the group as locals.

    Raises NotInPlace when one root reads another at an element other than its iteration's.
    """
    pool = pool or Pool()
    local = {r: (group.home(r), pool.local(r, group.variables(r))) for r in group.roots}
    tracer = Tracer(pool, roots, local)
    return {root: group.body(tracer, root) for root in group.roots}


def merged(a: Group, b: Group) -> Group | None:
    """The group of both's roots over one space, or None when their loops don't fit together.

    Only shapes are compared: `trace` tells whether the roots read each other in place.
    """
    if not (a.is_fusible and b.is_fusible):
        return None
    if a.is_reduction and b.is_reduction:
        if a.kind == b.kind and _signature(a) == _signature(b):
            return _joined(a, b, dict(b.roles))
        whole, part = (a, b) if a.kind == "column_reduce" else (b, a)
        return _joined(whole, part, dict(part.roles)) if _is_outer_part(part, whole) else None
    if a.is_reduction or b.is_reduction:
        reduction, loop = (a, b) if a.is_reduction else (b, a)
        role = _role_in(reduction, tuple(v.extent for v in loop.loops))
        return _joined(reduction, loop, dict.fromkeys(loop.roots, role)) if role else None
    same = tuple(v.extent for v in a.loops) == tuple(v.extent for v in b.loops)
    return _joined(a, b, dict(b.roles)) if same else None


def _signature(group: Group) -> tuple[tuple[Dim, bool], ...]:
    return tuple((v.extent, v in group.rows) for v in group.loops)


def _is_outer_part(part: Group, whole: Group) -> bool:
    """Whether the part's loops are the whole's without some of its innermost rows."""
    left = whole.rows[len(part.rows) :]
    signature = tuple((v.extent, v in whole.rows) for v in whole.loops if v not in left)
    return (
        (whole.kind, part.kind) == ("column_reduce", "row_reduce")
        and bool(left)
        and signature == _signature(part)
        and FULL not in part.roles.values()
    )


def _role_in(reduction: Group, extents: Shape) -> str | None:
    if extents == tuple(v.extent for v in reduction.rows):
        return ROW
    # Columns are summed tile by tile, and one long row by several threads: both in one pass only.
    splits = reduction.kind == "column_reduce" or is_few(reduction.rows)
    if extents == tuple(v.extent for v in reduction.loops) and not splits:
        return FULL
    return None


def is_few(loops: Sequence[LoopVar]) -> bool:
    """Whether these loops are known to have too few iterations to be worth several threads."""
    total: Dim = 1
    for v in loops:
        total = ix.mul(total, v.extent)
    return isinstance(total, int) and total <= 4


def _joined(a: Group, b: Group, roles_of_b: dict[Value, str]) -> Group:
    return Group(a.kind, [*a.roots, *b.roots], {**a.roles, **roles_of_b}, a.loops, a.rows)


def depends(group: Group, bodies: Mapping[Value, Scalar]) -> dict[Value, set[Value]]:
    """For each root, the roots of the same group that its body reads."""
    found: dict[Value, set[Value]] = {}
    for root, body in bodies.items():
        reads: set[Value] = set()
        seen: set[Scalar] = set()
        todo = [body]
        while todo:
            s = todo.pop()
            if s in seen:
                continue
            seen.add(s)
            todo.extend(s.needs())
            if s.kind == "local" and s.value is not None:
                reads.add(s.value)
        found[root] = reads
    return found


def stages(group: Group, bodies: Mapping[Value, Scalar]) -> dict[Value, int]:
    """How many passes over the columns must be complete before each root is known.

    A reduction that pass 0 makes has the value 1; what is computed in pass 0 itself, 0.
    """
    reads = depends(group, bodies)
    known: dict[Value, int] = {}

    def stage(root: Value) -> int:
        if root not in known:
            ready = max((stage(r) for r in reads[root]), default=0)
            known[root] = ready + 1 if group.roles[root] == REDUCE else ready
        return known[root]

    for root in group.roots:
        stage(root)
    return known
