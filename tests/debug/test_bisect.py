"""Bugs that are put into the compiler are found, and nothing is found where nothing is wrong."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import tensorflow as tf

import tf_blade
from tests.debug import faults
from tests.debug.conftest import FEEDS
from tf_blade.config import Config
from tf_blade.debug import bisect as bisecting
from tf_blade.debug.bisect import Bisection, Culprit, bisect
from tf_blade.debug.replay import replay
from tf_blade.dump.read import read_dump


def only(found: Bisection) -> Culprit:
    assert found.status == "differs"
    assert found.mismatches
    (culprit,) = found.culprits
    return culprit


def test_a_right_model_has_nothing_to_find(three_parts: Path, tmp_path: Path, quick: Config):
    found = bisect(three_parts, tmp_path / "dump", config=quick)
    assert (found.status, found.reason, found.culprits) == ("equal", "", [])
    assert (found.clusters, found.tries) == (3, 1)


def test_a_wrong_rewrite_is_found(
    three_parts: Path, tmp_path: Path, quick: Config, monkeypatch: pytest.MonkeyPatch
):
    faults.rewrite(monkeypatch, "middle")
    found = bisect(three_parts, tmp_path / "dump", config=quick)
    culprit = only(found)
    assert (culprit.kind, culprit.cluster) == ("rewrite", "blade_cluster_1")
    assert culprit.nodes == ["middle"]
    assert culprit.step is not None and culprit.step.rule == "wrong_rule"
    assert "= max(" in culprit.step.before and "= min(" in culprit.step.after
    assert "'wrong_rule'" in culprit.message
    # One for a first look, one with no cluster, two for three clusters, one for those that are
    # left, two to be sure of the ends, the halving of some ten changes, and one without its kind.
    assert found.tries <= 13
    # The dump shows the same: wrong against TensorFlow, but what the rewritten program says.
    assert culprit.replays
    (alone,) = replay(read_dump(found.dump), culprit.cluster)
    assert not any(check.ok for sample in alone.samples for check in sample.tensorflow)
    assert all(check.ok for sample in alone.samples for check in sample.interpreter)


def test_a_wrong_lowering_is_found(
    three_parts: Path, tmp_path: Path, quick: Config, monkeypatch: pytest.MonkeyPatch
):
    faults.lowering(monkeypatch)
    culprit = only(bisect(three_parts, tmp_path / "dump", config=quick))
    assert (culprit.kind, culprit.cluster, culprit.nodes) == (
        "lowering",
        "blade_cluster_0",
        ["squash"],
    )
    assert culprit.message.startswith("the lowering of Tanh is wrong: output 'squash:0'")


def test_wrong_code_is_found(
    three_parts: Path, tmp_path: Path, quick: Config, monkeypatch: pytest.MonkeyPatch
):
    faults.code(monkeypatch)
    culprit = only(bisect(three_parts, tmp_path / "dump", config=quick))
    assert (culprit.kind, culprit.cluster, culprit.nodes) == ("code", "blade_cluster_0", ["squash"])
    assert culprit.message.startswith("the code for tanh is wrong")


def test_code_that_crashes_is_found(
    three_parts: Path, tmp_path: Path, quick: Config, monkeypatch: pytest.MonkeyPatch
):
    faults.crashing_code(monkeypatch, "tanh")
    found = bisect(three_parts, tmp_path / "dump", config=quick)
    culprit = only(found)
    assert (culprit.kind, culprit.cluster, culprit.nodes) == ("code", "blade_cluster_0", ["squash"])
    assert culprit.message == "the code for tanh crashed with SIGSEGV"
    assert "crashed with SIGSEGV" in found.mismatches[0][1].message
    assert culprit.replays


def test_a_rewrite_that_leads_to_a_crash_is_found(
    three_parts: Path, tmp_path: Path, quick: Config, monkeypatch: pytest.MonkeyPatch
):
    faults.rewrite(monkeypatch, "middle")
    faults.crashing_code(monkeypatch, "min")  # which the rewrite makes
    culprit = only(bisect(three_parts, tmp_path / "dump", config=quick))
    assert (culprit.kind, culprit.nodes) == ("rewrite", ["middle"])
    assert "makes the model crash (it crashed with SIGSEGV)" in culprit.message


def test_wrong_inlining_is_found(
    three_parts: Path, tmp_path: Path, quick: Config, monkeypatch: pytest.MonkeyPatch
):
    faults.inlining(monkeypatch)
    culprit = only(bisect(three_parts, tmp_path / "dump", config=quick))
    assert (culprit.kind, culprit.cluster) == ("inline", "blade_cluster_2")
    assert culprit.step is not None and culprit.step.rule == "neg"
    assert culprit.nodes == ["Neg"]


def test_a_wrong_fusion_is_found(
    three_parts: Path, tmp_path: Path, quick: Config, monkeypatch: pytest.MonkeyPatch
):
    faults.fusion(monkeypatch)
    culprit = only(bisect(three_parts, tmp_path / "dump", config=quick))
    assert (culprit.kind, culprit.cluster) == ("fuse", "blade_cluster_2")
    assert culprit.step is not None and "kind=sum" in culprit.step.after
    assert "scores" in culprit.nodes


def test_two_bugs_in_two_clusters_are_both_found(
    three_parts: Path, tmp_path: Path, quick: Config, monkeypatch: pytest.MonkeyPatch
):
    faults.rewrite(monkeypatch, "keep")
    faults.lowering(monkeypatch)  # in the same cluster: comes first
    faults.rewrite(monkeypatch, "middle")
    found = bisect(three_parts, tmp_path / "dump", config=quick)
    assert found.status == "differs"
    kinds = {culprit.cluster: culprit.kind for culprit in found.culprits}
    assert kinds == {"blade_cluster_0": "lowering", "blade_cluster_1": "rewrite"}


def test_two_bugs_in_one_cluster_are_both_found(
    three_parts: Path, tmp_path: Path, quick: Config, monkeypatch: pytest.MonkeyPatch
):
    faults.rewrite(monkeypatch, "middle")
    faults.rewrite(monkeypatch, "add_1", "add", "sub", name="wrong_sum")
    found = bisect(three_parts, tmp_path / "dump", config=quick)
    assert [(c.cluster, c.kind, c.nodes) for c in found.culprits] == [
        ("blade_cluster_1", "rewrite", ["middle"]),
        ("blade_cluster_1", "rewrite", ["add_1"]),
    ]
    rules = [culprit.step.rule for culprit in found.culprits if culprit.step]
    assert rules == ["wrong_rule", "wrong_sum"]
    assert found.culprits[1].message.endswith("; so it does without the kind of change above")


def test_code_that_does_not_compile_halfway_is_no_culprit(
    three_parts: Path, tmp_path: Path, quick: Config, monkeypatch: pytest.MonkeyPatch
):
    faults.rewrite(monkeypatch, "middle")
    right, asked = bisecting.compile_kernels, []

    def fails_at_first(source: str, config: Config) -> bytes:
        asked.append(source)
        if len(asked) == 1:  # without any change
            raise tf_blade.DumpError("the kernels don't compile")
        return right(source, config)

    monkeypatch.setattr(bisecting, "compile_kernels", fails_at_first)
    assert only(bisect(three_parts, tmp_path / "dump", config=quick)).nodes == ["middle"]


def test_a_wrong_graph_pass_is_found(
    three_parts: Path, tmp_path: Path, quick: Config, monkeypatch: pytest.MonkeyPatch
):
    faults.graph_pass(monkeypatch)
    culprit = only(bisect(three_parts, tmp_path / "dump", config=quick))
    assert (culprit.kind, culprit.cluster) == ("pass", "")
    assert culprit.step is not None and culprit.step.rule == "wrong_pass"


@pytest.mark.parametrize(
    ("fault", "message", "names"),
    [
        (faults.lookup_code, "the generated code of the lookup is wrong", ["words"]),
        (faults.lookup_plan, "the lookup doesn't compute what its nodes do", ["ids", "words"]),
    ],
)
def test_a_wrong_lookup_is_found_and_its_columns(
    columns: Path,
    tmp_path: Path,
    quick: Config,
    monkeypatch: pytest.MonkeyPatch,
    fault,
    message: str,
    names: list[str],
):
    fault(monkeypatch)
    found = bisect(columns, tmp_path / "dump", config=quick, inputs=FEEDS)
    culprit = only(found)
    assert (culprit.kind, culprit.cluster) == ("lookup", "blade_lookup_0")
    assert culprit.message.startswith(message)
    assert culprit.nodes == [
        f"input_layer/{name}_embedding/{name}_embedding_weights/embedding_lookup_sparse"
        for name in names
    ]
    assert culprit.message.endswith(f"columns that differ: {len(names)}")
    assert culprit.replays


class Noisy(tf.Module):
    """An output that is random, and one that is not."""

    @tf.function(input_signature=[tf.TensorSpec([None, 64], tf.float32, "x")])
    def serve(self, x):
        h = tf.nn.softmax(tf.nn.relu(tf.tanh(x) * 2.0, name="middle"))
        # Not tf.random.uniform, which follows the seed that some other test may have set.
        noise = tf.raw_ops.RandomUniform(shape=tf.shape(x), dtype=tf.float32)
        return {"noisy": noise + 1.0, "plain": h}


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "noisy"
    module = Noisy()
    tf.saved_model.save(module, str(path), signatures=module.serve)
    return path


def test_where_the_original_is_random_nothing_is_blamed(noisy: Path, tmp_path: Path, quick: Config):
    found = bisect(noisy, tmp_path / "dump", config=quick)
    assert (found.status, found.culprits) == ("random", [])
    assert "'noisy' of 'serving_default'" in found.reason


def test_a_bug_beside_a_random_output_is_found(
    noisy: Path, tmp_path: Path, quick: Config, monkeypatch: pytest.MonkeyPatch
):
    faults.rewrite(monkeypatch, "middle")
    found = bisect(noisy, tmp_path / "dump", config=quick)
    assert {check.output for _, check in found.mismatches} == {"plain"}
    assert only(found).nodes == ["middle"]


class Counting(tf.Module):
    """Answers depend on how often it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = tf.Variable(0.0)

    @tf.function(input_signature=[tf.TensorSpec([None, 64], tf.float32, "x")])
    def serve(self, x):
        count = self.calls.assign_add(1.0)
        return {"y": tf.nn.softmax(tf.nn.relu(tf.tanh(x * count) * 2.0, name="middle"))}


