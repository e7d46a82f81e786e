"""Lookups and clusters of one graph, put into it as ops whose code comes later."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from tensorflow.core.framework import attr_value_pb2

from tf_blade.backends.cpu.clusters import LoweredCluster, lower_cluster, supports
from tf_blade.backends.cpu.lookups import raise_graph, use_executable
from tf_blade.clustering import (
    Call,
    Cluster,
    Replacement,
    blade_cluster_node,
    find_clusters,
    outline,
    replace_all,
    split_out,
)
from tf_blade.config import Config
from tf_blade.errors import UnsupportedError
from tf_blade.graph.graph import Graph, Node
from tf_blade.graph.raise_loops import raise_loops
from tf_blade.graph.shapes import Types
from tf_blade.graph.types import Shape
from tf_blade.just_in_time.graphs import LeftAlone, ReceivedGraph
from tf_blade.just_in_time.sizes import free_sizes
from tf_blade.loops import wrap_loops
from tf_blade.passes import PassContext

_Attr = attr_value_pb2.AttrValue


@dataclass
class CompiledGraph:
    """A graph with compiled ops in it.

    Attributes:
      edited: its nodes and new functions, serialized.
      sources: of the executables that its ops want, by key.
      labels: under which the ops count their calls (tf_blade.library.counters()).
      clusters, lookups: how many ops there are.
    """

    edited: bytes
    sources: dict[str, str] = field(default_factory=dict)
    labels: list[str] = field(default_factory=list)
    clusters: int = 0
    lookups: int = 0


def compile_graph(
    received: ReceivedGraph,
    arg_shapes: dict[str, Shape],
    config: Config,
    key_of: Callable[[str], str],
) -> CompiledGraph:
    """Puts compiled ops into a graph.

    Args:
      received: changed.
      arg_shapes: shapes of a function's arguments to compile for.
      key_of: the key of the executable that a source becomes.

    Raises: LeftAlone if there is nothing to compile.
    """
    if received.takes_lookups:
        # This changes the graph, and may lose a node that must stay.
        left: set[str] = set()
        while True:
            edit = _Edit(received, received.graph.copy(), arg_shapes, config, key_of)
            if config.lookups != "off":
                edit.raise_lookups()
            edit.raise_loops(left)
            found = edit.finish()
            if not edit.not_compiled:
                break
            left |= edit.not_compiled
        if found is not None:
            return found
    found = _Edit(received, received.graph, arg_shapes, config, key_of).finish()
    if found is None:
        raise LeftAlone("a node that must stay was lost")
    return found


class _Edit:
    """One graph's way.

    Attributes:
      not_compiled: frames of loops that were raised in vain: they are to stay as they were.
    """

    def __init__(
        self,
        received: ReceivedGraph,
        graph: Graph,
        arg_shapes: dict[str, Shape],
        config: Config,
        key_of: Callable[[str], str],
    ) -> None:
        self._received = received
        self._graph = graph
        self._config = config
        self._key_of = key_of
        self._context = PassContext(received.variables, arg_shapes)
        self._types: Types = self._context.types(graph)
        self._found = CompiledGraph(b"")
        self._raised: dict[str, str] = {}  # frames, by the loop's node
        self.not_compiled: set[str] = set()

    def raise_lookups(self) -> None:
        raised = raise_graph(
            self._graph, self._types, self._context, lambda _: None, self._config, 0
        )
        # A training step needs what lies between, for its gradients: then nothing would be saved.
        if not raised.lookups or len(raised.graph) >= len(self._graph):
            return
        self._graph = raised.graph
        for lookup in raised.lookups:
            if lookup.source:
                use_executable(self._graph, lookup, b"")
                self._point(self._graph.nodes[lookup.name], lookup.name, lookup.source)
            else:
                label = self._label(lookup.name, "")
                self._graph.nodes[lookup.name].attrs["columns"] = _Attr(s=label.encode())
        self._found.lookups = len(raised.lookups)

    def raise_loops(self, left: Collection[str]) -> None:
        """Makes nodes of loops that clusters may take, except for those of some frames."""
        self._raised = raise_loops(self._graph, left)
        if self._raised:
            self._types = self._context.types(self._graph)

    def finish(self) -> CompiledGraph | None:
        """Finds and replaces clusters. None if a node that must stay was lost, or if there are
        loops that are not compiled.

        Raises: LeftAlone if there is nothing to compile.
        """
        received, context = self._received, self._context
        if free_sizes(self._graph, received.arg_shapes, context.arg_shapes):
            self._types = context.types(self._graph)
        self._graph, loops = wrap_loops(self._graph, self._types, context, self._raised)
        clusters, _ = find_clusters(self._graph, self._types, self._support)
        lowered: list[LoweredCluster] = []
        todo = clusters[::-1]
        while todo:
            todo += reversed(self._lower(todo.pop(), lowered))
        compiled = {name for cluster in lowered for name in cluster.outlined.cluster.members}
        calls = {frame: loops.calls.get(name) for name, frame in self._raised.items()}
        self.not_compiled = {frame for frame, call in calls.items() if call not in compiled}
        if self.not_compiled:
            return None
        if not lowered and not self._found.lookups:
            raise LeftAlone("nothing in it is worth compiling")
        sources = {cluster.name: cluster.source for cluster in lowered}

        def make_node(call: Call) -> Node:
            node = blade_cluster_node(call, find_repeats=self._config.repeated_rows)
            return self._point(node, call.cluster, sources[call.cluster])

        replacements = [Replacement(cluster.outlined, b"") for cluster in lowered]
        replace_all(self._graph, replacements, make_node=make_node)
        edited = self._received.edited(self._graph)
        if edited is None:
            return None
        self._found.edited = edited
        self._found.clusters = len(lowered)
        return self._found

    def _support(self, node: Node) -> str | None:
        if node.name in self._received.pinned:
            return "it must keep its name"
        return supports(node, self._graph, self._types)

    def _lower(self, cluster: Cluster, lowered: list[LoweredCluster]) -> list[Cluster]:
        """Lowers a cluster; if a node refuses, returns what is left without it."""
        outlined = outline(self._graph, self._types, cluster)
        try:
            lowered.append(lower_cluster(outlined, self._types))
        except UnsupportedError as error:
            if error.node in cluster.members:
                return split_out(cluster, error.node, error.reason)[0]
        return []

    def _point(self, node: Node, name: str, source: str) -> Node:
        """Has a node run the executable of a source, once it is there."""
        key = self._key_of(source)
        node.attrs["pending"] = _Attr(s=key.encode())
        node.attrs["cluster"] = _Attr(s=self._label(name, key).encode())
        self._found.sources[key] = source
        return node

    def _label(self, name: str, key: str) -> str:
        """Traces of a function whose code is the same count together."""
        label = f"{self._received.name}/{name}" + (f" ({key[:8]})" if key else "")
        self._found.labels.append(label)
        return label
