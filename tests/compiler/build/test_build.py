"""Finding a compiler, compiling, and what is said when that fails."""

from __future__ import annotations

import os
import platform
import stat
from pathlib import Path

import numpy as np
import pytest

from tests.compiler.ctypes_host import CtypesHost
from tests.compiler.emit.example import Example
from tf_blade.compiler import compile_program
from tf_blade.compiler.build import Built, build, find_compiler
from tf_blade.compiler.build.build import first_message
from tf_blade.compiler.build.container import unpack
from tf_blade.errors import CompileError, CompilerNotFoundError

TARGETS = ("x86-64-v3", "x86-64-v4")
x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="makes x86-64 code")


def source(scale: str = "2.0") -> str:
    example = Example(
        "scaled",
        "(%x: f32[a]) -> (%2)",
        f"""%0: f32[] = constant(value={scale})
        %1: f32[a] = broadcast_in_dim(%0, shape=[a], dims=[])
        %2: f32[a] = mul(%x, %1)""",
    )
    return compile_program(example.program())


def one(text: str, cache: Path | None = None, **more) -> Built | CompileError:
    (result,) = build([text], compiler=find_compiler(), targets=TARGETS, cache_dir=cache, **more)
    return result


@x86
def test_an_executable_has_a_variant_for_each_target_best_first(tmp_path: Path):
    built = one(source(), tmp_path)
    assert isinstance(built, Built)
    assert unpack(built.executable).isas == ("x86-64-v4", "x86-64-v3")
    host = CtypesHost(built.executable, isa="x86-64-v3")
    assert host.isas == ["x86-64-v4", "x86-64-v3"]
    from tf_blade.compiler.ir.types import DType

    (got,) = host.run([np.arange(5, dtype=np.float32)], [DType.F32])
    assert got.tolist() == [0, 2, 4, 6, 8]


@x86
def test_the_second_time_comes_from_the_cache(tmp_path: Path):
    first, second = one(source(), tmp_path), one(source(), tmp_path)
    assert isinstance(first, Built) and isinstance(second, Built)
    assert (first.cached, second.cached) == (False, True)
    assert first.executable == second.executable
    other = one(source("3.0"), tmp_path)
    assert isinstance(other, Built) and not other.cached


@x86
def test_other_flags_or_targets_are_other_entries(tmp_path: Path):
    one(source(), tmp_path)
    compiler = find_compiler()
    for targets, flags in ((TARGETS[:1], ()), (TARGETS, ("-fno-inline",))):
        (again,) = build(
            [source()], compiler=compiler, targets=targets, cache_dir=tmp_path, extra_flags=flags
        )
        assert isinstance(again, Built) and not again.cached


@x86
def test_results_come_in_the_order_of_the_sources_with_errors_in_their_place(tmp_path: Path):
    seen: list[tuple[int, int]] = []
    results = build(
        [source("2.0"), source().replace("v2_ptr[", "nonsense["), source("4.0")],
        compiler=find_compiler(),
        targets=TARGETS[:1],
        cache_dir=tmp_path,
        jobs=2,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert [type(r) for r in results] == [Built, CompileError, Built]
    assert "error: 'nonsense' was not declared" in str(results[1]) or "nonsense" in str(results[1])
    assert "/tmp" not in str(results[1])
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_the_first_error_is_the_message():
    text = (
        "/somewhere/x/kernels.cc: In function:\n/somewhere/x/kernels.cc:3:1: error: bad\nerror: 2"
    )
    assert first_message(text) == "kernels.cc:3:1: error: bad"
    assert first_message("") == "failed without a message"


def test_no_compiler_names_the_three_ways_to_get_one(monkeypatch, tmp_path: Path):
    import importlib.util

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CompilerNotFoundError) as error:
        find_compiler()
    for way in ("install g++", "install clang", "pip install ziglang"):
        assert way in str(error.value)
    with pytest.raises(CompilerNotFoundError, match="'my-c\\+\\+' can't be run"):
        find_compiler("my-c++")


def test_the_environments_compiler_comes_first(monkeypatch, tmp_path: Path):
    mine = tmp_path / "mine"
    mine.write_text(
        f"#!/bin/sh\n[ $1 = --version ] && echo 'my clang version 1'\n"
        f"[ $1 = -dumpmachine ] && echo {platform.machine()}-linux-gnu\nexit 0\n"
    )
    mine.chmod(mine.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CXX", str(mine))
    found = find_compiler()
    assert (found.command, found.family) == ((str(mine),), "clang")
    assert str(found) == f"{mine} (my clang version 1)"


def test_a_compiler_that_fails_is_reported(tmp_path: Path):
    broken = tmp_path / "broken"
    broken.write_text(
        f"#!/bin/sh\n[ $1 = --version ] && echo broken && exit 0\n"
        f"[ $1 = -dumpmachine ] && echo {platform.machine()}-linux-gnu && exit 0\n"
        "echo 'fatal: out of luck' >&2; exit 1\n"
    )
    broken.chmod(broken.stat().st_mode | stat.S_IXUSR)
    (result,) = build(
        ["int x;"], compiler=find_compiler(str(broken)), targets=TARGETS, cache_dir=None
    )
    assert isinstance(result, CompileError) and "out of luck" in str(result)


def test_zig_is_found_as_a_python_package():
    pytest.importorskip("ziglang")
    found = find_compiler("zig")
    assert found.family == "zig" and str(found).startswith("zig (")
    command = found.compile_command("aarch64", "a.cc", "a.o")
    assert "aarch64-linux-gnu.2.17" in command and "-nostdinc++" in command


@x86
@pytest.mark.skipif(not os.environ.get("TF_BLADE_TEST_ZIG"), reason="TF_BLADE_TEST_ZIG is not set")
def test_zig_compiles_for_every_target():
    compiler = find_compiler("zig")
    for targets in (TARGETS, ("aarch64",)):
        (built,) = build([source()], compiler=compiler, targets=targets, cache_dir=None)
        assert isinstance(built, Built), built
