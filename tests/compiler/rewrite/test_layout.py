from __future__ import annotations

import pytest

from tests.compiler.rewrite.programs import check, declines
from tf_blade.compiler.rewrite.layout import rules


def test_transposes_compose():
    before = """
        %x: f32[2, s1, 4]
        %0: f32[s1, 4, 2] = transpose(%x, perm=[1, 2, 0])
        %1: f32[4, s1, 2] = transpose(%0, perm=[1, 0, 2])
    """
    expected = """
        %x: f32[2, s1, 4]
        %1: f32[4, s1, 2] = transpose(%x, perm=[2, 1, 0])
    """
    check(rules, before, expected)


def test_a_transpose_and_its_inverse_cancel():
    before = """
        %x: f32[2, 3, 4]
        %0: f32[3, 4, 2] = transpose(%x, perm=[1, 2, 0])
        %1: f32[2, 3, 4] = transpose(%0, perm=[2, 0, 1])
        %2: f32[2, 3, 4] = exp(%1)
    """
    check(rules, before, "%x: f32[2, 3, 4]\n%2: f32[2, 3, 4] = exp(%x)")


def test_a_transpose_that_moves_only_ones_is_a_reshape():
    before = "%x: f32[s0, 1, 4]\n%0: f32[1, s0, 4] = transpose(%x, perm=[1, 0, 2])"
    check(rules, before, "%x: f32[s0, 1, 4]\n%0: f32[1, s0, 4] = reshape(%x, shape=[1, s0, 4])")


def test_a_transpose_of_two_symbolic_dims_stays():
    """Either may be other than 1."""
    check(rules, "%x: f32[s0, s1]\n%0: f32[s1, s0] = transpose(%x, perm=[1, 0])")


def test_reshapes_compose_and_cancel():
    before = """
        %x: f32[s0, 4]
        %0: f32[4*s0] = reshape(%x, shape=[4*s0])
        %1: f32[2*s0, 2] = reshape(%0, shape=[2*s0, 2])
        %2: f32[2*s0, 2] = exp(%1)
        %3: f32[s0, 4] = reshape(%0, shape=[s0, 4])
        %4: f32[s0, 4] = exp(%3)
        %5: f32[2*s0, 2] = reshape(%4, shape=[2*s0, 2])
        %6: f32[2*s0, 2] = add(%2, %5)
    """
    expected = """
        %x: f32[s0, 4]
        %1: f32[2*s0, 2] = reshape(%x, shape=[2*s0, 2])
        %2: f32[2*s0, 2] = exp(%1)
        %4: f32[s0, 4] = exp(%x)
        %5: f32[2*s0, 2] = reshape(%4, shape=[2*s0, 2])
        %6: f32[2*s0, 2] = add(%2, %5)
    """
    check(rules, before, expected)


def test_reverses_compose():
    before = """
        %x: f32[2, s1, 4]
        %0: f32[2, s1, 4] = reverse(%x, dims=[0, 1])
        %1: f32[2, s1, 4] = reverse(%0, dims=[1, 2])
    """
    check(rules, before, "%x: f32[2, s1, 4]\n%1: f32[2, s1, 4] = reverse(%x, dims=[0, 2])")
    before = before.replace("[1, 2])", "[0, 1])") + "\n%2: f32[2, s1, 4] = exp(%1)"
    check(rules, before, "%x: f32[2, s1, 4]\n%2: f32[2, s1, 4] = exp(%x)")


def test_reverse_of_one_element_does_nothing():
    before = "%x: f32[1, s1, 3]\n%0: f32[1, s1, 3] = reverse(%x, dims=[0, 1])"
    check(rules, before, "%x: f32[1, s1, 3]\n%0: f32[1, s1, 3] = reverse(%x, dims=[1])")


def test_a_slice_of_everything_is_dropped():
    line = "%0: f32[s0, 4] = slice(%x, start=[0, 0], limit=[s0, 4], stride=[1, 1])"
    before = f"%x: f32[s0, 4]\n{line}\n%1: f32[s0, 4] = exp(%0)"
    check(rules, before, "%x: f32[s0, 4]\n%1: f32[s0, 4] = exp(%x)")


def test_slices_compose():
    before = """
        %x: f32[s0, 20]
        %0: f32[s0 - 1, 6] = slice(%x, start=[1, 1], limit=[s0, 19], stride=[1, 3])
        %1: f32[s0 - 2, 2] = slice(%0, start=[0, 1], limit=[s0 - 2, 6], stride=[1, 4])
    """
    expected = """
        %x: f32[s0, 20]
        %1: f32[s0 - 2, 2] = slice(%x, start=[1, 4], limit=[s0 - 1, 17], stride=[1, 12])
    """
    check(rules, before, expected)


def test_an_empty_slice_of_a_strided_slice():
    before = """
        %x: f32[20]
        %0: f32[7] = slice(%x, start=[0], limit=[20], stride=[3])
        %1: f32[0] = slice(%0, start=[7], limit=[7], stride=[2])
    """
    expected = "%x: f32[20]\n%1: f32[0] = slice(%x, start=[21], limit=[21], stride=[6])"
    check(rules, before, expected)


