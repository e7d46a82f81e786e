"""The fusion plan of a model as a table: its kernels, what is in each, and why it may be one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.markup import escape
from rich.text import Text

from tf_blade.compiler.fuse.groups import FULL, REDUCE, ROW, Group
from tf_blade.compiler.fuse.index import LoopVar
from tf_blade.compiler.fuse.matrices import base
from tf_blade.compiler.fuse.plan import Plan, plan
from tf_blade.compiler.ir.dims import to_text
from tf_blade.compiler.shape import Facts
from tf_blade.dump.read import Dump
from tf_blade.report_table import plain_table

_COLUMNS = ("kernel", "loops", "makes", "ops", "why it is one")
_FREE = frozenset(["reshape", "broadcast_in_dim", "constant"])


@dataclass(frozen=True)
class Fusion:
    """One kernel.

    Attributes:
      name: as in the generated source; its kind and a number.
      loops: "[s0, s1]", or "rows [s0] columns [s1]" for a reduction.
      makes: its results that others read, as in 2_rewritten.ir.
      ops: how many ops of each kind it computes, those that compute nothing left out.
      nodes: the TensorFlow nodes that they come from.
      why: which equal shapes let its parts share loops; for a part alone, why it has memory.
    """

    name: str
    loops: str
    makes: tuple[str, ...]
    ops: dict[str, int]
    nodes: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class ClusterFusions:
    """The kernels of one cluster, in the order in which they run, and what is known of its dims."""

    name: str
    kernels: tuple[Fusion, ...]
    facts: str = ""


def read_fusions(dump: Dump) -> list[ClusterFusions]:
    """The plan of each cluster of a dump. Raises DumpError."""
    clusters = [c for c in dump.clusters.values() if not c.is_lookup]
    return [
        ClusterFusions(c.name, fusions_of(plan(c.rewritten)), str(Facts(c.rewritten)))
        for c in clusters
    ]


def fusions_of(found: Plan) -> tuple[Fusion, ...]:
    """The plan's groups."""
    read = {v for group in found.groups for v in found.reads(group)}
    read |= {base(v) for v in found.program.results}
    kernels: list[Fusion] = []
    for group in found.groups:
        ops = found.ops(group)
        nodes = dict.fromkeys(n for op in ops for n in op.source.split(", ") if n)
        counts = Counter(op.kind for op in ops if op.kind not in _FREE)
        made = tuple(str(root) for root in group.roots if root in read)
        kernels.append(
            Fusion(group.name, _loops(group), made, dict(counts), tuple(nodes), _why(group, found))
        )
    return tuple(kernels)


def _loops(group: Group) -> str:
    if group.is_reduction:
        return f"rows {_extents(group.rows)} columns {_extents(group.columns)}"
    return _extents(group.loops) if group.loops else ""


def _extents(loops: Iterable[LoopVar]) -> str:
    return "[" + ", ".join(to_text(v.extent) for v in loops) + "]"


def _why(group: Group, found: Plan) -> str:
    if len(group.roots) == 1:
        return f"alone: {found.roots.get(group.roots[0], 'result')}"
    by_role = {
        role: [str(root) for root in group.roots if group.roles[root] == role]
        for role in (REDUCE, ROW, FULL)
    }
    facts = {
        REDUCE: f"reduced over the same columns {_extents(group.columns)}",
        ROW: f"one element for each of the rows {_extents(group.rows)}",
        FULL: f"of the same shape {_extents(group.loops)}",
    }
    return "; ".join(f"{', '.join(v)} {facts[role]}" for role, v in by_role.items() if v)


def fusions_renderable(clusters: Sequence[ClusterFusions]) -> RenderableType:
    """A table for each cluster."""
    if not clusters:
        return Text("nothing was compiled")
    parts: list[RenderableType] = []
    for cluster in clusters:
        rows = [
            tuple(map(escape, (k.name, k.loops, ", ".join(k.makes), _ops_text(k), k.why)))
            for k in cluster.kernels
        ]
        count = f"{len(rows)} kernel" + ("" if len(rows) == 1 else "s")
        parts.append(plain_table(f"{cluster.name}: {count}", _COLUMNS, rows))
        if cluster.facts:
            parts.append(Text(f"{cluster.facts}\n"))
    return Lines(*parts)


def _ops_text(kernel: Fusion) -> str:
    return ", ".join(kind if n == 1 else f"{n} {kind}" for kind, n in kernel.ops.items())
