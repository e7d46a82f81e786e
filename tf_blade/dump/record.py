"""Recording the inputs of clusters while a model runs.

A copy of the optimised model is run in which each cluster is TensorFlow's own nodes again, with a
Python function beside them that keeps their inputs. So what is recorded are the tensors that
TensorFlow computes, whatever may be wrong with a cluster before.
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
from tf_blade.graph.graph import Attrs, Graph, Node, TensorRef
from tf_blade.inputs import FeedSet
from tf_blade.progress import Progress, silent
from tf_blade.runner import Runner, first_line
from tf_blade.signatures import computation

# A cluster in a loop is called often: the first calls on each feeds are kept.
MAX_CALLS = 4
# And no more than this of a cluster, the first call apart.
MAX_BYTES = 64 << 20
# Tables of lookups that are larger stay where they are.
MAX_TABLE_BYTES = 256 << 20


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
    recorders = {
        c.name: _LookupRecorder(c) if c.is_lookup else _ClusterRecorder(c)
        for c in dump.clusters.values()
    }

    def edit(graph: Graph, node: Node) -> None:
        recorder = recorders.get(cluster_of(node))
        run_fallback(node)
        if recorder is not None:
            recorder.add_to(graph, node)

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
        recorder.write()


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
    """Keeps tensors of one cluster, call by call.

    Args:
      names, types: of what is kept.
      returned: types of the tensors that the Python function hands on: the last ones it is given.
    """

    def __init__(
        self,
        cluster: DumpedCluster,
        names: Sequence[str],
        types: Sequence[tf.DType],
        returned: Sequence[tf.DType] = (),
    ) -> None:
        self.cluster = cluster
        self.samples: list[tuple[str, dict[str, np.ndarray]]] = []
        self._names = names
        self._returned = len(returned)
        self._label, self._calls, self._bytes = "", 0, 0
        self._lock = threading.Lock()
        # TensorFlow knows Python functions by a token, which it makes when one is traced.
        self._traced = _trace(self._called, types, returned)

    def starts(self, label: str) -> None:
        """Says what the next calls are made for."""
        self._label, self._calls = label, 0

    def write(self) -> None:
        """Adds what was kept to the cluster's dump."""
        missing = "" if self.samples else "the model didn't run it on any of the feeds"
        write_samples(self.cluster.folder, self.samples, missing=missing)

    def _python_call(self) -> Attrs:
        """Attributes of a node that calls the Python function."""
        (made,) = [n for n in self._traced.graph.as_graph_def().node if n.op == "PyFunc"]
        return dict(made.attr)

    def _called(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        with self._lock:
            self._calls += 1
            self._keep(dict(zip(self._names, map(np.asarray, arrays), strict=True)))
        return arrays[len(arrays) - self._returned :]

    def _keep(self, tensors: dict[str, np.ndarray]) -> None:
        size = sum(array.nbytes for array in tensors.values())
        if self.samples and (self._calls > MAX_CALLS or self._bytes + size > MAX_BYTES):
            return
        self._bytes += size
        label = self._label if self._calls == 1 else f"{self._label}, call {self._calls}"
        self.samples.append((label, {name: array.copy() for name, array in tensors.items()}))


class _ClusterRecorder(_Recorder):
    """Keeps the inputs of a compiled cluster that are not constants."""

    def __init__(self, cluster: DumpedCluster) -> None:
        self._varying = [i for i, tensor in enumerate(cluster.inputs) if not tensor.constant]
        tensors = [cluster.inputs[i] for i in self._varying]
        super().__init__(cluster, [t.name for t in tensors], [t.info.dtype for t in tensors])

    def add_to(self, graph: Graph, node: Node) -> None:
        """Has the inputs of `node` kept before it runs."""
        recorder = Node(
            graph.unique_name(f"{node.name}_inputs"),
            "PyFunc",
            [node.inputs[i] for i in self._varying],
            list(node.controls),  # without inputs they say when, and in which loop, it runs
            self._python_call(),
        )
        graph.add(recorder)
        node.controls.append(recorder.name)


class _LookupRecorder(_Recorder):
    """Keeps inputs and outputs of a fused lookup, and its tables once.

    Outputs, too, since TensorFlow's nodes need the model's variables and vocabularies.
    """

    def __init__(self, cluster: DumpedCluster) -> None:
        tensors = [*cluster.inputs, *cluster.outputs]
        self._tables: dict[str, np.ndarray] = {}
        self._table_names = [tensor.name for tensor in cluster.inputs if tensor.constant]
        self._missing = ""
        outputs = [tensor.info.dtype for tensor in cluster.outputs]
        types = [tensor.info.dtype for tensor in tensors]
        super().__init__(cluster, [tensor.name for tensor in tensors], types, outputs)

    def add_to(self, graph: Graph, node: Node) -> None:
        """Puts a node that keeps what it is given in front of the readers of `node`."""
        call = Node(
            graph.unique_name(f"{node.name}_call"),
            node.op,
            node.inputs,
            node.controls,
            node.attrs,
            node.device,
        )
        graph.add(call)
        inputs = [
            self._read(graph, call, i) if tensor.variable else call.inputs[i]
            for i, tensor in enumerate(self.cluster.inputs)
        ]
        outputs = [TensorRef(call.name, i) for i in range(len(self.cluster.outputs))]
        node.op, node.inputs, node.controls = "PyFunc", [*inputs, *outputs], []
        node.attrs = self._python_call()

    def write(self) -> None:
        if self._missing:
            write_samples(self.cluster.folder, [], missing=self._missing)
        elif not self.samples:
            super().write()
        else:
            write_samples(self.cluster.folder, self.samples, self._tables)

    def _read(self, graph: Graph, call: Node, number: int) -> TensorRef:
        """The value of a variable that is an input of the call."""
        dtype = self.cluster.inputs[number].info.dtype.as_datatype_enum
        read = Node(
            graph.unique_name(f"{call.name}_table_{number}"),
            "ReadVariableOp",
            [call.inputs[number]],
            list(call.controls),
            {"dtype": attr_value_pb2.AttrValue(type=dtype)},
        )
        graph.add(read)
        return TensorRef(read.name)

    def _keep(self, tensors: dict[str, np.ndarray]) -> None:
        tables = {name: tensors.pop(name) for name in self._table_names}
        if not self._tables:
            size = sum(array.nbytes for array in tables.values())
            if size > MAX_TABLE_BYTES:
                self._missing = f"its tables have {size >> 20} MiB, which are not recorded"
            else:
                self._tables = {name: array.copy() for name, array in tables.items()}
        if not self._missing:
            super()._keep(tensors)


def _trace(
    function: Callable[..., Any], types: Sequence[tf.DType], returned: Sequence[tf.DType]
) -> Any:
    """A concrete function that calls a Python function."""

    def call(*tensors: tf.Tensor) -> Any:
        results = tf.numpy_function(function, tensors, list(returned))
        return results if returned else None

    signature = [tf.TensorSpec(None, dtype) for dtype in types]
    return tf.function(call, input_signature=signature, autograph=False).get_concrete_function()
