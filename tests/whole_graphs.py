"""Whole graphs, optimised as `optimize` does a SavedModel but without its own check and timing.

optimised, report = optimise(graph_def, {"serving_default": Signature(["x"], ["y:0"])}, config)
with session(optimised) as s:
    s.run(…)
"""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import config_pb2, meta_graph_pb2, saved_model_pb2

from tf_blade import Config, optimizer
from tf_blade.clustering import CostModel, find_clusters
from tf_blade.inputs import LikelyShapes
from tf_blade.machine import cpu_target
from tf_blade.report import Report

# Whatever is legal is clustered.
ANY_GAIN = CostModel(margin_us=-1e9, light_us=0)
# A folder in memory, where there is one.
_SCRATCH = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@dataclass(frozen=True)
class Signature:
    """Names of placeholders, and of tensors."""

    inputs: Sequence[str]
    outputs: Sequence[str]


@functools.cache
def host_targets() -> tuple[str, ...]:
    """CPU targets whose code this machine runs."""
    best = cpu_target()
    return ("x86-64-v3", "x86-64-v4") if best == "x86-64-v4" else (best,)


def optimise(
    graph_def: graph_pb2.GraphDef,
    signatures: Mapping[str, Signature],
    config: Config,
    cost: CostModel = ANY_GAIN,
    likely: LikelyShapes | None = None,
) -> tuple[graph_pb2.GraphDef, Report]:
    """The optimised graph, and the report on it: passes, clustering, compiler and writing are
    `optimize_saved_model`'s own."""
    with (
        tempfile.TemporaryDirectory(prefix="tf-blade-test-", dir=_SCRATCH) as folder,
        mock.patch.object(optimizer, "find_clusters", functools.partial(find_clusters, cost=cost)),
    ):
        before, after = Path(folder, "before"), Path(folder, "after")
        before.mkdir()
        content = _saved_model(graph_def, signatures).SerializeToString()
        (before / "saved_model.pb").write_bytes(content)
        report = optimizer.optimize_saved_model(
            str(before), str(after), config, list(signatures), lambda *_: None, likely=likely
        )
        proto = saved_model_pb2.SavedModel.FromString((after / "saved_model.pb").read_bytes())
    return proto.meta_graphs[0].graph_def, report


def _saved_model(
    graph_def: graph_pb2.GraphDef, signatures: Mapping[str, Signature]
) -> saved_model_pb2.SavedModel:
    """A model in TF1 format that holds the graph."""
    model = saved_model_pb2.SavedModel(saved_model_schema_version=1)
    meta = model.meta_graphs.add()
    meta.meta_info_def.tags.append("serve")
    meta.graph_def.CopyFrom(graph_def)
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(graph_def, name="")
    for key, signature in signatures.items():
        made = meta.signature_def[key]
        made.method_name = "tensorflow/serving/predict"
        for name in signature.inputs:
            made.inputs[name].CopyFrom(_about(graph.get_tensor_by_name(f"{name}:0")))
        for i, name in enumerate(signature.outputs):
            made.outputs[f"y{i}"].CopyFrom(_about(graph.get_tensor_by_name(name)))
    return model


def _about(tensor: tf.Tensor) -> meta_graph_pb2.TensorInfo:
    return meta_graph_pb2.TensorInfo(
        name=tensor.name,
        dtype=tensor.dtype.as_datatype_enum,
        tensor_shape=tensor.shape.as_proto(),
    )


def session(graph_def: graph_pb2.GraphDef, *, grappler: bool = True) -> Any:
    """A session of the graph; without Grappler it runs as it is written."""
    config = config_pb2.ConfigProto(intra_op_parallelism_threads=2, inter_op_parallelism_threads=1)
    if not grappler:
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        config.graph_options.optimizer_options.opt_level = config_pb2.OptimizerOptions.L0
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(graph_def, name="")
    return tf.compat.v1.Session(graph=graph, config=config)
