"""Benchmark `cuda`: generated CUDA kernels against a copy of as many bytes on the same GPU.

Softmax, layer norm, GELU and a chain of eight element-wise ops over [8192, 4096] and [8192, 4095]
of f32, each compiled once, for unknown shapes, into one kernel. Answers are compared with those of
the IR's interpreter. `--prepare FOLDER` compiles only, where there is no GPU; then, on the machine
with the GPU, `python -m benchmarks.cuda.measure FOLDER`.

`summary`:
  bandwidth_fraction_min      time of a copy (read and write) / our time: the least of all rows,
  bandwidth_fraction_geomean  and their geometric mean; medians of times taken by events
  kernels_max                 kernels of a graph, the most: 1 where everything was fused
  wrong                       rows with answers outside the tolerance
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

_ROWS, _WIDTHS, _QUICK_ROWS = 8192, (4096, 4095), 1024
_REPEATS = {False: 50, True: 3}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--prepare", type=Path, metavar="FOLDER", help="compile into this folder, measure nothing"
    )


def run(arguments: argparse.Namespace) -> tuple[list[dict[str, Any]], dict[str, float]]:
    from benchmarks.cuda.measure import measure, show
    from benchmarks.cuda.prepare import prepare

    rows, repeats = (_QUICK_ROWS if arguments.quick else _ROWS), _REPEATS[arguments.quick]
    shapes = [(rows, width) for width in _WIDTHS]
    if arguments.prepare:
        prepare(arguments.prepare, shapes, repeats, quick=arguments.quick)
        return [], {}
    with tempfile.TemporaryDirectory(prefix="tf-blade-") as folder:
        prepare(Path(folder), shapes, repeats, quick=arguments.quick)
        try:
            record = measure(Path(folder))
        except RuntimeError as error:
            raise SystemExit(f"{error}. --prepare FOLDER compiles for another machine.") from None
    show(record)
    return record.rows, record.summary
