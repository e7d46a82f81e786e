"""A short run of the fuzzer with a fixed seed, what it found before, and the fuzzer itself."""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.fuzz import campaign, subject
from tests.fuzz.__main__ import replay
from tests.fuzz.case import FuzzCase
from tests.fuzz.spelling import SPELLINGS
from tests.fuzz.subject import Mismatch, Unfit, check
from tests.whole_graphs import host_targets
from tf_blade.compiler.ir.ops import OPS
from tf_blade.compiler.lower import LOWERINGS, registry

KERNELS = Path(__file__).parents[2] / ".pytest_cache" / "fuzz"
REGRESSIONS = sorted(Path(__file__).parent.glob("regressions/*.pbtxt"))
COUNT = 30


def test_random_graphs_give_tensorflows_answers(tmp_path):
    summary = campaign.fuzz_seed(tmp_path, 2026, count=COUNT, kernels=KERNELS)
    assert not summary.failures, (tmp_path / "failure_2026.txt").read_text()
    outcome = summary.outcome
    assert summary.cases > COUNT // 2 and outcome.answered > 4 * summary.cases
    assert outcome.launches > sum(outcome.fallbacks.values()) > 0
    assert len(outcome.ops) > 50
    assert not list(tmp_path.glob("running*"))


@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda path: path.stem)
def test_what_was_found_before_stays_right(path):
    check(FuzzCase.load(path), str(KERNELS))


def small_case(function=tf.tanh, dtype=np.float32) -> FuzzCase:
    """y0 is a difference that the function makes, y1 doesn't have it."""
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(dtype, [None], name="x0")
        tf.identity(function(x) * x, name="y0")
        tf.identity(x - tf.ones_like(x) * x * x, name="y1")
    runs = [{"x0": np.array(values, dtype)} for values in ([1, 2], [0], [3, 2, 1])]
    return FuzzCase(
        graph.as_graph_def(), ["y0:0", "y1:0"], [1e-6, 1e-6], runs, target=host_targets()[0]
    )


def test_a_wrong_lowering_is_found_and_reduced(monkeypatch):
    case = small_case()
    outcome = check(case, str(KERNELS))
    assert outcome.ops["Tanh"] == 1 and outcome.launches >= 3 and outcome.answered == 3
    right = LOWERINGS["Tanh"]
    wrong = registry.Lowering(**vars(right) | {"function": lambda b, x: b.unary("sin", x)})
    monkeypatch.setitem(LOWERINGS, "Tanh", wrong)
    with pytest.raises(Mismatch, match="run 0, y0:0: optimised"):
        check(case, str(KERNELS))
    small = campaign.reduced(case, str(KERNELS))
    assert small.fetches == ["y0:0"] and len(small.runs) == 1
    assert {node.op for node in small.graph_def.node} == {"Placeholder", "Tanh", "Mul", "Identity"}


def test_an_error_that_only_one_side_reports_is_a_mismatch(monkeypatch):
    def divided(x):
        return x // (x - x)

    case = small_case(divided, np.int32)
    assert check(case, str(KERNELS)).raised == 3
    right = LOWERINGS["FloorDiv"]
    wrong = registry.Lowering(**vars(right) | {"function": lambda b, x, y: b.add(x, y)})
    monkeypatch.setitem(LOWERINGS, "FloorDiv", wrong)
    with pytest.raises(Mismatch, match=r"reports InvalidArgumentError.*optimised answers"):
        check(case, str(KERNELS))


def test_any_of_two_errors_may_come_first():
    class Other:
        """Stands for a session: y0 alone reports one error, all together another."""

        def run(self, fetches, feeds):
            kind = (
                tf.errors.FailedPreconditionError if len(fetches) == 1 else tf.errors.InternalError
            )
            raise kind(None, None, "said")

    case = small_case()
    want = tf.errors.InternalError(None, None, "said")
    for got, found in (
        (tf.errors.FailedPreconditionError(None, None, ""), tf.errors.FailedPreconditionError),
        (tf.errors.DataLossError(None, None, ""), tf.errors.InternalError),
    ):
        assert type(subject._same_error(case, Other(), case.runs[0], want, got)) is found


def test_a_graph_without_a_kernel_is_no_failure():
    def channels_first(x):
        image = tf.reshape(x, [1, -1, 1, 1])
        return tf.reshape(tf.nn.conv2d(image, image, 1, "SAME", data_format="NCHW"), [-1])

    with pytest.raises(Unfit):
        check(small_case(channels_first), str(KERNELS))


def test_cases_read_back_as_they_were_written(tmp_path):
    case = small_case()
    case.runs.append({"x0": np.array([np.nan, np.inf, -0.0], np.float32)})
    case.save(tmp_path / "one")
    found = FuzzCase.load(tmp_path / "one.pbtxt")
    assert found.graph_def == case.graph_def and repr(found) == repr(case)
    assert (found.fetches, found.tolerances) == (case.fetches, case.tolerances)
    for ours, theirs in zip(found.runs, case.runs, strict=True):
        assert ours["x0"].tobytes() == theirs["x0"].tobytes()


def test_replay_says_which_cases_fail(tmp_path, monkeypatch, capsys):
    small_case().save(tmp_path / "good")
    bad = small_case()
    bad.tolerances = [0.0, 0.0]
    monkeypatch.setitem(
        LOWERINGS,
        "Tanh",
        registry.Lowering(**vars(LOWERINGS["Tanh"]) | {"function": lambda b, x: b.unary("neg", x)}),
    )
    bad.save(tmp_path / "bad")
    assert replay([tmp_path / "bad.pbtxt"], tmp_path) == 1
    assert "bad: run 0, y0:0" in capsys.readouterr().out
    assert list(tmp_path.glob("bad.dump/*/1_lowered.ir"))
    monkeypatch.undo()
    assert replay([tmp_path / "good.pbtxt"], tmp_path) == 0


def test_a_crash_is_a_failure_with_its_case(tmp_path):
    small_case().save(tmp_path / "running")
    summary = campaign.Summary(7)
    campaign._note_crash(tmp_path, 7, -signal.SIGSEGV, summary)
    assert summary.failures == {"crash_7": "the process ended with SIGSEGV"}
    assert FuzzCase.load(tmp_path / "crash_7.pbtxt").fetches == ["y0:0", "y1:0"]


def test_a_process_that_says_nothing_for_too_long_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(campaign, "HANGS_AFTER", 0.2)  # it is still importing TensorFlow
    summary = campaign.campaign(tmp_path, seconds=0.1, first_seed=5)
    assert summary.failures == {"crash_5": "the process ended with SIGKILL"}
    assert (tmp_path / "summary.json").exists()


def test_the_summary_names_what_never_ran():
    summary = campaign.Summary(1)
    summary.outcome.ops.update(["Tanh", "Tanh", "Sum"])
    assert f"2 of {len(LOWERINGS)} lowered ops were in clusters" in str(summary)
    assert "Softmax" in summary.never and "Tanh" not in summary.never
    assert summary.to_dict()["outcome"]["ops"] == {"Tanh": 2, "Sum": 1}


def test_every_primitive_can_be_spelled():
    # The maker's loops are TensorFlow's, from which these come.
    loops = {"while", "carried", "dynamic_update"}
    assert set(OPS) - loops <= set(SPELLINGS)
