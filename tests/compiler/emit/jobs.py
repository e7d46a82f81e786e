"""Runs of the example programs as jobs for a machine without Python."""

from __future__ import annotations

import numpy as np

from benchmarks.job_folder import JobFolder, Tensor
from tests.compiler.emit.example import Example
from tf_blade.compiler.ir.interpreter import run as interpret


def add_runs(folder: JobFolder, example: Example, executable: bytes, image: bytes = b"") -> None:
    """Adds runs of an example, with the interpreter's answers. image: of its CUDA kernels."""
    program = example.program()
    rng = np.random.default_rng(len(example.name))
    for _ in range(example.runs):
        inputs = example.inputs(program, rng)
        # Rounding errors of sums are relative to what was summed up, here about 1 each.
        size = max((x.size for x in inputs), default=1)
        folder.add(
            example.name,
            executable,
            [Tensor(x) for x in inputs],
            [Tensor(y) for y in interpret(program, inputs)],
            image=image,
            absolute=2e-6 * max(size, 1) ** 0.5,
        )
