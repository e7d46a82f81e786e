from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from tests.compiler.random_programs import Case, cases
from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.interpreter import Refused, run
from tf_blade.compiler.ir.ops import OPS, IrError
from tf_blade.compiler.ir.parser import parse
from tf_blade.compiler.ir.semantics import RULES
from tf_blade.compiler.ir.types import DType
from tf_blade.compiler.ir.verifier import verify

f32 = np.float32


def evaluate(line: str, *inputs: np.ndarray) -> np.ndarray:
    """The value of one op applied to inputs %a, %b, … with static shapes."""
    params = ", ".join(
        f"%{name}: {DType.from_numpy(x.dtype).value}{list(x.shape)}"
        for name, x in zip("abc", inputs, strict=False)
    )
    program = parse(f"program p({params}) -> (%r) {{\n%r: {line}  // some/node\n}}")
    verify(program)
    with np.errstate(all="raise"):  # the reference keeps numpy's warnings to itself
        return run(program, inputs)[0]


def test_every_primitive_has_a_rule():
    # Loops run programs, which the interpreter does itself.
    assert RULES.keys() | {"while", "carried"} == OPS.keys()


def test_symbols_come_from_dims_and_elements():
    program = parse(
        """
        program p(%x: f32[s0, 2], %n: i32[2]) -> (%y, %z) {
          symbol s0 = dim(%x, 0)
          symbol e1 = element(%n, 1)
          require e1 <= s0 "slice/Slice: the end is in the dim"
          %y: f32[e1, 2] = slice(%x, start=[0, 0], limit=[e1, 2], stride=[1, 1])
          %z: i64[3] = shape_value(dtype=i64, shape=[3], elements=[s0, 2*s0, floor_div(e1, 2)])
        }
        """
    )
    x = np.arange(8, dtype=f32).reshape(4, 2)
    y, z = run(program, [x, np.array([7, 3], np.int32)])
    np.testing.assert_array_equal(y, x[:3])
    np.testing.assert_array_equal(z, [4, 8, 1])
    with pytest.raises(Refused, match=r"slice/Slice: the end is in the dim.*5 and 4"):
        run(program, [x, np.array([7, 5], np.int32)])


ONE_INPUT = "program p(%x: f32[s0, 2]) -> (%x) {\nsymbol s0 = dim(%x, 0)\n}"


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        ([], ValueError, "has 1 inputs, 0 were given"),
        ([np.zeros((1, 2))], ValueError, "is float64"),
        ([np.zeros(2, f32)], Refused, "rank 1"),
        ([np.zeros((1, 3), f32)], Refused, "dim 1 of input %x is 3"),
    ],
)
def test_inputs_are_checked(inputs, error, message):
    with pytest.raises(error, match=message):
        run(parse(ONE_INPUT), inputs)


def test_a_symbol_used_twice_binds_both_dims():
    program = parse("program p(%x: f32[s0, s0]) -> (%x) {\nsymbol s0 = dim(%x, 0)\n}")
    run(program, [np.zeros((3, 3), f32)])
    with pytest.raises(Refused):
        run(program, [np.zeros((3, 4), f32)])


@pytest.mark.parametrize("kind", ["div", "floor_div", "rem", "floor_mod"])
def test_integer_division_by_zero_refuses_and_names_the_source(kind):
    with pytest.raises(Refused, match="some/node: integer division by zero"):
        evaluate(f"i32[1] = {kind}(%a, %b)", np.array([1], np.int32), np.array([0], np.int32))


def test_integer_to_a_negative_power_refuses():
    with pytest.raises(Refused, match="negative power"):
        evaluate("i32[1] = pow(%a, %b)", np.array([2], np.int32), np.array([-1], np.int32))


def test_a_check_that_fails_refuses():
    x, holds = np.array([2.0, 3.0], f32), np.array([True, True])
    np.testing.assert_array_equal(evaluate("f32[2] = checked(%a, %b)", x, holds), x)
    with pytest.raises(Refused, match="some/node"):
        evaluate("f32[2] = checked(%a, %b)", x, np.array([True, False]))


@pytest.mark.parametrize("index", [-1, 3])
def test_gather_out_of_range_refuses(index):
    with pytest.raises(Refused, match=r"some/node: gather index outside \[0, 3\)"):
        evaluate(
            "f32[1] = gather(%a, %b, axis=0, batch_dims=0)", np.zeros(3, f32), np.array([index])
        )


