"""The `models` benchmark on models that take no time."""

from __future__ import annotations

import argparse
import contextlib
import json

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import cases, model_worker, models, peers, zoo
from benchmarks.__main__ import main

SUMMARY = {
    "models",
    "wrong",
    "failed",
    "stock_fails",
    "falling_back",
    "unchanged",
    "min_speedup",
    "geomean_speedup",
    "clustered_share",
    "min_cluster_time",
    "min_dense_clustered",
    "max_optimize_seconds",
}


class Dense(tf.Module):
    def __init__(self, factor=1.0):
        super().__init__()
        values = np.random.default_rng(1).normal(size=(6, 5)).astype(np.float32)
        self.weight = tf.Variable(values * factor)

    @tf.function(input_signature=[tf.TensorSpec([None, 6], tf.float32, "x")])
    def __call__(self, x):
        y = tf.matmul(x, self.weight)
        return {"y": tf.nn.softmax(tf.nn.relu(y) * 2.0 + 1.0), "largest": tf.argmax(y, axis=1)}


class Counting(tf.Module):
    def __init__(self):
        super().__init__()
        self.total = tf.Variable(0.0)

    @tf.function(input_signature=[tf.TensorSpec([None, 6], tf.float32, "x")])
    def __call__(self, x):
        return {"total": self.total.assign_add(tf.reduce_sum(tf.exp(x) * x + 1.0))}


class Broadcasting(tf.Module):
    """Compiled code takes both inputs for equally long and refuses the feeds below."""

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None], tf.float32, "x"),
            tf.TensorSpec([None, None], tf.float32, "row"),
        ]
    )
    def __call__(self, x, row):
        return {"y": tf.nn.softmax(tf.tanh(x * row + 1.0) * tf.exp(x) + row)}


def rows_of_six(batch):
    random = np.random.default_rng(batch)
    return {"x": random.normal(size=(batch, 6)).astype(np.float32)}


def save(model, directory, feeds=rows_of_six):
    signature = model.__call__.get_concrete_function()
    tf.saved_model.save(model, str(directory / "saved_model"), signatures=signature)
    sizes = {"small": feeds(3), "large": feeds(33)}
    cases.write_case(directory, "serving_default", "test", sizes)
    return cases.read_case(directory)


@pytest.fixture
def folder(tmp_path):
    save(Dense(), tmp_path / "models" / "dense")
    return tmp_path / "models"


def run(folder, tmp_path, *options):
    path = tmp_path / "record.json"
    where = ["--models-dir", str(folder), "--json", str(path)]
    code = main(["models", "--quick", "--seconds", "0.05", *where, *options])
    return code, json.loads(path.read_text())


def test_quick_run_leaves_rows_and_the_whole_summary(folder, tmp_path, capsys):
    save(Counting(), folder / "counting")
    code, record = run(folder, tmp_path)
    assert code == 0, record["rows"]
    assert set(record["summary"]) == SUMMARY
    assert record["summary"]["models"] == 2 and record["summary"]["wrong"] == 0
    assert [(row["model"], row["size"]) for row in record["rows"]] == [
        ("counting", "small"),
        ("counting", "large"),
        ("dense", "small"),
        ("dense", "large"),
    ]
    for row in record["rows"]:
        assert row["wrong"] is False and row["speedup"]["value"] > 0
        assert row["original_ms"]["median_ms"] > 0
        assert row["unchanged"] or row["optimized_ms"]["median_ms"] > 0
        assert row["unchanged"] or 0 < row["cluster_time"] <= 1
        assert row["unchanged"] or 0 < row["dense_clustered"] <= 1
        assert row["clustered_nodes"] <= row["nodes"]
    assert "dense" in capsys.readouterr().out


def test_a_model_that_falls_back_is_counted_whether_or_not_it_comes_out_unchanged(tmp_path, capsys):
    def broadcast(batch):
        return rows_of_six(batch) | {"row": np.ones((1, 6), np.float32)}

    save(Broadcasting(), tmp_path / "models" / "broadcasting", broadcast)
    _, record = run(tmp_path / "models", tmp_path)
    assert record["summary"]["falling_back"] == 1
    for row in record["rows"]:
        assert sum(row["optimize_fallbacks"].values()) > 0
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "fell back inside" in shown


def test_noise_run_compares_the_original_with_itself(folder, tmp_path):
    code, record = run(folder, tmp_path, "--noise", "--only", "dense")
    assert code == 0
    assert [row["max_abs_error"] for row in record["rows"]] == [0.0, 0.0]


