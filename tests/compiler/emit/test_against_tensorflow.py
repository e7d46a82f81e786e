"""Generated code gives TensorFlow's answers, for every op that has a lowering."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from tests.compiler.batch import compile_batch
from tests.compiler.cases import CASES
from tests.compiler.ctypes_host import CtypesHost
from tests.compiler.harness import check, draw_inputs, prepare, reference
from tf_blade.compiler import compile_program
from tf_blade.compiler.ir.interpreter import Refused
from tf_blade.compiler.ir.program import Program
from tf_blade.compiler.rewrite import rewrite

RUNS = 6


@functools.cache
def compiled() -> dict[str, tuple[Program, CtypesHost]]:
    """Every case's program and its code: minutes the first time, then from the cache."""
    programs = {name: rewrite(prepare(case).program) for name, case in CASES.items()}
    hosts = compile_batch([compile_program(p) for p in programs.values()])
    return dict(zip(programs, zip(programs.values(), hosts, strict=True), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_gives_tensorflows_answer_or_refuses_where_it_may(name: str):
    case = CASES[name]
    program, host = compiled()[name]
    rng = np.random.default_rng(len(name))
    for _ in range(RUNS):
        dims = {n: int(rng.choice(case.sizes)) for n in case.named_dims}
        inputs = draw_inputs(case, dims, int(rng.integers(2**31)))
        want = reference(prepare(case), inputs)
        try:
            got = host.run(inputs, [v.type.dtype for v in program.results])
        except Refused as refusal:
            assert want is None or not case.assumes(dims, inputs), (
                f"{name}: refused ({refusal.reason}) where TensorFlow answers\n{program}"
            )
            continue
        assert want is not None, f"{name}: TensorFlow reports an error\n{program}"
        check(case, got, want)
