"""Original and optimised models compared, then timed in turn by clients in C++."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.columns import model
from benchmarks.columns.client import Block, Clients, Gather
from benchmarks.columns.feeds import Feed, Ids
from benchmarks.columns.subjects import Generated, Subject
from benchmarks.columns.timing import interleave
from benchmarks.columns.variants import STOCK, VARIANTS, session_config
from benchmarks.compare import compare
from benchmarks.session import Session

# Different feeds that calls go round: what a call reads is then not what the last one left in the
# cache, and a model can't be lucky with one of them.
_FEEDS = {False: 8, True: 4}
_LARGE_BATCH = 256  # from here on the fewer
_WARM_UP = 3  # XLA compiles a cluster when it has been run a few times

SESSION = "session"  # a rival: a model with the same inputs that does nothing

Run = Callable[[int], Block]  # so many calls from each client
Row = dict[str, Any]


def measure(
    subject: Subject,
    models: Mapping[str, Path],
    batches: Sequence[tuple[int, float]],
    ids: Ids,
    clients: Sequence[int],
    seconds: float,
) -> list[Row]:
    """A row for each batch and rival: errors against the first model, latencies, calls a second.

    Args:
      subject: whose feeds are used.
      models: variant -> SavedModel.
      batches: batch size and user share.
      ids: law of the ids.
      clients: numbers of clients to measure calls a second with; latency is that of one.
      seconds: time for each batch and number of clients.
    """
    rows = []
    with contextlib.ExitStack() as stack:
        sessions = {}
        for name, folder in models.items():
            _register_ops(folder)
            config = session_config(VARIANTS[name])
            sessions[name] = stack.enter_context(Session(folder, config=config))
        idle = None
        if isinstance(subject, Generated):
            config = session_config(VARIANTS[STOCK])
            idle = stack.enter_context(Session(subject.idle_model(), config=config))
        for batch, user_share in batches:
            feeds = subject.feeds(batch, ids, user_share, _FEEDS[batch >= _LARGE_BATCH])
            about = {"batch": batch, "user_share": user_share}
            found = _measure_feeds(subject, sessions, idle, feeds, clients, seconds)
            rows += [about | row for row in found]
    return rows


def _register_ops(folder: Path) -> None:
    """Loads the op library when the model holds an op of ours: a session only looks ops up."""
    if b"Blade" in (folder / "saved_model.pb").read_bytes():
        from tf_blade import library

        library.load_ops()


def _measure_feeds(
    subject: Subject,
    sessions: Mapping[str, Session],
    idle: Session | None,
    feeds: Sequence[Feed],
    clients: Sequence[int],
    seconds: float,
) -> list[Row]:
    rows, models = _check(subject.signature, sessions, feeds)
    floor = None
    idle_calls = None
    if idle is not None:
        idle_calls = Clients([idle.bind(subject.signature, feed.tensors) for feed in feeds])
    if isinstance(subject, Generated):
        floor = Gather(model.plan(subject.spec), [feed.rows for feed in feeds])
    for count in clients:
        rivals = {name: _calls(run, count) for name, run in models.items()}
        if idle_calls is not None:
            rivals[SESSION] = _calls(idle_calls, count)
        if floor is not None and count == 1:
            rivals["floor"] = _gathers(floor, len(os.sched_getaffinity(0)))
            rivals["floor_1_thread"] = _gathers(floor, 1)
        _time(rows, rivals, count, len(feeds), seconds)
    if floor is not None:
        for name in ("floor", "floor_1_thread"):
            rows[name]["gb_per_second"] = floor.bytes_per_call * rows[name]["qps_1"] / 1e9
    return [{"variant": name} | row for name, row in rows.items()]


def _check(
    signature: str, sessions: Mapping[str, Session], feeds: Sequence[Feed]
) -> tuple[dict[str, Row], dict[str, Clients]]:
    """Runs all feeds through all models: a row each, and clients of those that gave answers."""
    rows: dict[str, Row] = {}
    clients = {}
    expected: list[dict[str, np.ndarray]] = []
    for name, session in sessions.items():
        calls = [session.bind(signature, feed.tensors) for feed in feeds]
        before, start = _counts(), time.perf_counter()
        try:
            found = [[call.outputs() for call in calls] for _ in range(_WARM_UP)][-1]
        except RuntimeError as error:
            rows[name] = {"wrong": True, "error": str(error)[:500]}
            continue
        expected = expected or found
        launches, fallbacks = (now - then for now, then in zip(_counts(), before, strict=True))
        rows[name] = _verdict(expected, found) | {
            "launches": launches,
            "fallbacks": fallbacks,
            "warm_up_seconds": time.perf_counter() - start,
        }
        clients[name] = Clients(calls)
    return rows, clients


def _verdict(
    expected: Sequence[Mapping[str, np.ndarray]], found: Sequence[Mapping[str, np.ndarray]]
) -> Row:
    """Whether the answers to all feeds are those of the first model."""
    differences = [compare(want, have) for want, have in zip(expected, found, strict=True)]
    worst = max(differences, key=lambda difference: (not difference.ok, difference.max_abs_error))
    return {"wrong": not worst.ok, "max_abs_error": worst.max_abs_error, "message": worst.message}


def _counts() -> tuple[int, int]:
    """Launches of compiled code and fallbacks to TensorFlow in this process so far."""
    from tf_blade import library

    counters = library.counters()
    return counters.launches, sum(counters.fallbacks.values())


def _calls(clients: Clients, count: int) -> Run:
    return lambda rounds: clients.run(rounds, count)


def _gathers(floor: Gather, threads: int) -> Run:
    def run(rounds: int) -> Block:
        seconds = floor.run(rounds, threads)
        return Block(np.full(rounds, seconds / rounds), seconds)

    return run


def _time(
    rows: dict[str, Row], rivals: Mapping[str, Run], clients: int, feeds: int, seconds: float
) -> None:
    """Adds calls a second, ratios and (one client) latencies to the rows of the rivals."""
    timed = interleave(rivals, feeds, seconds)
    for name in rivals:
        row = rows.setdefault(name, {})
        row[f"qps_{clients}"] = timed.calls_per_second(name)
        if name in VARIANTS and name != STOCK and STOCK in rivals:
            row[f"speedup_{clients}"] = asdict(timed.ratio(STOCK, name))
        if clients == 1:
            row["p50_ms"] = timed.latency_ms(name, 50)
            row["p99_ms"] = timed.latency_ms(name, 99)
            for limit in ("floor", SESSION):
                if name in VARIANTS and limit in rivals:
                    row[f"over_{limit}"] = asdict(timed.ratio(name, limit))
    if clients == 1 and {"library", "codegen"} <= set(rivals):
        rows["codegen"]["over_library"] = asdict(timed.ratio("library", "codegen"))
