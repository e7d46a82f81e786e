"""Timing and records shared by all benchmarks.

Rivals are timed in turn, in short blocks, in one process: whatever the machine does besides falls
on all of them alike. A ratio is the median of the ratios of neighbouring blocks, with a bootstrap
confidence interval; it says more than two medians taken at different times.
"""

from __future__ import annotations

import ctypes
import datetime
import json
import os
import platform
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

# Long enough that reading the clock does not count, short enough for many blocks.
BLOCK_SECONDS = 0.01


@dataclass(frozen=True)
class Timing:
    """Latency of one rival: median and quartiles over blocks, in milliseconds."""

    median_ms: float
    q1_ms: float
    q3_ms: float
    blocks: int
    calls_per_block: int

    @property
    def spread(self) -> float:
        """Interquartile range as a share of the median."""
        return (self.q3_ms - self.q1_ms) / self.median_ms


@dataclass(frozen=True)
class Ratio:
    """How many times faster: median over paired blocks, with its 95 % confidence interval."""

    value: float
    low: float
    high: float


@dataclass
class Samples:
    """Seconds a call took, one number a block, the same number of blocks for every rival."""

    seconds: dict[str, np.ndarray]
    calls_per_block: dict[str, int]

    def timing(self, name: str) -> Timing:
        q1, median, q3 = np.percentile(self.seconds[name] * 1e3, [25, 50, 75])
        return Timing(
            float(median),
            float(q1),
            float(q3),
            len(self.seconds[name]),
            self.calls_per_block[name],
        )

    def ratio(self, slow: str, fast: str) -> Ratio:
        """How many times faster `fast` is than `slow`."""
        pairs = self.seconds[slow] / self.seconds[fast]
        random = np.random.default_rng(0)
        drawn = random.choice(pairs, (2000, len(pairs)))
        low, high = np.percentile(np.median(drawn, axis=1), [2.5, 97.5])
        return Ratio(float(np.median(pairs)), float(low), float(high))


def interleave(
    rivals: Mapping[str, Callable[[], object]],
    *,
    seconds: float,
    min_blocks: int = 7,
    max_blocks: int = 400,
) -> Samples:
    """Times the rivals in turn for about `seconds` altogether.

    Each rival is warmed up first (a tenth of the time, at least three calls). A block holds as
    many calls as fill `BLOCK_SECONDS`; who goes first changes from round to round. At least
    `min_blocks` rounds are run, however long they take.
    """
    calls = {
        name: _calls_per_block(run, seconds / 10 / len(rivals)) for name, run in rivals.items()
    }
    taken: dict[str, list[float]] = {name: [] for name in rivals}
    order = list(rivals)
    end = time.perf_counter() + seconds * 0.9
    rounds = 0
    while rounds < max_blocks and (rounds < min_blocks or time.perf_counter() < end):
        for name in order:
            run, count = rivals[name], calls[name]
            start = time.perf_counter()
            for _ in range(count):
                run()
            taken[name].append((time.perf_counter() - start) / count)
        order.append(order.pop(0))
        rounds += 1
    return Samples({name: np.array(values) for name, values in taken.items()}, calls)


def _calls_per_block(run: Callable[[], object], warm_up_seconds: float) -> int:
    end = time.perf_counter() + warm_up_seconds
    times: list[float] = []
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return max(1, round(BLOCK_SECONDS / max(float(np.median(times)), 1e-7)))


def geometric_mean(values: list[float]) -> float:
    """The geometric mean; nan for no values."""
    return float(np.exp(np.mean(np.log(values)))) if values else float("nan")


@dataclass(frozen=True)
class Machine:
    """What the numbers were measured on. Threads are TensorFlow's; 0 stands for one a core."""

    cpu: str
    cores: int
    python: str
    tensorflow: str
    onednn: bool
    intra_op_threads: int
    inter_op_threads: int


def machine() -> Machine:
    """This machine, as the benchmarks use it (default threads)."""
    import tensorflow as tf

    return Machine(
        cpu=cpu_name(),
        cores=len(os.sched_getaffinity(0)),
        python=platform.python_version(),
        tensorflow=tf.__version__,
        onednn=_onednn_is_on(),
        intra_op_threads=tf.config.threading.get_intra_op_parallelism_threads(),
        inter_op_threads=tf.config.threading.get_inter_op_parallelism_threads(),
    )


def _onednn_is_on() -> bool:
    """Whether TensorFlow uses its oneDNN kernels: a default of the CPU, or what the user set."""
    import tensorflow as tf

    library = os.path.join(tf.sysconfig.get_lib(), "libtensorflow_framework.so.2")
    # bool tensorflow::IsMKLEnabled(): Python has no name for what it decides at run time.
    decide = getattr(ctypes.CDLL(library), "_ZN10tensorflow12IsMKLEnabledEv", None)
    if decide is None:
        return False
    decide.restype = ctypes.c_bool
    return bool(decide())


def cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


@dataclass
class Record:
    """What a benchmark leaves behind: rows for reading, `summary` for comparing.

    `summary` is flat, its values are numbers, its names stay the same from run to run.
    """

    name: str
    quick: bool
    rows: list[dict[str, Any]]
    summary: dict[str, float]
    machine: Any  # a dataclass: Machine, or what else the numbers were measured on
    date: str = field(default_factory=lambda: _now())
    commit: str = field(default_factory=lambda: commit())

    def write(self, path: Path) -> None:
        """Writes the record as JSON; numbers that are not finite become null."""
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(_finite(asdict(self)), indent=1, ensure_ascii=False, allow_nan=False)
        path.write_text(text + "\n", encoding="utf-8")


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def commit() -> str:
    """The checkout's commit, with "+changes" when files differ from it; "" outside a checkout."""
    root = Path(__file__).resolve().parent.parent
    try:
        commit = _git(root, "rev-parse", "--short=12", "HEAD")
        changes = _git(root, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):
        return ""
    return commit + ("+changes" if changes else "")


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not np.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
