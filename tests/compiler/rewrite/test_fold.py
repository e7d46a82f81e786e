from __future__ import annotations

from tests.compiler.rewrite.programs import check, declines
from tf_blade.compiler.rewrite.fold import rules


def test_ops_on_constants_are_computed():
    before = """
        %0: f32[3] = constant(value=[1.0, 2.0, 3.0])
        %1: f32[] = constant(value=0.5)
        %2: f32[3] = broadcast_in_dim(%1, shape=[3], dims=[])
        %3: f32[3] = mul(%0, %2)
        %4: f32[] = reduce(%3, kind=sum, dims=[0])
    """
    check(rules, f"%x: f32[1]\n{before}", "%x: f32[1]\n%0: f32[] = constant(value=3.0)")


def test_integers_wrap_as_at_run_time():
    before = "%x: i8[1]\n%0: i8[] = constant(value=100)\n%1: i8[] = add(%0, %0)"
    check(rules, before, "%x: i8[1]\n%0: i8[] = constant(value=-56)")


def test_known_shapes_are_constants():
    before = "%x: f32[s0]\n%0: i32[2] = shape_value(dtype=i32, shape=[2], elements=[3, 4])"
    check(rules, before, "%x: f32[s0]\n%0: i32[2] = constant(value=[3, 4])")
    check(rules, before.replace("3, 4]", "3, s0]"))


def test_equal_elements_become_a_splat():
    before = "%x: f32[1]\n%0: f32[2, 2] = constant(value=[[5.0, 5.0], [5.0, 5.0]])"
    expected = """
        %x: f32[1]
        %0: f32[] = constant(value=5.0)
        %1: f32[2, 2] = broadcast_in_dim(%0, shape=[2, 2], dims=[])
    """
    check(rules, before, expected)


def test_zeros_of_both_signs_are_no_splat():
    check(rules, "%x: f32[1]\n%0: f32[2] = constant(value=[0.0, -0.0])")


def test_splats_are_not_spelled_out():
    """A large tensor of one number is a number and a broadcast."""
    before = """
        %x: f32[1]
        %0: f32[] = constant(value=5.0)
        %1: f32[4] = broadcast_in_dim(%0, shape=[4], dims=[])
    """
    check(rules, before)


def test_results_past_the_limit_stay():
    """1 KiB is what a cluster holds as literals."""
    before = "%x: f32[1]\n%0: i64[{n}] = iota(dtype=i64, shape=[{n}], dim=0)"
    check(rules, before.format(n=129))
    numbers = ", ".join(str(i) for i in range(128))
    check(rules, before.format(n=128), f"%x: f32[1]\n%0: i64[128] = constant(value=[{numbers}])")


def test_what_refuses_is_left_to_refuse():
    """TensorFlow raises the error when the model runs."""
    before = """
        %x: f32[1]
        %0: i32[] = constant(value=1)
        %1: i32[] = constant(value=0)
        %2: i32[] = div(%0, %1)
    """
    declines(rules, before, "integer division by zero")


def test_parameters_are_not_folded():
    check(rules, "%x: f32[1]\n%0: f32[1] = exp(%x)")
