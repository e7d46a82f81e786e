"""How the columns of a graph become lookups, and lookups become executables for CPUs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

from tf_blade.clustering.replace import Call, blade_cluster_node
from tf_blade.config import Config
from tf_blade.feature_column.emit import emit_lookup
from tf_blade.feature_column.interpret import VocabularyOf
from tf_blade.feature_column.raising import (
    LookupCall,
    blade_lookup_node,
    raise_lookups,
)
from tf_blade.graph.graph import Graph, Node
from tf_blade.graph.shapes import Types
from tf_blade.passes import PassContext
from tf_blade.report import ColumnReport


@dataclass(frozen=True)
class RaisedLookup:
    """A lookup on its way to an executable.

    Attributes:
      call: its node in the graph.
      source: C++ source of its kernels; "" if the library's kernels are to run it.
    """

    call: LookupCall
    source: str

    @property
    def name(self) -> str:
        return self.call.name


@dataclass
class RaisedGraph:
    """A graph with a BladeLookup node for each lookup.

    Attributes:
      columns: a line for each column of the model, fused or not.
    """

    graph: Graph
    lookups: list[RaisedLookup] = field(default_factory=list)
    columns: list[ColumnReport] = field(default_factory=list)


def raise_graph(
    graph: Graph,
    types: Types,
    context: PassContext,
    vocabulary_of: VocabularyOf,
    config: Config,
    first: int,
    served: Sequence[Collection[str]] = (),
) -> RaisedGraph:
    """Finds the lookups of a graph; their nodes are numbered from `first`.

    Args:
      graph: after the passes. Not changed; its library gets the fallbacks.
      types: of its tensors; those of the new nodes are added.
      vocabulary_of: contents of the table behind a resource tensor, where they are known.
      served: in a main graph, for each signature the names of its outputs in `graph.outputs`.
    """
    if config.lookups == "off":
        return RaisedGraph(graph)
    calls: list[LookupCall] = []

    def make_node(call: LookupCall) -> Node:
        calls.append(call)
        node = blade_lookup_node(call)
        node.attrs["columns"] = attr_value_pb2.AttrValue(s=call.name.encode())
        if not config.repeated_rows:
            node.attrs["find_repeats"] = attr_value_pb2.AttrValue(b=False)
        return node

    raised, columns = raise_lookups(
        graph, types, context, vocabulary_of, first=first, served=served, make_node=make_node
    )
    return RaisedGraph(raised, [_print(call, config) for call in calls], columns)


def _print(call: LookupCall, config: Config) -> RaisedLookup:
    if config.lookups == "library":
        return RaisedLookup(call, "")
    source = emit_lookup(call.name, call.lookup, find_repeats=config.repeated_rows)
    return RaisedLookup(call, source)


def use_executable(graph: Graph, lookup: RaisedLookup, executable: bytes) -> None:
    """Puts a BladeCluster node in the place of the lookup's BladeLookup node."""
    call = lookup.call
    inputs = graph.nodes[call.name].inputs  # clusters may stand behind them by now
    shapes = [tf.TensorShape(s).as_list() if s is not None else None for s in call.output_shapes]
    node = blade_cluster_node(
        Call(
            name=call.name,
            cluster=call.name,
            fallback=call.fallback,
            inputs=list(inputs),
            controls=list(graph.nodes[call.name].controls),
            device=call.device,
            input_dtypes=call.input_dtypes,
            output_dtypes=call.output_dtypes,
            output_shapes=[None if s is None else tuple(s) for s in shapes],
            constant_inputs=[],
            executable=executable,
        )
    )
    graph.nodes[call.name] = node
