"""The memory-bound graphs as SavedModels, run by TensorFlow, by XLA and compiled by us.

All rivals are signatures of a SavedModel in a C++ session with TensorFlow's default threads, so
that what a session costs falls on all of them. Ours is what `tf_blade.optimize` writes; XLA's has
each function under `tf.function(jit_compile=True)`, and is warm: the shape is compiled before it is
timed. `copy` moves as many bytes as the graph reads and writes, with as many threads. Peers
(`benchmarks/peers.py`: other runtimes) run each graph as a model of its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import harness
from benchmarks.cases import ModelCase
from benchmarks.compare import compare
from benchmarks.compiler.graphs import GRAPHS, Feeds, Graph
from benchmarks.peak_memory import peak_bytes
from benchmarks.peers import PEERS, Bound, reason

TENSORFLOW, XLA, OURS, COPY = "tensorflow", "xla", "ours", "copy"
Size = tuple[int, int]
SIZES: tuple[Size, ...] = (
    *((1, 7), (1, 4096), (16, 63), (33, 1027), (128, 768), (512, 77), (1000, 385)),
    *((4096, 7), (4096, 256), (4096, 1024), (4093, 1021), (1024, 4096)),
)
# Bytes that a copy does not share out.
_ALONE = 1 << 18
QUICK_SIZES: tuple[Size, ...] = ((1, 768), (64, 77), (1024, 1024))


def save_models(graphs: Sequence[Graph], folder: Path, targets: tuple[str, ...] | None) -> float:
    """Writes folder/{tensorflow,xla,ours}. Returns the seconds that `optimize` took."""
    import tensorflow as tf

    import tf_blade

    # A model that is only served needs no gradients (tf.nn.silu has its own).
    save = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    for name, jit in ((TENSORFLOW, None), (XLA, True)):
        signatures = {graph.name: _signature(graph, jit) for graph in graphs}
        tf.saved_model.save(tf.Module(), str(folder / name), signatures, save)
    options: dict[str, Any] = {"cpu_targets": targets} if targets else {}
    # Losses are to be seen: what the compiler made stays, faster or not.
    config = tf_blade.Config(keep_slower=True, timing_seconds=0.0, **options)
    start = time.perf_counter()
    tf_blade.optimize(str(folder / TENSORFLOW), str(folder / OURS), config=config, overwrite=True)
    return time.perf_counter() - start


def _signature(graph: Graph, jit: bool | None) -> Any:
    import tensorflow as tf

    inner = tf.function(graph.function, jit_compile=jit)
    outer = tf.function(lambda **inputs: {"y": inner(**inputs)})
    return outer.get_concrete_function(**graph.specs())


class GraphPeers:
    """The peers that can run one graph. missing: why the others can't."""

    def __init__(self, graph: Graph, names: Sequence[str], folder: Path) -> None:
        import tensorflow as tf

        self._folder = folder / graph.name
        self._case = ModelCase(graph.name, self._folder, "serving_default")
        self._converted: list[str] = []
        self.missing: dict[str, str] = {}
        if names:
            signature = _signature(graph, None)
            tf.saved_model.save(tf.Module(), str(self._case.saved_model), signature)
        for name in names:
            try:
                PEERS[name].convert(self._case, self._folder)
                self._converted.append(name)
            except Exception as error:  # whatever a converter may raise
                self.missing[name] = reason(error)

    def bind(self, feeds: Feeds, expected: Feeds, stack: contextlib.ExitStack) -> dict[str, Bound]:
        """The peers with feeds, open until the stack closes; those that answer as TensorFlow."""
        bound: dict[str, Bound] = {}
        for name in self._converted:
            try:
                call = stack.enter_context(PEERS[name].open(self._case, self._folder, feeds))
                difference = compare(expected, call.outputs())
            except Exception as error:
                self.missing[name] = reason(error)
                continue
            if difference.ok:
                bound[name] = call
            else:
                self.missing[name] = f"other answers: {difference.message}"
        return bound


def measure(
    graphs: Sequence[Graph],
    sizes: Sequence[Size],
    folder: Path,
    seconds: float,
    peers: Sequence[str] = (),
) -> Iterator[dict[str, Any]]:
    """One row for each graph and size. folder: what `save_models` wrote. peers: names of PEERS."""
    from benchmarks.session import Session
    from tf_blade import library

    library.load_ops()
    with contextlib.ExitStack() as stack:
        sessions = {
            name: stack.enter_context(Session(folder / name)) for name in (TENSORFLOW, XLA, OURS)
        }
        threads = stack.enter_context(ThreadPoolExecutor(len(os.sched_getaffinity(0))))
        for graph in graphs:
            others = GraphPeers(graph, peers, folder / "peers")
            for size in sizes:
                yield _measure_one(graph, size, sessions, threads, seconds, others)


