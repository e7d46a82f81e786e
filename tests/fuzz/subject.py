"""Optimising a fuzz case as `optimize` does a SavedModel, and comparing it with TensorFlow.

The passes, clustering, compiler and writing are `optimize_saved_model`'s own; what `optimize` does
around it (its check, its timing) is replaced by the runs of the case. TensorFlow itself runs
without Grappler: the graph as it is written is what answers are compared with.
"""

from __future__ import annotations

import functools
import os
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import config_pb2, meta_graph_pb2, saved_model_pb2

from tests.fuzz.case import Feeds, FuzzCase
from tf_blade import Config, library, optimizer
from tf_blade.clustering import CostModel, find_clusters
from tf_blade.machine import cpu_target
from tf_blade.report import Report

SIGNATURE = "serving_default"
ANY_GAIN = CostModel(margin_us=-1e9)
SLACK = 8.0  # what TensorFlow's own functions may be off beyond one rounding
FLOOR = 1e-6
# A folder in memory, where there is one.
_SCRATCH = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class Mismatch(AssertionError):
    """The optimised graph doesn't do what TensorFlow does."""


class Unfit(Exception):
    """TensorFlow has no kernel for something in the graph."""


@dataclass
class Outcome:
    """What was seen. ops: that ran inside clusters, by name. answered, raised: runs where
    TensorFlow gave an answer or an error. launches, fallbacks: of clusters."""

    ops: Counter[str] = field(default_factory=Counter)
    clusters: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    answered: int = 0
    raised: int = 0
    launches: int = 0
    fallbacks: Counter[str] = field(default_factory=Counter)

    def add(self, other: Outcome) -> None:
        self.ops += other.ops
        self.left_out += other.left_out
        self.fallbacks += other.fallbacks
        self.clusters += other.clusters
        self.answered += other.answered
        self.raised += other.raised
        self.launches += other.launches


@functools.cache
def host_targets() -> tuple[str, ...]:
    """CPU targets whose code this machine runs."""
    best = cpu_target()
    return ("x86-64-v3", "x86-64-v4") if best == "x86-64-v4" else (best,)


def check(case: FuzzCase, cache_dir: str, dump_dir: str | None = None) -> Outcome:
    """Optimises the case and compares all of its runs.

    Args:
      cache_dir: where compiled kernels are kept.
      dump_dir: where each cluster's IR and source are written; None: nowhere.

    Raises: Mismatch; Unfit if TensorFlow can't run the graph at all.
    """
    library.load_ops()
    graph_def, report = optimize(case, cache_dir, dump_dir)
    outcome = _describe(report)
    library.reset_counters()
    with _session(case.graph_def, grappler=False) as original, _session(graph_def) as optimized:
        for number, feeds in enumerate(case.runs):
            want, got = (_run(s, case.fetches, feeds) for s in (original, optimized))
            _compare(case, number, want, got)
            if isinstance(want, Exception):
                outcome.raised += 1
            else:
                outcome.answered += 1
    counters = library.counters()
    outcome.launches = counters.launches
    outcome.fallbacks = Counter(counters.fallbacks)
    return outcome


def optimize(
    case: FuzzCase, cache_dir: str, dump_dir: str | None = None
) -> tuple[graph_pb2.GraphDef, Report]:
    """The optimised graph, and the report on it."""
    config = Config(
        cpu_targets=(case.target if case.target in host_targets() else host_targets()[-1],),
        cache_dir=cache_dir,
        dump_dir=dump_dir,
        jobs=1,
    )
    cost = ANY_GAIN if case.any_gain else CostModel()
    with (
        tempfile.TemporaryDirectory(prefix="tf-blade-fuzz-", dir=_SCRATCH) as folder,
        mock.patch.object(optimizer, "find_clusters", functools.partial(find_clusters, cost=cost)),
    ):
        before, after = Path(folder, "before"), Path(folder, "after")
        before.mkdir()
        (before / "saved_model.pb").write_bytes(_saved_model(case).SerializeToString())
        report = optimizer.optimize_saved_model(
            str(before), str(after), config, [SIGNATURE], lambda *_: None
        )
        proto = saved_model_pb2.SavedModel.FromString((after / "saved_model.pb").read_bytes())
    return proto.meta_graphs[0].graph_def, report