def test_a_model_that_keeps_state_is_compared_call_by_call(
    tmp_path: Path, quick: Config, monkeypatch: pytest.MonkeyPatch
):
    module = Counting()
    tf.saved_model.save(module, str(tmp_path / "model"), signatures=module.serve)
    assert bisect(tmp_path / "model", tmp_path / "dump", config=quick).status == "equal"
    faults.rewrite(monkeypatch, "middle")
    assert only(bisect(tmp_path / "model", tmp_path / "dump", config=quick)).nodes == ["middle"]


def test_a_coarser_tolerance_finds_less(
    three_parts: Path, tmp_path: Path, quick: Config, monkeypatch: pytest.MonkeyPatch
):
    faults.lowering(monkeypatch)
    loose = dataclasses.replace(quick, rtol=0.5, atol=10.0)
    assert bisect(three_parts, tmp_path / "dump", config=loose).status == "equal"


def test_a_model_that_nothing_is_compiled_of_is_its_own_original(tmp_path: Path, quick: Config):
    module = tf.Module()
    module.f = tf.function(lambda x: {"y": tf.math.lgamma(x)}, [tf.TensorSpec([None], name="x")])
    tf.saved_model.save(module, str(tmp_path / "model"), signatures=module.f)
    found = bisect(tmp_path / "model", tmp_path / "dump", config=quick)
    assert found.status == "equal"
    assert found.reason.startswith("no cluster could be made")
