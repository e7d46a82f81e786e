"""Finds in tables whose contents are not known, in front of filters instead of behind them:

LookupTableFindV2(table, GatherNd(x, where))  =  GatherNd(LookupTableFindV2(table, x), where)

TensorFlow looks up the keys of the dense tensor x, and a lookup does all the rest.
"""

from __future__ import annotations

from tf_blade.feature_column.interpret import Interpreter
from tf_blade.feature_column.values import Elements
from tf_blade.graph.graph import Graph, Node, TensorRef


def add_finds(graph: Graph, m: Interpreter) -> tuple[Graph, dict[TensorRef, TensorRef]]:
    """The graph with finds of dense keys, and these, by the find of the filtered ones.

    Args:
      graph: the graph that `m` interprets, perhaps with more nodes. Not changed.
    """
    found = {node.name: keys for node in m.graph if (keys := _dense_keys(m, node)) is not None}
    if not found:
        return graph, {}
    result = graph.copy()
    added: dict[tuple[TensorRef, ...], TensorRef] = {}
    finds: dict[TensorRef, TensorRef] = {}
    for name, keys in found.items():
        node = result.nodes[name].copy()
        node.name = result.unique_name(f"{name}/dense")
        node.inputs[1] = keys
        same = tuple(node.inputs)
        if same not in added:
            added[same] = TensorRef(result.add(node).name)
        finds[TensorRef(name)] = added[same]
    return result, finds


def _dense_keys(m: Interpreter, node: Node) -> TensorRef | None:
    """The dense tensor some of whose elements are looked up."""
    if node.op != "LookupTableFindV2" or not m.may_replace(node.name):
        return None
    keys = m.value(node.inputs[1])
    if not isinstance(keys, Elements) or keys.keep is None or keys.filled is not None:
        return None
    if keys.expr.op != "value" or m.vocabulary(node.inputs[0]) is not None:
        return None
    ref = m.leaves[keys.expr.at]
    return ref if len(m.tensor_dims(ref) or ()) > 1 else None
