"""Where original and result are timed, and what keeps a result from being served."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import saved_model_pb2

import tf_blade
from tests.api import fakes
from tests.api.test_optimize import same_files
from tf_blade import Config, Report, api, latency, loaded_models, original
from tf_blade.c_session import Call
from tf_blade.errors import SavedModelError
from tf_blade.report import LatencyReport
from tf_blade.runner import Runner

KEEP = Config(timing_seconds=1.0, keep_slower=True)


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Feeds and whereabouts of every pair of calls that is timed."""
    listed: list[tuple[str, str]] = []

    def where(call: Callable[[], object]) -> str:
        call()  # a session that was closed would show
        return "session" if isinstance(getattr(call, "__self__", None), Call) else "Python"

    def record(feeds, original, optimized, budget_seconds):
        assert where(original) == where(optimized)
        listed.append((feeds, where(original)))
        return LatencyReport(feeds, 1.0, 0.5, 0.0, 0.0, 2.0, 2.0, 2.0, 20, "faster")

    monkeypatch.setattr(latency, "compare_latency", record)
    return listed


def timings(report: Report, name: str) -> list[tuple[str, str, str]]:
    listed = report.signature(name).latency
    return [(item.feeds, item.timed_in, item.timed_in_reason) for item in listed]


@pytest.mark.parametrize("name", ["two_signatures", "tf1_model", "stateful", "example_model"])
def test_models_of_both_formats_are_timed_in_a_session(
    name: str, request: pytest.FixtureRequest, timed: list[tuple[str, str]]
):
    report = api.run(fakes.copying, request.getfixturevalue(name), config=KEEP).report
    assert report.outcome == "optimized"
    assert timed and {where for _, where in timed} == {"session"}
    for found in report.signatures:
        assert [item.timed_in for item in found.latency] == ["session", "session"]
    assert not report.warnings


def test_a_signature_that_no_session_runs_is_timed_in_python_and_the_report_says_why(
    dense_and_sparse: Path, timed: list[tuple[str, str]]
):
    report = api.run(fakes.copying, dense_and_sparse, config=KEEP).report
    ends = ("batch 1", "batch 32")
    assert timed == [(e, "session") for e in ends] + [(e, "Python") for e in ends]
    assert timings(report, "serving_default") == [(e, "session", "") for e in ends]
    reason = "output 'y' is sparse or composite"
    assert timings(report, "sparse") == [(e, "Python", reason) for e in ends]
    (warning,) = report.warnings
    assert "'sparse'" in warning and reason in warning
    assert Report.from_json(report.to_json()).to_json() == report.to_json()


def test_a_model_that_no_session_loads_is_timed_in_python(
    two_signatures: Path, timed: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
):
    def load(directory, tags, grappler=True, in_session=None):
        if in_session:
            raise SavedModelError("Op type not registered 'Theirs'.")
        return Runner(directory, tags, grappler, in_session)

    monkeypatch.setattr(loaded_models, "Runner", load)
    report = api.run(fakes.copying, two_signatures, config=KEEP).report
    assert {where for _, where in timed} == {"Python"}
    assert len(timed) == 4
    for name in ("serving_default", "lookup"):
        assert timings(report, name)[0][1:] == ("Python", "Op type not registered 'Theirs'")


