from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.compiler.random_programs import Case, cases, with_special_values
from tf_blade.compiler.ir.interpreter import Refused, run
from tf_blade.compiler.ir.parser import parse
from tf_blade.compiler.rewrite import RewriteLog, rewrite

RANDOM = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


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


def test_a_layer_spelled_the_long_way():
    """Matmul with a transposed weight, a bias of shape [1, n], relu, and a softmax with keepdims:
    what is left is a product with its epilogue and the softmax proper."""
    before = parse(
        """
        program p(%x: f32[s0, 8], %w: f32[4, 8] constant, %b: f32[1, 4] constant) -> (%15) {
          symbol s0 = dim(%x, 0)
          %0: f32[8, 4] = transpose(%w, perm=[1, 0])
          %1: f32[s0, 4] = dot_general(%x, %0, transpose_a=false, transpose_b=false, activation=none)  // d/MatMul
          %2: f32[s0, 4] = broadcast_in_dim(%b, shape=[s0, 4], dims=[0, 1])
          %3: f32[s0, 4] = add(%1, %2)  // d/Add
          %4: f32[] = constant(value=0.0)
          %5: f32[s0, 4] = broadcast_in_dim(%4, shape=[s0, 4], dims=[])
          %6: f32[s0, 4] = max(%3, %5)  // d/Relu
          %7: f32[s0] = reduce(%6, kind=max, dims=[1])  // s/Max
          %8: f32[s0, 1] = reshape(%7, shape=[s0, 1])
          %9: f32[s0, 4] = broadcast_in_dim(%8, shape=[s0, 4], dims=[0, 1])
          %10: f32[s0, 4] = sub(%6, %9)
          %11: f32[s0, 4] = exp(%10)
          %12: f32[s0] = reduce(%11, kind=sum, dims=[1])
          %13: f32[s0, 1] = reshape(%12, shape=[s0, 1])
          %14: f32[s0, 4] = broadcast_in_dim(%13, shape=[s0, 4], dims=[0, 1])
          %15: f32[s0, 4] = div(%11, %14)
        }
        """  # noqa: E501
    )
    log = RewriteLog()
    assert (
        str(rewrite(before, log, verify_each=True))
        == """\
program p(%x: f32[s0, 8], %w: f32[4, 8] constant, %b: f32[1, 4] constant) -> (%11) {
  symbol s0 = dim(%x, 0)
  %0: f32[4] = reshape(%b, shape=[4])
  %1: f32[s0, 4] = dot_general(%x, %w, %0, transpose_a=false, transpose_b=true, activation=relu)  // d/Relu, d/Add, d/MatMul
  %2: f32[s0] = reduce(%1, kind=max, dims=[1])  // s/Max
  %3: f32[s0, 4] = broadcast_in_dim(%2, shape=[s0, 4], dims=[0])
  %4: f32[s0, 4] = sub(%1, %3)
  %5: f32[s0, 4] = exp(%4)
  %6: f32[s0] = reduce(%5, kind=sum, dims=[1])
  %7: f32[] = constant(value=1.0)
  %8: f32[s0] = broadcast_in_dim(%7, shape=[s0], dims=[])
  %9: f32[s0] = div(%8, %6)
  %10: f32[s0, 4] = broadcast_in_dim(%9, shape=[s0, 4], dims=[0])
  %11: f32[s0, 4] = mul(%5, %10)
}"""  # noqa: E501
    )
    assert log.applied["dot_with_bias"] == 1 and "dot_with_relu" in str(log)
