"""Generated code for AArch64, under an emulator: all kinds of kernels, and those of a whole model.

The emulator proves what is computed and that it runs there; it says nothing about speed.
"""

from __future__ import annotations

import contextlib
import functools
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import tf_blade
from benchmarks.job_folder import JobFolder, Outcome, Tensor
from examples.census import data, model
from tests.compiler.emit.jobs import add_runs
from tests.compiler.emit.programs import EXAMPLES
from tf_blade import machine
from tf_blade.child import Child
from tf_blade.compiler import compile_program
from tf_blade.compiler.build import build, find_compiler
from tf_blade.debug.alone import AloneCluster, AloneLookup
from tf_blade.dump import layout
from tf_blade.dump.read import read_dump
from tf_blade.errors import CompileError, CompilerNotFoundError

ROOT = Path(__file__).resolve().parents[3]
BUILD = ROOT / "build" / "tests" / "aarch64"
# Where Debian's cross compiler has AArch64's C library.
SYSTEM = "/usr/aarch64-linux-gnu"
# One of each kind of kernel, and each part of the prelude that knows of instruction sets.
KINDS = [
    e for e in EXAMPLES if e.name in {
        "flat", "bias_and_scale", "transposed", "conversions", "gathers", "integers",
        "select_and_compare", "softmax", "layer_norm_of_a_residual", "reductions_of_rows",
        "concatenated_columns", "padded", "long_column_sums", "scans", "reshaped_across_dims",
    } or any(f" = {kind}(" in e.body for kind in ("dot_general", "conv", "scatter", "top_k"))
]  # fmt: skip


def compiled(sources: Sequence[str]) -> list[bytes]:
    """Executables for AArch64. Skips the test where there is nothing to make them with."""
    try:
        compiler = find_compiler("aarch64-linux-gnu-g++", target="aarch64")
    except CompilerNotFoundError as error:
        pytest.skip(str(error))
    built = build(sources, compiler=compiler, targets=["aarch64"], cache_dir=None, jobs=2)
    errors = [b for b in built if isinstance(b, CompileError)]
    assert not errors, errors
    return [b.executable for b in built if not isinstance(b, CompileError)]


@functools.cache
def runner() -> tuple[str, ...]:
    """The command that works off job folders as AArch64 code. Skips the test without it."""
    emulator = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if emulator is None:
        pytest.skip("qemu-aarch64-static (Debian: qemu-user-static) is not installed")
    if shutil.which("cmake") is None or shutil.which("ninja") is None:
        pytest.skip("cmake and ninja are needed to build the C++ runtime")
    definitions = (
        "-DCMAKE_SYSTEM_NAME=Linux",
        "-DCMAKE_SYSTEM_PROCESSOR=aarch64",
        "-DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++",
    )
    for command in (
        ["cmake", "-S", str(ROOT), "-B", str(BUILD), "-G", "Ninja", *definitions],
        ["cmake", "--build", str(BUILD), "--target", "run_jobs"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return emulator, "-L", SYSTEM, str(BUILD / "run_jobs")


def wrong(outcomes: Sequence[Outcome]) -> list[tuple[str, str]]:
    assert {o.details["isa"] for o in outcomes} == {"aarch64"}
    return [(o.name, o.message) for o in outcomes if o.message]


def test_every_kind_of_kernel_computes_what_the_interpreter_computes(tmp_path):
    executables = compiled([compile_program(e.program()) for e in KINDS])
    folder = JobFolder(tmp_path)
    for example, executable in zip(KINDS, executables, strict=True):
        add_runs(folder, example, executable)
    assert wrong(folder.run(runner())) == []


def test_loops_become_vector_instructions():
    (flat,) = [e for e in EXAMPLES if e.name == "flat"]
    source = compile_program(flat.program())
    compiled([source])  # or skip
    command = find_compiler("aarch64-linux-gnu-g++", target="aarch64").compile_command(
        "aarch64", "-", "/dev/stdout", "BLADE_RUN=run"
    )
    command[command.index("-c")] = "-S"
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=True)
    assert len(re.findall(r"\bfmla\s+v\d+\.4s", done.stdout)) >= 6  # the polynomial of exp


def test_all_kernels_of_the_census_model_compute_what_their_references_compute(tmp_path):
    """Lookups of strings and numbers, vocabularies, and the dense layers after them."""
    compiled([])
    command = runner()
    trained = model.build(tmp_path / "model", rows=200, steps=2)
    # TensorFlow fails on no rows: a reshape in the model can't tell their width.
    batches = [data.take(trained.test_rows, np.arange(n)) for n in (1, 2, 7, 33)]
    tf_blade.optimize(
        str(tmp_path / "model"),
        inputs=batches,
        signatures=[model.SIGNATURE],
        config=tf_blade.Config(
            dump_dir=str(tmp_path / "dump"),
            cpu_targets=(machine.cpu_target(),),
            timing_seconds=0.0,
            keep_slower=True,
        ),
    )
    dump = read_dump(tmp_path / "dump")
    clusters = [c for c in dump.clusters.values() if not c.missing]
    assert any(c.is_lookup for c in clusters) and not all(c.is_lookup for c in clusters)
    executables = compiled([c.text(layout.KERNELS) for c in clusters])
    folder = JobFolder(tmp_path / "jobs")
    for cluster, executable in zip(clusters, executables, strict=True):
        with contextlib.closing(Child()) as child:
            alone = (AloneLookup if cluster.is_lookup else AloneCluster)(dump, cluster, child)
            for sample in cluster.samples:
                arrays = cluster.arrays(sample)
                expected = [Tensor(y) for y in alone.reference(arrays)]
                folder.add(cluster.name, executable, [Tensor(x) for x in arrays], expected)
            alone.close()
    assert wrong(folder.run(command)) == []
