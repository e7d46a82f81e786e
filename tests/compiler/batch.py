"""Compiles the generated code of many programs at once, for tests.

A compiler's start-up is most of the time that a small program takes. Here dozens of programs go
into one translation unit, each in a namespace of its own, its source untouched, and the result is
kept in pytest's cache folder by the hash of everything that went in.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.compiler.ctypes_host import CtypesHost
from tf_blade.compiler.build import find_compiler
from tf_blade.compiler.emit import isa_symbol
from tf_blade.compiler.emit.abi import abi_header

SIZE = 24
TARGET = "x86-64-v3"
SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g1")
_CACHE = Path(__file__).parents[2] / ".pytest_cache" / "kernels"


def compile_batch(
    sources: Sequence[str],
    *,
    optimize: str = "-O1",
    flags: Sequence[str] = (),
    pieces: int = 3,
    target: str = TARGET,
) -> list[CtypesHost]:
    """A host for each source, in order. Raises AssertionError with the compiler's output."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        groups = [sources[i : i + SIZE] for i in range(0, len(sources), SIZE)]
        paths = list(pool.map(lambda g: _library(g, (optimize, *flags), target), groups))
    hosts: list[CtypesHost] = []
    for group, path in zip(groups, paths, strict=True):
        library = ctypes.CDLL(str(path))
        hosts += [CtypesHost(library, f"executable_{i}", pieces=pieces) for i in range(len(group))]
    return hosts


def _library(sources: Sequence[str], flags: tuple[str, ...], target: str) -> Path:
    compiler = find_compiler()
    key = hashlib.sha256(repr((sources, flags, str(compiler), target)).encode()).hexdigest()
    path = _CACHE / f"{key[:32]}.so"
    if path.exists():
        return path
    _CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        parts = [abi_header()]
        for i, source in enumerate(sources):
            Path(folder, f"part_{i}.inc").write_text(source)
            parts.append(_part(i, target))
        Path(folder, "batch.cc").write_text("\n".join(parts))
        output = os.path.join(folder, "batch.so")
        command = compiler.compile_command(target, "batch.cc", output)
        command.remove("-c")
        done = subprocess.run(
            [*command, *flags, "-shared", "-lm"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[:4000]
        temporary = path.with_suffix(f".{os.getpid()}.new")
        temporary.write_bytes(Path(output).read_bytes())
        temporary.replace(path)
    return path


def _part(i: int, target: str) -> str:
    symbol = isa_symbol(target)
    return f"""
#define BLADE_RUN run_{i}
#define blade_run_{symbol} run_{i}
#define blade_executable executable_{i}
namespace program_{i} {{
#include "part_{i}.inc"
#undef BLADE_RUN
#define BLADE_HAS_{symbol}
#include "part_{i}.inc"
}}
#undef BLADE_HAS_{symbol}
#undef blade_run_{symbol}
#undef blade_executable
"""
