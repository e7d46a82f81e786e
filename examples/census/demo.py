"""The demo behind `make demo`: train, optimise, check, time.

    python -m examples.census.demo [--output DIR] [--seconds S]

Trains the wide & deep model of `model.py` on the census rows, exports it as a SavedModel, makes it
faster with one call, compares the predictions on the held-out rows, and times both models at
several batch sizes.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

# TensorFlow's notes about missing GPUs would drown the demo's own lines.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
from rich.console import Console
from rich.table import Table

import tf_blade
from benchmarks import harness
from benchmarks.compare import compare
from benchmarks.session import Session
from examples.census import data, model

BATCH_SIZES = (1, 16, 128, 512)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the demo. Exit code 1 if a prediction differs beyond rounding, else 0."""
    parser = argparse.ArgumentParser(prog="python -m examples.census.demo")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("output"))
    parser.add_argument("--rows", type=int, help="census rows to use (default: all)")
    parser.add_argument("--steps", type=int, default=120, help="training steps")
    parser.add_argument("--seconds", type=float, default=4.0, help="timing, for each batch size")
    parser.add_argument(
        "--optimize-seconds", type=float, default=10.0, help="timing inside `optimize`"
    )
    arguments = parser.parse_args(argv)
    console = Console(width=max(112, Console().width))
    original, optimized = arguments.output / "original", arguments.output / "optimized"

    with _step(console, f"Training on {arguments.rows or 'all'} census rows"):
        trained = _train(original, arguments.rows, arguments.steps)
    console.print(
        f"Trained for {trained.steps} steps; accuracy on {len(trained.test_labels)} held-out rows "
        f"{trained.test_accuracy:.3f}. SavedModel: {original}"
    )

    held_out = trained.test_rows
    samples = [_batch(held_out, size) for size in BATCH_SIZES]
    with _step(console, "Optimising"):
        result = tf_blade.optimize(
            str(original),
            str(optimized),
            inputs=samples,
            signatures=[model.SIGNATURE],
            config=tf_blade.Config(timing_seconds=arguments.optimize_seconds),
            overwrite=True,
        )
    console.print(f"Optimised SavedModel: {optimized}\n")
    print(result.report)

    agree = _check(original, optimized, held_out, trained.test_labels, console)
    _time(original, optimized, samples, arguments.seconds, console)
    return 0 if agree else 1


def _train(directory: Path, rows: int | None, steps: int) -> model.Trained:
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
    shutil.rmtree(directory, ignore_errors=True)
    with warnings.catch_warnings():
        # TensorFlow's `input_layer` calls a deprecated method of its own.
        warnings.simplefilter("ignore", UserWarning)
        return model.build(directory, rows=rows, steps=steps)


def _batch(features: data.Features, size: int) -> data.Features:
    """`size` held-out rows, from the first again when there are not enough."""
    count = len(features["age"])
    return data.take(features, np.arange(size) % count)


def _check(
    original: Path,
    optimized: Path,
    features: data.Features,
    labels: np.ndarray,
    console: Console,
) -> bool:
    """Compares the predictions on all held-out rows, each model freshly loaded."""
    with Session(original) as first, Session(optimized) as second:
        expected = first.bind(model.SIGNATURE, features).outputs()
        actual = second.bind(model.SIGNATURE, features).outputs()
    difference = compare(expected, actual)
    accuracy = float(np.mean(actual["classes"] == labels))
    console.print(
        f"Held-out rows: {len(labels)}; accuracy of the optimised model {accuracy:.3f}; largest "
        f"difference of a prediction {difference.max_abs_error:.1e}"
    )
    if not difference.ok:
        console.print(f"[red]The predictions differ:[/red] {difference.message}")
    return difference.ok


def _time(
    original: Path,
    optimized: Path,
    samples: Sequence[data.Features],
    seconds: float,
    console: Console,
) -> None:
    """Prints the speed-up table: both models in turn, in C++ sessions with ready tensors."""
    machine = harness.machine()
    console.print(
        f"{machine.cpu}, {machine.cores} cores, TensorFlow {machine.tensorflow}, "
        f"oneDNN {'on' if machine.onednn else 'off'}; median (interquartile range)"
    )
    table = Table()
    for column in ("batch", "original ms", "optimised ms", "speed-up (95 % interval)"):
        table.add_column(column, justify="right")
    with Session(original) as first, Session(optimized) as second:
        for features in samples:
            with _step(console, f"Timing batch {len(features['age'])}"):
                measured = harness.interleave(
                    {
                        "original": first.bind(model.SIGNATURE, features).run,
                        "optimized": second.bind(model.SIGNATURE, features).run,
                    },
                    seconds=seconds,
                )
            ratio = measured.ratio("original", "optimized")
            table.add_row(
                str(len(features["age"])),
                _latency(measured.timing("original")),
                _latency(measured.timing("optimized")),
                f"{ratio.value:.2f} ({ratio.low:.2f}–{ratio.high:.2f})",
            )
    console.print(table)


def _latency(timing: harness.Timing) -> str:
    return f"{timing.median_ms:.3f} ({timing.q3_ms - timing.q1_ms:.3f})"


@contextlib.contextmanager
def _step(console: Console, doing: str) -> Iterator[None]:
    """Shows that something is going on, and afterwards how long it took."""
    start = time.perf_counter()
    with console.status(f"{doing} …"):
        yield
    console.print(f"[dim]{doing}: {time.perf_counter() - start:.1f} s[/dim]")


if __name__ == "__main__":
    sys.exit(main())
