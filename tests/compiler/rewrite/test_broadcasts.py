from __future__ import annotations

import pytest

from tests.compiler.rewrite.programs import check, declines
from tf_blade.compiler.rewrite.broadcasts import rules


def test_a_broadcast_to_the_same_shape_is_dropped():
    line = "%0: f32[s0] = broadcast_in_dim(%x, shape=[s0], dims=[0])"
    before = f"%x: f32[s0]\n{line}\n%1: f32[s0] = exp(%0)"
    check(rules, before, "%x: f32[s0]\n%1: f32[s0] = exp(%x)")


def test_broadcasts_compose():
    before = """
        %x: f32[s0]
        %0: f32[3, s0] = broadcast_in_dim(%x, shape=[3, s0], dims=[1])
        %1: f32[2, 3, 4, s0] = broadcast_in_dim(%0, shape=[2, 3, 4, s0], dims=[1, 3])
    """
    expected = """
        %x: f32[s0]
        %1: f32[2, 3, 4, s0] = broadcast_in_dim(%x, shape=[2, 3, 4, s0], dims=[3])
    """
    check(rules, before, expected)


def test_ones_are_dropped_before_a_broadcast():
    before = "%x: f32[s0, 1]\n%0: f32[s0, 4] = broadcast_in_dim(%x, shape=[s0, 4], dims=[0, 1])"
    expected = """
        %x: f32[s0, 1]
        %0: f32[s0] = reshape(%x, shape=[s0])
        %1: f32[s0, 4] = broadcast_in_dim(%0, shape=[s0, 4], dims=[0])
    """
    check(rules, before, expected)


def test_a_symbolic_dim_is_never_taken_for_a_one():
    before = """
        %x: f32[s0, s1]
        %0: f32[2, s0, s1] = broadcast_in_dim(%x, shape=[2, s0, s1], dims=[1, 2])
    """
    check(rules, before)


def test_a_transposed_broadcast_is_another_broadcast():
    before = """
        %x: f32[s0]
        %0: f32[s0, 4] = broadcast_in_dim(%x, shape=[s0, 4], dims=[0])
        %1: f32[4, s0] = transpose(%0, perm=[1, 0])
    """
    check(
        rules, before, "%x: f32[s0]\n%1: f32[4, s0] = broadcast_in_dim(%x, shape=[4, s0], dims=[1])"
    )


def test_a_transpose_that_swaps_the_operands_dims_stays():
    before = """
        %x: f32[s0, s1]
        %0: f32[2, s0, s1] = broadcast_in_dim(%x, shape=[2, s0, s1], dims=[1, 2])
        %1: f32[2, s1, s0] = transpose(%0, perm=[0, 2, 1])
    """
    declines(rules, before, "transpose of its own")


def test_a_reshaped_splat_is_a_splat():
    before = """
        %x: f32[s0, s1]
        %c: f32[] = constant(value=2.0)
        %0: f32[s0, s1] = broadcast_in_dim(%c, shape=[s0, s1], dims=[])
        %1: f32[s0*s1] = reshape(%0, shape=[s0*s1])
    """
    expected = """
        %x: f32[s0, s1]
        %c: f32[] = constant(value=2.0)
        %1: f32[s0*s1] = broadcast_in_dim(%c, shape=[s0*s1], dims=[])
    """
    check(rules, before, expected)


def test_a_reshape_of_a_broadcast_that_adds_ones():
    before = """
        %x: f32[s0]
        %0: f32[s0, 4] = broadcast_in_dim(%x, shape=[s0, 4], dims=[0])
        %1: f32[1, s0, 1, 4] = reshape(%0, shape=[1, s0, 1, 4])
    """
    expected = """
        %x: f32[s0]
        %1: f32[1, s0, 1, 4] = broadcast_in_dim(%x, shape=[1, s0, 1, 4], dims=[1])
    """
    check(rules, before, expected)


def test_a_reshape_of_a_broadcast_that_merges_dims_stays():
    before = """
        %x: f32[s0]
        %0: f32[s0, 4] = broadcast_in_dim(%x, shape=[s0, 4], dims=[0])
        %1: f32[4*s0] = reshape(%0, shape=[4*s0])
    """
    check(rules, before)


def test_elementwise_work_is_done_before_the_broadcast():
    before = """
        %x: f32[s0]
        %c: f32[] = constant(value=2.0)
        %0: f32[s0, 4] = broadcast_in_dim(%x, shape=[s0, 4], dims=[0])
        %1: f32[s0, 4] = broadcast_in_dim(%c, shape=[s0, 4], dims=[])
        %2: f32[s0, 4] = mul(%1, %0)
        %3: f32[s0, 4] = exp(%2)
        %4: bool[s0, 4] = compare(%3, %1, direction=LT)
    """
    expected = """
        %x: f32[s0]
        %c: f32[] = constant(value=2.0)
        %0: f32[s0] = broadcast_in_dim(%c, shape=[s0], dims=[])
        %1: f32[s0] = mul(%0, %x)
        %2: f32[s0] = exp(%1)
        %3: f32[s0] = broadcast_in_dim(%c, shape=[s0], dims=[])
        %4: bool[s0] = compare(%2, %3, direction=LT)
        %5: bool[s0, 4] = broadcast_in_dim(%4, shape=[s0, 4], dims=[0])
    """
    check(rules, before, expected)


