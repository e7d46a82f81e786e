from __future__ import annotations

import pytest

from tests.compiler.rewrite.programs import check, declines, program
from tf_blade.compiler.ir.types import DType
from tf_blade.compiler.rewrite.algebra import is_lossless, never_negative, rules


def body(line: str, dtype: str = "f32", constant: str | None = None) -> str:
    """%x and %y are parameters, %c a splat of `constant`; %r is the result."""
    head = f"%x: {dtype}[s0]\n%y: {dtype}[s0]\n"
    if constant is not None:
        head += f"%k: {dtype}[] = constant(value={constant})\n"
        head += f"%c: {dtype}[s0] = broadcast_in_dim(%k, shape=[s0], dims=[])\n"
    return head + line


def is_x(line: str, dtype: str, constant: str) -> None:
    """The line, with %c, is %x."""
    before = body(line, dtype, constant) + f"\n%z: {dtype}[s0] = max(%r, %y)"
    check(rules, before, body(f"%z: {dtype}[s0] = max(%x, %y)", dtype))


@pytest.mark.parametrize(
    ("kind", "dtype", "constant"),
    [
        ("mul", "f32", "1.0"),
        ("mul", "i32", "1"),
        ("div", "f64", "1.0"),
        ("div", "i64", "1"),
        ("floor_div", "i64", "1"),
        ("add", "i32", "0"),
        ("add", "f32", "-0.0"),
        ("sub", "f32", "0.0"),
        ("sub", "u8", "0"),
        ("pow", "f32", "1.0"),
    ],
)
def test_neutral_elements(kind, dtype, constant):
    is_x(f"%r: {dtype}[s0] = {kind}(%x, %c)", dtype, constant)


@pytest.mark.parametrize(
    ("kind", "constant", "reason"),
    [
        ("add", "0.0", "x + 0.0 turns -0.0 into 0.0"),
        ("sub", "-0.0", "turns -0.0 into 0.0"),
        ("mul", "0.0", "x * 0 is NaN"),
        ("div", "3.0", "rounds differently"),
        ("pow", "3.0", "rounds more than once"),
        ("pow", "0.5", "differ for -0.0 and -infinity"),
    ],
)
def test_what_only_looks_like_an_identity(kind, constant, reason):
    """Each is wrong for some float: the reason names it."""
    declines(rules, body(f"%r: f32[s0] = {kind}(%x, %c)", "f32", constant), reason)


@pytest.mark.parametrize("line", ["sub(%c, %x)", "div(%c, %x)", "floor_div(%x, %c)"])
def test_one_and_zero_on_the_wrong_side(line):
    """0 - x is -x but for zeros, 1 / x isn't x, and floor(x / 1.0) isn't x."""
    constant = "0.0" if line.startswith("sub") else "1.0"
    check(rules, body(f"%r: f32[s0] = {line}", "f32", constant))


@pytest.mark.parametrize(
    ("before", "after", "dtype"),
    [
        ("add(%x, %n)", "sub(%x, %y)", "f32"),
        ("sub(%x, %n)", "add(%x, %y)", "f32"),
        ("abs(%n)", "abs(%y)", "i32"),
    ],
)
def test_negations_move_outwards(before, after, dtype):
    check(
        rules,
        body(f"%n: {dtype}[s0] = neg(%y)\n%r: {dtype}[s0] = {before}", dtype),
        body(f"%r: {dtype}[s0] = {after}", dtype),
    )


def test_multiplication_by_minus_one_is_a_negation():
    before = body("%r: f32[s0] = mul(%c, %x)", "f32", "-1.0")
    check(rules, before, body("%r: f32[s0] = neg(%x)"))


def test_integers_times_zero_are_zero():
    before = body("%r: i32[s0] = mul(%x, %c)", "i32", "0")
    after = body("%r: i32[s0] = broadcast_in_dim(%k, shape=[s0], dims=[])", "i32", "0")
    check(rules, before, "\n".join(line for line in after.splitlines() if "%c:" not in line))


def test_division_by_a_power_of_two_is_a_multiplication():
    before = body("%r: f32[s0] = div(%x, %c)", "f32", "-8.0")
    check(rules, before, body("%r: f32[s0] = mul(%x, %c)", "f32", "-0.125"))


def test_division_by_a_power_of_two_without_an_inverse_stays():
    """1 / 2**-149 is no f32."""
    declines(rules, body("%r: f32[s0] = div(%x, %c)", "f32", "1e-45"), "rounds differently")


