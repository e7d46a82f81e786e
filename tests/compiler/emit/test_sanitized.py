"""Generated code under the address and undefined-behaviour sanitizers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tf_blade.compiler.build import find_compiler

ROOT = Path(__file__).parents[3]


def library() -> str:
    """The sanitizer's runtime, which must be in the process before Python's own code."""
    compiler = find_compiler()
    if compiler.family != "gcc":
        pytest.skip("needs GCC's sanitizers")
    command = [*compiler.command, "-print-file-name=libasan.so"]
    path = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if not os.path.isabs(path):
        pytest.skip("the compiler comes without libasan")
    return os.path.realpath(path)


def test_nothing_is_read_or_written_out_of_bounds_and_nothing_is_undefined():
    done = subprocess.run(
        [sys.executable, "-m", "tests.compiler.emit.sanitized"],
        cwd=ROOT,
        env={**os.environ, "LD_PRELOAD": library(), "ASAN_OPTIONS": "detect_leaks=0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert "programs ran" in done.stdout
