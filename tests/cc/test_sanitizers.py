"""The C++ tests, plain and under sanitizers.

Under a sanitizer they find what no answer shows: reads past the end of a matrix, races between
threads that share an executable, undefined arithmetic.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cc.programs import ADD, DENSE, HUGE, executable

ROOT = Path(__file__).resolve().parents[2]


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
    folder = ROOT / "build" / "tests" / (sanitize.replace(",", "-") or "plain")
    folder.mkdir(parents=True, exist_ok=True)
    flags = [f"-fsanitize={sanitize}"] if sanitize else []
    probe = subprocess.run(
        ["c++", "-x", "c++", "-", "-o", str(folder / "probe"), *flags],
        input=b"int main() {}",
        capture_output=True,
    )
    if probe.returncode:
        pytest.skip(f"the compiler has no {sanitize} sanitizer")
    for command in (
        ["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", f"-DBLADE_SANITIZE={sanitize}"],
        ["cmake", "--build", folder, "--target", "runtime_test"],
    ):
        result = subprocess.run(command, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    return folder / "runtime_test"


@pytest.mark.parametrize(
    "sanitize", ["", "address,undefined", "thread"], ids=lambda s: s or "plain"
)
def test_the_cpp_tests_pass(programs, sanitize):
    binary = build(sanitize)
    result = subprocess.run([binary, *programs], capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-6000:]
    assert "tests passed" in result.stdout