def test_a_strided_slice_of_unknown_size_stays():
    """Its end depends on whether it is empty."""
    before = """
        %x: f32[s0]
        %0: f32[floor_div(s0 + 2, 3)] = slice(%x, start=[0], limit=[s0], stride=[3])
        %1: f32[floor_div(s0 + 2, 3)] = reverse(%0, dims=[0])
        %2: f32[floor_div(s0 + 2, 3) - 1] = slice(%0, start=[1], limit=[floor_div(s0 + 2, 3)], stride=[1])
        %3: f32[2*floor_div(s0 + 2, 3) - 1] = concatenate(%1, %2, dim=0)
    """  # noqa: E501
    declines(rules, before, "unknown size")


CONCATENATED = """
    %x: f32[s0, 3]
    %y: f32[s0, 5]
    %0: f32[s0, 8] = concatenate(%x, %y, dim=1)
"""


@pytest.mark.parametrize(
    ("start", "limit", "part", "moved"),
    [(0, 3, "%x", (0, 3)), (1, 2, "%x", (1, 2)), (3, 8, "%y", (0, 5)), (4, 6, "%y", (1, 3))],
)
def test_a_slice_of_one_part_skips_the_concatenation(start, limit, part, moved):
    size = limit - start
    line = f"[s0, {size}] = slice(%0, start=[0, {start}], limit=[s0, {limit}], stride=[1, 1])"
    before = f"{CONCATENATED}%1: f32{line}\n%2: f32[s0, {size}] = exp(%1)"
    whole = moved == ((0, 3) if part == "%x" else (0, 5))
    source = part if whole else "%1"
    expected = "%x: f32[s0, 3]\n%y: f32[s0, 5]\n"
    if not whole:
        bounds = f"start=[0, {moved[0]}], limit=[s0, {moved[1]}], stride=[1, 1]"
        expected += f"%1: f32[s0, {size}] = slice({part}, {bounds})\n"
    check(rules, before, expected + f"%2: f32[s0, {size}] = exp({source})")


def test_a_slice_across_parts_stays():
    line = "%1: f32[s0, 2] = slice(%0, start=[0, 2], limit=[s0, 4], stride=[1, 1])"
    declines(rules, CONCATENATED + line, "spans several parts")


def test_concatenations_flatten():
    before = """
        %x: f32[s0]
        %y: f32[0]
        %0: f32[2*s0] = concatenate(%x, %x, dim=0)
        %1: f32[3*s0] = concatenate(%0, %y, %x, dim=0)
    """
    expected = "%x: f32[s0]\n%y: f32[0]\n%1: f32[3*s0] = concatenate(%x, %x, %x, dim=0)"
    check(rules, before, expected)


def test_a_concatenation_that_is_read_elsewhere_is_not_flattened():
    """It would be copied twice."""
    before = """
        %x: f32[s0]
        %0: f32[2*s0] = concatenate(%x, %x, dim=0)
        %1: f32[2*s0] = exp(%0)
        %2: f32[4*s0] = concatenate(%0, %1, dim=0)
    """
    check(rules, before)


def test_a_concatenation_of_one_part_is_the_part():
    before = "%x: f32[s0]\n%0: f32[s0] = concatenate(%x, dim=0)\n%1: f32[s0] = exp(%0)"
    check(rules, before, "%x: f32[s0]\n%1: f32[s0] = exp(%x)")


def test_slices_side_by_side_are_one_slice():
    before = """
        %x: f32[s0, 9]
        %0: f32[s0, 3] = slice(%x, start=[0, 1], limit=[s0, 4], stride=[1, 1])
        %1: f32[s0, 2] = slice(%x, start=[0, 4], limit=[s0, 6], stride=[1, 1])
        %2: f32[s0, 1] = slice(%x, start=[0, 6], limit=[s0, 7], stride=[1, 1])
        %3: f32[s0, 6] = concatenate(%0, %1, %2, dim=1)
    """
    expected = """
        %x: f32[s0, 9]
        %3: f32[s0, 6] = slice(%x, start=[0, 1], limit=[s0, 7], stride=[1, 1])
    """
    check(rules, before, expected)


@pytest.mark.parametrize(
    ("start", "limit", "dim"),
    [("[0, 5]", "[3, 7]", 1), ("[1, 4]", "[4, 6]", 1), ("[0, 4]", "[3, 6]", 0)],
)
def test_slices_that_are_not_side_by_side_stay(start, limit, dim):
    """A gap; another row range; joined along the other dim."""
    shape = ["6, 2", "3, 4"][dim]
    before = f"""
        %x: f32[4, 9]
        %0: f32[3, 2] = slice(%x, start=[0, 2], limit=[3, 4], stride=[1, 1])
        %1: f32[3, 2] = slice(%x, start={start}, limit={limit}, stride=[1, 1])
        %2: f32[{shape}] = concatenate(%0, %1, dim={dim})
    """
    check(rules, before)


