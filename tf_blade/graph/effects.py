"""Which stateful ops do nothing but read, so that an unused one may go."""

from __future__ import annotations

from tf_blade.graph.graph import Graph, Node

# TensorFlow marks them stateful because of the state they look at, not because they change it.
READS = frozenset(
    {
        "DisableCopyOnRead",
        "HashTableV2",
        "IsVariableInitialized",
        "LookupTableFindV2",
        "LookupTableSizeV2",
        "ReadVariableOp",
        "ResourceGather",
        "ResourceGatherNd",
        "VarHandleOp",
        "VarIsInitializedOp",
        "VariableShape",
        "VariableV2",
        "Variable",
    }
)


def has_effect(graph: Graph, node: Node) -> bool:
    """Whether running the node does something besides giving its outputs: it must not be removed.

    A call counts as an effect if TensorFlow counts its op or the function as stateful.
    """
    if node.op in READS:
        return False
    return graph.is_stateful(node)
