"""Folds the batch normalisation of a served model into the convolution before it.

    FusedBatchNorm(Conv(x, w), scale, offset, mean, variance)
        ->  BiasAdd(Conv(x, w · s), offset - mean · s),  s = scale / sqrt(variance + epsilon)

and likewise with a BiasAdd in between, where w and all that is added and scaled by are constants.

Stays: one whose statistics are read, or whose convolution something else reads; one inside v1
control flow.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, types_pb2

from tf_blade.graph.constants import const_node, const_value
from tf_blade.graph.control_flow import v1_controlled
from tf_blade.graph.graph import Graph, Node, TensorRef
from tf_blade.passes.context import PassContext

_NORMS = ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
_CONVOLUTIONS = ("Conv2D", "Conv3D", "DepthwiseConv2dNative")


def fold_batch_norms(graph: Graph, ctx: PassContext) -> Graph:
    graph = ctx.editable(graph)
    norms = [node for node in graph if node.op in _NORMS]
    if not norms:
        return graph
    inside = v1_controlled(graph)
    consumers = graph.consumers()
    kept = {ref for _, ref in graph.outputs}

    def is_private(node: Node) -> bool:
        return len(consumers[node.name]) == 1 and TensorRef(node.name) not in kept

    for norm in norms:
        read = [ref for reader in consumers[norm.name] for ref in reader.inputs] + list(kept)
        if any(ref.node == norm.name and ref.index > 0 for ref in read) or norm.name in inside:
            continue
        conv, bias = graph.nodes[norm.inputs[0].node], None
        if conv.op == "BiasAdd" and is_private(conv):
            conv, bias = graph.nodes[conv.inputs[0].node], graph.nodes[conv.inputs[1].node]
        if conv.op not in _CONVOLUTIONS or not is_private(conv):
            continue
        weights = graph.nodes[conv.inputs[1].node]
        if is_private(weights) and _fold(graph, norm, conv, weights, bias):
            ctx.counts["fold_batch_norms"] += 1
    return graph


def _fold(graph: Graph, norm: Node, conv: Node, weights: Node, bias: Node | None) -> bool:
    """Turns `norm` into the addition of what is left of it, if all is known; says whether."""
    training = "is_training" not in norm.attrs or norm.attrs["is_training"].b
    if training or conv.attrs["T"].type != types_pb2.DT_FLOAT:
        return False
    sources = [graph.nodes[ref.node] for ref in norm.inputs[1:]]
    known = [const_value(node) for node in (weights, *sources, *([bias] if bias else []))]
    filters, *parameters = [value.astype(np.float64) for value in known if value is not None]
    if len(parameters) + 1 < len(known):
        return False
    scale, offset, mean, variance, *added = parameters
    epsilon = norm.attrs["epsilon"].f if "epsilon" in norm.attrs else 1e-4  # TensorFlow's default
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + epsilon)
        rest = offset + (sum(added) - mean) * factor
    # Depthwise filters have the channels in their last two dims.
    channels = filters.shape[-2:] if conv.op == "DepthwiseConv2dNative" else filters.shape[-1:]
    if factor.size != np.prod(channels) or not np.isfinite([factor, rest]).all():
        return False
    made = []
    for name, value in (("weights", filters * factor.reshape(channels)), ("offset", rest)):
        node = const_node(
            graph.unique_name(f"{norm.name}/{name}"), value.astype(np.float32), tf.float32
        )
        made.append(TensorRef(graph.add(node).name))
    conv.inputs[1] = made[0]
    norm.op, norm.inputs = "BiasAdd", [TensorRef(conv.name), made[1]]
    layout = norm.attrs["data_format"].s if "data_format" in norm.attrs else b"NHWC"
    norm.attrs = {
        "T": attr_value_pb2.AttrValue(type=types_pb2.DT_FLOAT),
        # NHWC: the last dim, NCHW: the second, however many there are.
        "data_format": attr_value_pb2.AttrValue(s=b"NCHW" if layout[1:2] == b"C" else b"NHWC"),
    }
    return True