def test_padding_by_nothing_is_dropped():
    before = """
        %x: f32[s0]
        %c: f32[]
        %0: f32[s0] = pad(%x, %c, low=[0], high=[0])
        %1: f32[s0] = exp(%0)
    """
    check(rules, before, "%x: f32[s0]\n%c: f32[]\n%1: f32[s0] = exp(%x)")


def test_a_slice_that_takes_the_padding_off():
    before = """
        %x: f32[s0]
        %c: f32[]
        %0: f32[s0 + 3] = pad(%x, %c, low=[2], high=[1])
        %1: f32[s0] = slice(%0, start=[2], limit=[s0 + 2], stride=[1])
        %2: f32[s0] = exp(%1)
    """
    check(rules, before, "%x: f32[s0]\n%c: f32[]\n%2: f32[s0] = exp(%x)")
    check(rules, before.replace("[2], limit=[s0 + 2]", "[1], limit=[s0 + 1]"))


def test_moving_equal_elements_moves_nothing():
    splat = """
        %x: i32[s0]
        %c: f32[] = constant(value=2.0)
        %0: f32[s0, 4] = broadcast_in_dim(%c, shape=[s0, 4], dims=[])
    """
    for line in (
        "f32[4, s0] = transpose(%0, perm=[1, 0])",
        "f32[s0, 4] = reverse(%0, dims=[0])",
        "f32[s0, 2] = slice(%0, start=[0, 1], limit=[s0, 3], stride=[1, 1])",
        "f32[s0 + 1, 4] = pad(%0, %c, low=[0, 0], high=[1, 0])",
    ):
        shape = line[3 : line.index("]") + 1]
        expected = f"""
            %x: i32[s0]
            %c: f32[] = constant(value=2.0)
            %1: f32{shape} = broadcast_in_dim(%c, shape={shape}, dims=[])
        """
        check(rules, f"{splat}%1: {line}", expected)


def test_padding_with_another_number_stays():
    check(
        rules,
        """
        %x: i32[s0]
        %c: f32[] = constant(value=0.0)
        %d: f32[] = constant(value=-0.0)
        %0: f32[4] = broadcast_in_dim(%c, shape=[4], dims=[])
        %1: f32[5] = pad(%0, %d, low=[0], high=[1])
        """,
    )


def test_a_reduction_of_ones_is_a_reshape():
    before = "%x: f32[s0, 1]\n%0: f32[s0] = reduce(%x, kind=sum, dims=[1])"
    check(rules, before, "%x: f32[s0, 1]\n%0: f32[s0] = reshape(%x, shape=[s0])")
    before = "%x: f32[1, s1, 1, 4]\n%0: f32[4] = reduce(%x, kind=max, dims=[0, 1, 2])"
    expected = """
        %x: f32[1, s1, 1, 4]
        %0: f32[s1, 4] = reshape(%x, shape=[s1, 4])
        %1: f32[4] = reduce(%0, kind=max, dims=[0])
    """
    check(rules, before, expected)


def test_reductions_compose():
    before = """
        %x: f32[s0, 3, 4, 5]
        %0: f32[s0, 4, 5] = reduce(%x, kind=sum, dims=[1])
        %1: f32[s0, 4] = reduce(%0, kind=sum, dims=[2])
    """
    check(rules, before, "%x: f32[s0, 3, 4, 5]\n%1: f32[s0, 4] = reduce(%x, kind=sum, dims=[1, 3])")


def test_reductions_of_different_kinds_stay():
    """The maximum of sums is not a sum."""
    before = """
        %x: f32[s0, 3]
        %0: f32[s0] = reduce(%x, kind=sum, dims=[1])
        %1: f32[] = reduce(%0, kind=max, dims=[0])
    """
    check(rules, before)


def test_a_reduction_that_is_read_elsewhere_is_not_repeated():
    before = """
        %x: f32[s0, 3]
        %0: f32[s0] = reduce(%x, kind=max, dims=[1])
        %1: f32[] = reduce(%0, kind=max, dims=[0])
        %2: f32[s0] = broadcast_in_dim(%1, shape=[s0], dims=[])
        %3: f32[s0] = sub(%0, %2)
    """
    declines(rules, before, "used elsewhere")


def test_a_reduction_of_a_transpose_needs_no_transpose():
    before = """
        %x: f32[2, 3, 4]
        %0: f32[4, 2, 3] = transpose(%x, perm=[2, 0, 1])
        %1: f32[2, 3] = reduce(%0, kind=sum, dims=[0])
    """
    check(rules, before, "%x: f32[2, 3, 4]\n%1: f32[2, 3] = reduce(%x, kind=sum, dims=[2])")


def test_a_reduction_of_a_transpose_whose_rest_is_out_of_order_stays():
    before = """
        %x: f32[2, 3, 4]
        %0: f32[4, 3, 2] = transpose(%x, perm=[2, 1, 0])
        %1: f32[3, 2] = reduce(%0, kind=sum, dims=[0])
    """
    declines(rules, before, "transpose of its own")
