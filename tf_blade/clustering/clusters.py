"""Finding clusters: sets of nodes that the compiler runs as one BladeCluster op."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tf_blade.clustering.boundary import find_boundary, trim
from tf_blade.clustering.candidates import refusal
from tf_blade.clustering.cost import CostModel
from tf_blade.clustering.merge import merge_nodes
from tf_blade.clustering.region import Region, Support, look_at
from tf_blade.graph.graph import Graph, GraphError, TensorRef
from tf_blade.graph.shapes import Types


@dataclass(frozen=True)
class Cluster:
    """Nodes that can be replaced by one node without making a cycle.

    Attributes:
      name: "blade_cluster_N", a piece of a split cluster "blade_cluster_N_M".
      members: names of its nodes in topological order, without the constants copied into it.
      inputs: tensors it reads (at the time it was found), without those constants.
      outputs: results that nodes outside read or that somebody fetches.
      gain_us: what it saves per call, by estimate.
      region: facts about the graph it was found in.
    """

    name: str
    members: tuple[str, ...]
    inputs: tuple[TensorRef, ...]
    outputs: tuple[TensorRef, ...]
    gain_us: float
    region: Region = field(repr=False, compare=False)


def find_clusters(
    graph: Graph,
    types: Types,
    support: Support,
    *,
    eligible: Iterable[str] | None = None,
    served: Sequence[Collection[str]] = (),
    cost: CostModel | None = None,
    first: int = 0,
) -> tuple[list[Cluster], dict[str, str]]:
    """Partitions a graph's nodes into clusters worth running and nodes left to TensorFlow.

    Args:
      graph: a function body or a main graph. Not changed.
      types: dtypes and shapes of its tensors.
      support: None if the compiler can lower the node, or the reason why not.
      eligible: names of the nodes that may be replaced; all if None. In a main graph: the nodes
        between a signature's inputs and outputs, without the nodes that are fed. Every tensor that
        is fetched, or named in a collection, must be in `graph.outputs`.
      served: in a main graph, for each signature the names of its outputs in `graph.outputs`.
      cost: constants of the cost model.
      first: number of the first cluster, so that names are unique in a model of several graphs.

    Returns: the clusters, in the order of their first members, and the reason of every eligible
      node that is in none.

    Raises: GraphError if the graph has a cycle or a dangling input, or an eligible node is missing.
    """
    chosen = frozenset(graph.nodes if eligible is None else eligible)
    missing = chosen - graph.nodes.keys()
    if missing:
        raise GraphError(f"eligible node '{min(missing)}' is not in the graph")
    region = look_at(graph, types, support, chosen, cost or CostModel(), served)
    clusters, left_out = _cluster(region, region.order, region.refused, "blade_cluster", first)
    covered = {name for cluster in clusters for name in cluster.members}
    for name in region.order:
        if name in chosen and name not in covered and name not in left_out:
            left_out[name] = region.refused[name]
    literals = {
        ref.node
        for name in covered
        for ref in graph.nodes[name].inputs
        if ref.node in region.literals
    }
    for name in literals & left_out.keys():
        if all(reader in covered for _, reader in region.uses[name]):
            del left_out[name]  # copied into all of its readers' clusters
    return clusters, left_out


def split_out(cluster: Cluster, bad_node: str, reason: str) -> tuple[list[Cluster], dict[str, str]]:
    """Clusters the members again, without a node that turned out to have no lowering.

    Every path that leaves a cluster never comes back to it, so only paths among its own members,
    the bad node included, can make a cycle.

    Returns: the clusters left, with names made from the old one's, and the reasons of the others.

    Raises: KeyError if `bad_node` is no member.
    """
    if bad_node not in cluster.members:
        raise KeyError(f"'{bad_node}' is no member of {cluster.name}")
    region = cluster.region
    region.refused[bad_node] = reason
    clusters, left_out = _cluster(region, cluster.members, region.refused, cluster.name)
    left_out[bad_node] = reason
    return clusters, left_out


def one_cluster(region: Region, members: Collection[str], name: str) -> Cluster | None:
    """These nodes as one cluster, whatever it would save; None if they can't be one.

    They can't if one of them may be in no cluster, if they run in different places or for
    different signatures, or if a path leaves them and comes back.
    """
    graph = region.graph
    if any(refusal(graph, graph.nodes[member]) is not None for member in members):
        return None
    for facts in (region.place, region.device, region.company):
        if any(facts[member] != facts[next(iter(members))] for member in members):
            return None
    behind: set[str] = set()  # nodes outside that wait for a member
    for node in region.order:
        waits = any(source in behind for source in region.sources[node])
        if node in members:
            if waits:
                return None
        elif waits or any(source in members for source in region.sources[node]):
            behind.add(node)
    ordered = sorted(members, key=region.position.__getitem__)
    edge = find_boundary(region, ordered)
    return Cluster(name, tuple(ordered), tuple(edge.inputs), tuple(edge.outputs), 0.0, region)


def _cluster(
    region: Region, names: Sequence[str], refused: Mapping[str, str], prefix: str, first: int = 0
) -> tuple[list[Cluster], dict[str, str]]:
    groups, blocked = merge_nodes(region, names, refused)
    clusters: list[Cluster] = []
    left_out: dict[str, str] = {}
    for group in groups:
        members, dropped = trim(region, group)
        left_out.update(dropped)
        if not members:
            continue
        edge = find_boundary(region, members)
        estimate = region.cost.estimate(
            region.types,
            [region.graph.nodes[name] for name in members],
            edge.inputs,
            edge.outputs,
            edge.fused,
            edge.names_kept,
        )
        if estimate.refusal is None:
            cluster = Cluster(
                f"{prefix}_{first + len(clusters)}",
                tuple(members),
                tuple(edge.inputs),
                tuple(edge.outputs),
                estimate.gain_us,
                region,
            )
            clusters.append(cluster)
            continue
        for name in members:
            cause = blocked.get(name, "")
            left_out[name] = f"{estimate.refusal}; {cause}" if cause else estimate.refusal
    return clusters, left_out
