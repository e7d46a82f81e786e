"""What tf-blade finds on this machine, and what it would use it for."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tf_blade import __version__, machine
from tf_blade.config import Config
from tf_blade.errors import CompilerNotFoundError, TfBladeError

Status = Literal["ok", "missing", "note"]


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's report.

    Attributes:
      name: what was looked for.
      status: `ok`, `missing` (optimising or serving needs it), or `note`.
      detail: what was found, or how to get it.
    """

    name: str
    status: Status
    detail: str


def examine() -> list[Finding]:
    """Looks at everything that optimising and serving depend on."""
    return [
        Finding("tf-blade", "ok", __version__),
        Finding("Python", "ok", f"{platform.python_version()} ({sys.executable})"),
        _tensorflow(),
        _op_library(),
        *_compilers(),
        _cpu(),
        _cache(),
    ]


def _tensorflow() -> Finding:
    try:
        base = machine.baseline()
    except ImportError as error:
        return Finding("TensorFlow", "missing", f"{error}. Install it: pip install tensorflow")
    onednn = "on" if base.onednn else "off"
    threads = f"{base.intra_op_threads} intra-op / {base.inter_op_threads} inter-op threads"
    return Finding("TensorFlow", "ok", f"{base.tensorflow}, oneDNN {onednn}, {threads}")


def _op_library() -> Finding:
    from tf_blade import library

    try:
        library.load_ops()
        built_for = library.build_info()["tensorflow"]
    except TfBladeError as error:
        return Finding("op library", "missing", str(error))
    detail = f"{library.library_path()}, built for TensorFlow {built_for}"
    return Finding("op library", "ok", detail)


def _compilers() -> Iterator[Finding]:
    from tf_blade.compiler.build import find_compiler

    try:
        chosen = find_compiler()
    except CompilerNotFoundError as error:
        yield Finding("compiler", "missing", str(error))
        return
    yield Finding("compiler", "ok", f"{chosen}, used to compile kernels")
    for name in ("g++", "clang++", "zig"):
        try:
            other = find_compiler(name)
        except CompilerNotFoundError:
            continue
        if other.command != chosen.command:
            yield Finding("compiler", "note", f"{other}, usable with Config(compiler='{name}')")


def _cpu() -> Finding:
    model, count = machine.cpu_model(), machine.available_cpus()
    target = machine.cpu_target()
    if not target:
        return Finding(
            "CPU", "note", f"{model}, {count} CPUs: no AVX2 + FMA, so models run unoptimised here"
        )
    return Finding("CPU", "ok", f"{model}, {count} CPUs, runs code for {target}")


def _cache() -> Finding:
    path = Config().cache_path
    existing = next(p for p in (path, *path.parents) if p.exists())
    if not os.access(existing, os.W_OK):
        return Finding(
            "kernel cache", "missing", f"{path} can't be written. Set TF_BLADE_CACHE to a folder"
        )
    size = sum(f.stat().st_size for f in path.rglob("*") if f.is_file()) if path.exists() else 0
    return Finding("kernel cache", "ok", f"{path} ({size / 2**20:.1f} MiB)")
