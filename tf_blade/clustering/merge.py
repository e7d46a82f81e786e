"""Merging nodes into clusters without making a cycle: connected ones, then ready-together ones.

1. Connected nodes of one level. A node's level counts how often any path to it has left a
   cluster. A path that leaves a cluster never comes back to the same level, so all connected
   candidates of one level (and depth and place) can be merged at once, in linear time.
2. Connected clusters of different levels, one pair at a time, each checked for cycles.
3. Light clusters that nothing connects but that are ready together: one launch instead of many.

Merging makes all readers of the earlier piece wait for the inputs of the later one. So a merge
across depths is made only if those readers are no earlier than that anyway.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tf_blade.clustering import devices
from tf_blade.clustering.control_flow import Place
from tf_blade.clustering.cycles import MergeableDag
from tf_blade.clustering.region import Region

_OPEN_BINS = 4  # ready-together clusters under construction at a time


@dataclass
class _Piece:
    """A cluster under construction, or a single node outside (then `place` is None)."""

    members: list[str]
    place: Place | None
    device: devices.Device
    depth: int
    company: int = -1
    work_us: float = 0.0
    heavy: bool = False
    blocked: str = ""  # why the last merge failed


def merge_nodes(
    region: Region, names: Sequence[str], refused: Mapping[str, str]
) -> tuple[list[list[str]], dict[str, str]]:
    """Partitions the candidates among `names` into clusters.

    Args:
      region: facts about the graph.
      names: the nodes to look at, in topological order. No path may lead from one of them
        to another through a node that isn't listed.
      refused: nodes that can't be in a cluster, besides those the region refuses.

    Returns: clusters as lists of names in topological order, in the order of their first members;
      and, for the nodes of some clusters, what kept them from growing.
    """
    merger = _Merger(region, names, refused)
    merger.merge_connected()
    merger.merge_ready_together()
    pieces = [merger.pieces[i] for i in merger.dag.order() if merger.pieces[i].place is not None]
    for piece in pieces:
        piece.members.sort(key=region.position.__getitem__)
    pieces.sort(key=lambda piece: region.position[piece.members[0]])
    blocked = {name: p.blocked for p in pieces if p.blocked for name in p.members}
    return [piece.members for piece in pieces], blocked


class _Merger:
    def __init__(self, region: Region, names: Sequence[str], refused: Mapping[str, str]) -> None:
        self.region = region
        self.names = names
        listed = set(names)
        self.sources = {n: [s for s in region.sources[n] if s in listed] for n in names}
        self.candidate = {n for n in names if region.is_candidate(n) and n not in refused}
        groups = self._merge_levels()
        ids = {name: i for i, group in enumerate(groups) for name in group}
        edges = ((ids[s], ids[name]) for name in names for s in self.sources[name])
        self.dag = MergeableDag(len(groups), edges)
        self.pieces = [self._piece(group) for group in groups]

    def _merge_levels(self) -> list[list[str]]:
        """Step 1: groups of candidates of one level, depth and place; the others alone."""
        region, level = self.region, dict[str, int]()
        leader = {name: name for name in self.names}

        def find(name: str) -> str:
            while leader[name] != name:
                leader[name] = leader[leader[name]]
                name = leader[name]
            return name

        def same_place(a: str, b: str) -> bool:
            return (
                a in self.candidate
                and b in self.candidate
                and region.place[a] == region.place[b]
                and region.device[a] == region.device[b]
                and region.company[a] == region.company[b]
            )

        for name in self.names:
            level[name] = 0
            for source in self.sources[name]:
                leaves = source in self.candidate and not same_place(source, name)
                level[name] = max(level[name], level[source] + leaves)
            for source in self.sources[name]:
                if (
                    same_place(source, name)
                    and level[source] == level[name]
                    and region.depth[source] == region.depth[name]
                ):
                    leader[find(name)] = find(source)
        groups: dict[str, list[str]] = {}
        for name in self.names:
            groups.setdefault(find(name), []).append(name)
        return list(groups.values())

    def _piece(self, group: list[str]) -> _Piece:
        region, first = self.region, group[0]
        nodes = [region.graph.nodes[name] for name in group]
        if first not in self.candidate:
            # Readers that nobody serves (training, saving) may wait for as long as it takes.
            late = first not in region.eligible
            return _Piece(group, None, devices.ANYWHERE, 1 << 30 if late else region.depth[first])
        return _Piece(
            group,
            region.place[first],
            region.device[first],
            region.depth[first],
            region.company[first],
            sum(region.cost.work_us(region.types, n, region.output_refs(n.name)) for n in nodes),
            any(region.cost.is_heavy(n) for n in nodes),
        )

    def merge_connected(self) -> None:
        """Step 2: merges each cluster with the clusters it reads, nearest first, until none can."""
        changed = True
        while changed:
            changed = False
            for i in self.dag.order():
                if self.pieces[i].place is not None and self.pieces[i].members:
                    changed |= self._absorb_sources(i)

    def _absorb_sources(self, target: int) -> bool:
        heap: list[tuple[int, int]] = []
        tried: set[int] = set()
        absorbed = False

        def push() -> None:
            for source in self.dag.into[target]:
                if source not in tried and self.pieces[source].place is not None:
                    tried.add(source)
                    heapq.heappush(heap, (-self.dag.label(source), source))

        push()
        while heap:
            _, source = heapq.heappop(heap)
            if source not in self.dag.into[target]:
                continue  # merged away by the step before
            if not self._may_join(source, target):
                continue
            merged = self._merge(source, target)
            if merged >= 0:
                target, absorbed = merged, True
                tried.add(merged)
                push()
        return absorbed

    def _may_join(self, source: int, target: int) -> bool:
        a, b = self.pieces[source], self.pieces[target]
        if a.place != b.place:
            a.blocked = b.blocked = "its neighbours run under another control-flow condition"
            return False
        if a.company != b.company:
            a.blocked = b.blocked = "its neighbours serve a signature with other inputs"
            return False
        if devices.combine(a.device, b.device) is None:
            a.blocked = b.blocked = "its neighbours are on another device"
            return False
        if a.depth < b.depth:
            for reader in self.dag.out[source]:
                if reader != target and self.pieces[reader].depth < b.depth:
                    waiting = self.pieces[reader].members[0]
                    harm = f"keep '{waiting}' waiting"
                    if reader in self.dag.into[target]:
                        harm = f"make a cycle through '{waiting}'"
                    a.blocked = f"merging with '{b.members[0]}' would {harm}"
                    b.blocked = f"merging with '{a.members[0]}' would {harm}"
                    return False
        return True

    def _merge(self, a: int, b: int) -> int:
        """Merges two clusters; -1 if that would make a cycle."""
        merged, path = self.dag.merge(a, b)
        x, y = self.pieces[a], self.pieces[b]
        if merged < 0:
            through = self.pieces[path[0]].members[0]
            for one, other in ((x, y), (y, x)):
                one.blocked = (
                    f"merging with '{other.members[0]}' would make a cycle through '{through}'"
                )
            return -1
        device = devices.combine(x.device, y.device)
        assert device is not None
        if len(x.members) < len(y.members):
            x, y = y, x
        x.members.extend(y.members)
        self.pieces[merged] = _Piece(
            x.members,
            x.place,
            device,
            max(x.depth, y.depth),
            x.company,
            x.work_us + y.work_us,
            x.heavy or y.heavy,
        )
        gone = b if merged == a else a
        self.pieces[gone] = _Piece([], None, devices.ANYWHERE, 0)
        return merged

    def merge_ready_together(self) -> None:
        """Step 3: merges light clusters of equal place, depth and company, connected or not."""
        bins: dict[tuple[Place, int, int], list[int]] = {}
        for i in self.dag.order():
            piece = self.pieces[i]
            if piece.place is None or piece.heavy:
                continue
            if piece.work_us > self.region.cost.light_us:
                continue
            opened = bins.setdefault((piece.place, piece.depth, piece.company), [])
            for slot in range(len(opened) - 1, -1, -1):
                if devices.combine(self.pieces[opened[slot]].device, piece.device) is None:
                    continue
                merged = self._merge(opened[slot], i)
                if merged >= 0:
                    opened[slot] = merged
                    break
            else:
                opened.append(i)
                del opened[:-_OPEN_BINS]
