"""Benchmark `feature_columns`: embedding columns, TensorFlow against fused lookups.

Models of N columns are generated with tf.feature_column (`columns/model.py`: 100,000-row tables of
8, 16 and 32 floats; hashed strings and integers, identity, vocabulary, bucketized; a third of them
lists of 0 to 4 values; mean, sum, sqrtn). With --models, whole models are run too: census and
DeepCTR's from `zoo.py`, and generated ranking models of 237 and 1,443 columns with dense layers
behind them (tables of 10,000 rows).

Rivals, in one process, with as many threads each (one a core):
  stock    the original model
  xla      the same with XLA auto-clustering
  library  optimised, lookups done by the general kernels
  codegen  optimised, lookups compiled for the model
  default  optimised as a user does it (whole models)
  floor    no lookup at all: the same table rows, known beforehand, added up in C++
  session  a model with the same inputs that does nothing with them: what a call takes at least

How it is timed. Calls are made by clients in C++ through TensorFlow's C API, with feeds that are
tensors already, and go round several feeds (`columns/client.cc`). Rivals are timed in turn; a ratio
is the median over neighbouring blocks, with the 10th and 90th percentile. p50 and p99 are those of
single calls of one client. Answers to all feeds are compared with the stock model's beforehand.

`summary` (mixed sources, 100 columns, no user share unless said; a number that was not measured
is null):
  speedup_b1, _b16, _b100, _b512   codegen against stock, one client
  user70_b100            the same where 70 % of the columns hold one row all through the batch
  codegen_vs_library     geometric mean over the batches, one client
  floor_ratio_b512       time of codegen / time of floor
  models_min, _geomean   whole models, default against stock, one client, over all batches
  optimize_1443_seconds, _peak_gb   of `optimize` on the largest ranking model
  wrong                  variants with wrong answers or none, at any batch
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import harness
from benchmarks.columns import subjects, variants
from benchmarks.columns.model import SOURCES, ModelSpec
from benchmarks.columns.variants import VARIANTS, Variant
from benchmarks.columns.worker import Task

Row = dict[str, Any]

_BATCHES = [1, 16, 100, 512]
_MODEL_BATCHES = (1, 16, 100)
_CLIENTS = (1, 2, 4)
_SECONDS = {False: 3.0, True: 0.2}
_TIME_LIMIT = 3600  # seconds that a step may take
_WIDTH = 170
_LARGEST = max(subjects.RANKING, key=lambda name: subjects.RANKING[name].columns)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--columns", type=_integers, help="default 20,100,400; '' for none")
    parser.add_argument("--batch", type=_integers, help="default 1,16,100,512")
    parser.add_argument("--ids", choices=("zipf", "uniform"), default="zipf")
    parser.add_argument("--source", choices=sorted(SOURCES), default="mixed")
    parser.add_argument("--user-share", type=_floats, default=[0.0, 0.7], help="default 0,0.7")
    parser.add_argument("--rows", type=int, default=100_000, help="of a table")
    parser.add_argument(
        "--models", nargs="*", metavar="NAME", help="whole models too: all, or these"
    )
    parser.add_argument(
        "--variants",
        type=lambda text: text.split(","),
        help=f"instead of {','.join(variants.FOR_COLUMNS)} ({','.join(variants.FOR_MODELS)} for "
        f"whole models); out of {', '.join(VARIANTS)}",
    )
    parser.add_argument("--seconds", type=float, help="for each batch and number of clients")


def _integers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


def _floats(text: str) -> list[float]:
    return [float(part) for part in text.split(",") if part]


def run(arguments: argparse.Namespace) -> tuple[list[Row], dict[str, float]]:
    """Rows (one for each model, batch, user share and rival) and the summary."""
    console = Console(width=max(_WIDTH, Console().width))
    subjects.GENERATED.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    # Beside the generated models: what is optimised shares their variables by hard links.
    with tempfile.TemporaryDirectory(prefix="run_", dir=subjects.GENERATED) as scratch:
        for subject, task, found in _jobs(arguments):
            console.print(f"[bold]{subject}[/bold]")
            new = _run_subject(task, found, Path(scratch))
            _print_table(new, console)
            rows += new
    summary = summarize(rows)
    console.print("  ".join(f"{name} {value:.4g}" for name, value in summary.items()))
    return rows, summary


def _jobs(arguments: argparse.Namespace) -> list[tuple[str, Task, list[Variant]]]:
    """What to call it, what to do, and with which variants."""
    seconds = arguments.seconds or _SECONDS[arguments.quick]
    columns = arguments.columns
    if columns is None:
        columns = [20] if arguments.quick else [20, 100, 400]
    batches = arguments.batch or ([1, 16] if arguments.quick else _BATCHES)
    jobs = []
    for count in columns:
        spec = ModelSpec(count, arguments.source, arguments.rows)
        task = Task(
            subjects.encode(spec),
            batches=tuple(batches),
            ids=arguments.ids,
            user_shares=tuple(arguments.user_share),
            clients=_CLIENTS,
            seconds=seconds,
        )
        found = variants.available(arguments.variants or variants.FOR_COLUMNS)
        jobs.append((f"{count} columns", task, found))
    for name in [] if arguments.models is None else subjects.whole_models(arguments.models):
        task = Task(
            subjects.encode(name),
            batches=tuple(arguments.batch or _MODEL_BATCHES),
            ids=arguments.ids,
            # Feeds of the zoo are what they are.
            user_shares=tuple(arguments.user_share) if name in subjects.RANKING else (0.0,),
            clients=_CLIENTS,
            seconds=seconds,
        )
        found = variants.available(arguments.variants or variants.FOR_MODELS)
        jobs.append((name, task, found))
    return jobs


class _StepError(Exception):
    """A worker crashed, raised or took too long."""


def _run_subject(task: Task, chosen: list[Variant], scratch: Path) -> list[Row]:
    about: Row = {"ids": task.ids, **task.subject.get("spec", {})}
    try:
        built = _step("build", task, [], scratch)
    except _StepError as error:
        return [about | {"variant": "stock", "wrong": True, "error": str(error)}]
    about["model"] = built["name"]
    failed: list[Row] = []
    made: dict[str, Row] = {}
    for variant in chosen:
        folder = built["saved_model"]
        if variant.config is not None:
            folder = str(scratch / built["name"] / variant.name)
            order = _replace(task, variant=variant.name, models={variant.name: folder})
            try:
                made[variant.name] = _step("optimize", order, [variant], scratch)
            except _StepError as error:
                failed.append(about | {"variant": variant.name, "wrong": True, "error": str(error)})
                continue
        task.models[variant.name] = folder
    try:
        rows = _step("measure", task, chosen, scratch)
    except _StepError as error:
        failed.append(about | {"variant": "all", "wrong": True, "error": str(error)})
        rows = []
    return failed + [about | made.get(row["variant"], {}) | row for row in rows]


def _replace(task: Task, **changes: Any) -> Task:
    return Task(**(asdict(task) | changes))


def _step(step: str, task: Task, chosen: list[Variant], scratch: Path) -> Any:
    order, result = scratch / "task.json", scratch / "result.json"
    order.write_text(json.dumps(asdict(task)), encoding="utf-8")
    result.unlink(missing_ok=True)
    try:
        finished = subprocess.run(
            [sys.executable, "-m", "benchmarks.columns.worker", step, str(order), str(result)],
            cwd=subjects.ROOT,
            env=variants.environment(chosen),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_TIME_LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise _StepError(f"{step} took more than {_TIME_LIMIT} s") from error
    if finished.returncode != 0:
        lines = [line for line in finished.stdout.splitlines() if line.strip()]
        how = f"signal {-finished.returncode}" if finished.returncode < 0 else "an error"
        raise _StepError(f"{step} ended with {how}: {lines[-1] if lines else 'no output'}"[:500])
    return json.loads(result.read_text(encoding="utf-8"))


def summarize(rows: list[Row]) -> dict[str, float]:
    """The figures described at the top of this file."""
    codegen = [
        row
        for row in rows
        if row["variant"] == "codegen"
        and (row.get("columns"), row.get("source"), row.get("mlp")) == (100, "mixed", False)
    ]

    def of(batch: int, figure: str, user_share: float = 0.0) -> float:
        for row in codegen:
            if (row.get("batch"), row.get("user_share")) == (batch, user_share) and figure in row:
                return float(row[figure]["median"])
        return float("nan")

    over_library = [
        row["over_library"]["median"]
        for row in codegen
        if "over_library" in row and row["user_share"] == 0.0
    ]
    whole = [
        row["speedup_1"]["median"]
        for row in rows
        if row["variant"] == "default" and "speedup_1" in row
    ]
    largest: Row = next(
        (row for row in rows if row["variant"] == "default" and row.get("model") == _LARGEST), {}
    )
    return {
        **{f"speedup_b{batch}": of(batch, "speedup_1") for batch in _BATCHES},
        "user70_b100": of(100, "speedup_1", 0.7),
        "codegen_vs_library": harness.geometric_mean(over_library),
        "floor_ratio_b512": of(512, "over_floor"),
        "models_min": min(whole, default=float("nan")),
        "models_geomean": harness.geometric_mean(whole),
        "optimize_1443_seconds": largest.get("optimize_seconds", float("nan")),
        "optimize_1443_peak_gb": largest.get("optimize_peak_gb", float("nan")),
        "wrong": sum(bool(row.get("wrong")) for row in rows),
    }


def _print_table(rows: list[Row], console: Console) -> None:
    clients = sorted({int(key[4:]) for row in rows for key in row if key.startswith("qps_")})
    table = Table()
    table.add_column("batch", justify="right")
    table.add_column("user share", justify="right")
    table.add_column("variant", no_wrap=True)
    for column in ("p50 ms", "p99 ms", *(f"{count} clients/s" for count in clients)):
        table.add_column(column, justify="right")
    table.add_column("speed-up (p10–p90)", justify="right", no_wrap=True)
    table.add_column("over floor", justify="right")
    table.add_column("over session", justify="right")
    table.add_column("max error", justify="right")
    table.add_column("remark")
    for row in rows:
        table.add_row(
            str(row.get("batch", "")),
            f"{row.get('user_share', 0.0):.0%}",
            row["variant"],
            _number(row.get("p50_ms"), ".3f"),
            _number(row.get("p99_ms"), ".3f"),
            *(_number(row.get(f"qps_{count}"), ".0f") for count in clients),
            _spread(row.get("speedup_1")),
            _number(row.get("over_floor", {}).get("median"), ".2f"),
            _number(row.get("over_session", {}).get("median"), ".2f"),
            _number(row.get("max_abs_error"), ".1e"),
            _remark(row),
        )
    console.print(table)


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _spread(ratio: dict[str, float] | None) -> str:
    if ratio is None:
        return ""
    return f"{ratio['median']:.2f} ({ratio['p10']:.2f}–{ratio['p90']:.2f})"


def _remark(row: Row) -> str:
    if row.get("wrong"):
        return f"[red]WRONG[/red] {row.get('error') or row.get('message')}"
    if "gb_per_second" in row:
        return f"{row['gb_per_second']:.1f} GB/s"
    if row.get("outcome") == "unchanged":
        return f"unchanged: {row['outcome_reason']}"
    if row.get("fallbacks"):
        return f"{row['fallbacks']} fallbacks, {row['launches']} launches"
    return ""
