"""Making the executables of a model: each distinct source is compiled once, several at a time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tf_blade.backends.cpu.clusters import LoweredCluster, lower_cluster
from tf_blade.backends.cpu.known_clusters import KnownClusters
from tf_blade.clustering import Outlined
from tf_blade.compiler.build import Builds, Built, find_compiler
from tf_blade.config import Config
from tf_blade.dump.write import DumpWriter
from tf_blade.errors import CompileError
from tf_blade.graph.shapes import Types
from tf_blade.progress import Progress


@dataclass(frozen=True)
class Compiled:
    """Attributes:
    results: for each source its executable, or why it did not compile.
    compiler: the compiler's path and version, "" if there was nothing to compile.
    seconds: wall time from the first cluster or source to the last executable.
    """

    results: dict[str, Built | CompileError] = field(default_factory=dict)
    compiler: str = ""
    seconds: float = 0.0

    def of(self, lowered: LoweredCluster) -> Built | CompileError:
        """A cluster's executable, or why it did not compile."""
        return lowered.executable or self.results[lowered.source]


class Compilation:
    """Kernels being compiled for every CPU target of a configuration, while more are printed.

    with Compilation(config) as compilation:
        lowered = compilation.lower(outlined, types)
        …
        compiled = compilation.finish(progress)

    What still runs when the block is left by an exception is ended.

    Args:
      dump: takes everything about each cluster, so that each is lowered, known or not.
    """

    def __init__(self, config: Config, dump: DumpWriter | None = None) -> None:
        self._config = config
        self._dump = dump
        self._start = 0.0
        self._compiler = ""
        self._lowered: list[LoweredCluster] = []

    def __enter__(self) -> Compilation:
        return self

    def __exit__(self, error: type[BaseException] | None, *more: object) -> None:
        if self._compiler:
            self._builds.__exit__(error, *more)

    @cached_property
    def _builds(self) -> Builds:
        config = self._config
        self._start = time.perf_counter()
        compiler = find_compiler(config.compiler)
        builds = Builds(compiler, config.cpu_targets, config.cache_path, config.job_count)
        self._compiler = str(compiler)
        return builds

    @cached_property
    def _known(self) -> KnownClusters:
        return KnownClusters(self._builds, self._config.cache_path)

    def lower(self, outlined: Outlined, types: Types) -> LoweredCluster:
        """Lowers a cluster and has its source compiled, where its executable isn't known.

        Raises: UnsupportedError, naming the node, for what has no lowering; CompilerNotFoundError.
        """
        if self._dump is not None:
            lowered = lower_cluster(outlined, types, self._dump)
        else:
            lowered = self._known.lower(outlined, types)
        if lowered.executable is None:
            self.start(lowered.source)
        self._lowered.append(lowered)
        return lowered

    def start(self, source: str) -> None:
        """Has a source compiled. Raises CompilerNotFoundError."""
        self._builds.start(source)

    def finish(self, progress: Progress) -> Compiled:
        """Waits for all that was started."""
        if not self._compiler:
            return Compiled()
        results = self._builds.results(lambda done, total: progress("compile kernels", done, total))
        for lowered in self._lowered:
            if isinstance(results.get(lowered.source), Built):
                self._known.remember(lowered)
        return Compiled(results, self._compiler, time.perf_counter() - self._start)


def compile_sources(sources: Sequence[str], config: Config, progress: Progress) -> Compiled:
    """Compiles kernels that are all there already.

    Raises: CompilerNotFoundError if there is something to compile and nothing to compile it with.
    """
    with Compilation(config) as compilation:
        for source in sources:
            compilation.start(source)
        return compilation.finish(progress)
