"""Colocation: the internal attribute `_class` that says beside which node another one is placed."""

from __future__ import annotations

from tensorflow.core.framework import attr_value_pb2

from tf_blade.graph.graph import Graph


def drop_dangling_colocations(graph: Graph) -> None:
    """TensorFlow refuses a node that is to be placed beside one that doesn't exist."""
    for node in graph:
        if "_class" not in node.attrs:
            continue
        wanted = node.attrs["_class"].list.s
        kept = [c for c in wanted if c.decode().removeprefix("loc:@") in graph.nodes]
        if len(kept) == len(wanted):
            continue
        attrs = dict(node.attrs)
        del attrs["_class"]
        if kept:
            attrs["_class"] = attr_value_pb2.AttrValue()
            attrs["_class"].list.s.extend(kept)
        node.attrs = attrs