def _saved_model(case: FuzzCase) -> saved_model_pb2.SavedModel:
    """A model in TF1 format that holds the graph."""
    model = saved_model_pb2.SavedModel(saved_model_schema_version=1)
    meta = model.meta_graphs.add()
    meta.meta_info_def.tags.append("serve")
    meta.graph_def.CopyFrom(case.graph_def)
    signature = meta.signature_def[SIGNATURE]
    signature.method_name = "tensorflow/serving/predict"
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(case.graph_def, name="")
        for name in case.runs[0]:
            signature.inputs[name].CopyFrom(_about(graph.get_tensor_by_name(f"{name}:0")))
        for i, name in enumerate(case.fetches):
            signature.outputs[f"y{i}"].CopyFrom(_about(graph.get_tensor_by_name(name)))
    return model


def _about(tensor: tf.Tensor) -> meta_graph_pb2.TensorInfo:
    return meta_graph_pb2.TensorInfo(
        name=tensor.name,
        dtype=tensor.dtype.as_datatype_enum,
        tensor_shape=tensor.shape.as_proto(),
    )


def _session(graph_def: graph_pb2.GraphDef, *, grappler: bool = True) -> Any:
    config = config_pb2.ConfigProto(intra_op_parallelism_threads=2, inter_op_parallelism_threads=1)
    if not grappler:
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        config.graph_options.optimizer_options.opt_level = config_pb2.OptimizerOptions.L0
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(graph_def, name="")
    return tf.compat.v1.Session(graph=graph, config=config)


def _run(session: Any, fetches: Sequence[str], feeds: Feeds) -> list[np.ndarray] | Exception:
    try:
        return list(session.run(fetches, {f"{name}:0": x for name, x in feeds.items()}))
    except (tf.errors.NotFoundError, tf.errors.UnimplementedError) as error:
        raise Unfit(str(error)) from error
    except tf.errors.OpError as error:
        return error


def _compare(
    case: FuzzCase,
    number: int,
    want: list[np.ndarray] | Exception,
    got: list[np.ndarray] | Exception,
) -> None:
    if isinstance(want, Exception) or isinstance(got, Exception):
        if type(want) is not type(got):
            raise Mismatch(f"run {number}: TensorFlow {_said(want)}, optimised {_said(got)}")
        return
    for name, tolerance, theirs, ours in zip(case.fetches, case.tolerances, want, got, strict=True):
        where = f"run {number}, {name}"
        if theirs.dtype != ours.dtype or theirs.shape != ours.shape:
            raise Mismatch(
                f"{where}: TensorFlow {theirs.dtype}{list(theirs.shape)}, "
                f"optimised {ours.dtype}{list(ours.shape)}"
            )
        atol = SLACK * tolerance + (FLOOR if tolerance else 0)
        try:
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=atol)
        except AssertionError as error:
            raise Mismatch(f"{where}: optimised (x) and TensorFlow (y) differ{error}") from None


def _said(result: list[np.ndarray] | Exception) -> str:
    if isinstance(result, Exception):
        lines = [line for line in str(result).splitlines() if "{{node" in line]
        return f"reports {type(result).__name__} ({lines[0][:300] if lines else result})"
    return "answers"


def _describe(report: Report) -> Outcome:
    outcome = Outcome()
    for region in report.regions:
        for cluster in region.clusters:
            outcome.clusters += 1
            outcome.ops.update(cluster.ops)
        outcome.left_out.update(f"{node.op}: {node.reason}" for node in region.left_out)
    return outcome
