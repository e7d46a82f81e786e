"""Optimised SavedModels with some of their clusters given back to TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tensorflow.core.framework import attr_value_pb2

from tf_blade import saved_model
from tf_blade.graph.graph import Graph, Node

_Attr = attr_value_pb2.AttrValue


def cluster_of(node: Node) -> str:
    """The name of the cluster or lookup that the node runs; "" for other nodes."""
    if node.op == "BladeCluster":
        return node.attrs["cluster"].s.decode()
    return node.attrs["columns"].s.decode() if node.op == "BladeLookup" else ""


def edit_clusters(source: Path, target: Path, edit: Callable[[Graph, Node], None]) -> None:
    """Writes a copy of a SavedModel in which `edit` has changed nodes that run clusters.

    Args:
      source: an optimised model's folder.
      target: the copy's; absent or empty. Files that stay the same are hard links.
      edit: takes each graph with such nodes (the main graph or a function's body), and one of
        them. It may change the node, and add nodes to the graph.
    """
    bundle = saved_model.read(source)
    for meta in bundle.meta_graphs:
        for name, fdef in list(meta.library.items()):
            if any(node.op in ("BladeCluster", "BladeLookup") for node in fdef.node_def):
                graph = Graph.from_function_def(fdef, meta.library)
                _edit(graph, edit)
                meta.library[name] = graph.to_function_def()
        main = meta.main.copy()
        if _edit(main, edit):
            edited = main.to_graph_def()
            del meta.graph_def.node[:]
            meta.graph_def.node.extend(edited.node)
    bundle.write(str(target))


def run_fallback(node: Node) -> None:
    """Takes what the node runs away from it, so that it runs its fallback: TensorFlow's own nodes.

    A call of the fallback in its place would be inlined and optimised by TensorFlow, and with
    oneDNN on TensorFlow 2.21 gives wrong answers for a BERT whose weights are constants then.
    """
    node.attrs["executable" if node.op == "BladeCluster" else "lookup"] = _Attr(s=b"")


def _edit(graph: Graph, edit: Callable[[Graph, Node], None]) -> bool:
    found = [node for node in graph if cluster_of(node)]
    for node in found:
        edit(graph, node)
    return bool(found)
