"""Generated code computes what the interpreter computes, at sizes it was not compiled for."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from tests.compiler.batch import TARGET, compile_batch
from tests.compiler.ctypes_host import CtypesHost
from tests.compiler.emit.example import Example
from tests.compiler.emit.programs import EXAMPLES
from tf_blade import machine
from tf_blade.compiler import compile_program
from tf_blade.compiler.emit import MANY_KERNELS
from tf_blade.compiler.ir.interpreter import Refused, run
from tf_blade.compiler.ir.program import Program


@functools.cache
def compiled(target: str = TARGET) -> dict[str, tuple[Program, CtypesHost]]:
    programs = [e.program() for e in EXAMPLES]
    sources = [compile_program(p) for p in programs]
    hosts = compile_batch(sources, optimize="-O3", target=target)
    return {p.name: (p, h) for p, h in zip(programs, hosts, strict=True)}


@pytest.mark.parametrize("target", [TARGET, "x86-64-v4"])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
def test_computes_what_the_interpreter_computes(example: Example, target: str):
    if target == "x86-64-v4" != machine.cpu_target():
        pytest.skip("this processor lacks AVX-512")
    program, host = compiled(target)[example.name]
    rng = np.random.default_rng(len(example.name))
    for _ in range(example.runs):
        inputs = example.inputs(program, rng)
        compare(program, inputs, host.run(inputs, [v.type.dtype for v in program.results]))


def compare(program: Program, inputs: list[np.ndarray], got: list[np.ndarray]) -> None:
    shapes = [x.shape for x in inputs]
    for value, ours, theirs in zip(program.results, got, run(program, inputs), strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape, f"{value} for inputs {shapes}"
        # Rounding errors of sums are relative to what was summed up, here about 1 each.
        size = max((x.size for x in inputs), default=1)
        np.testing.assert_allclose(
            ours, theirs, rtol=2e-5, atol=2e-6 * size**0.5, err_msg=f"{value} for inputs {shapes}"
        )


def test_special_values_pass_through_maxima_and_minima():
    program, host = compiled()["reductions_of_rows"]
    x = np.array([[1, np.nan, 2], [np.inf, -np.inf, 0], [-0.0, 0.0, -1]], np.float32)
    got = host.run([x], [v.type.dtype for v in program.results])
    np.testing.assert_array_equal(got[1], [np.nan, np.inf, 0])
    np.testing.assert_array_equal(got[2], [np.nan, -np.inf, -1])


def test_long_sums_keep_their_accuracy():
    program, host = compiled()["long_sums"]
    x = np.full(4_000_000, 0.1, np.float32)
    total, squares = host.run([x], [v.type.dtype for v in program.results])
    np.testing.assert_allclose(total, x.sum(dtype=np.float64), rtol=5e-6)
    np.testing.assert_allclose(squares, (x.astype(np.float64) ** 2).sum(), rtol=5e-6)


def test_long_column_sums_keep_their_accuracy():
    program, host = compiled()["long_column_sums"]
    x = np.full((1_000_000, 5), 0.1, np.float32)
    total, _ = host.run([x], [v.type.dtype for v in program.results])
    np.testing.assert_allclose(total, x.sum(0, dtype=np.float64), rtol=5e-6)


def test_a_run_function_of_many_kernels_is_optimised_little_and_right():
    count = MANY_KERNELS + 1
    products = "\n".join(
        f"%{i + 1}: f32[a, 4] = dot_general(%{i}, %w, transpose_a=false, "
        "transpose_b=false, activation=none)"
        for i in range(count)
    )
    example = Example(
        "many_kernels",
        f"(%x: f32[a, 4], %w: f32[4, 4]) -> (%{count + 1})",
        f"""%0: f32[a, 4] = tanh(%x)
        {products}
        %{count + 1}: f32[a, 4] = exp(%{count})""",
    )
    program = example.program()
    source = compile_program(program)
    assert 'optimize("O1")' in source
    assert 'optimize("O1")' not in compile_program(EXAMPLES[0].program())
    (host,) = compile_batch([source])
    rng = np.random.default_rng(0)
    turn, _ = np.linalg.qr(rng.standard_normal((4, 4)))
    for rows in (0, 1, 5):
        inputs = [rng.standard_normal((rows, 4)).astype(np.float32), turn.astype(np.float32)]
        compare(program, inputs, host.run(inputs, [v.type.dtype for v in program.results]))


def test_an_index_out_of_range_refuses_the_run():
    program, host = compiled()["gathers"]
    dtypes = [v.type.dtype for v in program.results]
    table, u = np.zeros((5, 3), np.float32), np.zeros((2, 5, 3), np.float32)
    j = np.zeros((2, 2), np.int64)
    for bad in (-1, 5, 2**31 - 1):
        with pytest.raises(Refused, match="index out of range"):
            host.run([table, np.array([0, bad], np.int32), j, u], dtypes)
    with pytest.raises(Refused, match="index out of range"):
        host.run([table, np.zeros(2, np.int32), j + 2**40, u], dtypes)


def test_an_index_into_nothing_refuses_the_run():
    text = Example(
        "empty_table",
        "(%t: f32[n, b], %i: i32[a]) -> (%0)",
        "%0: f32[a, b] = gather(%t, %i, axis=0, batch_dims=0)",
    )
    (host,) = compile_batch([compile_program(text.program())])
    dtypes = [v.type.dtype for v in text.program().results]
    with pytest.raises(Refused, match="index out of range"):
        host.run([np.zeros((0, 3), np.float32), np.zeros(2, np.int32)], dtypes)
    (result,) = host.run([np.zeros((0, 3), np.float32), np.zeros(0, np.int32)], dtypes)
    assert result.shape == (0, 3)


def test_constant_indices_are_checked_while_compiling():
    def source(last: int) -> str:
        return compile_program(
            Example(
                "constant_indices",
                "(%t: f32[a, 4]) -> (%0)",
                f"""%i: i32[3] = constant(value=[2, 0, {last}])
                %0: f32[a, 3] = gather(%t, %i, axis=1, batch_dims=0)""",
            ).program()
        )

    assert "refused" not in source(3)
    assert "refused" in source(4)


DIVISIONS = Example(
    "divisions",
    "(%x: i32[a], %y: i32[a]) -> (%0, %1, %2, %3)",
    """%0: i32[a] = div(%x, %y)
    %1: i32[a] = floor_div(%x, %y)
    %2: i32[a] = rem(%x, %y)
    %3: i32[a] = floor_mod(%x, %y)""",
)


def test_integer_division_by_zero_refuses_the_run():
    program = DIVISIONS.program()
    (host,) = compile_batch([compile_program(program)])
    x = np.arange(40, dtype=np.int32)
    y = np.where(x == 37, 0, 3).astype(np.int32)
    with pytest.raises(Refused, match="division by zero"):
        host.run([x, y], [v.type.dtype for v in program.results])


def test_a_check_that_fails_refuses_the_run():
    program = Example(
        "checks", "(%x: f32[a], %ok: bool[a]) -> (%0)", "%0: f32[a] = checked(%x, %ok)"
    ).program()
    (host,) = compile_batch([compile_program(program)])
    x, ok = np.arange(40, dtype=np.float32), np.ones(40, bool)
    np.testing.assert_array_equal(host.run([x, ok], [program.results[0].type.dtype])[0], x)
    ok[37] = False
    with pytest.raises(Refused, match="an error"):
        host.run([x, ok], [program.results[0].type.dtype])


def test_an_integer_to_a_negative_power_refuses_the_run():
    program, host = compiled()["integers"]
    with pytest.raises(Refused, match="negative power"):
        host.run(
            [np.array([4], "i4"), np.array([-2], "i4"), np.array([0], "u1")],
            [v.type.dtype for v in program.results],
        )


def test_the_smallest_integer_divided_by_minus_one_wraps_around():
    program = DIVISIONS.program()
    (host,) = compile_batch([compile_program(program)])
    got = host.run(
        [np.array([-(2**31)], "i4"), np.array([-1], "i4")],
        [v.type.dtype for v in program.results],
    )
    assert [int(g[0]) for g in got] == [-(2**31), -(2**31), 0, 0]


def test_an_input_of_another_shape_refuses_the_run():
    program, host = compiled()["matrix_products"]
    dtypes = [v.type.dtype for v in program.results]
    v = np.zeros(5, np.float32)
    with pytest.raises(Refused, match="input 1 is not of shape"):
        host.run([np.zeros((2, 3), np.float32), np.zeros((3, 6), np.float32), v], dtypes)
    with pytest.raises(Refused, match="input 1 is not of shape"):
        host.run([np.zeros((2, 3), np.float32), np.zeros((4, 5), np.float32), v], dtypes)


def test_a_constraint_that_does_not_hold_refuses_the_run():
    example = Example(
        "constrained",
        "(%x: f32[a], %y: f32[b], %e: i32[2]) -> (%0)",
        """symbol e0 = element(%e, 1)
        require b == floor_div(a, 2) "halves"
        require e0 <= 7 "small"
        require 0 <= e0 "not negative"
        %0: f32[e0] = slice(%y, start=[0], limit=[e0], stride=[1])""",
    )
    program = example.program()
    (host,) = compile_batch([compile_program(program)])

    def call(a: int, b: int, e: int) -> np.ndarray:
        inputs = [np.zeros(a, np.float32), np.arange(b, dtype=np.float32), np.array([9, e], "i4")]
        return host.run(inputs, [v.type.dtype for v in program.results])[0]

    assert call(11, 5, 3).tolist() == [0, 1, 2]
    with pytest.raises(Refused, match="halves"):
        call(12, 5, 3)
    with pytest.raises(Refused, match="small"):
        call(30, 15, 8)
    with pytest.raises(Refused, match="not negative"):
        call(30, 15, -1)


def test_the_same_program_gives_the_same_source():
    for example in EXAMPLES[::5]:
        assert compile_program(example.program()) == compile_program(example.program())


def test_small_known_work_is_not_offered_to_threads():
    example = Example("tiny", "(%x: f32[4, 4]) -> (%0)", "%0: f32[4, 4] = exp(%x)")
    program = example.program()
    (host,) = compile_batch([compile_program(program)])
    host.run([np.zeros((4, 4), np.float32)], [program.results[0].type.dtype])
    assert host.calls == []
    program, host = compiled()["flat"]
    host.run([np.zeros((64, 64), np.float32)] * 2, [program.results[0].type.dtype])
    ((units, cycles),) = host.calls
    assert units == 64 * 64 and 0.5 < cycles < 50


def test_short_rows_share_what_a_row_costs_besides_its_elements():
    program, host = compiled()["softmax_of_long_rows"]
    cycles = []
    for width in (2, 16, 64):
        host.run([np.ones((100, width), np.float32)], [v.type.dtype for v in program.results])
        ((_, each),) = host.calls
        cycles.append(each)
    assert cycles[0] < 10 < cycles[1] < cycles[2]


def test_a_full_reduction_is_shared_among_threads():
    program, host = compiled()["long_sums"]
    host.run([np.zeros(1_000_000, np.float32)], [v.type.dtype for v in program.results])
    assert max(units for units, _ in host.calls) >= 32


def test_matrix_products_read_transposes_and_slices_in_place():
    program, host = compiled()["attention_without_copies"]
    host.run([np.ones((3, 5, 24), np.float32)], [v.type.dtype for v in program.results])
    assert len(host.gemms) == 6 and len(host.calls) == 2  # tanh and neg
    first = host.gemms[0]
    assert (first.batch, first.m, first.n, first.k) == (2, 5, 5, 4)
    assert (first.lda, first.a_stride, first.transpose_b) == (24, 4, 1)


def test_constant_filters_are_named_to_the_host():
    attrs = "strides=[2], dilations=[1], low=[1], sizes=[3], groups=1, activation=none"
    example = Example(
        "filters",
        "(%x: f32[a, 6, 2], %w: f32[3, 2, 4] constant) -> (%0)",
        f"%0: f32[a, 3, 4] = conv(%x, %w, {attrs})",
    )
    program = example.program()
    (host,) = compile_batch([compile_program(program)])
    inputs = [np.ones(s, np.float32) for s in ((2, 6, 2), (3, 2, 4))]
    (got,) = host.run(inputs, [v.type.dtype for v in program.results])
    np.testing.assert_array_equal(got[1, :, 0], [4, 6, 6])
    (call,) = host.convs
    assert call.filter_constant_input == 1
    assert (list(call.in_), list(call.out), list(call.low)) == ([1, 1, 6], [1, 1, 3], [0, 0, 1])


def test_constant_weights_are_named_to_the_host():
    program, host = compiled()["matrix_products"]
    inputs = [np.ones(s, np.float32) for s in ((2, 3), (3, 5), (5,))]
    host.run(inputs, [v.type.dtype for v in program.results])
    assert [g.b_constant_input for g in host.gemms] == [1, -1, 1]
