from __future__ import annotations

from tests.compiler.rewrite.programs import check, declines
from tf_blade.compiler.rewrite.splits import rules

# A normalisation over groups of 4 of 8 channels; `%2` has been reduced over, `%3` comes from it.
NORMAL = """
    %x: f32[s0, 8]
    %gamma: f32[8]
    %0: f32[s0, 2, 4] = reshape(%x, shape=[s0, 2, 4])
    %1: f32[s0, 2] = reduce(%0, kind=sum, dims=[2])
    %2: f32[s0, 2, 4] = broadcast_in_dim(%1, shape=[s0, 2, 4], dims=[0, 1])
    %3: f32[s0, 2, 4] = sub(%0, %2)
"""


def test_what_follows_a_normalisation_of_groups_is_computed_over_the_groups():
    before = f"""{NORMAL}
        %4: f32[s0, 8] = reshape(%3, shape=[s0, 8])
        %5: f32[s0, 8] = broadcast_in_dim(%gamma, shape=[s0, 8], dims=[1])
        %6: f32[s0, 8] = mul(%4, %5)
        %7: f32[s0, 8] = add(%6, %x)
    """
    expected = f"""{NORMAL}
        %4: f32[2, 4] = reshape(%gamma, shape=[2, 4])
        %5: f32[s0, 2, 4] = broadcast_in_dim(%4, shape=[s0, 2, 4], dims=[1, 2])
        %6: f32[s0, 2, 4] = mul(%3, %5)
        %7: f32[s0, 2, 4] = reshape(%x, shape=[s0, 2, 4])
        %8: f32[s0, 2, 4] = add(%6, %7)
        %9: f32[s0, 8] = reshape(%8, shape=[s0, 8])
    """
    check(rules, before, expected)


def test_dims_after_the_split_one_keep_their_places():
    before = """
        %x: f32[s0, 6, 5]
        %y: f32[5]
        %0: f32[s0, 3, 2, 5] = reshape(%x, shape=[s0, 3, 2, 5])
        %1: f32[s0, 3] = reduce(%0, kind=max, dims=[2, 3])
        %2: f32[s0, 3, 2, 5] = broadcast_in_dim(%1, shape=[s0, 3, 2, 5], dims=[0, 1])
        %3: f32[s0, 3, 2, 5] = div(%0, %2)
        %4: f32[s0, 6, 5] = reshape(%3, shape=[s0, 6, 5])
        %5: f32[s0, 6, 5] = broadcast_in_dim(%y, shape=[s0, 6, 5], dims=[2])
        %6: f32[s0, 6, 5] = max(%4, %5)
    """
    expected = """
        %x: f32[s0, 6, 5]
        %y: f32[5]
        %0: f32[s0, 3, 2, 5] = reshape(%x, shape=[s0, 3, 2, 5])
        %1: f32[s0, 3] = reduce(%0, kind=max, dims=[2, 3])
        %2: f32[s0, 3, 2, 5] = broadcast_in_dim(%1, shape=[s0, 3, 2, 5], dims=[0, 1])
        %3: f32[s0, 3, 2, 5] = div(%0, %2)
        %4: f32[s0, 3, 2, 5] = broadcast_in_dim(%y, shape=[s0, 3, 2, 5], dims=[3])
        %5: f32[s0, 3, 2, 5] = max(%3, %4)
        %6: f32[s0, 6, 5] = reshape(%5, shape=[s0, 6, 5])
    """
    check(rules, before, expected)


def test_without_a_reduction_over_the_split_dims_the_longer_loop_stays():
    """Heads are joined after attention: one long loop is better than two short ones."""
    before = """
        %x: f32[s0, 2, 4]
        %y: f32[s0, 8]
        %0: f32[s0, 2, 4] = exp(%x)
        %1: f32[s0, 8] = reshape(%0, shape=[s0, 8])
        %2: f32[s0, 8] = add(%1, %y)
    """
    declines(rules, before, "nothing is reduced over the split dims")


def test_a_joined_tensor_that_others_read_stays():
    """It would be written in both forms."""
    before = f"""{NORMAL}
        %4: f32[s0, 8] = reshape(%3, shape=[s0, 8])
        %5: f32[s0, 8] = exp(%4)
        %6: f32[s0, 8] = mul(%4, %5)
    """
    declines(rules, before, "used elsewhere")


def test_dims_that_are_joined_and_split_at_once_stay():
    """Two dims of the result come from three: neither is the split one."""
    before = """
        %x: f32[6, 4]
        %0: f32[4, 3, 2] = reshape(%x, shape=[4, 3, 2])
        %1: f32[4] = reduce(%0, kind=sum, dims=[1, 2])
        %2: f32[4, 3, 2] = broadcast_in_dim(%1, shape=[4, 3, 2], dims=[0])
        %3: f32[4, 3, 2] = sub(%0, %2)
        %4: f32[6, 4] = reshape(%3, shape=[6, 4])
        %5: f32[6, 4] = add(%4, %x)
    """
    check(rules, before)
