"""Benchmark `models`: whole SavedModels, original against optimised.

Every model is optimised as a user would (`tf_blade.optimize` with sample inputs), then both
versions are checked and timed at two input sizes. The models are those of --models-dir (the form is
described in `cases.py`), or, without such a folder, the ones `zoo.py` builds from public packages.

How it is timed. Both models are loaded in one process, each in a C++ session as TensorFlow Serving
would have it, with feeds that are tensors already (`session.py` says why), and called in turn by
one client with TensorFlow's default threads (`harness.py`). Each model has a process of its own.
A model that comes out unchanged (its SavedModel proto equals the original's) has speed-up 1.0 by
definition and only its original is timed.

`summary`:
  models                how many were tried
  wrong                 answers outside the tolerance of `compare.py`, or a crash, at any size
  failed                of these: no answer at all (a crash, an error)
  stock_fails           TensorFlow itself crashes on the original on this machine: neither wrong
                        nor failed
  falling_back          have a cluster or lookup whose original subgraph ran in its place, here
                        or inside `optimize`: a model that always falls back is slower and
                        comes out unchanged, so only the report of `optimize` can tell
  unchanged             came out as they went in
  min_speedup           over all models and sizes; wrong ones included, failed ones not
  geomean_speedup       geometric mean over the same
  clustered_share       nodes inside clusters / nodes of the serving signatures, over all models;
                        functions inlined, constants folded and not counted, loop bodies counted
                        once; a model that came out unchanged has none inside
  min_cluster_time      the smallest share of the time of all kernels that compiled code has in an
                        optimised model, at any size, as TensorFlow's executor tells it; none in one
                        that came out unchanged
  min_dense_clustered   the smallest share of the time that an original spends in dense kernels
                        (`session.py`) which its optimised model no longer spends in such kernels
                        of TensorFlow's, at any size
  max_optimize_seconds  longest `optimize` call
With --peers xla,ort,openvino (peers.py; packages: requirements-peers.txt) also, for each peer:
  geomean_vs_PEER       geometric mean of the speed-up against it, over the models it runs rightly
  PEER_models           how many these are; the others are listed with the reason
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import cases, harness, peers, zoo
from benchmarks.columns.variants import VARIANTS, environment
from benchmarks.model_worker import Task

_ROOT = Path(__file__).resolve().parent.parent
_DEFAULT_MODELS = _ROOT.parent / "shared" / "models"
_ZOO = _ROOT / "build" / "models"
_SECONDS = {False: 4.0, True: 0.3}
_WIDTH = 160
_SHARES = ("cluster_time", "dense_clustered")  # of the time; columns of the table
# Nodes that have a value without being run count on neither side of `clustered_share`.
_NOT_RUN = ("Const", "Placeholder", "NoOp", "_Arg", "_Retval")
_CONVERTED = "converted"
_TIME_LIMIT = 1800  # seconds a step of one model may take before it counts as failed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--models-dir",
        type=Path,
        help="folder of models (default: ../shared/models if it is there, else built ones)",
    )
    parser.add_argument(
        "--zoo", action="store_true", help="use the models built from public packages"
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these models only")
    parser.add_argument("--seconds", type=float, help="time to spend on each model and size")
    parser.add_argument(
        "--noise",
        action="store_true",
        help="time the original against a copy of itself: what this machine's noise looks like",
    )

    parser.add_argument(
        "--peers",
        type=_peers,
        default=[],
        metavar="NAME,…",
        help=f"time these too, in the same run: {', '.join([peers.TENSORFLOW, *peers.PEERS])}",
    )


def _peers(text: str) -> list[str]:
    try:
        return peers.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def run(arguments: argparse.Namespace) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """Rows (one a model and size) and the summary."""
    console = Console(width=max(_WIDTH, Console().width))
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="tf_blade_models_") as scratch:
        for case in _cases(arguments, console.print):
            console.print(f"[bold]{case.name}[/bold]")
            rows += _run_case(case, Path(scratch), arguments)
    _print_table(rows, console, arguments.peers)
    for name in arguments.peers:
        _print_missing(rows, name, console)
    summary = summarize(rows, arguments.peers)
    console.print("  ".join(f"{name} {value:.4g}" for name, value in summary.items()))
    return rows, summary


def summarize(rows: list[dict[str, Any]], rivals: Sequence[str] = ()) -> dict[str, float]:
    """The figures described at the top of this file."""
    models = {row["model"]: row for row in rows}
    speedups = [row["speedup"]["value"] for row in rows if "speedup" in row]
    nodes = sum(row.get("nodes", 0) for row in models.values())
    clustered = sum(row.get("clustered_nodes", 0) for row in models.values())
    return {
        "models": len(models),
        "wrong": len({row["model"] for row in rows if row["wrong"]}),
        "failed": len({row["model"] for row in rows if "error" in row}),
        "stock_fails": len({row["model"] for row in rows if row.get("stock_fails")}),
        "falling_back": len({row["model"] for row in rows if _falls_back(row)}),
        "unchanged": sum(bool(row.get("unchanged")) for row in models.values()),
        "min_speedup": min(speedups, default=float("nan")),
        "geomean_speedup": harness.geometric_mean(speedups),
        "clustered_share": clustered / nodes if nodes else 0.0,
        "min_cluster_time": min(
            (row.get("cluster_time", 0.0) for row in rows if "speedup" in row), default=0.0
        ),
        "min_dense_clustered": min(
            (row.get("dense_clustered", 0.0) for row in rows if "speedup" in row), default=0.0
        ),
        "max_optimize_seconds": max(
            (row.get("optimize_seconds", 0.0) for row in rows), default=0.0
        ),
        **{key: value for name in rivals for key, value in _against(name, rows).items()},
    }


def _against(peer: str, rows: list[dict[str, Any]]) -> dict[str, float]:
    key = f"speedup_vs_{peer}"
    measured = [row for row in rows if key in row]
    return {
        f"geomean_vs_{peer}": harness.geometric_mean([row[key]["value"] for row in measured]),
        f"{peer}_models": len({row["model"] for row in measured}),
    }


def _falls_back(row: dict[str, Any]) -> bool:
    return bool(row.get("fallbacks") or row.get("optimize_fallbacks"))


def _cases(arguments: argparse.Namespace, say: Callable[[str], None]) -> list[cases.ModelCase]:
    directory = arguments.models_dir
    if directory is None and not arguments.zoo and _DEFAULT_MODELS.is_dir():
        directory = _DEFAULT_MODELS
    if directory is None:
        return zoo.build_zoo(_ZOO, arguments.only, say)
    return cases.read_cases(directory, arguments.only)


def _run_case(
    case: cases.ModelCase, scratch: Path, arguments: argparse.Namespace
) -> list[dict[str, Any]]:
    optimized = scratch / case.name
    about: dict[str, Any] = {"model": case.name}
    seconds = arguments.seconds or _SECONDS[arguments.quick]
    unchanged = False
    rivals: list[str] = arguments.peers
    try:
        if arguments.noise:
            shutil.copytree(case.saved_model, optimized)
        else:
            done = _step("optimize", case, optimized, scratch, seconds, arguments.quick)
            unchanged = _same_model(case.saved_model, optimized)
            about |= _about_report(done, unchanged)
        reasons = {
            name: _try_peer(name, case, optimized, scratch, arguments.quick) for name in rivals
        }
        able = [name for name, reason in reasons.items() if not reason]
        if rivals:
            about["peers_missing"] = {name: reason for name, reason in reasons.items() if reason}
        rows = _step("measure", case, optimized, scratch, seconds, arguments.quick, unchanged, able)
    except _StepError as error:
        about |= {"size": "", "message": str(error)}
        if _stock_crashes(case, scratch):
            return [about | {"wrong": False, "stock_fails": True}]
        return [about | {"wrong": True, "error": str(error)}]
    finally:
        shutil.rmtree(optimized, ignore_errors=True)
        shutil.rmtree(scratch / _CONVERTED, ignore_errors=True)
    if unchanged:
        one = {"value": 1.0, "low": 1.0, "high": 1.0}
        rows = [row | {"speedup": one} for row in rows]
    return [about | row for row in rows]


def _try_peer(name: str, case: cases.ModelCase, optimized: Path, scratch: Path, quick: bool) -> str:
    """Why the peer can't run the model, "" if it can."""
    try:
        return str(_step("peer", case, optimized, scratch, 0.0, quick, rivals=[name]))
    except _StepError as error:
        return str(error)


