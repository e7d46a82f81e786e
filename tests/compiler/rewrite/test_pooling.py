from __future__ import annotations

from tests.compiler.rewrite.programs import check, declines, program
from tf_blade.compiler.rewrite.pooling import rules

WEIGHED = """
    %x: f32[s0, s1, 4]
    %w: f32[s0, s1]
    %0: f32[s0, s1, 4] = broadcast_in_dim(%w, shape=[s0, s1, 4], dims=[0, 1])
    %1: f32[s0, s1, 4] = mul(%x, %0)
    %2: f32[s0, 4] = reduce(%1, kind=sum, dims=[1])
"""
SUM = "%3: f32[s0] = reduce(%w, kind=sum, dims=[1])"
MEAN = """
    %4: f32[s0, 4] = broadcast_in_dim(%3, shape=[s0, 4], dims=[0])
    %5: f32[s0, 4] = div(%2, %4)
"""


def test_weights_are_summed_up_with_what_they_weigh():
    expected = f"""{WEIGHED}
        %3: f32[s0, 4] = reduce(%0, kind=sum, dims=[1])
        %4: f32[s0, 4] = div(%2, %3)
    """
    check(rules, WEIGHED + SUM + MEAN, expected)


def test_a_least_sum_of_weights_is_kept():
    before = f"""{WEIGHED}
        %c: f32[] = constant(value=0.5)
        %6: f32[s0, s1, 1] = reshape(%w, shape=[s0, s1, 1])
        %7: f32[s0, 1] = reduce(%6, kind=sum, dims=[1])
        %8: f32[s0, 1] = broadcast_in_dim(%c, shape=[s0, 1], dims=[])
        %9: f32[s0, 1] = max(%7, %8)
        %3: f32[s0] = reshape(%9, shape=[s0])
        {MEAN}
    """
    expected = f"""{WEIGHED}
        %c: f32[] = constant(value=0.5)
        %3: f32[s0, 4] = reduce(%0, kind=sum, dims=[1])
        %4: f32[s0, 4] = broadcast_in_dim(%c, shape=[s0, 4], dims=[])
        %5: f32[s0, 4] = max(%3, %4)
        %6: f32[s0, 4] = div(%2, %5)
    """
    check(rules, before, expected)


def test_a_sum_of_weights_that_is_read_elsewhere_stays():
    """Its kernel is there anyway."""
    other = (
        "%6: f32[s0] = neg(%3)\n%7: f32[s0, 4] = broadcast_in_dim(%6, shape=[s0, 4], dims=[0])\n"
    )
    before = WEIGHED + SUM + MEAN + other + "%8: f32[s0, 4] = add(%5, %7)"
    declines(rules, before, "read elsewhere")


def test_sums_of_other_weights_or_over_other_dims_stay():
    square = WEIGHED.replace("[s0, s1", "[s0, s0")
    for text in (
        WEIGHED + SUM.replace("kind=sum", "kind=max") + MEAN,
        WEIGHED + "%9: f32[s0, s1] = neg(%w)\n" + SUM.replace("%w", "%9") + MEAN,
        square + SUM.replace("dims=[1]", "dims=[0]") + MEAN,
    ):
        made = program(text)
        before = str(made)
        assert not rules.apply(made)
        assert str(made) == before