@pytest.mark.parametrize(
    ("kind", "dtype"), [("sub", "i32"), ("xor", "i64"), ("xor", "bool"), ("sub", "u8")]
)
def test_minus_itself_is_zero(kind, dtype):
    zero = "false" if dtype == "bool" else "0"
    after = f"""
        %x: {dtype}[s0]
        %k: {dtype}[] = constant(value={zero})
        %r: {dtype}[s0] = broadcast_in_dim(%k, shape=[s0], dims=[])
    """
    check(rules, f"%x: {dtype}[s0]\n%r: {dtype}[s0] = {kind}(%x, %x)", after)


def test_floats_minus_themselves_stay():
    """NaN - NaN is NaN."""
    declines(rules, "%x: f32[s0]\n%r: f32[s0] = sub(%x, %x)", "NaN")


@pytest.mark.parametrize(
    ("kind", "dtype"), [("max", "f32"), ("min", "i32"), ("and", "bool"), ("or", "u8")]
)
def test_idempotent_ops(kind, dtype):
    before = f"%r: {dtype}[s0] = {kind}(%x, %x)\n%z: {dtype}[s0] = {kind}(%r, %y)"
    check(rules, body(before, dtype), body(f"%z: {dtype}[s0] = {kind}(%x, %y)", dtype))


def test_a_relu_of_a_relu_is_a_relu():
    once = body("%r: f32[s0] = max(%x, %c)", "f32", "0.0")
    check(rules, once + "\n%z: f32[s0] = max(%c, %r)", once)


def test_maximum_of_a_minimum_stays():
    """max(min(x, y), y) is y, but not where x is NaN."""
    check(rules, body("%r: f32[s0] = min(%x, %y)\n%z: f32[s0] = max(%r, %y)"))


@pytest.mark.parametrize("outer", ["floor", "ceil", "round"])
def test_rounding_what_is_round(outer):
    before = f"%r: f32[s0] = floor(%x)\n%z: f32[s0] = {outer}(%r)\n%q: f32[s0] = neg(%z)"
    check(rules, body(before), body("%r: f32[s0] = floor(%x)\n%q: f32[s0] = neg(%r)"))
    before = f"%z: i32[s0] = {outer}(%x)\n%q: i32[s0] = neg(%z)"
    check(rules, body(before, "i32"), body("%q: i32[s0] = neg(%x)", "i32"))


@pytest.mark.parametrize(
    ("kind", "constant", "result"),
    [("and", "true", None), ("or", "false", None), ("and", "false", False), ("or", "true", True)],
)
def test_logic_with_constants(kind, constant, result):
    before = body(f"%r: bool[s0] = {kind}(%x, %c)\n%z: bool[s0] = xor(%r, %y)", "bool", constant)
    if result is None:
        check(rules, before, body("%z: bool[s0] = xor(%x, %y)", "bool"))
    else:
        line = "%z: bool[s0] = xor(%c, %y)"
        check(rules, before, body(line, "bool", str(result).lower()))


def test_bitwise_ops_of_integers_are_not_logic():
    """x & 1 isn't x."""
    check(rules, body("%r: i32[s0] = and(%x, %c)", "i32", "1"))


def test_powers():
    check(rules, body("%r: f32[s0] = pow(%x, %c)", "f32", "2.0"), body("%r: f32[s0] = mul(%x, %x)"))
    check(
        rules,
        body("%r: f32[s0] = pow(%x, %c)", "f32", "-1.0"),
        body("%r: f32[s0] = div(%c, %x)", "f32", "1.0"),
    )
    one = body("%r: i32[s0] = broadcast_in_dim(%k, shape=[s0], dims=[])", "i32", "1")
    one = "\n".join(line for line in one.splitlines() if "%c:" not in line)
    check(rules, body("%r: i32[s0] = pow(%x, %c)", "i32", "0"), one)


@pytest.mark.parametrize(("exponent", "kind"), [("0.5", "sqrt"), ("-0.5", "rsqrt")])
def test_roots_of_what_is_never_negative(exponent, kind):
    lines = "%v: f32[s0] = mul(%x, %x)\n%r: f32[s0] = {}"
    before = body(lines.format("pow(%v, %c)"), "f32", exponent)
    check(rules, before, body(lines.format(f"{kind}(%v)")))


def test_select_between_equal_values():
    head = "%p: bool[s0]\n" + body("")
    check(
        rules,
        f"{head}%r: f32[s0] = select(%p, %x, %x)\n%z: f32[s0] = neg(%r)",
        f"{head}%z: f32[s0] = neg(%x)",
    )