def _stock_crashes(case: cases.ModelCase, scratch: Path) -> bool:
    """Whether TensorFlow crashes on the original, too."""
    try:
        _step("measure", case, case.saved_model, scratch, 0.1, True, True)
    except _StepError as error:
        return "ended with signal" in str(error)
    return False


class _StepError(Exception):
    """A worker crashed, raised or took too long."""


def _step(
    step: str,
    case: cases.ModelCase,
    optimized: Path,
    scratch: Path,
    seconds: float,
    quick: bool,
    unchanged: bool = False,
    rivals: Sequence[str] = (),
) -> Any:
    task = Task(
        case=str(case.directory.absolute()),
        optimized=str(optimized),
        result=str(scratch / "result.json"),
        seconds=seconds,
        quick=quick,
        unchanged=unchanged,
        peers=tuple(rivals),
        converted=str(scratch / _CONVERTED),
    )
    order = scratch / "task.json"
    task.write(order)
    Path(task.result).unlink(missing_ok=True)
    try:
        finished = subprocess.run(
            [sys.executable, "-m", "benchmarks.model_worker", step, str(order)],
            cwd=_ROOT,
            env=environment([VARIANTS["xla"]] if "xla" in rivals else []),
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
    return json.loads(Path(task.result).read_text(encoding="utf-8"))


def _same_model(original: Path, optimized: Path) -> bool:
    """Whether the two SavedModel protos hold the same graphs and signatures."""
    first = (original / "saved_model.pb").read_bytes()
    second = (optimized / "saved_model.pb").read_bytes()
    if first == second:
        return True
    from tensorflow.core.protobuf import saved_model_pb2

    parse = saved_model_pb2.SavedModel.FromString
    return bool(parse(first) == parse(second))


def _about_report(done: dict[str, Any], unchanged: bool) -> dict[str, Any]:
    report = done["report"]
    regions = report["regions"]
    inside = sum(
        count
        for region in regions
        for cluster in region["clusters"]
        for op, count in cluster["ops"].items()
        if op not in _NOT_RUN
    )
    outside = sum(node["op"] not in _NOT_RUN for r in regions for node in r["left_out"])
    return {
        "unchanged": unchanged,
        "outcome_reason": report["outcome_reason"],
        "optimize_fallbacks": report["fallbacks"],
        "clusters": 0 if unchanged else sum(len(region["clusters"]) for region in regions),
        "nodes": inside + outside,
        "clustered_nodes": 0 if unchanged else inside,
        "optimize_seconds": done["seconds"],
        "compile_seconds": report["compile_seconds"],
        "optimize_peak_bytes": done["peak_bytes"],
        "saved_model_bytes_before": report["saved_model_bytes_before"],
        "saved_model_bytes_after": report["saved_model_bytes_after"],
    }


def _print_missing(rows: list[dict[str, Any]], peer: str, console: Console) -> None:
    reasons = {row["model"]: row.get("peers_missing", {}).get(peer) for row in rows}
    for model, reason in reasons.items():
        if reason:
            console.print(f"{peer} can't run {model}: {reason}", markup=False)


def _print_table(rows: list[dict[str, Any]], console: Console, rivals: Sequence[str] = ()) -> None:
    table = Table(title="Original against optimised, median (interquartile range)")
    table.add_column("model")
    table.add_column("size")
    times = ("original ms", "optimised ms", "speed-up (95 % CI)")
    for column in (*times, "in clusters", "of the time", "of dense time", "error"):
        table.add_column(column, justify="right")
    for name in rivals:
        table.add_column(f"{name} ms, speed-up", justify="right")
    table.add_column("remark")
    for row in rows:
        table.add_row(
            row["model"],
            row["size"],
            _latency(row.get("original_ms")),
            _latency(row.get("optimized_ms")),
            _speedup(row),
            f"{row['clustered_nodes']}/{row['nodes']}" if "nodes" in row else "",
            *(f"{row[key]:.0%}" if key in row else "" for key in _SHARES),
            f"{row['max_error']:.1e}" if "max_error" in row else "",
            *(_against_peer(row, name) for name in rivals),
            _remark(row),
        )
    console.print(table)


def _latency(timing: dict[str, Any] | None) -> str:
    if timing is None:
        return ""
    return f"{timing['median_ms']:.3f} ({timing['q3_ms'] - timing['q1_ms']:.3f})"


def _speedup(row: dict[str, Any]) -> str:
    if "speedup" not in row:
        return ""
    ratio = row["speedup"]
    if row.get("unchanged"):
        return "1"
    return f"{ratio['value']:.2f} ({ratio['low']:.2f}–{ratio['high']:.2f})"


def _against_peer(row: dict[str, Any], peer: str) -> str:
    if f"{peer}_ms" not in row:
        return "–"
    ratio = row[f"speedup_vs_{peer}"]["value"]
    return f"{row[f'{peer}_ms']['median_ms']:.3f}, {ratio:.2f}"


def _remark(row: dict[str, Any]) -> str:
    if row["wrong"]:
        return f"[red]WRONG[/red] {row['message']}"
    if row.get("stock_fails"):
        return f"TensorFlow crashes on the original: {row['message']}"
    remarks = []
    if row.get("unchanged"):
        remarks.append(f"unchanged: {row['outcome_reason']}")
    if row.get("fallbacks"):
        launches = row["launches"] + sum(row["fallbacks"].values())
        remarks.append(f"of {launches} launches fell back: {_causes(row['fallbacks'])}")
    if row.get("optimize_fallbacks"):
        remarks.append(f"fell back inside optimize: {_causes(row['optimize_fallbacks'])}")
    if remarks:
        return "; ".join(remarks)
    if row.get("original_gives_stored_answers") is False:
        return "TensorFlow here differs from the stored answers"
    return ""


def _causes(fallbacks: dict[str, int]) -> str:
    return ", ".join(f"{cause} {count}" for cause, count in fallbacks.items())
