"""C++ of the benchmarks, compiled for this machine when first needed."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

_BUILD = Path(__file__).resolve().parents[1] / "build" / "benchmarks"
_FLAGS = ("-std=c++17", "-O3", "-march=native", "-shared", "-fPIC", "-pthread", "-Wall", "-Wextra")


def library(source: Path, includes: Sequence[str] = ()) -> ctypes.CDLL:
    """The compiled source. Raises RuntimeError if there is no compiler."""
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise RuntimeError("benchmarks have parts in C++: install g++ or clang++, or set CXX")
    command = [compiler, *_FLAGS, *(f"-I{folder}" for folder in includes), str(source)]
    key = hashlib.sha256(source.read_bytes() + " ".join(command).encode()).hexdigest()[:16]
    path = _BUILD / f"{source.stem}-{key}.so"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(f".{os.getpid()}")
        subprocess.run([*command, "-o", str(fresh)], check=True)
        fresh.rename(path)
    return ctypes.CDLL(str(path))
