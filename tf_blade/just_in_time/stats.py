"""What the compiler has done for the graphs of this process."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field

from tf_blade import library
from tf_blade.just_in_time.executables import Counts


@dataclass(frozen=True)
class JitStats:
    """A snapshot; `str()` of it is for reading.

    Attributes:
      graphs: graphs that TensorFlow handed over: one for each trace of a function that ran, and for
        each set of feeds and fetches of a session.
      optimized: how many of them have compiled ops now.
      left_alone: reason -> how many graphs stayed as they were.
      clusters: clusters found in all graphs.
      lookups: lookups (fused embedding columns) found in all graphs.
      compiled: executables made. Equal clusters share one, and so do traces for other shapes.
      pending: executables that are still being compiled.
      failed: reason -> how many executables could not be made; their clusters run in TensorFlow.
      compiled_calls: how often a compiled op ran its executable.
      fallback_calls: reason -> how often one ran its original nodes.
    """

    graphs: int = 0
    optimized: int = 0
    left_alone: dict[str, int] = field(default_factory=dict)
    clusters: int = 0
    lookups: int = 0
    compiled: int = 0
    pending: int = 0
    failed: dict[str, int] = field(default_factory=dict)
    compiled_calls: int = 0
    fallback_calls: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [
            f"graphs: {self.graphs}, of which {self.optimized} have compiled ops",
            *(f"  left alone: {count} ({why})" for why, count in self.left_alone.items()),
            f"found: {self.clusters} clusters, {self.lookups} lookups",
            f"executables: {self.compiled} compiled, {self.pending} being compiled, "
            f"{sum(self.failed.values())} failed",
            *(f"  failed: {count} ({why})" for why, count in self.failed.items()),
            f"calls: {self.compiled_calls} compiled, "
            f"{sum(self.fallback_calls.values())} in TensorFlow",
            *(f"  in TensorFlow: {count} ({why})" for why, count in self.fallback_calls.items()),
        ]
        return "\n".join(lines)


class Book:
    """Counts graphs. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._graphs = self._clusters = self._lookups = 0
        self._left_alone: Counter[str] = Counter()
        self._labels: set[str] = set()

    def add_compiled(self, clusters: int, lookups: int, labels: list[str]) -> None:
        """A graph that has compiled ops now; `labels` are what they count their calls under."""
        with self._lock:
            self._graphs += 1
            self._clusters += clusters
            self._lookups += lookups
            self._labels.update(labels)

    def add_left_alone(self, reason: str) -> bool:
        """A graph that stays as it is. Returns whether the reason is new."""
        with self._lock:
            self._graphs += 1
            self._left_alone[reason] += 1
            return self._left_alone[reason] == 1

    def stats(self, executables: Counts) -> JitStats:
        """All there is to say now."""
        clusters = library.counters().clusters
        with self._lock:
            counted = [clusters[label] for label in self._labels & clusters.keys()]
            fallbacks: Counter[str] = Counter()
            for counts in counted:
                fallbacks.update(counts.fallbacks)
            return JitStats(
                graphs=self._graphs,
                optimized=self._graphs - sum(self._left_alone.values()),
                left_alone=dict(self._left_alone),
                clusters=self._clusters,
                lookups=self._lookups,
                compiled=executables.compiled,
                pending=executables.pending,
                failed=executables.failed,
                compiled_calls=sum(counts.launches for counts in counted),
                fallback_calls=dict(fallbacks),
            )
