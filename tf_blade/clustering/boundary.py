"""What a set of nodes reads and writes, and which nodes at its edge only add to that."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tf_blade.clustering.cost import VIEW_OPS
from tf_blade.clustering.region import Region
from tf_blade.graph.graph import TensorRef


@dataclass(frozen=True)
class Boundary:
    """Tensors on the edge of a cluster.

    Attributes:
      inputs: tensors read from outside, without the constants that become literals.
      outputs: results that nodes outside read, or that somebody fetches.
      fused: results that only members read and that the cluster need not write at all.
      names_kept: members that stay as an Identity because a main graph's fetch names them.
    """

    inputs: list[TensorRef]
    outputs: list[TensorRef]
    fused: list[TensorRef]
    names_kept: int


def find_boundary(region: Region, members: Collection[str]) -> Boundary:
    """The boundary of `members`, which are in topological order; the result is in that order."""
    inside = set(members)
    inputs: dict[TensorRef, None] = {}
    outputs: list[TensorRef] = []
    for name in members:
        for ref in region.graph.nodes[name].inputs:
            if ref.node not in inside and ref.node not in region.literals:
                inputs[ref] = None
        outputs += [TensorRef(name, i) for i in outputs_of(region, name, inside)]
    written = set(outputs) | {_view_root(region, ref, inside) for ref in outputs}
    fused = [r for name in members for r in region.output_refs(name) if r not in written]
    return Boundary(list(inputs), outputs, fused, len(region.named & inside))


def outputs_of(region: Region, name: str, inside: Collection[str]) -> list[int]:
    """Indices of a member's outputs that a cluster with the members `inside` has to give.

    Readers outside `eligible` keep the original nodes. Only if a main graph's fetch names this
    node, it is replaced by an Identity or IdentityN under its name, which then serves them too
    and needs all outputs up to the last one used; members may be among its readers, since those
    that somebody outside `eligible` needs stay.
    """
    uses = region.uses[name]
    read = {i for i, r in uses if i >= 0 and r not in inside and r in region.eligible}
    read |= region.fetched.get(name, set())
    if name not in region.named:
        return sorted(read)
    read |= {i for i, _ in uses if i >= 0}
    return list(range(max(read) + 1))


def trim(region: Region, members: list[str]) -> tuple[list[str], dict[str, str]]:
    """Drops views at the edge of a cluster whose result would be a copy of another tensor.

    In TensorFlow a Reshape or Identity shares its input's buffer. As an output of a cluster it is
    a tensor of its own: if its source is an input or an output of the cluster as well, the cluster
    would do no more than copy it.

    Returns: the members left, in topological order, and the reason of each node dropped.
    """
    inside = set(members)
    dropped: dict[str, str] = {}
    views = [name for name in members if region.graph.nodes[name].op in VIEW_OPS]
    changed = True
    while changed:
        changed = False
        for name in [*views, *reversed(views)]:
            if name in inside and _only_copies(region, name, inside):
                inside.discard(name)
                op = region.graph.nodes[name].op
                dropped[name] = f"at the edge of a cluster, where {op} is free only outside"
                changed = True
    return [name for name in members if name in inside], dropped


def _only_copies(region: Region, name: str, inside: set[str]) -> bool:
    outputs = outputs_of(region, name, inside)
    if not outputs:
        return False
    reads_members = any(source in inside for source in region.sources[name])
    read_by_members = any(reader in inside for _, reader in region.uses[name])
    if reads_members and read_by_members:
        return False  # taking it out could close a cycle
    root = _view_root(region, TensorRef(name, 0), inside)
    if root.node not in inside:
        return True
    chain_outputs = outputs_of(region, root.node, inside)
    return root.index in chain_outputs


def _view_root(region: Region, ref: TensorRef, inside: Collection[str]) -> TensorRef:
    """The tensor whose elements `ref` shows, followed through views inside the cluster."""
    while ref.node in inside and region.graph.nodes[ref.node].op in VIEW_OPS:
        ref = region.graph.nodes[ref.node].inputs[0]
    return ref