def _measure_one(
    graph: Graph,
    size: Size,
    sessions: Mapping[str, Any],
    threads: ThreadPoolExecutor,
    seconds: float,
    peers: GraphPeers,
) -> dict[str, Any]:
    from tf_blade import library

    feeds = graph.feeds(*size)
    row: dict[str, Any] = {"graph": graph.name, "rows": size[0], "width": size[1]}
    calls = {name: session.bind(graph.name, feeds) for name, session in sessions.items()}
    expected = calls[TENSORFLOW].outputs()
    start = time.perf_counter()
    by_xla = calls[XLA].outputs()
    row["xla_first_ms"] = (time.perf_counter() - start) * 1e3
    library.reset_counters()
    difference = compare(expected, calls[OURS].outputs())
    counters = library.counters()
    bytes_moved = sum(a.nbytes for a in (*feeds.values(), *expected.values()))
    row |= {
        "wrong": not difference.ok,
        "message": difference.message,
        "max_error": difference.max_error,
        "xla_wrong": not compare(expected, by_xla).ok,
        "launches": counters.launches,
        "fallbacks": counters.fallbacks,
        "bytes": bytes_moved,
    }
    row["peak_bytes"] = {name: peak_bytes(calls[name].run) for name in (TENSORFLOW, OURS)}
    rivals: dict[str, Callable[[], object]] = {name: call.run for name, call in calls.items()}
    rivals[COPY] = Copier(bytes_moved // 2, threads)
    with contextlib.ExitStack() as stack:
        rivals |= {name: call.run for name, call in peers.bind(feeds, expected, stack).items()}
        samples = harness.interleave(rivals, seconds=seconds)
    row |= {f"{name}_ms": asdict(samples.timing(name)) for name in rivals}
    row |= {f"vs_{name}": asdict(samples.ratio(name, OURS)) for name in rivals if name != OURS}
    if peers.missing:
        row["peers_missing"] = dict(peers.missing)
    return row


class Copier:
    """Copies `count` bytes in equal parts on all threads (a small copy: on one) when called."""

    def __init__(self, count: int, threads: ThreadPoolExecutor) -> None:
        self.source = np.arange(count, dtype=np.uint8)
        self.target = np.zeros(count, np.uint8)
        self._threads = threads
        self._part = -(-count // (threads._max_workers if count > _ALONE else 1))

    def __call__(self) -> None:
        starts = range(self._part, self.source.size, self._part)
        others = [self._threads.submit(self._copy, start) for start in starts]
        self._copy(0)
        for other in others:
            other.result()

    def _copy(self, start: int) -> None:
        length = min(self._part, self.source.size - start)
        ctypes.memmove(self.target.ctypes.data + start, self.source.ctypes.data + start, length)


def level_2_bytes() -> int:
    """The size of the second-level caches of the cores in use; 1 MiB a core if nobody says."""
    cores = len(os.sched_getaffinity(0))
    try:
        each = os.sysconf("SC_LEVEL2_CACHE_SIZE")
    except (ValueError, OSError):
        each = 0
    return cores * (each if each > 0 else 1 << 20)


def summarize(
    rows: Sequence[Mapping[str, Any]], large: int, peers: Sequence[str] = ()
) -> dict[str, float]:
    """The figures of this part; `large`: from how many bytes on the bandwidth counts."""

    def ratios(name: str) -> list[float]:
        return [row[f"vs_{name}"]["value"] for row in rows if f"vs_{name}" in row]

    fractions = [row["vs_copy"]["value"] for row in rows if row["bytes"] > large]
    peaks = [row["peak_bytes"] for row in rows if row["bytes"] > large]
    memory = [peak[OURS] / peak[TENSORFLOW] for peak in peaks if peak[TENSORFLOW]]
    return {
        "geomean_vs_tf": harness.geometric_mean(ratios(TENSORFLOW)),
        "min_vs_tf": min(ratios(TENSORFLOW), default=float("nan")),
        "geomean_vs_xla": harness.geometric_mean(ratios(XLA)),
        "min_vs_xla": min(ratios(XLA), default=float("nan")),
        "slower_than_xla": sum(value < 1 for value in ratios(XLA)),
        "bandwidth_fraction": harness.geometric_mean(fractions),
        "min_bandwidth_fraction": min(fractions, default=float("nan")),
        "peak_memory_vs_tf": max(memory, default=float("nan")),
        "wrong": sum(bool(row["wrong"]) for row in rows),
        "falling_back": sum(bool(row["fallbacks"]) for row in rows),
        "not_compiled": sum(row["launches"] == 0 and not row["fallbacks"] for row in rows),
        "rows": len(rows),
        **{f"geomean_vs_{peer}": harness.geometric_mean(ratios(peer)) for peer in peers},
        **{f"min_vs_{peer}": min(ratios(peer), default=float("nan")) for peer in peers},
        **{f"{peer}_rows": len(ratios(peer)) for peer in peers},
    }


def chosen(names: Sequence[str]) -> list[Graph]:
    """The graphs of these names, all of them for none. Raises KeyError for a name that is none."""
    return [GRAPHS[name] for name in names] if names else list(GRAPHS.values())
