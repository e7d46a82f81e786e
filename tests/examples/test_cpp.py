"""The C++ example: built as its README says, run on an optimised model."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

import tf_blade
from tf_blade import library

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "cpp"


class Mixed(tf.Module):
    """Takes numbers and strings, gives numbers and strings."""

    def __init__(self):
        super().__init__()
        self.table = tf.Variable(tf.random.stateless_normal([10, 16], seed=(1, 2)))
        self.weight = tf.Variable(tf.random.stateless_normal([24, 4], seed=(3, 4)))

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, 8], tf.float32, "x"),
            tf.TensorSpec([None], tf.int64, "row"),
            tf.TensorSpec([None], tf.string, "word"),
        ]
    )
    def serve(self, x, row, word):
        joined = tf.concat([tf.tanh(x) * tf.exp(x), tf.gather(self.table, row)], axis=1)
        scores = tf.nn.softmax(tf.nn.relu(joined) @ self.weight)
        return {"scores": scores, "upper": tf.strings.upper(word)}


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("cpp")
    module = Mixed()
    tf.saved_model.save(module, str(folder / "model"), signatures=module.serve)
    config = tf_blade.Config(keep_slower=True, timing_seconds=0)
    tf_blade.optimize(str(folder / "model"), str(folder / "blade"), config=config)
    return folder / "blade"


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    """Built with the command of the README."""
    lines = re.findall(r"^(?:TF=|g\+\+).*$", (FOLDER / "README.md").read_text(), re.MULTILINE)
    output = tmp_path_factory.mktemp("cpp") / "serve"
    script = "\n".join(lines).replace("python ", f"{sys.executable} ")
    # Other warnings than those of TensorFlow's headers are errors, and time is short.
    for old, new in {"-o": "-Wall -Werror -o", "-I$": "-isystem $", "-O2": "-O0"}.items():
        script = script.replace(old, new)
    script = script.replace("-o serve", f"-o {output}")
    done = subprocess.run(
        ["bash", "-ec", script], cwd=FOLDER, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return output


def run(program: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(program), *map(str, arguments)], capture_output=True, text=True, check=False
    )


def test_eight_threads_get_equal_answers(program, model):
    done = run(program, library.library_path(), model, "--threads", 8, "--calls", 20)
    assert done.returncode == 0, done.stderr
    assert "8 threads, 160 calls: median" in done.stdout
    assert "answers that differ between threads: 0" in done.stdout


def test_mistakes_are_said(program, model, tmp_path):
    op_library = library.library_path()
    missing = run(program, tmp_path / "none.so", model)
    assert missing.returncode == 2 and "can't load" in missing.stderr
    unknown = run(program, op_library, model, "--signature", "classify")
    assert unknown.returncode == 2
    assert "no signature classify; there are serving_default" in unknown.stderr
    empty = run(program, op_library, tmp_path)
    assert empty.returncode == 2 and "can't load" in empty.stderr
    assert "usage" in run(program, op_library).stderr
    assert "--threads must be" in run(program, op_library, model, "--threads", "none").stderr
