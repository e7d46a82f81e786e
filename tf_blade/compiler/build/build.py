"""Compiles sources into executables, several at a time, through the cache."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tf_blade.compiler.build.cache import Cache
from tf_blade.compiler.build.compiler import Compiler
from tf_blade.compiler.build.container import pack
from tf_blade.compiler.emit import ISAS, isa_symbol
from tf_blade.compiler.emit.abi import abi_version
from tf_blade.errors import CompileError

# A compiler that takes longer is given up on; the cluster then stays in TensorFlow.
TIMEOUT_SECONDS = 600.0
_POLL_SECONDS = 0.1
_Map = Callable[..., Iterable[Any]]  # as the built-in map


@dataclass(frozen=True)
class Built:
    """executable: the container's bytes. seconds: compilers' wall time (0 when cached)."""

    executable: bytes
    seconds: float
    cached: bool


def build(
    sources: Sequence[str],
    *,
    compiler: Compiler,
    targets: Sequence[str],
    cache_dir: Path | None,
    jobs: int = 1,
    progress: Callable[[int, int], None] = lambda done, total: None,
    extra_flags: Sequence[str] = (),
) -> list[Built | CompileError]:
    """Compiles each source for every target into one executable.

    Args:
      sources: C++ texts made by `emit`.
      compiler: what compiles them; all targets must be of a family it makes code for.
      targets: names out of `emit.ISAS`.
      cache_dir: where executables are kept; None: nowhere.
      jobs: how many compilers may run at once.
      progress: called with the numbers of sources done and in all.
      extra_flags: further flags, such as those of a sanitizer.

    Returns: for each source the executable, or the error (not raised) that kept it from compiling.
    """
    with Builds(compiler, targets, cache_dir, jobs, extra_flags) as builds:
        for source in sources:
            builds.start(source)
        results = builds.results(progress)
    return [results[source] for source in sources]


class Builds:
    """Sources being compiled, several at a time, while the caller goes on.

    with Builds(compiler, targets, cache_dir, jobs) as builds:
        builds.start(source)
        …
        results = builds.results()

    What still runs when the block is left by an exception is ended. Arguments are those of `build`.
    """

    def __init__(
        self,
        compiler: Compiler,
        targets: Sequence[str],
        cache_dir: Path | None,
        jobs: int = 1,
        extra_flags: Sequence[str] = (),
    ) -> None:
        self._stop = threading.Event()
        targets = tuple(t for t in ISAS if t in targets)
        self._builder = _Builder(compiler, targets, tuple(extra_flags), self._stop, jobs)
        self._cache = Cache(Path(cache_dir)) if cache_dir is not None else None
        # One source may keep all compilers busy, or each of several sources one.
        self._sources = ThreadPoolExecutor(max(1, jobs))
        self._pieces = ThreadPoolExecutor(max(1, jobs) * len(targets))
        self._futures: dict[str, Future[Built | CompileError]] = {}

    def __enter__(self) -> Builds:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is not None:
            self._stop.set()
        self._sources.shutdown(cancel_futures=True)
        self._pieces.shutdown()

    def key(self, source: str) -> str:
        """A hash of everything that the executable of a source depends on."""
        return self._builder.key(source)

    def cached(self, key: str) -> Built | None:
        """The executable of that key, if it was made before and kept."""
        found = self._cache.get(key) if self._cache is not None else None
        return Built(found, 0.0, cached=True) if found is not None else None

    def start(self, source: str) -> None:
        """Has a source compiled, once however often it is asked for."""
        if source not in self._futures:
            self._futures[source] = self._sources.submit(self._compile, source)

    def results(
        self, progress: Callable[[int, int], None] = lambda done, total: None
    ) -> dict[str, Built | CompileError]:
        """Waits for all that was started; what became of each source."""
        for done, _ in enumerate(as_completed(self._futures.values()), 1):
            progress(done, len(self._futures))
        return {source: future.result() for source, future in self._futures.items()}

    def _compile(self, source: str) -> Built | CompileError:
        return _one(self._builder, self._cache, source, self._pieces.map)


def build_one(
    source: str,
    *,
    compiler: Compiler,
    targets: Sequence[str],
    cache_dir: Path,
    stop: threading.Event,
) -> Built | CompileError:
    """`build` of one source, on the calling thread. Setting `stop` ends its compiler."""
    builder = _Builder(compiler, tuple(t for t in ISAS if t in targets), (), stop)
    return _one(builder, Cache(cache_dir), source)


def _one(
    builder: _Builder, cache: Cache | None, source: str, each: _Map = map
) -> Built | CompileError:
    key = builder.key(source)
    found = cache.get(key) if cache is not None else None
    if found is not None:
        return Built(found, 0.0, cached=True)
    start = time.perf_counter()
    try:
        executable = builder.make(source, each)
    except CompileError as error:
        return error
    if cache is not None:
        cache.put(key, executable)
    return Built(executable, time.perf_counter() - start, cached=False)


class _Builder:
    def __init__(
        self,
        compiler: Compiler,
        targets: tuple[str, ...],
        extra: tuple[str, ...],
        stop: threading.Event,
        jobs: int = 1,
    ) -> None:
        """Setting `stop` ends the compilers that run, `jobs` at once at most."""
        if not targets:
            raise CompileError("no CPU target to compile for")
        self.compiler = compiler
        self.targets = targets
        self.extra = extra
        self.stop = stop
        self.slots = threading.BoundedSemaphore(max(1, jobs))

    def key(self, source: str) -> str:
        """A hash of everything that the executable depends on."""
        digest = hashlib.sha256()
        for part in (source, str(self.compiler), *self._compile_flags(), str(abi_version())):
            digest.update(part.encode() + b"\0")
        return digest.hexdigest()

    def _compile_flags(self) -> list[str]:
        commands = [self.compiler.compile_command(t, "", "") for t in self.targets]
        link = self.compiler.link_command(self.targets[0], [], "")
        return [*(flag for command in commands for flag in command), *link, *self.extra]

    def make(self, source: str, each: _Map = map) -> bytes:
        """The container. Raises CompileError with the compiler's first message.

        Args:
          each: calls a function for each target; several at once if it has threads for it.
        """
        with tempfile.TemporaryDirectory(prefix="tf-blade-") as folder:
            path = os.path.join(folder, "kernels.cc")
            Path(path).write_text(source)
            objects = [os.path.join(folder, f"{isa_symbol(t)}.o") for t in self.targets]

            def compile_for(target: str, output: str) -> CompileError | None:
                run = f"BLADE_RUN=blade_run_{isa_symbol(target)}"
                try:
                    self._run(self.compiler.compile_command(target, path, output, run), folder)
                except CompileError as error:
                    return error
                return None

            # None may still write into the folder when it goes.
            errors = list(each(compile_for, self.targets, objects))
            for error in filter(None, errors):
                raise error
            table = os.path.join(folder, "table.o")
            has = [f"BLADE_HAS_{isa_symbol(t)}" for t in self.targets]
            # The table runs before the processor is known: compile it for the plainest target.
            self._run(self.compiler.compile_command(self._base(), path, table, *has), folder)
            library = os.path.join(folder, "kernels.so")
            link = self.compiler.link_command(self.targets[0], [*objects, table], library)
            self._run(link, folder)
            payload = Path(library).read_bytes()
        return pack(abi_version(), self.targets, payload)

    def _base(self) -> str:
        return "x86-64-v2" if self.targets[0].startswith("x86") else self.targets[0]

    def _run(self, command: list[str], folder: str) -> None:
        try:
            with (
                self.slots,
                subprocess.Popen(
                    [*command, *self.extra],
                    cwd=folder,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                    start_new_session=True,  # it has children of its own
                ) as process,
            ):
                messages = self._wait(process)
        except OSError as error:
            raise CompileError(f"{self.compiler.name} can't be run: {error.strerror}") from error
        if process.returncode != 0:
            raise CompileError(f"{self.compiler.name}: {first_message(messages)}")

    def _wait(self, process: subprocess.Popen[str]) -> str:
        """What the compiler says. Raises CompileError when it has to be ended."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            try:
                return process.communicate(timeout=_POLL_SECONDS)[1]
            except subprocess.TimeoutExpired:
                stopped = self.stop.is_set()
                if not stopped and time.monotonic() < deadline:
                    continue
                os.killpg(process.pid, signal.SIGKILL)
                reason = "was stopped" if stopped else f"took more than {TIMEOUT_SECONDS:.0f} s"
                raise CompileError(f"{self.compiler.name} {reason}") from None


def first_message(text: str) -> str:
    """The first error in a compiler's output, without the temporary folder's path."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        if re.search(r"\berror\b|undefined reference|fatal", line):
            return re.sub(r"\S*/(\w+\.(cc|o))", r"\1", line)
    return lines[0] if lines else "failed without a message"
