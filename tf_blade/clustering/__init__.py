"""Which nodes the compiler runs, as which clusters, and how those get into the graph.

clusters, left_out = find_clusters(graph, types, support)
for cluster in clusters:
    outlined = outline(graph, types, cluster)
    replace(graph, outlined, compile(outlined.function))
"""

from tf_blade.clustering.clusters import Cluster, find_clusters, split_out
from tf_blade.clustering.cost import CostModel
from tf_blade.clustering.outline import Outlined, outline
from tf_blade.clustering.replace import (
    Call,
    Replacement,
    blade_cluster_node,
    replace,
    replace_all,
)

__all__ = [
    "Call",
    "Cluster",
    "CostModel",
    "Outlined",
    "Replacement",
    "blade_cluster_node",
    "find_clusters",
    "outline",
    "replace",
    "replace_all",
    "split_out",
]
