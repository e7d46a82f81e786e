"""Random programs give the reference's answers as generated code."""

from __future__ import annotations

import pytest

from tests.compiler.batch import compile_batch
from tests.compiler.random_programs import drawn
from tf_blade.compiler import compile_program
from tf_blade.compiler.ir.interpreter import Refused

COUNT = 120


def test_random_programs_give_the_references_answers():
    programs = drawn(2026, COUNT)
    hosts = compile_batch([compile_program(c.program) for c in programs])
    answered = 0
    for case, host in zip(programs, hosts, strict=True):
        expected = case.expected()
        try:
            got = host.run(case.inputs, [v.type.dtype for v in case.program.results])
        except Refused as refusal:
            if expected is not None:
                pytest.fail(f"refused ({refusal.reason}) what the reference answers:\n{case!r}")
            continue
        if expected is not None:
            case.check(got)
            answered += 1
    assert answered > COUNT // 2
