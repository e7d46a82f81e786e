"""Sizes that a program computes: what they are, in which order, how large at most."""

from __future__ import annotations

import numpy as np
import pytest

from tf_blade.compiler.emit.cuda import emit_cuda
from tf_blade.compiler.fuse import plan
from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.dims import dimension_symbol, floor_div, floor_mod, larger, smaller
from tf_blade.compiler.ir.interpreter import Refused, run
from tf_blade.compiler.ir.ops import IrError
from tf_blade.compiler.ir.parser import parse
from tf_blade.compiler.ir.program import ComputedSize, Program, Value
from tf_blade.compiler.ir.sizes import upper_bound
from tf_blade.compiler.ir.types import DType, TensorType
from tf_blade.compiler.ir.verifier import verify
from tf_blade.compiler.rewrite import rewrite
from tf_blade.errors import UnsupportedError

FILTER = """program filter(%x: f32[s0], %m: bool[s0], %k: f32[s1]) -> (%3, %6) {
  symbol s0 = dim(%x, 0)
  symbol s1 = dim(%k, 0)
  symbol n2 = size(%1, s0)
  require n2 == s1 "as many stay as there are weights"
  %0: i64[s0] = convert(%m, dtype=i64)
  %1: i64[] = reduce(%0, kind=sum, dims=[0])
  %2: i64[n2] = positions(%m, shape=[n2])
  %3: f32[n2] = gather(%x, %2, axis=0, batch_dims=0)
  %4: f32[s1] = exp(%k)
  %5: f32[n2] = reshape(%4, shape=[n2])
  %6: f32[n2] = mul(%3, %5)
}"""
X = np.arange(4, dtype=np.float32)
MASK = np.array([True, False, True, False])


def test_the_text_reads_back():
    program = parse(FILTER)
    verify(program)
    assert str(program) == FILTER
    rewritten = rewrite(program, verify_each=True)
    verify(parse(str(rewritten)))


def test_constraints_about_a_size_are_checked_when_it_is_known():
    program = parse(FILTER)
    kept, scaled = run(program, [X, MASK, np.zeros(2, np.float32)])
    np.testing.assert_array_equal(kept, [0, 2])
    np.testing.assert_array_equal(scaled, [0, 2])
    with pytest.raises(Refused, match="as many stay as there are weights"):
        run(program, [X, MASK, np.zeros(3, np.float32)])


def test_a_size_is_mentioned_only_where_it_is_known():
    program = parse(FILTER)
    program.ops.insert(0, program.ops.pop(2))
    with pytest.raises(IrError, match="%2 mentions n2, which is computed later"):
        verify(program)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%1: i64[] = reduce(%0, kind=sum, dims=[0])", "symbol n2 is %0"),
        ("%1: i32[] = constant(value=3)", "symbol n2 is %1"),
    ],
)
def test_a_size_is_a_number_that_an_op_makes(line: str, message: str):
    text = FILTER.replace("%1: i64[] = reduce(%0, kind=sum, dims=[0])", line)
    with pytest.raises(IrError, match=message):
        verify(parse(text.replace("size(%1", "size(%0") if "%0" in message else text))


def test_the_number_lives_as_long_as_its_size():
    """Nothing reads the count, but a shape mentions it."""
    program = parse(
        """program p(%m: bool[s0]) -> (%4) {
          symbol s0 = dim(%m, 0)
          symbol n1 = size(%1, s0)
          symbol n2 = size(%2, s0)
          %0: i64[s0] = convert(%m, dtype=i64)
          %1: i64[] = reduce(%0, kind=sum, dims=[0])
          %2: i64[] = reduce(%0, kind=sum, dims=[0])
          %3: f32[] = constant(value=1.0)
          %4: f32[n2] = broadcast_in_dim(%3, shape=[n2], dims=[])
        }"""
    )
    rewrite(program, verify_each=True)
    assert [s.name for s in program.symbols] == ["s0", "n2"]
    assert [op.kind for op in program.ops].count("reduce") == 1
    np.testing.assert_array_equal(run(program, [MASK])[0], [1, 1])


def test_a_dim_of_an_input_is_never_written_as_a_size():
    """It is needed before: the larger expression stands beside it, held equal by a check."""
    b = Builder("p")
    x = b.param(DType.F32, [None])
    mask = b.param(DType.BOOL, [None])
    kept = b.positions(mask)
    (n,) = kept.type.shape
    b.same_dim(x.type.shape[0], 2 * n + 1, "an equality")
    b.same_dim(n, b.shape(mask)[0], "all are true")
    program = b.finish([b.unary("neg", x), kept])
    verify(program)
    assert str(program.results[0].type) == "f32[s0]"
    assert str(program.results[1].type) == "i64[s1]"
    run(program, [np.zeros(3, np.float32), np.ones(1, bool)])
    with pytest.raises(Refused, match="all are true"):
        run(program, [np.zeros(3, np.float32), np.array([True, False])])


def test_loops_have_the_shapes_of_the_program_around_them():
    b = Builder("p")
    mask = b.param(DType.BOOL, [None])
    with pytest.raises(UnsupportedError, match="a size that depends on data, in a loop"):
        b.nested("body", [mask], lambda params: [b.positions(params[0])])


def test_bounds_of_expressions():
    s, n, e = dimension_symbol("s"), dimension_symbol("n"), dimension_symbol("e")
    symbols = {n: ComputedSize(Value("0", TensorType(DType.I64, ())), 2 * s)}
    expected = {
        3: 3,
        s + e: s + e,
        3 * n + 1: 6 * s + 1,
        n * e: 2 * s * e,
        n * n: 4 * s * s,
        s - n: s,
        floor_div(n, 4): floor_div(2 * s, 4),
        floor_div(n, e): 2 * s,
        floor_mod(n, 5): 5,
        larger(n, 7): larger(2 * s, 7),
        smaller(n, e): smaller(2 * s, e),
    }
    for dim, bound in expected.items():
        assert upper_bound(dim, symbols) == bound, dim


def test_a_kernel_on_the_device_has_no_computed_size():
    program = parse(FILTER)
    with pytest.raises(UnsupportedError, match="a size is computed on the device"):
        emit_cuda(program, plan(program))


def test_numbers_are_replaced_with_results():
    program: Program = parse(FILTER)
    old, new = program.ops[1].result, Value("9", TensorType(DType.I64, ()))
    program.replace_values({old: new})
    assert [s.value for s in program.symbols.values() if isinstance(s, ComputedSize)] == [new]