def test_select_by_a_negation_swaps_the_branches():
    head = "%p: bool[s0]\n" + body("")
    check(
        rules,
        f"{head}%q: bool[s0] = not(%p)\n%r: f32[s0] = select(%q, %x, %y)",
        f"{head}%r: f32[s0] = select(%p, %y, %x)",
    )


@pytest.mark.parametrize(("constant", "kept"), [("true", "%x"), ("false", "%y")])
def test_select_by_a_constant(constant, kept):
    before = body(f"""
        %k: bool[] = constant(value={constant})
        %p: bool[s0] = broadcast_in_dim(%k, shape=[s0], dims=[])
        %r: f32[s0] = select(%p, %x, %y)
        %z: f32[s0] = neg(%r)
    """)
    check(rules, before, body(f"%z: f32[s0] = neg({kept})"))


def converted(source: str, *targets: str) -> str:
    lines = [f"%x: {source}[s0]"]
    for i, target in enumerate(targets):
        lines.append(f"%{i}: {target}[s0] = convert(%{i - 1 if i else 'x'}, dtype={target})")
    last = len(targets) - 1
    operand = f"%{last}" if targets else "%x"
    kind = "not" if (targets or [source])[-1] == "bool" else "neg"
    return "\n".join([*lines, f"%r: {(targets or [source])[-1]}[s0] = {kind}({operand})"])


@pytest.mark.parametrize(
    ("chain", "shorter"),
    [
        (("f32", "f32"), ("f32",)),
        (("i32", "i64", "i32"), ("i32",)),
        (("i32", "f64", "i32"), ("i32",)),
        (("u8", "i32", "f32"), ("u8", "f32")),
        (("f32", "f64", "i32"), ("f32", "i32")),
        (("bool", "f32", "i64"), ("bool", "i64")),
        (("i64", "i32", "i16"), ("i64", "i16")),
        (("i32", "u32", "i32"), ("i32",)),
    ],
)
def test_conversions_that_lose_nothing_are_skipped(chain, shorter):
    check(rules, converted(*chain), converted(*shorter))


@pytest.mark.parametrize(
    "chain",
    [
        ("f64", "f32", "f64"),
        ("i32", "f32", "i32"),
        ("i64", "f64", "i64"),
        ("i64", "i32", "i64"),
        ("f32", "i32", "f32"),
        ("i32", "bool", "i32"),
        ("i64", "i32", "bool"),
        ("i32", "u32", "i64"),
    ],
)
def test_conversions_that_lose_something_stay(chain):
    """The middle type cannot hold every value of the first."""
    declines(rules, converted(*chain), "does not fit into")


def test_is_lossless_agrees_with_numpy():
    import numpy as np

    for source in DType:
        for target in DType:
            if target is not DType.BOOL and not (source.is_half or target.is_half):
                expected = np.can_cast(source.numpy, target.numpy)
                assert is_lossless(source, target) == expected or target.is_float, (source, target)
    assert is_lossless(DType.I16, DType.F32) and not is_lossless(DType.I32, DType.F32)
    assert is_lossless(DType.BF16, DType.F32) and not is_lossless(DType.F16, DType.BF16)
    assert is_lossless(DType.F16, DType.F64) and not is_lossless(DType.F32, DType.F16)
    assert is_lossless(DType.U32, DType.F64) and not is_lossless(DType.I64, DType.F64)


@pytest.mark.parametrize(
    ("lines", "known"),
    [
        ("%r: f32[s0] = exp(%x)", True),
        ("%v: f32[s0] = mul(%x, %x)\n%r: f32[] = reduce(%v, kind=sum, dims=[0])", True),
        ("%v: f32[s0] = mul(%x, %y)\n%r: f32[] = reduce(%v, kind=sum, dims=[0])", False),
        ("%v: f32[s0] = abs(%x)\n%r: f32[] = reduce(%v, kind=max, dims=[0])", False),
        ("%v: f32[s0] = abs(%x)\n%r: f32[s0] = sub(%v, %v)", False),
        ("%v: f32[s0] = abs(%x)\n%r: f32[s0] = neg(%v)", False),
        (
            "%n: i32[] = shape_value(dtype=i32, shape=[], elements=[s0])\n"
            "%r: f32[] = convert(%n, dtype=f32)",
            True,
        ),
        ("%r: f32[s0] = abs(%x)", True),
        ("%r: f32[] = constant(value=-0.0)", False),
    ],
)
def test_never_negative(lines, known):
    assert never_negative(program(body(lines)).results[0]) is known
