"""Gives placeholders with a default value that default.

    PlaceholderWithDefault(x)  ->  Identity(x)

A signature is fed through Placeholders only (`saved_model/cone.py`), and nothing can feed a node of
a function: such a node never gets another value. Switches like `is_training` then are constants,
and the branch that they choose is known.
"""

from __future__ import annotations

from tensorflow.core.framework import attr_value_pb2

from tf_blade.graph.graph import Graph
from tf_blade.passes.context import PassContext


def take_defaults(graph: Graph, ctx: PassContext) -> Graph:
    graph = ctx.editable(graph)
    for node in graph:
        if node.op == "PlaceholderWithDefault":
            node.op = "Identity"
            node.attrs = {"T": attr_value_pb2.AttrValue(type=node.attrs["dtype"].type)}
            ctx.counts["take_defaults"] += 1
    return graph
