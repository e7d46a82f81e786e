"""Kernels for patterns, compiled once a process."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.cc.programs import BASE_ISA
from tf_blade.patterns import include_dir

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "patterns" / "dense_gelu.c"


def compile_kernel(source: Path, folder: Path) -> Path:
    """Compiles with the command of docs/patterns.md, for any processor of the family."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("there is no C compiler")
    page = (ROOT / "docs" / "patterns.md").read_text()
    (line,) = re.findall(r"^cc (.*)$", page, re.MULTILINE)
    march = "armv8-a" if BASE_ISA == "aarch64" else BASE_ISA
    line = line.replace("-march=x86-64-v3", f"-march={march}").replace("x86-64-v3", BASE_ISA)
    library = folder / f"lib{source.stem}.so"
    line = line.replace("INCLUDE", include_dir()).replace("dense_gelu.c", str(source))
    line = line.replace("libdense_gelu.so", str(library))
    done = subprocess.run(
        ["sh", "-c", f"{compiler} -Wall -Wextra -Werror {line}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return library


@functools.cache
def _compiled(source: Path) -> Path:
    return compile_kernel(source, Path(tempfile.mkdtemp(prefix="tf-blade-kernel-")))


def dense_gelu() -> Path:
    return _compiled(EXAMPLE)


def pair() -> Path:
    """(x, y, z) -> (x + y, x * z)"""
    return _compiled(Path(__file__).with_name("pair.c"))
