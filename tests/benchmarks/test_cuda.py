"""The benchmark `cuda`: what it makes of the times that its runner says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.cuda.measure import ABOUT, RUNNER, main, measure
from benchmarks.job_folder import JobFolder, Tensor


def prepared(folder: Path, *answers: dict) -> None:
    """A folder of jobs whose runner answers zeros, and says these times."""
    jobs = JobFolder(folder)
    zeros = np.zeros(4, np.float32)
    script = ["#!/bin/sh"]
    rows = []
    for number, said in enumerate(answers):
        expected = np.full(4, said.pop("expected", 0.0), np.float32)
        jobs.add(f"graph_{number}", b"code", [Tensor(zeros)], [Tensor(expected)], image=b"image")
        rows.append({"graph": f"graph_{number}", "shape": [1, 4], "bytes": 32, "kernels": 1})
        line = {"status": 0, "reason": "", "dims": [[4]], "device": "a GPU", **said}
        script.append(f"head -c 16 /dev/zero > {number}-0.output; echo '{json.dumps(line)}'")
    jobs.save()
    (folder / ABOUT).write_text(json.dumps({"rows": rows, "quick": True, "commit": "abc"}))
    (folder / RUNNER).write_text("\n".join(script) + "\n")
    (folder / RUNNER).chmod(0o755)


def test_a_fraction_is_the_median_of_the_ratios_of_copy_and_run(tmp_path):
    prepared(
        tmp_path,
        {"us": [10.0, 20.0, 40.0], "copy_us": [9.0, 16.0, 20.0]},
        {"us": [5.0] * 3, "copy_us": [4.5] * 3},
    )
    record = measure(tmp_path)
    assert [row["bandwidth_fraction"] for row in record.rows] == pytest.approx([0.8, 0.9])
    assert record.rows[0]["us"]["median"] == 20.0
    assert record.summary["bandwidth_fraction_min"] == pytest.approx(0.8)
    assert record.summary["kernels_max"] == 1
    assert (record.machine.gpu, record.commit) == ("a GPU", "abc")


def test_a_wrong_answer_counts_and_is_the_exit_code(tmp_path, capsys):
    prepared(tmp_path, {"us": [1.0], "copy_us": [1.0], "expected": 1.0})
    assert main([str(tmp_path), "--json", str(tmp_path / "record.json")]) == 1
    record = json.loads((tmp_path / "record.json").read_text())
    assert record["summary"]["wrong"] == 1
    assert "4 elements differ" in capsys.readouterr().out
