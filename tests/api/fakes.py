"""Drivers that stand in for the optimizer, to test everything around it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from tf_blade.api import Driver
from tf_blade.config import Config
from tf_blade.progress import Progress
from tf_blade.report import (
    ClusterReport,
    KernelReport,
    LeftOutNode,
    RegionReport,
    Report,
    SignatureReport,
)


def one_cluster(signatures: Sequence[str]) -> Report:
    """A report that claims one cluster, so that the result is checked and timed."""
    kernel = KernelReport("loop_f32_0", "loop", ["mul", "add"])
    cluster = ClusterReport("blade_0", ["mul", "add"], {"Mul": 1, "AddV2": 1}, kernels=[kernel])
    left = [LeftOutNode("hash", "StringToHashBucketFast", "strings stay in TensorFlow")]
    region = RegionReport("", 4, 2, clusters=[cluster], left_out=left)
    return Report(signatures=[SignatureReport(name, [""]) for name in signatures], regions=[region])


def copying(
    source_dir: str,
    staging_dir: str,
    config: Config,
    signatures: Sequence[str],
    progress: Progress,
    **_: object,
) -> Report:
    """Copies the model."""
    progress("copy", 0, 1)
    shutil.copytree(source_dir, staging_dir, dirs_exist_ok=True)
    return one_cluster(signatures)


def without_clusters(
    source_dir: str,
    staging_dir: str,
    config: Config,
    signatures: Sequence[str],
    progress: Progress,
    **_: object,
) -> Report:
    """Changes the model's bytes (not its meaning) and finds nothing to cluster."""
    report = copying(source_dir, staging_dir, config, signatures, progress)
    file = Path(staging_dir) / "saved_model.pb"
    model = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    model.meta_graphs[0].meta_info_def.tensorflow_version = "changed"
    file.write_bytes(model.SerializeToString())
    report.regions[0].clusters.clear()
    return report


def adding_to_constants(amount: float) -> Driver:
    """A driver that adds `amount` to every float constant: a wrong model."""

    def driver(
        source_dir: str,
        staging_dir: str,
        config: Config,
        signatures: Sequence[str],
        progress: Progress,
        **_: object,
    ) -> Report:
        report = copying(source_dir, staging_dir, config, signatures, progress)
        file = Path(staging_dir) / "saved_model.pb"
        model = saved_model_pb2.SavedModel.FromString(file.read_bytes())
        graph = model.meta_graphs[0].graph_def
        for nodes in (graph.node, *(f.node_def for f in graph.library.function)):
            for node in nodes:
                if node.op != "Const" or node.attr["dtype"].type != tf.float32.as_datatype_enum:
                    continue
                value = tf.make_ndarray(node.attr["value"].tensor)
                changed = tf.make_tensor_proto(value + np.float32(amount), tf.float32)
                node.attr["value"].tensor.CopyFrom(changed)
        file.write_bytes(model.SerializeToString())
        return report

    return driver


def slow_copying(
    source_dir: str,
    staging_dir: str,
    config: Config,
    signatures: Sequence[str],
    progress: Progress,
    **_: object,
) -> Report:
    """Copies the model file by file with pauses, so that a kill can hit anywhere."""
    for path in sorted(Path(source_dir).rglob("*")):
        target = Path(staging_dir) / path.relative_to(source_dir)
        if path.is_dir():
            target.mkdir(exist_ok=True)
            continue
        data = path.read_bytes()
        with open(target, "wb") as file:
            for start in range(0, max(len(data), 1), max(len(data) // 4, 1)):
                file.write(data[start : start + max(len(data) // 4, 1)])
                file.flush()
                time.sleep(0.01)
    return one_cluster(signatures)


def failing(
    source_dir: str,
    staging_dir: str,
    config: Config,
    signatures: Sequence[str],
    progress: Progress,
    **_: object,
) -> Report:
    """Writes half a model and breaks."""
    (Path(staging_dir) / "saved_model.pb").write_bytes(b"half")
    raise ZeroDivisionError("a bug")