def test_a_model_that_crashes_in_sessions_is_timed_in_python(
    two_signatures: Path, timed: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(original, "is_risky", lambda *_: True)
    monkeypatch.setattr(api, "require_survival", lambda *_: "it crashes")
    report = api.run(fakes.copying, two_signatures, config=KEEP).report
    assert {where for _, where in timed} == {"Python"}
    assert timings(report, "lookup")[0][1:] == ("Python", "it crashes")


# -- fallbacks ----------------------------------------------------------------------------


def test_fallbacks_of_a_result_that_is_dropped_stay_in_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    spec = tf.TensorSpec([None, None], tf.float32)

    @tf.function(input_signature=[spec, spec])
    def scale(x, row):
        return {"y": tf.nn.softmax(tf.tanh(x * row + 1.0) * tf.exp(x) + row)}

    def slower(feeds, original, optimized, budget_seconds):
        return LatencyReport(feeds, 1.0, 2.0, 0.0, 0.0, 0.5, 0.5, 0.5, 20, "slower")

    monkeypatch.setattr(latency, "compare_latency", slower)
    # Compiled code takes both inputs for equally long, and refuses.
    inputs = {"x": np.ones((3, 4), np.float32), "row": np.ones((1, 4), np.float32)}
    config = Config(timing_seconds=0.1, cache_dir=str(tmp_path))
    report = tf_blade.optimize(scale, config=config, inputs=inputs).report
    assert report.outcome == "unchanged"
    assert sum(report.fallbacks.values()) > 0
    assert any("fallback" in warning for warning in report.warnings)


def test_fallbacks_in_the_session_count(two_signatures: Path, monkeypatch: pytest.MonkeyPatch):
    counts = {"before": 3}

    def falling_back(feeds, original, optimized, budget_seconds):
        counts["the session"] = counts.get("the session", 0) + 1
        return LatencyReport(feeds, 1.0, 2.0, 0.0, 0.0, 0.5, 0.5, 0.5, 20, "slower")

    monkeypatch.setattr(latency, "compare_latency", falling_back)
    monkeypatch.setattr(api, "_fallbacks", lambda: dict(counts))
    report = api.run(fakes.copying, two_signatures, config=Config()).report
    assert report.outcome == "unchanged"
    assert report.fallbacks == {"the session": 4}


# -- results that Python runs and a session doesn't ---------------------------------------


def main_graph_changed(change: Callable[[graph_pb2.GraphDef], None]) -> api.Driver:
    """A driver that changes the main graph, which servers run and Python's loader doesn't."""

    def driver(source_dir, staging_dir, config, signatures, progress, **_):
        report = fakes.copying(source_dir, staging_dir, config, signatures, progress)
        file = Path(staging_dir) / "saved_model.pb"
        model = saved_model_pb2.SavedModel.FromString(file.read_bytes())
        change(model.meta_graphs[0].graph_def)
        file.write_bytes(model.SerializeToString())
        return report

    return driver


def feed_negated(graph: graph_pb2.GraphDef) -> None:
    """The main graph's calls get -x."""
    (x,) = [n for n in graph.node if n.op == "Placeholder" and n.attr["dtype"].type == 1]
    for node in graph.node:
        node.input[:] = ["negated" if text == x.name else text for text in node.input]
    negated = graph.node.add(name="negated", op="Neg", input=[x.name])
    negated.attr["T"].type = tf.float32.as_datatype_enum


def fail_when_run(graph: graph_pb2.GraphDef) -> None:
    """The main graph's calls get log(0), which CheckNumerics refuses."""
    feed_negated(graph)
    checked = graph.node[-1]
    (x,) = checked.input
    checked.op = "CheckNumerics"
    checked.attr["message"].s = b"so it is"
    checked.input[:] = ["log"]
    for name, op, source in (("log", "Log", "zeros"), ("zeros", "ZerosLike", x)):
        node = graph.node.add(name=name, op=op, input=[source])
        node.attr["T"].type = tf.float32.as_datatype_enum


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (feed_negated, "answers differ in a C++ session: output 'sum' (batch 1)"),
        (fail_when_run, "fails in a C++ session: running the model: so it is"),
    ],
)
def test_a_result_that_a_server_cannot_run_is_dropped(
    change, words: str, two_signatures: Path, tmp_path: Path, timed: list[tuple[str, str]]
):
    run = functools.partial(api.run, main_graph_changed(change), two_signatures)
    report = run(tmp_path / "out", config=KEEP).report
    assert report.signature("serving_default").check.status == "passed"
    assert report.outcome == "unchanged"
    assert words in report.outcome_reason
    assert any(words in warning for warning in report.warnings)
    assert same_files(two_signatures, tmp_path / "out")
    assert not timed
