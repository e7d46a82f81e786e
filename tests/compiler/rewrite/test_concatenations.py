from __future__ import annotations

from tests.compiler.rewrite.programs import check, declines
from tf_blade.compiler.rewrite.concatenations import rules


def test_what_follows_a_concatenation_is_computed_part_by_part():
    """A rotary embedding's halves; the vector of the last dim is cut as well, the scalar isn't."""
    before = """
        %x: f32[s0, 4]
        %y: f32[s0, 8]
        %v: f32[8]
        %0: f32[s0, 4] = neg(%x)
        %1: f32[s0, 8] = concatenate(%0, %x, dim=1)
        %2: f32[s0, 8] = mul(%1, %y)
        %3: f32[s0, 8] = broadcast_in_dim(%v, shape=[s0, 8], dims=[1])
        %4: f32[s0, 8] = add(%2, %3)
    """
    expected = """
        %x: f32[s0, 4]
        %y: f32[s0, 8]
        %v: f32[8]
        %0: f32[s0, 4] = neg(%x)
        %1: f32[s0, 4] = slice(%y, start=[0, 0], limit=[s0, 4], stride=[1, 1])
        %2: f32[s0, 4] = mul(%0, %1)
        %3: f32[s0, 4] = slice(%y, start=[0, 4], limit=[s0, 8], stride=[1, 1])
        %4: f32[s0, 4] = mul(%x, %3)
        %5: f32[4] = slice(%v, start=[0], limit=[4], stride=[1])
        %6: f32[s0, 4] = broadcast_in_dim(%5, shape=[s0, 4], dims=[1])
        %7: f32[s0, 4] = add(%2, %6)
        %8: f32[4] = slice(%v, start=[4], limit=[8], stride=[1])
        %9: f32[s0, 4] = broadcast_in_dim(%8, shape=[s0, 4], dims=[1])
        %10: f32[s0, 4] = add(%4, %9)
        %11: f32[s0, 8] = concatenate(%7, %10, dim=1)
    """
    check(rules, before, expected)


def test_parts_of_two_concatenations_meet():
    before = """
        %x: f32[s0, 4]
        %y: f32[2, 4]
        %c: f32[s0, 4]
        %0: f32[s0 + 2, 4] = concatenate(%x, %y, dim=0)
        %1: f32[s0 + 2, 4] = concatenate(%c, %y, dim=0)
        %2: f32[s0 + 2, 4] = max(%0, %1)
    """
    expected = """
        %x: f32[s0, 4]
        %y: f32[2, 4]
        %c: f32[s0, 4]
        %0: f32[s0, 4] = max(%x, %c)
        %1: f32[2, 4] = max(%y, %y)
        %2: f32[s0 + 2, 4] = concatenate(%0, %1, dim=0)
    """
    check(rules, before, expected)


def test_a_dear_operand_is_not_computed_in_parts():
    before = """
        %x: f32[s0, 4]
        %y: f32[s0, 8]
        %0: f32[s0, 8] = concatenate(%x, %x, dim=1)
        %1: f32[s0, 8] = exp(%y)
        %2: f32[s0, 8] = mul(%0, %1)
    """
    declines(rules, before, "another operand would be computed in parts")


def test_a_concatenation_that_others_read_stays():
    before = """
        %x: f32[s0, 4]
        %0: f32[s0, 8] = concatenate(%x, %x, dim=1)
        %1: f32[s0, 8] = exp(%0)
        %2: f32[s0] = reduce(%0, kind=sum, dims=[1])
        %3: f32[s0, 8] = broadcast_in_dim(%2, shape=[s0, 8], dims=[0])
        %4: f32[s0, 8] = mul(%1, %3)
    """
    declines(rules, before, "the concatenation is used elsewhere")


def test_many_parts_stay_together():
    before = """
        %x: f32[s0, 4]
        %0: f32[s0, 20] = concatenate(%x, %x, %x, %x, %x, dim=1)
        %1: f32[s0, 20] = exp(%0)
    """
    declines(rules, before, "many parts")