def test_gather_picks_along_the_axis_within_each_batch():
    params = np.arange(2 * 3 * 4 * 5, dtype=f32).reshape(2, 3, 4, 5)
    indices = np.array([[0, 3, 1], [2, 2, 0]])
    got = evaluate("f32[2, 3, 3, 5] = gather(%a, %b, axis=2, batch_dims=1)", params, indices)
    for i in range(2):
        np.testing.assert_array_equal(got[i], params[i][:, indices[i]])
    got = evaluate("f32[2, 2, 3, 4, 5] = gather(%a, %b, axis=1, batch_dims=0)", params, indices % 3)
    np.testing.assert_array_equal(got, np.take(params, indices % 3, axis=1))


@pytest.mark.parametrize(
    ("line", "dtype", "a", "b", "expected"),
    [
        ("i8[1] = add(%a, %b)", np.int8, [127], [1], [-128]),
        ("i8[] = mul(%a, %b)", np.int8, 100, 3, 44),
        ("i32[1] = div(%a, %b)", np.int32, [-7], [2], [-3]),
        ("i32[1] = div(%a, %b)", np.int32, [-(2**31)], [-1], [-(2**31)]),
        ("i32[1] = floor_div(%a, %b)", np.int32, [-7], [2], [-4]),
        ("i32[1] = rem(%a, %b)", np.int32, [-7], [2], [-1]),
        ("i32[1] = floor_mod(%a, %b)", np.int32, [-7], [2], [1]),
        ("f32[1] = floor_mod(%a, %b)", f32, [5.5], [-2], [-0.5]),
        ("u8[1] = shift_right(%a, %b)", np.uint8, [255], [200], [1]),
        ("i32[2] = shift_left(%a, %b)", np.int32, [3, 3], [-2, 99], [3, -(2**31)]),
        ("f32[2] = max(%a, %b)", f32, [np.nan, 1], [1, np.nan], [np.nan, np.nan]),
        ("bool[1] = compare(%a, %b, direction=NE)", f32, [np.nan], [np.nan], [True]),
    ],
)
def test_binary_corner_cases(line, dtype, a, b, expected):
    got = evaluate(line, np.array(a, dtype), np.array(b, dtype))
    np.testing.assert_array_equal(got, expected)


def test_round_takes_halves_to_even():
    got = evaluate("f32[4] = round(%a)", np.array([0.5, 1.5, 2.5, -2.5], f32))
    np.testing.assert_array_equal(got, [0, 2, 2, -2])


def test_conversion_to_integers_truncates_and_to_bool_compares():
    a = np.array([-1.7, 0.0, 0.4], f32)
    np.testing.assert_array_equal(evaluate("i32[3] = convert(%a, dtype=i32)", a), [-1, 0, 0])
    np.testing.assert_array_equal(
        evaluate("bool[3] = convert(%a, dtype=bool)", a), [True, False, True]
    )


def test_scatters_apply_updates_in_order_and_drop_those_beside_the_target():
    target, indices = np.array([[1.0], [2.0]], f32), np.array([1, -1, 1, 2])
    updates = np.array([[3.0], [9.0], [4.0], [9.0]], f32)

    def scattered(kind: str) -> list[float]:
        return evaluate(f"f32[2, 1] = scatter(%a, %b, %c, kind={kind})", target, indices, updates)[
            :, 0
        ].tolist()

    assert scattered("set") == [1.0, 4.0]
    assert scattered("sum") == [1.0, 9.0]
    assert scattered("prod") == [1.0, 24.0]
    assert scattered("max") == [1.0, 4.0]
    assert scattered("min") == [1.0, 2.0]


@pytest.mark.parametrize(
    ("kind", "exclusive", "reverse", "expected"),
    [
        ("sum", "false", "false", [1, 3, 6]),
        ("sum", "true", "false", [0, 1, 3]),
        ("sum", "false", "true", [6, 5, 3]),
        ("prod", "true", "true", [6, 3, 1]),
        ("logsumexp", "true", "false", [-np.inf, 1, np.log(np.exp(1) + np.exp(2))]),
    ],
)
def test_scans_go_along_their_dim(kind, exclusive, reverse, expected):
    line = f"f32[3, 1] = scan(%a, kind={kind}, dim=0, exclusive={exclusive}, reverse={reverse})"
    result = evaluate(line, np.array([[1.0], [2.0], [3.0]], f32))
    np.testing.assert_allclose(result[:, 0], expected, rtol=1e-6)


def test_top_k_takes_the_first_of_equal_elements_and_no_nan():
    x = np.array([[1, 3, 2, 3], [0, 0, 0, 0]], f32)
    positions = evaluate("i32[2, 3] = top_k(%a, k=3)", x)
    np.testing.assert_array_equal(positions, [[1, 3, 2], [0, 1, 2]])
    x[1, 3] = np.nan
    with pytest.raises(Refused, match="some/node: NaN"):
        evaluate("i32[2, 3] = top_k(%a, k=3)", x)


