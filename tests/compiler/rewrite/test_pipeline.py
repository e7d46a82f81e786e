from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.compiler.random_programs import Case, cases, with_special_values
from tf_blade.compiler.ir.interpreter import Refused, run
from tf_blade.compiler.ir.parser import parse
from tf_blade.compiler.rewrite import RewriteLog, rewrite

RANDOM = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


@given(cases())
@RANDOM
def test_random_programs_compute_the_same(case: Case):
    rewritten = rewrite(parse(str(case.program)), verify_each=True)
    try:
        run(case.program, case.inputs)
    except Refused:
        return  # a refusal may disappear with the dead op that refused
    case.check(run(rewritten, case.inputs))


@given(cases(max_ops=20), st.integers(0, 1000))
@RANDOM
def test_special_values_survive_bit_for_bit(case: Case, seed: int):
    rewritten = rewrite(parse(str(case.program)), verify_each=True)
    if any(op.kind in ("dot_general", "reduce") for op in case.program.ops):
        return
    case = with_special_values(case, seed)
    try:
        expected = run(case.program, case.inputs)
    except Refused:
        return
    for got, want in zip(run(rewritten, case.inputs), expected, strict=True):
        np.testing.assert_array_equal(got, want, err_msg=f"{case.program}\n{rewritten}")


@given(cases())
@RANDOM
def test_rewriting_twice_changes_nothing(case: Case):
    once = rewrite(parse(str(case.program)))
    log = RewriteLog()
    assert str(rewrite(parse(str(once)), log)) == str(once)
    assert not log.applied
