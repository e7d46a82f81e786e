from __future__ import annotations

from tests.compiler.rewrite.programs import check, declines
from tf_blade.compiler.rewrite.normalize import rules

# exp(x - max(x)) and the sum of each row; %4 is the sum.
EXPONENTIALS = """
    %x: f32[s0, s1]
    %0: f32[s0] = reduce(%x, kind=max, dims=[1])
    %1: f32[s0, s1] = broadcast_in_dim(%0, shape=[s0, s1], dims=[0])
    %2: f32[s0, s1] = sub(%x, %1)
    %3: f32[s0, s1] = exp(%2)
    %4: f32[s0] = reduce(%3, kind=sum, dims=[1])
"""


def test_a_softmax_multiplies_by_the_inverse_of_the_sum():
    before = f"""{EXPONENTIALS}
        %5: f32[s0, s1] = broadcast_in_dim(%4, shape=[s0, s1], dims=[0])
        %6: f32[s0, s1] = div(%3, %5)
    """
    expected = f"""{EXPONENTIALS}
        %5: f32[] = constant(value=1.0)
        %6: f32[s0] = broadcast_in_dim(%5, shape=[s0], dims=[])
        %7: f32[s0] = div(%6, %4)
        %8: f32[s0, s1] = broadcast_in_dim(%7, shape=[s0, s1], dims=[0])
        %9: f32[s0, s1] = mul(%3, %8)
    """
    check(rules, before, expected)


def test_sums_that_may_be_tiny_divide():
    before = """
        %x: f32[s0, s1]
        %0: f32[s0, s1] = exp(%x)
        %1: f32[s0] = reduce(%0, kind=sum, dims=[1])
        %2: f32[s0, s1] = broadcast_in_dim(%1, shape=[s0, s1], dims=[0])
        %3: f32[s0, s1] = div(%0, %2)
    """
    declines(rules, before, "the inverse of a sum that may be tiny overflows")


def test_a_sum_along_other_dims_than_the_maximum_may_be_tiny():
    before = """
        %x: f32[s0, 4]
        %0: f32[s0] = reduce(%x, kind=max, dims=[1])
        %1: f32[s0, 4] = broadcast_in_dim(%0, shape=[s0, 4], dims=[0])
        %2: f32[s0, 4] = sub(%x, %1)
        %3: f32[s0, 4] = exp(%2)
        %4: f32[4] = reduce(%3, kind=sum, dims=[0])
        %5: f32[s0, 4] = broadcast_in_dim(%4, shape=[s0, 4], dims=[1])
        %6: f32[s0, 4] = div(%3, %5)
    """
    declines(rules, before, "the inverse of a sum that may be tiny overflows")


def test_a_sum_put_elsewhere_divides():
    """Column sums of a square, read as if they were row sums."""
    before = """
        %x: f32[4, 4]
        %0: f32[4] = reduce(%x, kind=max, dims=[0])
        %1: f32[4, 4] = broadcast_in_dim(%0, shape=[4, 4], dims=[1])
        %2: f32[4, 4] = sub(%x, %1)
        %3: f32[4, 4] = exp(%2)
        %4: f32[4] = reduce(%3, kind=sum, dims=[0])
        %5: f32[4, 4] = broadcast_in_dim(%4, shape=[4, 4], dims=[0])
        %6: f32[4, 4] = div(%3, %5)
    """
    check(rules, before)
