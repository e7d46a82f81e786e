"""Nodes that run kernels from outside, in the places of what patterns match."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from tf_blade.clustering import Cluster, CostModel, Replacement, outline, replace_all
from tf_blade.clustering.clusters import one_cluster
from tf_blade.clustering.region import look_at
from tf_blade.graph.graph import Graph
from tf_blade.graph.shapes import Types
from tf_blade.patterns.match import Match, find_matches
from tf_blade.patterns.registry import registered_patterns


@dataclass(frozen=True)
class AppliedPattern:
    """A node that stands for a match, for reports.

    Attributes:
      name: the node's. pattern: the pattern's.
      nodes, ops: what it stands for. inputs, outputs: as text, with their types.
      executable_bytes: size of the kernel in the model.
    """

    name: str
    pattern: str
    nodes: list[str]
    ops: dict[str, int]
    inputs: list[str]
    outputs: list[str]
    executable_bytes: int


@dataclass
class AppliedPatterns:
    """What became of a graph's matches. declined: a sentence for each that stays as it is."""

    applied: list[AppliedPattern] = field(default_factory=list)
    declined: list[str] = field(default_factory=list)


def apply_patterns(
    graph: Graph, types: Types, *, served: Sequence[Collection[str]] = (), first: int = 0
) -> AppliedPatterns:
    """Replaces what the registered patterns match, each match by a BladeCluster node.

    A match stays as it is if nodes outside of it read what it computes on the way, or if its
    replacement would make a cycle.

    Args:
      graph: after the passes. Changed, as are its library and `types`.
      served: as for `find_clusters`.
      first: number of the first node.
    """
    found = AppliedPatterns()
    for pattern in registered_patterns():
        matches = find_matches(graph, types, pattern)
        if not matches:
            continue
        every = frozenset(graph.nodes)
        region = look_at(graph, types, lambda node: None, every, CostModel(), served)
        replacements: list[Replacement] = []
        for match in matches:
            name = f"blade_pattern_{first + len(found.applied)}"
            cluster = one_cluster(region, match.members, name)
            reason = _refusal(cluster, match)
            if cluster is None or reason:
                found.declined.append(
                    f"pattern '{pattern.name}' is not replaced at '{match.outputs[0]}': {reason}"
                )
                continue
            cluster = dataclasses.replace(cluster, outputs=match.outputs)
            outlined = outline(graph, types, cluster, inputs=match.args)
            replacements.append(Replacement(outlined, pattern.kernel.container))
            found.applied.append(
                AppliedPattern(
                    name,
                    pattern.name,
                    list(cluster.members),
                    dict(Counter(graph.nodes[member].op for member in cluster.members)),
                    [f"{ref} {types[ref]}" for ref in match.args],
                    [f"{ref} {types[ref]}" for ref in match.outputs],
                    len(pattern.kernel.container),
                )
            )
        replace_all(graph, replacements)
    return found


def _refusal(cluster: Cluster | None, match: Match) -> str:
    if cluster is None:
        return "its nodes wait for each other by way of others, or run in different places"
    others = [ref for ref in cluster.outputs if ref not in match.outputs]
    return f"'{others[0]}' is read outside of it" if others else ""
