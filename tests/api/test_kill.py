"""Killed at any moment, the output is absent or complete, and the next run cleans up."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import tf_blade
from tests.api import fakes
from tf_blade import Config, api
from tf_blade.report import REPORT_FILE

FILES = 12

# Writes FILES files with pauses, then publishes them; imports no TensorFlow, so it starts at once.
WRITER = """
import sys, time
from pathlib import Path
from tf_blade.output_dir import atomic_output
with atomic_output(Path(sys.argv[1]), sys.argv[2] == "overwrite") as staging:
    print("started", flush=True)
    for i in range(int(sys.argv[3])):
        (staging / ("saved_model.pb" if i == 0 else str(i))).write_text(sys.argv[4])
        time.sleep(0.005)
print("done", flush=True)
"""


def contents(folder: Path) -> set[str] | None:
    """What the files say; None for an absent folder. Asserts that no file is missing."""
    if not folder.exists():
        return None
    files = list(folder.iterdir())
    assert len(files) == FILES, f"half a model: {sorted(f.name for f in files)}"
    return {f.read_text() for f in files}


def write_and_kill(output: Path, mode: str, content: str, delay: float) -> None:
    command = [sys.executable, "-c", WRITER, str(output), mode, str(FILES), content]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()


@pytest.mark.parametrize("seed", range(6))
def test_a_killed_writer_leaves_the_output_absent_or_complete(tmp_path: Path, seed: int):
    delay = random.Random(seed).uniform(0, 0.09)
    write_and_kill(tmp_path / "out", "new", "v1", delay)
    assert contents(tmp_path / "out") in (None, {"v1"})


@pytest.mark.parametrize("seed", range(6))
def test_a_killed_overwriter_leaves_the_old_or_the_new_model(tmp_path: Path, seed: int):
    out = tmp_path / "out"
    out.mkdir()
    for i in range(FILES):
        (out / ("saved_model.pb" if i == 0 else str(i))).write_text("v1")
    delay = random.Random(100 + seed).uniform(0.04, 0.09)
    write_and_kill(out, "overwrite", "v2", delay)
    assert contents(out) in ({"v1"}, {"v2"})


OPTIMIZE = """
import sys
from tests.api import fakes
import tf_blade
from tf_blade import Config, api
from tf_blade.report import REPORT_FILE
api.run(fakes.slow_copying, sys.argv[1], sys.argv[2], config=Config(timing_seconds=0))
"""


@pytest.mark.parametrize("delay", [0.0, 0.13])
def test_a_killed_optimize_leaves_nothing_that_the_next_one_does_not_remove(
    two_signatures: Path, tmp_path: Path, quick: Config, delay: float
):
    out = tmp_path / "out"
    command = [sys.executable, "-c", OPTIMIZE, str(two_signatures), str(out)]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, cwd=root, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and not any(tmp_path.glob(".tf_blade_staging.*/*.pb")):
            time.sleep(0.005)
        time.sleep(delay)
        os.kill(process.pid, signal.SIGKILL)
    assert not out.exists()
    assert len(list(tmp_path.iterdir())) == 1  # the dead process's staging folder
    api.run(fakes.copying, two_signatures, out, config=quick)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("delay", [0.4, 2.5])
def test_the_real_optimizer_killed_at_work_leaves_the_output_absent_or_complete(
    two_signatures: Path, tmp_path: Path, delay: float
):
    out = tmp_path / "out"
    (tmp_path / "c.toml").write_text(f'timing_seconds = 0\ncache_dir = "{tmp_path}/cache"\n')
    command = [sys.executable, "-m", "tf_blade", "optimize", str(two_signatures), str(out)]
    with subprocess.Popen(
        [*command, "--config", str(tmp_path / "c.toml")],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.DEVNULL,
    ) as process:
        while process.poll() is None and not any(tmp_path.glob(".tf_blade_staging.*")):
            time.sleep(0.005)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
    if out.exists():
        answers = tf_blade.load(out)(np.ones((2, 3), np.float32))
        assert answers["sum"].numpy().tolist() == [3, 3]
        assert (out / REPORT_FILE).exists()
