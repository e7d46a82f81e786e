"""Benchmark `compiler`: memory-bound graphs of unknown shape, and ever new shapes.

First part (`memory_bound.py`): the graphs of `graphs.py` at several sizes, with one executable a
graph, against TensorFlow and against XLA that has compiled each shape before it is timed. Second
part (`stream.py`): requests of 200 different shapes to a BERT encoder, if it is there.

`summary`:
  geomean_vs_tf, min_vs_tf    how many times faster than TensorFlow, over graphs and sizes
  geomean_vs_xla, min_vs_xla  the same against XLA; slower_than_xla: rows where it is below 1
  bandwidth_fraction          time of a copy of as many bytes / our time, where the data are more
                              than the second-level caches hold (geometric mean), and its minimum
  peak_memory_vs_tf           the most bytes that a call of ours has at once, temporaries and
                              results / TensorFlow's (`benchmarks/peak_memory.py`): the largest
                              of the same rows
  wrong, falling_back         rows with wrong answers; with a run that TensorFlow had to do
  not_compiled                rows that the compiler left to TensorFlow
  shapes_total_vs_xla         XLA's time for the stream, compiling included, / ours (the whole of
                              `optimize` with an empty cache, but without its check of the
                              answers, and all requests); XLA runs --xla-shapes of them, the rest
                              is scaled
  compiles_after_first        executables that were made while the stream ran
  worst_shape_vs_specialised  our time / that of our own code for this shape only, the largest
  minilm_compile_seconds      this `optimize`, all of it

With --peers ort,openvino (packages: requirements-peers.txt), each graph also runs there:
  geomean_vs_PEER, min_vs_PEER  how many times faster than the peer, over the rows that it can run
  PEER_rows                     how many those are; `peers_missing` of a row says why another isn't
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import peers
from benchmarks.compiler import memory_bound, stream

_MODEL = Path(__file__).resolve().parents[3] / "shared" / "models" / "minilm_l6"
_SECONDS = {False: 1.0, True: 0.1}
_WIDTH = 130
# XLA is there anyway, with each graph compiled as a whole.
_PEERS = [name for name in peers.PEERS if name != memory_bound.XLA]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", nargs="+", default=[], metavar="GRAPH", help="these graphs only")
    parser.add_argument(
        "--sizes", nargs="+", type=_size, default=[], metavar="ROWSxWIDTH", help="these sizes only"
    )
    parser.add_argument("--seconds", type=float, help="time to spend on each graph and size")
    parser.add_argument("--targets", nargs="+", metavar="ISA", help="CPU targets to compile for")
    parser.add_argument(
        "--peers",
        type=_peers,
        default=[],
        metavar="NAME,NAME",
        help=f"run the graphs there, too: {', '.join(_PEERS)}",
    )
    parser.add_argument("--no-stream", action="store_true", help="without the stream of shapes")
    parser.add_argument("--no-graphs", action="store_true", help="without the graphs")
    parser.add_argument(
        "--model", type=Path, default=_MODEL, help="the stream's model (default: %(default)s)"
    )
    parser.add_argument("--shapes", type=int, help="of the stream (default: 200; quick: 10)")
    parser.add_argument("--xla-shapes", type=int, help="that XLA runs (default: 8; quick: 1)")
    parser.add_argument("--fixed-shapes", type=int, help="compiled alone (default: 5; quick: 1)")


def _peers(text: str) -> list[str]:
    try:
        names = peers.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return [name for name in names if name in _PEERS]


def _size(text: str) -> memory_bound.Size:
    rows, _, width = text.partition("x")
    try:
        return int(rows), int(width)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not ROWSxWIDTH") from None


def run(arguments: argparse.Namespace) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """Rows of both parts and the summary."""
    console = Console(width=max(_WIDTH + 14 * len(arguments.peers), Console().width))
    rows: list[dict[str, Any]] = []
    summary: dict[str, float] = {"wrong": 0}
    seconds = arguments.seconds or _SECONDS[arguments.quick]
    with tempfile.TemporaryDirectory(prefix="tf_blade_compiler_") as scratch:
        if not arguments.no_graphs:
            found = _graphs(arguments, Path(scratch), seconds, console)
            rows += found
            summary |= memory_bound.summarize(found, memory_bound.level_2_bytes(), arguments.peers)
        if not arguments.no_stream and not arguments.model.is_dir():
            console.print(f"No stream of shapes: there is no '{arguments.model}' (--model)")
        elif not arguments.no_stream:
            found = stream.run(
                arguments.model,
                Path(scratch),
                count=arguments.shapes or (10 if arguments.quick else 200),
                xla_count=arguments.xla_shapes or (1 if arguments.quick else 8),
                fixed_count=arguments.fixed_shapes or (1 if arguments.quick else 5),
                seconds=4 * seconds,
            )
            _print_stream(found, console)
            rows += found
            summary |= stream.summarize(found)
            summary["wrong"] += summary["stream_wrong"]
    console.print("  ".join(f"{name} {value:.4g}" for name, value in summary.items()))
    return rows, summary


def _graphs(
    arguments: argparse.Namespace, scratch: Path, seconds: float, console: Console
) -> list[dict[str, Any]]:
    graphs = memory_bound.chosen(arguments.only)
    default = memory_bound.QUICK_SIZES if arguments.quick else memory_bound.SIZES
    sizes: Sequence[memory_bound.Size] = arguments.sizes or default
    targets = tuple(arguments.targets) if arguments.targets else None
    taken = memory_bound.save_models(graphs, scratch, targets)
    console.print(f"{len(graphs)} graphs optimised in {taken:.1f} s")
    rows: list[dict[str, Any]] = []
    for row in memory_bound.measure(graphs, sizes, scratch, seconds, arguments.peers):
        rows.append(row)
        if row["rows"] == sizes[-1][0] and row["width"] == sizes[-1][1]:
            console.print(f"[dim]{row['graph']}[/dim]")
    _print_graphs(rows, console, arguments.peers)
    missing = {(n, why) for row in rows for n, why in row.get("peers_missing", {}).items()}
    for name, why in sorted(missing):
        console.print(f"{name}: {why}", markup=False)
    return rows


def _print_graphs(rows: list[dict[str, Any]], console: Console, peer_names: Sequence[str]) -> None:
    table = Table()
    table.add_column("graph")
    table.add_column("size", justify="right")
    for name in (memory_bound.TENSORFLOW, memory_bound.XLA, memory_bound.OURS, memory_bound.COPY):
        table.add_column(f"{name} ms", justify="right")
    against = [f"vs {name}" for name in peer_names]
    for name in ("vs TensorFlow", "vs XLA (95 % CI)", *against, "of copy"):
        table.add_column(name, justify="right")
    table.add_column("remark")
    large = memory_bound.level_2_bytes()
    for row in rows:
        xla = row["vs_xla"]
        mark = "[red]" if xla["value"] < 1 else ""
        table.add_row(
            row["graph"],
            f"{row['rows']}x{row['width']}",
            *(f"{row[f'{n}_ms']['median_ms']:.3f}" for n in ("tensorflow", "xla", "ours", "copy")),
            f"{row['vs_tensorflow']['value']:.2f}",
            f"{mark}{xla['value']:.2f} ({xla['low']:.2f}–{xla['high']:.2f})",
            *(f"{row[f'vs_{n}']['value']:.2f}" if f"vs_{n}" in row else "–" for n in peer_names),
            f"{row['vs_copy']['value']:.2f}" if row["bytes"] > large else "",
            _remark(row),
        )
    console.print(table)


def _remark(row: dict[str, Any]) -> str:
    if row["wrong"]:
        return f"[red]WRONG[/red] {row['message']}"
    if row["fallbacks"]:
        return "fell back: " + ", ".join(row["fallbacks"])
    return "" if row["launches"] else "left to TensorFlow"


def _print_stream(rows: list[dict[str, Any]], console: Console) -> None:
    for row in rows:
        texts = (f"{k} {v:.3f}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
        console.print("  ".join(texts))
