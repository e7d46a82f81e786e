"""The measuring half of the benchmark `cuda`, for a machine with a GPU.

    python -m benchmarks.cuda.measure FOLDER [--json FILE]

FOLDER is what `python -m benchmarks cuda --prepare FOLDER` wrote, on this machine or another one.
This half needs numpy, and neither TensorFlow nor a compiler.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import harness
from benchmarks.job_folder import JobFolder

RUNNER, ABOUT = "run_jobs_cuda", "about.json"


@dataclass(frozen=True)
class GpuMachine:
    """What the numbers were measured on."""

    gpu: str
    cpu: str
    cores: int
    python: str


def measure(folder: Path) -> harness.Record:
    """Runs all jobs of the folder. Raises RuntimeError if there is no GPU."""
    about = json.loads((folder / ABOUT).read_text())
    outcomes = JobFolder(folder).run([str((folder / RUNNER).resolve())])
    rows: list[dict[str, Any]] = []
    gpu = ""
    for outcome, what in zip(outcomes, about["rows"], strict=True):
        row = {**what, "wrong": bool(outcome.message), "message": outcome.message}
        row["max_error"] = outcome.max_error
        gpu = outcome.details["device"]
        if "us" in outcome.details:
            row |= _times(outcome.details["us"], outcome.details["copy_us"], what["bytes"])
        rows.append(row)
    machine = GpuMachine(
        gpu, harness.cpu_name(), len(os.sched_getaffinity(0)), platform.python_version()
    )
    return harness.Record(
        "cuda", about["quick"], rows, summarize(rows), machine, commit=about["commit"]
    )


def _times(runs: Sequence[float], copies: Sequence[float], moved: int) -> dict[str, Any]:
    q1, median, q3 = np.percentile(runs, [25, 50, 75])
    return {
        "us": {"median": float(median), "q1": float(q1), "q3": float(q3), "repeats": len(runs)},
        "copy_us": float(np.median(copies)),
        "tb_per_s": moved / float(median) / 1e6,
        "bandwidth_fraction": float(np.median(np.array(copies) / np.array(runs))),
    }


def summarize(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The figures of this benchmark."""
    fractions = [row["bandwidth_fraction"] for row in rows if "bandwidth_fraction" in row]
    return {
        "bandwidth_fraction_min": min(fractions, default=float("nan")),
        "bandwidth_fraction_geomean": harness.geometric_mean(fractions),
        "kernels_max": max((row["kernels"] for row in rows), default=0),
        "wrong": sum(bool(row["wrong"]) for row in rows),
        "rows": len(rows),
    }


def show(record: harness.Record) -> None:
    print(f"{'graph':12} {'shape':>12} {'us':>8} {'copy us':>8} {'TB/s':>6} {'of copy':>8}  error")
    for row in record.rows:
        shape = f"{row['shape'][0]}x{row['shape'][1]}"
        print(
            f"{row['graph']:12} {shape:>12} {row['us']['median']:8.1f} {row['copy_us']:8.1f} "
            f"{row['tb_per_s']:6.2f} {row['bandwidth_fraction']:7.1%}  {row['max_error']:.1e} "
            f"{row['message']}"
        )
    print(f"{record.machine}: {record.summary}")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cuda.measure", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record here")
    arguments = parser.parse_args(argv)
    record = measure(arguments.folder)
    show(record)
    if arguments.json:
        record.write(arguments.json)
    return 1 if record.summary["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
