"""Computes at optimize time what depends on constants only.

    f(Const, Const)              ->  Const        f evaluated by TensorFlow itself, all at once
    Shape | Size | Rank (x)      ->  Const        if the shape of x is known that far

Stays: what is stateful or waits for something, results that would make the model bigger, and ops
TensorFlow refuses to run (the error belongs to the request that gets there).
"""

from __future__ import annotations

import logging

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import config_pb2, rewriter_config_pb2

from tf_blade.graph.constants import const_bytes, const_node
from tf_blade.graph.control_flow import is_v1_control_flow, v1_controlled
from tf_blade.graph.graph import Graph, Node, TensorRef
from tf_blade.graph.shapes import Types
from tf_blade.graph.types import ARG, TensorInfo
from tf_blade.passes.context import PassContext

_log = logging.getLogger(__name__)

# A result up to this size may be bigger than what it is computed from.
_SMALL_BYTES = 64 << 10
_OPAQUE = (types_pb2.DT_RESOURCE, types_pb2.DT_VARIANT)
_SHAPE_OPS = ("Shape", "Size", "Rank", "ShapeN")
_INPUTS = (ARG, "Const", "Placeholder", "PlaceholderWithDefault", "PlaceholderV2")


def fold_constants(graph: Graph, ctx: PassContext) -> Graph:
    graph = ctx.editable(graph)
    types = ctx.same_types(graph)
    inside = v1_controlled(graph)
    _fold_shapes(graph, types, inside, ctx)
    foldable = _foldable(graph, types, inside)
    wanted = _boundary(graph, foldable)
    values = _evaluate(graph, wanted)
    graph.redirect({ref: _store(graph, ref, value) for ref, value in values.items()})
    ctx.counts["fold_constants"] += len(values)
    return graph


def _fold_shapes(graph: Graph, types: Types, inside: set[str], ctx: PassContext) -> None:
    replaced: dict[TensorRef, TensorRef] = {}
    for node in list(graph):
        if node.op not in _SHAPE_OPS or node.name in inside or node.controls:
            continue
        dtype = tf.int32 if node.op == "Rank" else tf.as_dtype(node.attrs["out_type"].type)
        for i, ref in enumerate(node.inputs):
            value = _shape_value(node.op, types[ref])
            if value is None or (value.size and value.max() > dtype.max):
                continue
            const = const_node(graph.unique_name(f"{node.name}/folded"), value, dtype)
            graph.add(const)
            types[TensorRef(const.name)] = TensorInfo(dtype, value.shape)
            replaced[TensorRef(node.name, i)] = TensorRef(const.name)
            ctx.counts["fold_constants"] += 1
    graph.redirect(replaced)


def _shape_value(op: str, info: TensorInfo) -> np.ndarray | None:
    if info.shape is None:
        return None
    if op == "Rank":
        return np.array(len(info.shape), np.int64)
    if None in info.shape:
        return None
    shape: np.ndarray = np.array(info.shape, np.int64)
    return np.array(shape.prod()) if op == "Size" else shape


def _foldable(graph: Graph, types: Types, inside: set[str]) -> set[str]:
    """Nodes whose value is known now and worth keeping: Consts, and what is computed from them."""
    consumers = graph.consumers()
    known: dict[str, int] = {}  # bytes of all results
    for node in graph.topological_order():
        if node.name in inside or node.controls:
            continue
        if node.op == "Const":
            known[node.name] = const_bytes(node)
            continue
        if not node.inputs or any(ref.node not in known for ref in node.inputs):
            continue
        if not _is_pure(graph, node):
            continue
        sources = {ref.node for ref in node.inputs}
        input_bytes = sum(known[name] for name in sources)
        size = _result_bytes(graph, node, types)
        if size is None:
            size = input_bytes if input_bytes <= _SMALL_BYTES else None
        # A big result must take the place of what it comes from, not stand beside it.
        replaces = all(len(consumers[name]) == 1 for name in sources if known[name] > _SMALL_BYTES)
        if size is not None and (size <= _SMALL_BYTES or (size <= input_bytes and replaces)):
            known[node.name] = size
    return set(known)


def _is_pure(graph: Graph, node: Node) -> bool:
    if node.op in _INPUTS or is_v1_control_flow(node.op) or graph.is_stateful(node):
        return False
    if node.op in graph.library or node.op.startswith("Stateless"):
        return False
    if any(value.HasField("func") or value.list.func for value in node.attrs.values()):
        return False
    dtypes = graph.output_dtypes(node)
    return bool(dtypes) and not any(dtype in _OPAQUE for dtype in dtypes)


def _result_bytes(graph: Graph, node: Node, types: Types) -> int | None:
    total = 0
    for i in range(len(graph.output_dtypes(node))):
        info = types[TensorRef(node.name, i)]
        count = tf.TensorShape(info.shape).num_elements()
        if count is None:
            return None
        total += count * info.dtype.size
    return total


def _boundary(graph: Graph, foldable: set[str]) -> list[TensorRef]:
    """Results of foldable nodes that something which isn't foldable takes."""
    taken = [ref for node in graph if node.name not in foldable for ref in node.inputs]
    taken += [ref for _, ref in graph.outputs]
    return [
        ref
        for ref in dict.fromkeys(taken)
        if ref.node in foldable and graph.nodes[ref.node].op != "Const"
    ]


def _evaluate(graph: Graph, wanted: list[TensorRef]) -> dict[TensorRef, np.ndarray]:
    if not wanted:
        return {}
    part = Graph("", graph.library)
    todo = [ref.node for ref in wanted]
    while todo:
        name = todo.pop()
        if name not in part.nodes:
            part.nodes[name] = graph.nodes[name]
            todo += [ref.node for ref in graph.nodes[name].inputs]
    scratch = tf.Graph()
    with scratch.as_default():
        graph_def = part.to_graph_def()
        for node in graph_def.node:
            node.device = ""
            node.attr.pop("_class", None)
        tf.graph_util.import_graph_def(graph_def, name="")
    with tf.compat.v1.Session(graph=scratch, config=_session_config()) as session:
        try:
            return dict(zip(wanted, session.run([str(ref) for ref in wanted]), strict=True))
        except tf.errors.OpError:
            found = {}
            for ref in wanted:
                try:
                    found[ref] = session.run(str(ref))
                except tf.errors.OpError as error:
                    _log.info("node '%s' stays: it fails on its constants: %s", ref.node, error)
            return found


def _session_config() -> config_pb2.ConfigProto:
    """The CPU's own kernels, and no second optimizer for what runs once."""
    config = config_pb2.ConfigProto(device_count={"GPU": 0})
    rewrites = config.graph_options.rewrite_options
    rewrites.disable_meta_optimizer = True
    rewrites.constant_folding = rewriter_config_pb2.RewriterConfig.OFF
    config.graph_options.optimizer_options.opt_level = config_pb2.OptimizerOptions.L0
    return config


def _store(graph: Graph, ref: TensorRef, value: np.ndarray) -> TensorRef:
    node = graph.nodes[ref.node]
    dtype = tf.as_dtype(graph.output_dtypes(node)[ref.index])
    const = const_node(graph.unique_name(f"{ref.node}/folded"), value, dtype)
    return TensorRef(graph.add(const).name)
