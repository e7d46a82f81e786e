"""Compiling the kernels of a model: each distinct source once, several at a time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from tf_blade.compiler.build import Built, build, find_compiler
from tf_blade.config import Config
from tf_blade.errors import CompileError
from tf_blade.progress import Progress


@dataclass(frozen=True)
class Compiled:
    """Attributes:
    results: for each source its executable, or why it did not compile.
    compiler: the compiler's path and version, "" if there was nothing to compile.
    seconds: wall time of all.
    """

    results: dict[str, Built | CompileError] = field(default_factory=dict)
    compiler: str = ""
    seconds: float = 0.0


def compile_sources(sources: Sequence[str], config: Config, progress: Progress) -> Compiled:
    """Compiles kernels for every CPU target of the configuration.

    Raises: CompilerNotFoundError if there is something to compile and nothing to compile it with.
    """
    sources = list(dict.fromkeys(sources))
    if not sources:
        return Compiled()
    start = time.perf_counter()
    compiler = find_compiler(config.compiler)
    results = build(
        sources,
        compiler=compiler,
        targets=config.cpu_targets,
        cache_dir=config.cache_path,
        jobs=config.job_count,
        progress=lambda done, total: progress("compile kernels", done, total),
    )
    return Compiled(
        dict(zip(sources, results, strict=True)), str(compiler), time.perf_counter() - start
    )
