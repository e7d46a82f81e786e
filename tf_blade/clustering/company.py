"""Which nodes may share a cluster without asking a signature for inputs that it doesn't have.

The main graph of a TF1 model serves several signatures, each fed with its own inputs. A cluster
runs as a whole: who needs one of its results needs all of its inputs. So nodes share a cluster only
if everyone who needs one of them is fed what any of them may depend on.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tf_blade.clustering.edges import sources
from tf_blade.graph.graph import Graph

_PLACEHOLDERS = ("Placeholder", "PlaceholderV2", "PlaceholderWithDefault")


def find_company(graph: Graph, served: Sequence[Collection[str]]) -> dict[str, int]:
    """A number for each node; nodes with equal numbers may be in one cluster.

    It is the set (as bits) of the placeholders that all the signatures which need the node depend
    on. What the node itself depends on is among them.

    Args:
      graph: a main graph.
      served: for each signature the names of its outputs in `graph.outputs`.
    """
    order = [node.name for node in graph.topological_order()]
    before = {name: sources(graph, graph.nodes[name]) for name in order}
    reached = dict.fromkeys(order, 0)
    bits = (1 << i for i in range(len(order)))
    for name in order:
        if graph.nodes[name].op in _PLACEHOLDERS:
            reached[name] = next(bits)
        for source in before[name]:
            reached[name] |= reached[source]
    company = dict.fromkeys(order, -1)
    outputs = dict(graph.outputs)
    for names in served:
        todo = [outputs[name].node for name in names if name in outputs]
        fed = 0
        for name in todo:
            fed |= reached[name]
        seen = set(todo)
        while todo:
            name = todo.pop()
            company[name] &= fed
            fresh = [source for source in before[name] if source not in seen]
            seen.update(fresh)
            todo += fresh
    return company
