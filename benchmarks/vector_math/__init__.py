"""Benchmark `vector_math`: the largest error of each f32 function of generated code, and its time.

Functions of one number are run on every f32, those of two on as many random pairs of every size,
and compared with the C library's f64. Numbers that a function refuses (sines beyond 2^45) are left
out. Times are those of one thread on normally distributed numbers in its caches, loading and
storing them included, the shortest of many runs.

`summary`:
  max_ulp            the largest error, in units of the last place
  over_2_ulp         functions with a larger error than 2 of these
  ps_FUNCTION        time for one number, in picoseconds
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks import native

# In the order of reference.cc.
UNARY = (
    "exp expm1 log log1p logistic tanh erf erfc sin cos tan asin acos atan sinh cosh asinh acosh "
    "atanh sqrt rsqrt"
).split()
BINARY = ("pow", "atan2")
_PERIODIC = ("sin", "cos", "tan")
_REFUSED_FROM = np.float32(2.0**45)
_BLOCK = 1 << 22
_ALL = 1 << 32
# What a call costs besides is the same for both of these sizes.
_TIMED = (4096, 24576)
_RUNS = 3000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", nargs="*", metavar="FUNCTION", help="default: all of them")
    parser.add_argument("--every", type=int, metavar="N", help="every N-th f32 only")
    parser.add_argument("--target", help="an instruction set (default: this machine's)")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table here")


def run(arguments: argparse.Namespace) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """A row a function, and the summary."""
    from tf_blade.machine import cpu_target

    console = Console()
    every = arguments.every or (4099 if arguments.quick else 1)
    target = arguments.target or cpu_target()
    rows = []
    for kind in arguments.only or (*UNARY, *BINARY):
        row = {"function": kind, "target": target, **_worst(kind, target, every)}
        row["ps"] = _picoseconds(kind, target, _RUNS // 10 if arguments.quick else _RUNS)
        rows.append(row)
        console.print(_text(row))
    if arguments.markdown:
        arguments.markdown.write_text(_markdown(rows, every))
    worst = max(row["ulp"] for row in rows)
    times = {f"ps_{row['function']}": row["ps"] for row in rows}
    return rows, {"max_ulp": worst, "over_2_ulp": sum(row["ulp"] > 2 for row in rows), **times}


def _worst(kind: str, target: str, every: int) -> dict[str, Any]:
    executable, threads = _executable(kind, target), len(os.sched_getaffinity(0))
    found = {"ulp": 0.0, "x": 0.0, "y": 0.0, "numbers": 0}
    f32 = np.dtype(np.float32)
    for x, y in _blocks(kind, every):
        (got,) = executable.run([x] if kind in UNARY else [x, y], [f32], threads, [])
        ulps, place = _compare(kind, x, y, got, threads)
        found["numbers"] += x.size
        if ulps > found["ulp"]:
            found |= {"ulp": ulps, "x": float(x[place]), "y": float(y[place])}
    return found


def _picoseconds(kind: str, target: str, runs: int) -> float:
    """The time that one more number takes."""
    random = np.random.default_rng(0)
    shortest = [np.inf, np.inf]
    feeds = [random.standard_normal((1 if kind in UNARY else 2, n), np.float32) for n in _TIMED]
    executable = _executable(kind, target)
    for _ in range(runs):
        for i, x in enumerate(feeds):
            start = time.perf_counter()
            executable.run([*x], [np.dtype(np.float32)], 1, [])
            shortest[i] = min(shortest[i], time.perf_counter() - start)
    return 1e12 * (shortest[1] - shortest[0]) / (_TIMED[1] - _TIMED[0])


def _blocks(kind: str, every: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    random = np.random.default_rng(0)
    steps = np.arange(_BLOCK, dtype=np.uint32) * np.uint32(every)
    for first in range(0, _ALL, _BLOCK * every):
        count = min(_BLOCK, -(-(_ALL - first) // every))
        x = (steps[:count] + np.uint32(first)).view(np.float32)
        if kind in BINARY:
            x, y = random.integers(0, _ALL, (2, x.size)).astype(np.uint32).view(np.float32)
            half = random.random(x.size) < 0.5  # sizes that go together are rare among all
            y = np.where(half, random.uniform(-40, 40, x.size).astype(np.float32), y)
        else:
            if kind in _PERIODIC:
                x = x[~((np.abs(x) > _REFUSED_FROM) & np.isfinite(x))]
            y = x
        if x.size:
            yield np.ascontiguousarray(x), np.ascontiguousarray(y)


@functools.cache
def _executable(kind: str, target: str) -> Any:
    from tf_blade import _runtime
    from tf_blade.compiler import compile_program
    from tf_blade.compiler.build import Built, build, find_compiler
    from tf_blade.compiler.ir.builder import Builder
    from tf_blade.compiler.ir.types import DType

    b = Builder(kind)
    x = b.param(DType.F32, [None])
    unary = kind in UNARY
    y = b.unary(kind, x) if unary else b.binary(kind, x, b.param(DType.F32, [None]))
    source = compile_program(b.finish([y]))
    (built,) = build([source], compiler=find_compiler(), targets=[target], cache_dir=None)
    assert isinstance(built, Built), built
    return _runtime.Executable(built.executable)


def _compare(
    kind: str, x: np.ndarray, y: np.ndarray, got: np.ndarray, threads: int
) -> tuple[float, int]:
    library = native.library(Path(__file__).with_name("reference.cc"))
    ulps, place = ctypes.c_double(), ctypes.c_int64()
    library.worst(
        [*UNARY, *BINARY].index(kind),
        ctypes.c_int64(x.size),
        *(ctypes.c_void_p(array.ctypes.data) for array in (x, y, got)),
        threads,
        ctypes.byref(ulps),
        ctypes.byref(place),
    )
    return ulps.value, place.value


def _text(row: dict[str, Any]) -> str:
    at = f"{row['x']:.9g}" + (f", {row['y']:.9g}" if row["function"] in BINARY else "")
    return (
        f"{row['function']:9} {row['ulp']:.3f} ulp at {at}  ({row['numbers']:,} numbers), "
        f"{row['ps']:.0f} ps each"
    )


def _markdown(rows: list[dict[str, Any]], every: int) -> str:
    which = "every f32" if every == 1 else f"every {every}th f32"
    lines = [
        "# Errors of the vector functions",
        "",
        f"The largest error of each f32 function of generated code on {which} (`pow` and `atan2`:",
        "on as many random pairs), in units of the last place, against the C library's f64; and",
        f"the time for one number on one thread, data in its caches ({rows[0]['target']}).",
        "",
        "| function | ulp | at | ps |",
        "|---|---|---|---|",
    ]
    for row in rows:
        at = f"{row['x']:.9g}" + (f", {row['y']:.9g}" if row["function"] in BINARY else "")
        lines.append(f"| {row['function']} | {row['ulp']:.2f} | {at} | {row['ps']:.0f} |")
    return "\n".join(lines) + "\n"
