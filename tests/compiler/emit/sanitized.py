"""Runs programs whose code was compiled with sanitizers; a finding ends the process.

LD_PRELOAD=$(g++ -print-file-name=libasan.so) python -m tests.compiler.emit.sanitized
"""

from __future__ import annotations

import contextlib

import numpy as np

from tests.compiler.batch import SANITIZE, compile_batch
from tests.compiler.emit.programs import EXAMPLES
from tests.compiler.random_programs import drawn
from tf_blade.compiler import compile_program
from tf_blade.compiler.ir.interpreter import Refused
from tf_blade.compiler.ir.program import Program

RANDOM = 24


def main() -> None:
    runs: list[tuple[Program, list[list[np.ndarray]]]] = []
    rng = np.random.default_rng(1)
    for example in EXAMPLES:
        program = example.program()
        runs.append((program, [example.inputs(program, rng) for _ in range(example.runs)]))
    runs += [(case.program, [case.inputs]) for case in drawn(7, RANDOM)]
    hosts = compile_batch([compile_program(p) for p, _ in runs], flags=SANITIZE)
    for (program, inputs), host in zip(runs, hosts, strict=True):
        for arrays in inputs:
            with contextlib.suppress(Refused):
                host.run(arrays, [v.type.dtype for v in program.results])
    print(f"{len(runs)} programs ran")


if __name__ == "__main__":
    main()
