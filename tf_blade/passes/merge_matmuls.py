"""Merges matrix products of one operand with several narrow constants.

    relu(x · w1 + b1), relu(x · w2 + b2)  ->  SplitV(relu(x · [w1 w2] + [b1 b2]))

with or without bias and relu, the same for all. As a pass on the graph, so that the joined weights
exist once, as a constant; the single ones go with the nodes that read them.

Stays: products that are wide, or as few columns as inner products are for; one whose result is an
output, which would have to be copied out of the joined one; one inside v1 control flow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, types_pb2

from tf_blade.graph.constants import const_node, const_value
from tf_blade.graph.control_flow import v1_controlled
from tf_blade.graph.graph import Graph, Node, TensorRef
from tf_blade.passes.context import PassContext

_FLOATS = (types_pb2.DT_FLOAT, types_pb2.DT_DOUBLE)
_PRODUCTS = {"MatMul": "transpose_b", "BatchMatMulV2": "adj_y"}
_BIASES = ("BiasAdd", "Add", "AddV2")

# One thread, separate over joined: reading x once gains nothing by itself, but a product computes
# whole panels of columns, and where a processor has a matrix unit each one splits x for it.
#     columns     AVX2         AMX          rows
#     3 of 4      2.1          2.5          512
#     2 of 8      1.4 to 1.6   2.2          256, 512
#     2 of 24     1.1 to 1.2                256
#     8 of 64     0.96 to 1.06 1.05 to 1.3  1 to 512
#     3 of 384    0.95 to 1.05 0.96 to 1.08 1 to 512
_MOST_COLUMNS = 128
# Up to 3 columns are inner products with rows of x: 0.6 to 4 times as fast joined, as it happens.
_FEWEST_COLUMNS = 4


@dataclass(frozen=True)
class _Layer:
    """A product with a constant and what follows it: last(relu(product + bias))."""

    product: Node
    shape: tuple[int, int]  # of the weights
    bias: Node | None
    relu: Node | None

    @property
    def last(self) -> Node:
        return self.relu or self.bias or self.product

    @property
    def key(self) -> tuple[object, ...]:
        node = self.product
        attrs = sorted((k, v.SerializeToString()) for k, v in node.attrs.items() if k[0] != "_")
        same = (node.op, node.inputs[0], node.device, self.bias is None, self.relu is None)
        return (*same, self.shape[0], tuple(attrs))


def merge_matmuls(graph: Graph, ctx: PassContext) -> Graph:
    graph = ctx.editable(graph)
    merged: dict[TensorRef, TensorRef] = {}
    for alike in _layers(graph).values():
        if len(alike) > 1:
            merged |= _merge(graph, alike)
            ctx.counts["merge_matmuls"] += len(alike)
    graph.redirect(merged)
    return graph


def _layers(graph: Graph) -> dict[tuple[object, ...], list[_Layer]]:
    """The layers that might be merged, by what they must have in common."""
    found: dict[tuple[object, ...], list[_Layer]] = {}
    products = [node for node in graph if _is_candidate(graph, node)]
    if len(products) < 2:
        return found
    inside = v1_controlled(graph)
    consumers = graph.consumers()
    kept = {ref.node for _, ref in graph.outputs} | {name for _, name in graph.control_outputs}
    before = {name for node in graph for name in node.controls}

    def reader(node: Node) -> Node | None:
        """The only node that reads it, if that is all that it is for."""
        users = consumers[node.name]
        return users[0] if len(users) == 1 and node.name not in kept else None

    for product in products:
        shape = _shape(graph, product.inputs[1])
        if len(shape) != 2 or not _FEWEST_COLUMNS <= shape[1] <= _MOST_COLUMNS:
            continue
        if product.name in inside:
            continue
        bias = reader(product)
        if bias is None or not _is_bias(graph, bias, product, shape[1]):
            bias = None
        relu = reader(bias or product)
        if relu is not None and relu.op != "Relu":
            relu = None
        layer = _Layer(product, (shape[0], shape[1]), bias, relu)
        parts = [node for node in (product, bias, relu) if node is not None]
        if layer.last.name in kept or any(n.controls or n.name in before for n in parts):
            continue
        if len(consumers[product.inputs[1].node]) > 1:
            continue  # the weights would be there twice
        found.setdefault(layer.key, []).append(layer)
    return found


def _is_candidate(graph: Graph, node: Node) -> bool:
    if node.op not in _PRODUCTS or node.attrs["T"].type not in _FLOATS:
        return False
    transposed = node.attrs.get(_PRODUCTS[node.op])
    return graph.nodes[node.inputs[1].node].op == "Const" and not (transposed and transposed.b)


def _is_bias(graph: Graph, node: Node, product: Node, columns: int) -> bool:
    """Whether the node adds a constant vector to the columns of the product."""
    if node.op not in _BIASES or len(set(node.inputs)) != 2:
        return False
    layout = node.attrs["data_format"].s if "data_format" in node.attrs else b"NHWC"
    return layout[1:2] != b"C" and _shape(graph, _added(node, product)) == (columns,)


def _added(bias: Node, product: Node) -> TensorRef:
    (added,) = (ref for ref in bias.inputs if ref != TensorRef(product.name))
    return added


def _shape(graph: Graph, ref: TensorRef) -> tuple[int, ...]:
    """The shape of a constant; that of a scalar for anything else."""
    node = graph.nodes[ref.node]
    if node.op != "Const":
        return ()
    return tuple(dim.size for dim in node.attrs["value"].tensor.tensor_shape.dim)


def _merge(graph: Graph, layers: Sequence[_Layer]) -> dict[TensorRef, TensorRef]:
    """Adds the joined layer. Returns what stands for the results of each layer."""
    first = layers[0]
    dtype = tf.as_dtype(first.product.attrs["T"].type)

    def constant(name: str, value: np.ndarray, kind: tf.DType) -> TensorRef:
        name = graph.unique_name(f"{first.product.name}/{name}")
        return TensorRef(graph.add(const_node(name, value, kind)).name)

    def joined(node: Node, inputs: list[TensorRef]) -> TensorRef:
        made = node.copy()
        made.name, made.inputs = graph.unique_name(f"{node.name}/joined"), inputs
        made.attrs.pop("_output_shapes", None)
        return TensorRef(graph.add(made).name)

    def concatenated(refs: list[TensorRef]) -> np.ndarray:
        values = [const_value(graph.nodes[ref.node]) for ref in refs]
        return np.concatenate([v for v in values if v is not None], axis=-1)

    weights = concatenated([x.product.inputs[1] for x in layers])
    value = joined(first.product, [first.product.inputs[0], constant("weights", weights, dtype)])
    if first.bias is not None:
        added = concatenated([_added(x.bias, x.product) for x in layers if x.bias is not None])
        value = joined(first.bias, [value, constant("bias", added, dtype)])
    if first.relu is not None:
        value = joined(first.relu, [value])
    columns = np.array([x.shape[1] for x in layers], np.int32)
    sizes = constant("columns", columns, tf.int32)
    axis = constant("axis", np.array(-1, np.int32), tf.int32)
    split = Node(graph.unique_name(f"{first.last.name}/split"), "SplitV", [value, sizes, axis])
    split.device = first.product.device
    split.attrs = {
        "T": attr_value_pb2.AttrValue(type=dtype.as_datatype_enum),
        "Tlen": attr_value_pb2.AttrValue(type=types_pb2.DT_INT32),
        "num_split": attr_value_pb2.AttrValue(i=len(layers)),
    }
    graph.add(split)
    return {TensorRef(x.last.name): TensorRef(split.name, i) for i, x in enumerate(layers)}
