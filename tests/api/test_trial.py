"""A model on which TensorFlow crashes is refused; the process that asked lives on."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import tf_blade
from tf_blade import machine, runner, trial
from tf_blade.child import Child, Crashed
from tf_blade.signatures import read_meta_graph


class Residual(tf.Module):
    """A convolution, a bias and a residual, which is padded: what the oneDNN pass crashes on."""

    def __init__(self, padded):
        super().__init__()
        self.padded = padded
        self.w = tf.constant(np.random.default_rng(0).normal(size=(3, 3, 8, 16)), tf.float32)
        self.bias = tf.constant(np.arange(16), tf.float32)

    @tf.function(input_signature=[tf.TensorSpec([None, 8, 8, 8], tf.float32, name="x")])
    def __call__(self, x):
        y = tf.nn.bias_add(tf.nn.conv2d(x, self.w, 1, "SAME"), self.bias)
        padding = [[0, 0], [0, 0], [0, 0], [0, 8]]
        return {
            "y": tf.nn.relu(y + (tf.pad(x, padding) if self.padded else tf.tile(x, [1, 1, 1, 2])))
        }


def save(padded, folder):
    module = Residual(padded)
    tf.saved_model.save(module, str(folder), signatures={"serving_default": module.__call__})
    return folder


@pytest.mark.parametrize("padded", [True, False])
def test_only_models_that_may_crash_are_tried_out(padded, tmp_path, monkeypatch):
    meta_graph = read_meta_graph(save(padded, tmp_path / "model"), ("serve",))
    monkeypatch.setattr(machine, "onednn_enabled", lambda: True)
    assert trial.is_risky(meta_graph, ["serving_default"]) == padded
    monkeypatch.setattr(machine, "onednn_enabled", lambda: False)
    assert not trial.is_risky(meta_graph, ["serving_default"])


def test_optimize_survives_or_refuses(tmp_path):
    """In a process of its own, as oneDNN can't be turned on later. Never a signal."""
    folder = save(True, tmp_path / "model")
    code = (
        "import sys, tf_blade\n"
        "config = tf_blade.Config(timing_seconds=0)\n"
        "try:\n"
        "    tf_blade.optimize(sys.argv[1], sys.argv[2], config=config)\n"
        "except tf_blade.TfBladeError as error:\n"
        "    print('refused', error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, folder, tmp_path / "out"],
        env=dict(os.environ, TF_ENABLE_ONEDNN_OPTS="1"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    if "refused" in done.stdout:
        assert "TF_ENABLE_ONEDNN_OPTS=0" in done.stdout
        assert not (tmp_path / "out").exists()
    else:
        assert (tmp_path / "out" / "saved_model.pb").exists()


class Dying(Child):
    """It answers some calls before it dies."""

    def __init__(self, crash: Crashed, answers: list[object]) -> None:
        super().__init__()
        self.crash, self.answers = crash, list(answers)

    def call(self, function, *args, **kwargs):
        if not self.answers:
            raise self.crash
        return self.answers.pop(0)


def test_a_crash_is_told_from_an_error(monkeypatch, tmp_path):
    died = Dying(Crashed("crashed with SIGSEGV", signal.SIGSEGV), [])
    monkeypatch.setattr(trial, "Child", lambda: died)
    with pytest.raises(tf_blade.SavedModelError, match=r"crashes \(SIGSEGV\)"):
        trial.require_survival(tmp_path, ["serve"], ["serving_default"])
    slow = Dying(Crashed("did not end within 600 s"), [])
    monkeypatch.setattr(trial, "Child", lambda: slow)
    assert trial.require_survival(tmp_path, ["serve"], ["serving_default"]) == ""


def test_a_model_that_crashes_in_a_session_only_is_kept_out_of_sessions(monkeypatch, tmp_path):
    crash = Crashed("crashed with SIGSEGV", signal.SIGSEGV)
    monkeypatch.setattr(trial, "Child", lambda: Dying(crash, [(("serve",), [])]))
    reason = trial.require_survival(tmp_path, ["serve"], ["serving_default"])
    assert "SIGSEGV" in reason and "session" in reason


def test_a_trial_runs_the_functions_and_then_a_session(tmp_path, monkeypatch):
    """Not in a child, so that it can be watched."""
    asked: list[tuple[bool, int]] = []

    class Watched(runner.Runner):
        def run(self, signature, feeds):
            asked.append((self.in_session, len(feeds["x"])))
            return super().run(signature, feeds)

    class Here(Child):
        def call(self, function, *args, **kwargs):
            return function(*args, **kwargs)

    monkeypatch.setattr(runner, "Runner", Watched)
    monkeypatch.setattr(trial, "Child", Here)
    folder = save(True, tmp_path / "model")
    assert trial.require_survival(folder, ["serve"], ["serving_default"]) == ""
    batches = [batch for in_session, batch in asked if in_session]
    assert batches and set(batches) <= {batch for in_session, batch in asked if not in_session}
    assert [in_session for in_session, _ in asked] == sorted(in_session for in_session, _ in asked)


def test_errors_of_the_model_are_not_the_trials_business(tmp_path):
    """In a real child."""
    assert trial.require_survival(tmp_path / "nothing", ["serve"], ["serving_default"]) == ""
