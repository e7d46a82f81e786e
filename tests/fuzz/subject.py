"""Optimising a fuzz case as `optimize` does a SavedModel, and comparing it with TensorFlow.

What `optimize` does around the compiler (its check, its timing) is replaced by the case's runs.
TensorFlow itself runs without Grappler: the graph as it is written is what answers are compared
with.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2

from tests.fuzz.case import Feeds, FuzzCase
from tests.whole_graphs import ANY_GAIN, Signature, host_targets, optimise, session
from tf_blade import Config, library
from tf_blade.clustering import CostModel
from tf_blade.report import Report

SLACK = 8.0  # what TensorFlow's own functions may be off beyond one rounding
FLOOR = 1e-6


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
    with session(case.graph_def, grappler=False) as original, session(graph_def) as optimized:
        for number, feeds in enumerate(case.runs):
            want, got = (_run(s, case.fetches, feeds) for s in (original, optimized))
            if isinstance(want, Exception) != isinstance(got, Exception):
                # Grappler drops what nothing reads, and with it the error of that. And it breaks
                # some branches of TensorFlow 1: "Retval[0] does not have value".
                with session(case.graph_def) as stock:
                    want = _run(stock, case.fetches, feeds)
            if isinstance(want, Exception) and type(want) is not type(got):
                want = _same_error(case, original, feeds, want, got)
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
    signature = Signature(list(case.runs[0]), case.fetches)
    cost = ANY_GAIN if case.any_gain else CostModel()
    return optimise(case.graph_def, {"serving_default": signature}, config, cost)


def _run(session: Any, fetches: Sequence[str], feeds: Feeds) -> list[np.ndarray] | Exception:
    try:
        return list(session.run(fetches, {f"{name}:0": x for name, x in feeds.items()}))
    except (tf.errors.NotFoundError, tf.errors.UnimplementedError) as error:
        raise Unfit(str(error)) from error
    except tf.errors.OpError as error:
        return error


def _same_error(
    case: FuzzCase, session: Any, feeds: Feeds, want: Exception, got: list[np.ndarray] | Exception
) -> list[np.ndarray] | Exception:
    """Of several errors in a graph any may come first, or what it cancels: one of the class of
    `got`, if there is.

    Args:
      session: of the original, asked once more: for each output alone, and for the node that `got`
        names, as an output may have several errors on its way.
    """
    if isinstance(got, tf.errors.CancelledError):
        return got
    nodes = {node.name for node in case.graph_def.node}
    named = [f"{name}:0" for name in re.findall(r"{{node ([^}]+)}}", str(got)) if name in nodes]
    for fetch in [*named, *case.fetches]:
        try:
            found = _run(session, [fetch], feeds)
        except ValueError:  # nodes inside loops can't be fetched
            continue
        if isinstance(found, Exception) and type(found) is type(got):
            return found
    return want


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
