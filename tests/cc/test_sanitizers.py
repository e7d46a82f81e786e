"""The C++ tests, plain and under sanitizers.

Under a sanitizer they find what no answer shows: reads past the end of a matrix, races between
threads that share an executable, undefined arithmetic.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cc.programs import ADD, DENSE, HUGE, executable
from tf_blade import _runtime

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"


@pytest.fixture(scope="module")
def programs(tmp_path_factory) -> list[str]:
    """Arguments of runtime_test: NAME=FILE."""
    folder = tmp_path_factory.mktemp("programs")
    arguments = []
    for name, source in {"add": ADD, "dense": DENSE, "huge": HUGE}.items():
        (folder / name).write_bytes(executable(source, cost="50.0"))
        arguments.append(f"{name}={folder / name}")
    return arguments


def build(sanitize: str) -> Path:
    """Builds runtime_test, or what changed since; skips the test when this machine can't."""
    if shutil.which("cmake") is None or shutil.which("ninja") is None:
        pytest.skip("cmake and ninja are needed to build the C++ tests")
    if not sanitize and (BUILD / "dev" / "build.ninja").exists():
        return make(BUILD / "dev")
    folder = BUILD / "tests" / (sanitize.replace(",", "-") or "plain")
    folder.mkdir(parents=True, exist_ok=True)
    flags = [f"-fsanitize={sanitize}"] if sanitize else []
    probe = subprocess.run(
        ["c++", "-x", "c++", "-", "-o", str(folder / "probe"), *flags],
        input=b"int main() {}",
        capture_output=True,
    )
    if probe.returncode:
        pytest.skip(f"the compiler has no {sanitize} sanitizer")
    # Only what runs here: kernels take most of the time.
    levels = [isa for isa in _runtime.cpu_features()[:1] if isa in ("x86-64-v3", "x86-64-v4")]
    definitions = [f"-DBLADE_SANITIZE={sanitize}", f"-DBLADE_KERNEL_ISAS={';'.join(levels)}"]
    call("cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", *definitions)
    return make(folder)


def make(folder: Path) -> Path:
    call("cmake", "--build", folder, "--target", "runtime_test")
    return folder / "runtime_test"


def call(*command: str | Path) -> None:
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]


@pytest.mark.parametrize(
    "sanitize", ["", "address,undefined", "thread"], ids=lambda name: name or "plain"
)
def test_the_cpp_tests_pass(programs, sanitize):
    binary = build(sanitize)
    # A test asks for more memory than there is, which is an answer here, not an error.
    options = {"ASAN_OPTIONS": "allocator_may_return_null=1"}
    options["TSAN_OPTIONS"] = options["ASAN_OPTIONS"]
    result = subprocess.run(
        [binary, *programs], capture_output=True, text=True, env={**os.environ, **options}
    )
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-6000:]
    assert "tests passed" in result.stdout