def test_peers_are_timed_in_the_same_run_and_those_that_cannot_are_listed(folder, tmp_path, capsys):
    code, record = run(folder, tmp_path, "--noise", "--peers", "tf,xla")
    assert code == 0, record["rows"]
    assert set(record["summary"]) == SUMMARY | {"geomean_vs_xla", "xla_models"}
    assert record["summary"]["xla_models"] == 1 and record["summary"]["geomean_vs_xla"] > 0
    for row in record["rows"]:
        assert row["xla_ms"]["blocks"] == row["original_ms"]["blocks"]
        assert row["peers_missing"] == {}


def test_a_peer_that_is_not_installed_or_fails_or_is_wrong_says_so(folder, monkeypatch):
    case = cases.read_case(folder / "dense")
    task = model_worker.Task(
        str(case.directory), "", "", 0.0, True, peers=("ort",), converted=str(folder / "converted")
    )
    peer = peers.PEERS["ort"]
    monkeypatch.setattr(peers.importlib.util, "find_spec", lambda name: None)
    reason = model_worker.try_peer(task)
    assert reason == "not installed: onnx, tf2onnx, onnxruntime (requirements-peers.txt)"
    monkeypatch.undo()
    monkeypatch.setattr(type(peer), "packages", ())

    def refuse(case, folder):
        raise peers.PeerError("Check 'false' failed at x.cpp\nno rule for StringSplit")

    monkeypatch.setattr(peer, "convert", refuse)
    assert model_worker.try_peer(task) == "no rule for StringSplit"
    monkeypatch.setattr(peer, "convert", lambda case, folder: None)

    @contextlib.contextmanager
    def wrong(case, folder, feeds):
        with model_worker._call(case.saved_model, case.signature, feeds) as call:
            outputs = call.outputs()
            call.outputs = lambda: {**outputs, "y": outputs["y"] + 1}
            yield call

    monkeypatch.setattr(peer, "open", wrong)
    assert model_worker.try_peer(task).startswith("its answers differ (small): output 'y'")


def test_summary_counts_the_models_that_a_peer_can_run():
    rows = [
        row("a", 2.0, speedup_vs_ort={"value": 4.0}),
        row("a", 2.0, speedup_vs_ort={"value": 1.0}),
        row("b", 2.0, peers_missing={"ort": "no rule"}),
    ]
    summary = models.summarize(rows, ["ort"])
    assert summary["ort_models"] == 1 and summary["geomean_vs_ort"] == pytest.approx(2.0)


def test_an_unknown_peer_is_refused():
    assert peers.parse("tf, ort,xla") == ["xla", "ort"]
    with pytest.raises(ValueError, match="no peer called jax; there are tf, xla, ort, openvino"):
        peers.parse("tf,jax")


def test_a_converters_names_are_the_signatures(folder):
    case = cases.read_case(folder / "dense")
    names = peers._Names(case)
    assert names.input("serving_default_x:0") == names.input("x") == "x"
    assert names.output("largest") == names.output("Largest") == "largest"
    with pytest.raises(peers.PeerError, match="an output 'z'"):
        names.output("z")


def test_model_that_cannot_be_read_is_a_failed_row(folder, tmp_path):
    save(Dense(), folder / "broken")
    (folder / "broken" / "saved_model" / "saved_model.pb").write_bytes(b"\xff not a model")
    code, record = run(folder, tmp_path, "--noise")
    assert code == 1
    assert record["summary"]["failed"] == 1 and record["summary"]["wrong"] == 1
    assert record["summary"]["models"] == 2
    (row,) = [row for row in record["rows"] if row["model"] == "broken"]
    assert row["wrong"] and row["error"].startswith("measure ended with")


def measure(case, optimized, tmp_path):
    task = model_worker.Task(str(case.directory), str(optimized), "", seconds=0.01, quick=True)
    return model_worker.measure(task)


def test_different_answers_are_called_wrong(folder, tmp_path):
    case = cases.read_case(folder / "dense")
    other = save(Dense(factor=1.01), tmp_path / "other")
    for row in measure(case, other.saved_model, tmp_path):
        assert row["wrong"] and "output 'y'" in row["message"]


