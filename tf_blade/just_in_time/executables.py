"""Compiling in the background: each distinct source once in a process."""

from __future__ import annotations

import hashlib
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from tf_blade.compiler.build import Built, Compiler, build_one
from tf_blade.config import Config
from tf_blade.just_in_time.bridge import Bridge

# Each holds some 50 kB for as long as the process lives.
MAX_EXECUTABLES = 2000


class TooMany(Exception):
    """The process holds as many executables as it may."""


@dataclass(frozen=True)
class Counts:
    """How many executables are there, are to come, and failed (by reason)."""

    compiled: int
    pending: int
    failed: dict[str, int]


@dataclass(frozen=True)
class _Job:
    key: str
    source: str
    compiler: Compiler
    config: Config


def key_of(source: str, compiler: Compiler, config: Config) -> str:
    """Equal for what becomes the same executable."""
    parts = (source, str(compiler), *config.cpu_targets)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


class Executables:
    """The executables of a process, by key. Thread-safe."""

    def __init__(self, bridge: Bridge, stop: threading.Event) -> None:
        """Setting `stop` ends the compilers that run, and the threads."""
        self._bridge = bridge
        self._stop = stop
        self._lock = threading.Lock()
        self._results: dict[str, str | None] = {}  # "" is success, None that it is to come
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._waiting: list[tuple[Collection[str], Callable[[], None]]] = []
        self._threads: list[threading.Thread] = []

    def want(self, sources: Mapping[str, str], compiler: Compiler, config: Config) -> None:
        """Has the sources compiled that aren't yet; they come by key (see `key_of`).

        Raises: TooMany, or RuntimeError if there can be no thread for it; and then compiles none.
        """
        with self._lock:
            new = [key for key in sources if key not in self._results]
            if len(self._results) + len(new) > MAX_EXECUTABLES:
                raise TooMany
            pending = sum(result is None for result in self._results.values()) + len(new)
            self._start_threads(min(config.job_count, pending))
            self._results.update(dict.fromkeys(new))
        for key in new:
            self._jobs.put(_Job(key, sources[key], compiler, config))

    def when_done(self, keys: Collection[str], action: Callable[[], None]) -> None:
        """Calls `action` once all of them are there or have failed: at once, or from a thread that
        compiles."""
        with self._lock:
            if not self._done(keys):
                self._waiting.append((keys, action))
                return
        action()

    def end(self, seconds: float) -> None:
        """Once `stop` is set: waits for the compilers to end, so long at most."""
        until = time.monotonic() + seconds
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def counts(self) -> Counts:
        """What has become of all so far."""
        with self._lock:
            results = list(self._results.values())
        return Counts(
            compiled=results.count(""),
            pending=results.count(None),
            failed=dict(Counter(result for result in results if result)),
        )

    def _start_threads(self, count: int) -> None:
        """Sees to it that there are so many; fewer, but one at least, where there can't be more."""
        while len(self._threads) < count:
            name = f"tf-blade-compile-{len(self._threads)}"
            # A daemon, for which the end of the process doesn't wait.
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system's limit
                if not self._threads:
                    raise
                return
            self._threads.append(thread)

    def _work(self) -> None:
        while not self._stop.is_set():
            job = self._jobs.get()
            if job is None:
                return
            try:
                error = self._compile(job)
            except Exception as problem:  # whatever it is, others must not wait for ever
                error = f"{type(problem).__name__}: {problem}"
            if error:
                self._bridge.fail(job.key, f"it did not compile: {error}")
            with self._lock:
                self._results[job.key] = error
                ready = [action for keys, action in self._waiting if self._done(keys)]
                self._waiting = [item for item in self._waiting if not self._done(item[0])]
            for action in ready:
                action()

    def _done(self, keys: Collection[str]) -> bool:
        return all(self._results[key] is not None for key in keys)

    def _compile(self, job: _Job) -> str:
        """Compiles and hands over; returns why it failed, or ""."""
        result = build_one(
            job.source,
            compiler=job.compiler,
            targets=job.config.cpu_targets,
            cache_dir=job.config.cache_path,
            stop=self._stop,
        )
        if isinstance(result, Built):
            return self._bridge.finish(job.key, result.executable)
        return str(result)
