"""What clustering knows about a graph before it merges anything, kept for later splits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from tf_blade.clustering import devices
from tf_blade.clustering.candidates import is_literal, refusal
from tf_blade.clustering.company import find_company
from tf_blade.clustering.control_flow import Place, find_places
from tf_blade.clustering.cost import CostModel
from tf_blade.clustering.edges import sources
from tf_blade.clustering.stock_fusions import find_stock_fusions
from tf_blade.graph.graph import Graph, Node, TensorRef
from tf_blade.graph.names import parse_tensor_name
from tf_blade.graph.shapes import Types

Support = Callable[[Node], str | None]


@dataclass
class Region:
    """The part of a graph that is clustered, and facts about all of the graph's nodes.

    Attributes:
      graph, types: the graph and the dtypes and shapes of its tensors; `replace` changes both.
      cost: constants of the cost model.
      eligible: names of the nodes that may be replaced.
      order: all node names in topological order.
      position: index of each node in `order`.
      sources: per node, the names of the nodes that run before it.
      uses: per node, the (output index or -1 for a control edge, reader) pairs.
      fetched: output indices that somebody fetches by name (main graphs) or returns (functions).
      named: nodes of main graphs that are fetched under their own name, which must survive.
      refused: reasons of the nodes that can't be in any cluster.
      literals: names of the constants that are copied into clusters.
      place: control-flow conditions of each node.
      device: device constraints of each node.
      company: nodes of different numbers are needed by signatures with different inputs.
      depth: small ops outside all clusters on the longest path to each node: how late it is ready.
      kept: members of replaced clusters that stay in the graph for readers outside `eligible`.
    """

    graph: Graph
    types: Types
    cost: CostModel
    eligible: frozenset[str]
    order: list[str]
    position: dict[str, int]
    sources: dict[str, list[str]]
    uses: dict[str, list[tuple[int, str]]]
    fetched: dict[str, set[int]]
    named: set[str]
    refused: dict[str, str]
    literals: set[str]
    place: dict[str, Place]
    device: dict[str, devices.Device]
    company: dict[str, int]
    depth: dict[str, int] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)

    def is_candidate(self, name: str) -> bool:
        return name in self.eligible and name not in self.refused

    def output_refs(self, name: str) -> list[TensorRef]:
        """The node's outputs that anything reads or fetches."""
        read = {i for i, _ in self.uses[name] if i >= 0} | self.fetched.get(name, set())
        return [TensorRef(name, i) for i in sorted(read)]


def look_at(
    graph: Graph,
    types: Types,
    support: Support,
    eligible: frozenset[str],
    cost: CostModel,
    served: Sequence[Collection[str]] = (),
) -> Region:
    """Collects the facts. Raises GraphError if the graph has a cycle or a dangling input."""
    nodes = graph.topological_order()
    uses: dict[str, list[tuple[int, str]]] = {node.name: [] for node in nodes}
    for node in nodes:
        for use in dict.fromkeys((ref.node, ref.index) for ref in node.inputs):
            uses[use[0]].append((use[1], node.name))
        for name in dict.fromkeys(node.controls):
            uses[name].append((-1, node.name))
    fetched: dict[str, set[int]] = {}
    for _, ref in graph.outputs:
        fetched.setdefault(ref.node, set()).add(ref.index)
    named: set[str] = set()
    if not graph.is_function:
        named = {ref.node for name, ref in graph.outputs if parse_tensor_name(name) == ref}

    refused: dict[str, str] = {}
    for node in graph:
        if node.name in eligible:
            reason = refusal(graph, node) or support(node)
            if reason is not None:
                refused[node.name] = reason

    def is_outside(name: str) -> bool:
        return name in refused or name not in eligible

    uses_here = {n: [u for u in found if u[1] in eligible] for n, found in uses.items()}
    for name, reason in find_stock_fusions(graph, uses_here, is_outside, fetched).items():
        if not is_outside(name):
            refused[name] = reason

    order = [node.name for node in nodes]
    # Without a data reader a member would vanish, and with it whatever a control edge waits for.
    outside = {name for name in order if is_outside(name)}
    needed = outside | set(fetched)
    for name in reversed(order):
        if any(i >= 0 and reader in needed for i, reader in uses_here[name]):
            needed.add(name)
        elif name not in needed:
            refused[name] = "nothing reads its results, at most control edges wait for it"
    region = Region(
        graph=graph,
        types=types,
        cost=cost,
        eligible=eligible,
        order=order,
        position={name: i for i, name in enumerate(order)},
        sources={node.name: sources(graph, node) for node in nodes},
        uses=uses,
        fetched=fetched,
        named=named,
        refused=refused,
        literals={node.name for node in graph if is_literal(node)},
        place=find_places(graph, nodes),
        device={node.name: devices.parse(node.device) for node in nodes},
        company=find_company(graph, served),
    )
    for name in order:
        region.depth[name] = max(
            (region.depth[s] + _delay(region, s) for s in region.sources[name]), default=0
        )
    return region


def _delay(region: Region, name: str) -> int:
    return 0 if region.is_candidate(name) else region.cost.delay(region.graph.nodes[name])