def test_operands_along_different_dims_stay():
    """Each element of the result is different: there is no smaller place to compute them."""
    before = """
        %x: f32[s0, s1]
        %y: f32[s0]
        %z: f32[s1]
        %0: f32[s0, s1] = broadcast_in_dim(%y, shape=[s0, s1], dims=[0])
        %1: f32[s0, s1] = broadcast_in_dim(%z, shape=[s0, s1], dims=[1])
        %2: f32[s0, s1] = add(%0, %1)
        %3: f32[s0, s1] = add(%2, %x)
    """
    check(rules, before)


@pytest.mark.parametrize("kind", ["div", "floor_mod", "pow"])
def test_integer_ops_that_may_refuse_stay(kind):
    """s1 may be 0: nothing is divided then."""
    before = f"""
        %x: i32[s0, s1]
        %y: i32[s0]
        %0: i32[s0, s1] = broadcast_in_dim(%y, shape=[s0, s1], dims=[0])
        %1: i32[s0, s1] = {kind}(%0, %0)
        %2: i32[s0, s1] = add(%1, %x)
    """
    declines(rules, before, "may refuse")


def test_a_check_stays():
    """s1 may be 0: nothing is checked then."""
    before = """
        %x: f32[s0, s1]
        %y: f32[s0]
        %ok: bool[s0]
        %0: f32[s0, s1] = broadcast_in_dim(%y, shape=[s0, s1], dims=[0])
        %1: bool[s0, s1] = broadcast_in_dim(%ok, shape=[s0, s1], dims=[0])
        %2: f32[s0, s1] = checked(%0, %1)
        %3: f32[s0, s1] = add(%2, %x)
    """
    declines(rules, before, "doesn't refuse")


def test_equal_splats_join_to_a_splat():
    before = """
        %x: f32[s0]
        %c: f32[] = constant(value=2.0)
        %0: f32[s0] = broadcast_in_dim(%c, shape=[s0], dims=[])
        %1: f32[3] = constant(value=[2.0, 2.0, 2.0])
        %2: f32[s0 + 3] = concatenate(%0, %1, dim=0)
    """
    expected = """
        %x: f32[s0]
        %c: f32[] = constant(value=2.0)
        %2: f32[s0 + 3] = broadcast_in_dim(%c, shape=[s0 + 3], dims=[])
    """
    check(rules, before, expected)
    check(rules, before.replace("[2.0, 2.0, 2.0]", "[2.0, 3.0, 2.0]"))


def test_copies_of_one_row_are_a_broadcast():
    before = """
        %x: f32[s0, 1, 4]
        %0: f32[s0, 3, 4] = concatenate(%x, %x, %x, dim=1)
    """
    expected = """
        %x: f32[s0, 1, 4]
        %0: f32[s0, 4] = reshape(%x, shape=[s0, 4])
        %1: f32[s0, 3, 4] = broadcast_in_dim(%0, shape=[s0, 3, 4], dims=[0, 2])
    """
    check(rules, before, expected)


@pytest.mark.parametrize(
    "line",
    [
        "%0: f32[s0, 3] = concatenate(%x, %y, %x, dim=1)",
        "%0: f32[3*s0, 1] = concatenate(%x, %x, %x, dim=0)",
    ],
)
def test_other_concatenations_stay(line):
    check(rules, f"%x: f32[s0, 1]\n%y: f32[s0, 1]\n{line}")


def test_a_repeated_mask_is_summed_up_before_it_is_repeated():
    before = """
        %x: f32[s0, s1]
        %0: f32[s0, s1, 4] = broadcast_in_dim(%x, shape=[s0, s1, 4], dims=[0, 1])
        %1: f32[s0, 4] = reduce(%0, kind=sum, dims=[1])
    """
    expected = """
        %x: f32[s0, s1]
        %0: f32[s0] = reduce(%x, kind=sum, dims=[1])
        %1: f32[s0, 4] = broadcast_in_dim(%0, shape=[s0, 4], dims=[0])
    """
    check(rules, before, expected)


def test_a_sum_of_repeated_elements_stays():
    before = """
        %x: f32[s0, s1]
        %0: f32[s0, s1, 4] = broadcast_in_dim(%x, shape=[s0, s1, 4], dims=[0, 1])
        %1: f32[s0] = reduce(%0, kind=sum, dims=[1, 2])
    """
    declines(rules, before, "as often as they are repeated")
