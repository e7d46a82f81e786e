"""Every lowering computes what TensorFlow computes, for shapes it has never seen."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.compiler.cases import CASES
from tests.compiler.harness import check, draw_inputs, prepare, reference
from tf_blade.compiler.ir.interpreter import Refused, run


@pytest.mark.parametrize("name", CASES)
def test_gives_tensorflows_answer_or_refuses_where_it_may(name: str):
    case = CASES[name]
    prepared = prepare(case)

    # A function of its own for each case: hypothesis nests the settings of a parametrised one
    # deeper with each parameter, until Python's recursion limit.
    @settings(
        max_examples=6,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def run_case(data: st.DataObject) -> None:
        dims = {n: data.draw(st.sampled_from(case.sizes), label=n) for n in case.named_dims}
        inputs = draw_inputs(case, dims, data.draw(st.integers(0, 2**31), label="seed"))
        want = reference(prepared, inputs)
        try:
            got = run(prepared.program, inputs)
        except Refused as refusal:
            assert want is None or not case.assumes(dims, inputs), (
                f"{name}: refused ({refusal.reason}) where TensorFlow answers\n{prepared.program}"
            )
            return
        assert want is not None, f"{name}: TensorFlow reports an error\n{prepared.program}"
        check(case, got, want)

    run_case()
