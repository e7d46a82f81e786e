"""Ways to run behaviours. All rows of a table are one graph, a signature each, so that a table is
optimised and compiled at once; a row's session call runs its own nodes only."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2

import tf_blade
from tests.conformance_ops.behaviour import Behaviour
from tests.whole_graphs import ANY_GAIN, Signature, host_targets, optimise, session
from tf_blade import Config
from tf_blade.clustering import find_clusters
from tf_blade.just_in_time import compile_graph
from tf_blade.report import Report

_CACHE = Path(__file__).parents[2] / ".pytest_cache" / "conformance"


@dataclass(frozen=True)
class Answer:
    """Arrays, or the class and the words of an error."""

    arrays: Sequence[np.ndarray] = ()
    error: str = ""
    message: str = ""


@dataclass
class Table:
    """The graph of a table's rows."""

    rows: Sequence[Behaviour]
    graph_def: graph_pb2.GraphDef
    signatures: dict[str, Signature]


def build(rows: Sequence[Behaviour]) -> Table:
    """Traces all rows into one graph. Each result is also read by one more op: no cluster is made
    for an op alone."""
    signatures = {}
    with tf.Graph().as_default() as graph:
        for number, row in enumerate(rows):
            with tf.name_scope(f"row{number}"):
                first = next(iter(row.feeds.values()))
                inputs = [
                    tf.compat.v1.placeholder(a.dtype, shape, name=f"x{i}")
                    for i, (a, shape) in enumerate(zip(first, row.shapes, strict=True))
                ]
                outputs = tf.nest.flatten(row.function(*inputs))
                outputs = [tf.identity(y) for x in outputs for y in (x, _read(x))]
            names = [x.op.name for x in inputs]
            signatures[row.name] = Signature(names, [y.name for y in outputs])
    return Table(rows, graph.as_graph_def(), signatures)


def _read(x: Any) -> Any:
    if x.dtype == tf.bool:
        return tf.logical_not(x)
    return tf.add(x, x)


class SessionRunner:
    """A session of a graph that has the table's names."""

    def __init__(
        self, table: Table, graph_def: graph_pb2.GraphDef, *, grappler: bool = True
    ) -> None:
        self.table = table
        self._session = session(graph_def, grappler=grappler)

    def answer(self, row: Behaviour, feed: Sequence[np.ndarray]) -> Answer:
        signature = self.table.signatures[row.name]
        feeds = {f"{n}:0": x for n, x in zip(signature.inputs, feed, strict=True)}
        try:
            return Answer(self._session.run(list(signature.outputs), feeds))
        except tf.errors.OpError as error:
            return Answer(error=type(error).__name__, message=words(error.message))


class Plain(SessionRunner):
    """TensorFlow, the graph as it is written."""

    def __init__(self, table: Table) -> None:
        super().__init__(table, table.graph_def, grappler=False)


class Stock(SessionRunner):
    """TensorFlow with Grappler, whose fused ops word some errors in another way."""

    def __init__(self, table: Table) -> None:
        super().__init__(table, table.graph_def)


class Optimised(SessionRunner):
    """The graph in a SavedModel, optimised. `report` is the optimizer's."""

    compared_with = Plain

    def __init__(self, table: Table) -> None:
        config = Config(cpu_targets=host_targets()[-1:], cache_dir=str(_CACHE))
        graph_def, self.report = optimise(table.graph_def, table.signatures, config)
        super().__init__(table, graph_def)

    @property
    def clustered(self) -> set[str]:
        """Names of the nodes inside clusters."""
        clusters = [c for region in self.report.regions for c in region.clusters]
        return {name for cluster in clusters for name in cluster.nodes}


class Jit(SessionRunner):
    """TensorFlow in a process in which tf-blade compiles what sessions run."""

    compared_with = Stock

    def __init__(self, table: Table) -> None:
        super().__init__(table, table.graph_def)

    def answer(self, row: Behaviour, feed: Sequence[np.ndarray]) -> Answer:
        clusters = functools.partial(find_clusters, cost=ANY_GAIN)
        config = Config(cpu_targets=host_targets()[-1:], cache_dir=str(_CACHE))
        with (
            mock.patch.object(compile_graph, "find_clusters", clusters),
            tf_blade.jit(wait=True, config=config),
        ):
            return super().answer(row, feed)


def reasons(report: Report) -> dict[str, str]:
    """Why nodes were left out, by name."""
    return {node.name: node.reason for r in report.regions for node in r.left_out}


# Every way that must do what TensorFlow does (`compared_with`). A new one is one more line.
RUNNERS: dict[str, Any] = {"optimised": Optimised, "jit": Jit}


def words(message: str) -> str:
    """What an op says, without where it was made and who called it."""
    kept = []
    for line in message.splitlines():
        text = line.strip()
        if text.startswith("[[{{node") or text.startswith("[["):
            break
        if text and not text.startswith(("Graph execution error", "Detected at node", "Node: '")):
            kept.append(text)
    # EnsureShape names its input, which is another one in a function.
    return re.sub(r"Shape of tensor \S+", "Shape of tensor", " ".join(kept))