def test_stored_answers_are_what_is_asked_for(folder, tmp_path):
    case = cases.read_case(folder / "dense")
    rows = measure(case, case.saved_model, tmp_path)
    assert all("original_gives_stored_answers" not in row for row in rows)
    answers = {"y": np.zeros((3, 5), np.float32)}
    cases.write_tensors(case.directory / "answers" / "small", answers)
    row = measure(case, case.saved_model, tmp_path)[0]
    assert row["original_gives_stored_answers"] is False and not row["wrong"]


def test_state_is_compared_call_by_call(tmp_path):
    case = save(Counting(), tmp_path / "counting")
    for row in measure(case, case.saved_model, tmp_path):
        assert not row["wrong"]
    forgetful = save(Dense(), tmp_path / "dense")
    for row in measure(case, forgetful.saved_model, tmp_path):
        assert row["wrong"] and "'total' is missing" in row["message"]


def row(model, speedup=None, **values):
    found = {"model": model, "wrong": False, **values}
    return found | ({"speedup": {"value": speedup}} if speedup else {})


def test_summary_counts_models_once_and_speed_ups_by_row():
    rows = [
        row("a", 2.0, nodes=10, clustered_nodes=5, optimize_seconds=3.0),
        row("a", 0.5, fallbacks={"shape": 2}, nodes=10, clustered_nodes=5, optimize_seconds=3.0),
        row("b", 1.0, nodes=10, clustered_nodes=0, unchanged=True, optimize_seconds=1.0),
        row("c", nodes=0) | {"wrong": True, "error": "crash"},
        row("d", 4.0, nodes=20, clustered_nodes=15) | {"wrong": True},
        row("e", stock_fails=True, message="crash"),
        # As a bug that made every lookup fall back once looked: slower, so unchanged.
        row("f", 1.0, unchanged=True, optimize_fallbacks={"the kernel refused": 9}),
        row("f", 1.0, unchanged=True, optimize_fallbacks={"the kernel refused": 9}),
        row("g", 1.0, unchanged=True, optimize_fallbacks={}),
    ]
    summary = models.summarize(rows)
    assert set(summary) == SUMMARY
    assert summary == {
        "models": 7,
        "wrong": 2,
        "failed": 1,
        "stock_fails": 1,
        "falling_back": 2,
        "unchanged": 3,
        "min_speedup": 0.5,
        "geomean_speedup": pytest.approx(4.0 ** (1 / 7)),
        "clustered_share": pytest.approx(20 / 40),
        "min_cluster_time": 0.0,
        "min_dense_clustered": 0.0,
        "max_optimize_seconds": 3.0,
    }


def test_fallbacks_inside_optimize_are_told_of_a_model_that_came_out_unchanged():
    report = {
        "outcome_reason": "measured slower",
        "fallbacks": {"the kernel refused": 9},
        "regions": [],
        "compile_seconds": 1.0,
        "saved_model_bytes_before": 1,
        "saved_model_bytes_after": 1,
    }
    done = {"report": report, "seconds": 2.0, "peak_bytes": 3}
    found = row("a", 1.0) | models._about_report(done, unchanged=True)
    assert models.summarize([found])["falling_back"] == 1
    remark = models._remark(found)
    assert "unchanged: measured slower" in remark and "the kernel refused 9" in remark


def test_unknown_model_of_the_zoo_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no model called nonsense"):
        zoo.build_zoo(tmp_path, ["nonsense"])


@pytest.mark.parametrize("name", ["deepctr_din", "basic_pitch"])
def test_zoo_builds_models_that_run(tmp_path, name):
    (case,) = zoo.build_zoo(tmp_path, [name], say=lambda text: None)
    assert case.sizes == ["small", "large"]
    with model_worker._call(case.saved_model, case.signature, case.feeds("large")) as call:
        outputs = call.outputs()
    assert outputs and all(np.isfinite(value).all() for value in outputs.values())
    assert all(value.std() > 0 for value in outputs.values())


def test_failed_build_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(zoo, "names", lambda: ["deepctr_none"])
    with pytest.raises(RuntimeError, match="building 'deepctr_none' failed"):
        zoo.build_zoo(tmp_path, ["deepctr_none"], say=lambda text: None)
    assert list(tmp_path.iterdir()) == []


def test_every_benchmark_has_help(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["models", "--help"])
    assert stopped.value.code == 0
    assert "geomean_speedup" in capsys.readouterr().out


def test_arguments_have_defaults():
    parser = argparse.ArgumentParser()
    models.add_arguments(parser)
    assert parser.parse_args([]).only == []