def test_empty_reductions_give_the_neutral_element():
    empty = np.zeros((0, 2), f32)
    for kind, neutral in {"sum": 0, "prod": 1, "max": -np.inf, "min": np.inf}.items():
        got = evaluate(f"f32[2] = reduce(%a, kind={kind}, dims=[0])", empty)
        np.testing.assert_array_equal(got, [neutral] * 2)


def test_sums_of_f32_accumulate_in_f64():
    many = np.full(2**20, 0.1, f32)
    got = evaluate("f32[] = reduce(%a, kind=sum, dims=[0])", many)
    assert got == f32(many.astype(np.float64).sum())


def test_logistic_of_large_arguments_neither_overflows_nor_loses_nan():
    got = evaluate("f32[4] = logistic(%a)", np.array([-1000, 1000, -50, np.nan], f32))
    np.testing.assert_array_equal(got[:2], [0, 1])
    assert 0 < got[2] < 1e-20 and np.isnan(got[3])


def test_dot_general_with_bias_and_relu():
    a, b, c = (
        np.array([[[1, 2]], [[3, 4]]], f32),
        np.array([[1, -1], [0, np.nan]], f32),
        np.array([-2, 0], f32),
    )
    line = (
        "f32[2, 1, 2] = dot_general(%a, %b, %c, transpose_a=false, transpose_b={}, activation={})"
    )
    np.testing.assert_array_equal(
        evaluate(line.format("false", "relu"), a, b, c), [[[0, np.nan]], [[1, np.nan]]]
    )
    np.testing.assert_array_equal(
        evaluate(line.format("true", "none"), a, b, c), [[[-3, np.nan]], [[-3, np.nan]]]
    )


def test_conv_counts_places_from_before_x_and_keeps_groups_apart():
    x = np.array([[[1, 10], [2, 20], [3, 30]]], f32)
    window = np.array([[[1, 1]], [[100, 1]]], f32)  # 2 places, 1 channel of each group
    line = (
        "f32[1, 3, 2] = conv(%a, %b, strides=[2], dilations=[{}], low=[1], sizes=[3], groups=2, "
        "activation=none)"
    )
    # Windows begin at -1, 1, 3.
    np.testing.assert_array_equal(
        evaluate(line.format(1), x, window), [[[100, 10], [302, 50], [0, 0]]]
    )
    np.testing.assert_array_equal(
        evaluate(line.format(2), x, window), [[[200, 20], [2, 20], [0, 0]]]
    )


def test_a_missing_constraint_is_a_bug_of_the_program():
    program = parse(
        """
        program p(%x: f32[s0]) -> (%y) {
          symbol s0 = dim(%x, 0)
          %y: f32[2] = slice(%x, start=[0], limit=[2], stride=[1])
        }
        """
    )
    with pytest.raises(IrError, match=r"slice \[0, 2\) leaves a dim of 1"):
        run(program, [np.zeros(1, f32)])


@given(cases())
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_programs_verify_and_run(case: Case):
    verify(case.program)
    results = case.expected()
    if results is not None:
        case.check(results)
        assert all(np.isfinite(r).all() for r in results if r.dtype.kind == "f")


def test_builder_programs_run():
    b = Builder("p")
    x, y = b.param(DType.F32, [None, 3]), b.param(DType.F32, [None])
    program = b.finish([b.add(x, b.reshape(y, [b.shape(y)[0], 1]))])
    got = run(program, [np.ones((2, 3), f32), np.array([1, 2], f32)])[0]
    np.testing.assert_array_equal(got, [[2, 2, 2], [3, 3, 3]])
    with pytest.raises(Refused):
        run(program, [np.ones((2, 3), f32), np.array([1, 2, 3], f32)])


def test_fourier_transforms_give_real_and_imaginary_parts_and_back():
    x = np.array([1, 0, 0, 2], np.float32)
    spectrum = evaluate("f32[2, 3] = rfft(%a)", x)
    np.testing.assert_allclose(spectrum, [[3, 1, -1], [0, 2, 0]], atol=1e-7)
    np.testing.assert_allclose(
        evaluate("f32[4] = irfft(%a, %b, length=4)", *spectrum), x, atol=1e-7
    )
    odd = evaluate("f32[2, 2] = rfft(%a)", x[:3])
    np.testing.assert_allclose(odd, [[1, 1], [0, 0]], atol=1e-7)
