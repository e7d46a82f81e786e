"""Nodes that run kernels from outside, in the places of what patterns match."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tf_blade.clustering import CostModel, Replacement, outline, replace_all
from tf_blade.clustering.clusters import one_cluster
from tf_blade.clustering.region import look_at
from tf_blade.graph.graph import Graph
from tf_blade.graph.shapes import Types
from tf_blade.patterns.match import find_matches
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


def apply_patterns(
    graph: Graph, types: Types, *, served: Sequence[Collection[str]] = (), first: int = 0
) -> list[AppliedPattern]:
    """Replaces what the registered patterns match, each match by a BladeCluster node.

    A match stays as it is if nodes outside of it read what it computes on the way, or if its
    replacement would make a cycle.

    Args:
      graph: after the passes. Changed, as are its library and `types`.
      served: as for `find_clusters`.
      first: number of the first node.
    """
    applied: list[AppliedPattern] = []
    for pattern in registered_patterns():
        matches = find_matches(graph, types, pattern)
        if not matches:
            continue
        every = frozenset(graph.nodes)
        region = look_at(graph, types, lambda node: None, every, CostModel(), served)
        replacements: list[Replacement] = []
        for match in matches:
            name = f"blade_pattern_{first + len(applied)}"
            cluster = one_cluster(region, match.members, name)
            if cluster is None or set(cluster.outputs) != set(match.outputs):
                continue
            cluster = dataclasses.replace(cluster, outputs=match.outputs)
            outlined = outline(graph, types, cluster, inputs=match.args)
            replacements.append(Replacement(outlined, pattern.kernel.container))
            applied.append(
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
    return applied
