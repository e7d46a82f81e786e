"""Recording the inputs of clusters while a model runs.

A copy of the optimised model is run in which each cluster is TensorFlow's own nodes again, with a
Python function in front that keeps the inputs. So what is recorded are the tensors that TensorFlow
computes, whatever may be wrong with a cluster before.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

from tf_blade.check import FeedPlan
from tf_blade.dump.edit import cluster_of, edit_clusters, run_fallback
from tf_blade.dump.read import Dump, DumpedCluster
from tf_blade.dump.write import write_samples
from tf_blade.graph.graph import Graph, Node
from tf_blade.inputs import FeedSet
from tf_blade.progress import Progress, silent
from tf_blade.runner import Runner, first_line
from tf_blade.signatures import computation

_Attr = attr_value_pb2.AttrValue

# A cluster in a loop is called often: the first calls on each feeds are kept.
MAX_CALLS = 4
# And no more than this of a cluster, the first call apart.
MAX_BYTES = 64 << 20


def record_inputs(
    optimized: Path,
    tags: tuple[str, ...],
    plans: Mapping[str, FeedPlan],
    dump: Dump,
    progress: Progress = silent,
) -> None:
    """Runs a model and adds the inputs of its clusters to their dumps.

    Args:
      optimized: folder of the optimised model.
      tags: of its MetaGraph.
      plans: the feeds to run it on.
      dump: made when the model was optimised; its folder is changed.

    Raises what TensorFlow raises if it can't load the model. Feeds that it fails on are passed by.
    """
    recorders = {c.name: _Recorder(c) for c in dump.clusters.values() if not c.is_lookup}

    def edit(graph: Graph, node: Node) -> None:
        recorder = recorders.get(cluster_of(node))
        if recorder is not None:
            node.controls.append(recorder.add_to(graph, node))
        run_fallback(node)

    with tempfile.TemporaryDirectory(prefix="tf_blade_record_") as folder:
        edited = Path(folder) / "model"
        edit_clusters(optimized, edited, edit)
        runner = Runner(edited, tags, grappler=False)
        try:
            for name, feeds in _to_run(plans):
                progress("record inputs")
                for recorder in recorders.values():
                    recorder.starts(f"{name}, {feeds.label}")
                _run(runner, name, feeds)
        finally:
            runner.close()
    for recorder in recorders.values():
        write_samples(recorder.cluster.folder, recorder.samples)


def _to_run(plans: Mapping[str, FeedPlan]) -> list[tuple[str, FeedSet]]:
    """Each signature and its feeds; of signatures that compute the same, one."""
    first: dict[tuple[str, ...], str] = {}
    names = [n for n, p in plans.items() if first.setdefault(computation(p.signature), n) == n]
    return [(name, feeds) for name in names for feeds in plans[name].sets]


def _run(runner: Runner, name: str, feeds: FeedSet) -> None:
    try:
        runner.run(name, feeds.values)
    except Exception as error:  # as in the check, where the reason is reported
        tf.get_logger().debug("not recorded: %s", first_line(error))


class _Recorder:
    """Keeps the inputs of one cluster."""

    def __init__(self, cluster: DumpedCluster) -> None:
        self.cluster = cluster
        self.samples: list[tuple[str, dict[str, np.ndarray]]] = []
        self._varying = [i for i, tensor in enumerate(cluster.inputs) if not tensor.constant]
        self._names = [cluster.inputs[i].name for i in self._varying]
        self._types = [cluster.inputs[i].info.dtype for i in self._varying]
        self._label, self._calls, self._bytes = "", 0, 0
        self._lock = threading.Lock()
        # TensorFlow knows Python functions by a token, which it makes when one is traced.
        self._traced = _trace(self._keep, self._types)

    def starts(self, label: str) -> None:
        """Says what the next calls are made for."""
        self._label, self._calls = label, 0

    def add_to(self, graph: Graph, node: Node) -> str:
        """Adds a node that keeps the inputs of `node`; returns its name."""
        (made,) = [n for n in self._traced.graph.as_graph_def().node if n.op == "PyFunc"]
        recorder = Node(
            graph.unique_name(f"{node.name}_inputs"),
            "PyFunc",
            [node.inputs[i] for i in self._varying],
            list(node.controls),  # without inputs they say when, and in which loop, it runs
            dict(made.attr),
        )
        graph.add(recorder)
        return recorder.name

    def _keep(self, *arrays: np.ndarray) -> None:
        with self._lock:
            self._calls += 1
            size = sum(np.asarray(array).nbytes for array in arrays)
            if self.samples and (self._calls > MAX_CALLS or self._bytes + size > MAX_BYTES):
                return
            self._bytes += size
            label = self._label if self._calls == 1 else f"{self._label}, call {self._calls}"
            copies = [np.array(array) for array in arrays]
            self.samples.append((label, dict(zip(self._names, copies, strict=True))))


def _trace(function: Callable[..., None], types: Sequence[tf.DType]) -> Any:
    """A concrete function that calls a Python function."""

    def call(*tensors: tf.Tensor) -> None:
        tf.numpy_function(function, tensors, [])

    signature = [tf.TensorSpec(None, dtype) for dtype in types]
    return tf.function(call, input_signature=signature, autograph=False).get_concrete_function()
