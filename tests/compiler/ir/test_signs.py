"""What is known of signs."""

from __future__ import annotations

import pytest

from tests.compiler.rewrite.programs import program
from tf_blade.compiler.ir.signs import is_nonpositive, largest_is_zero

MOVED = """
    %x: f32[s0, s1, 3]
    %0: f32[s1] = reduce(%x, kind={kind}, dims=[0, 2])
    %1: f32[s0, s1, 3] = broadcast_in_dim(%0, shape=[s0, s1, 3], dims=[1])
    %2: f32[s0, s1, 3] = sub({minuend}, %1)
"""


def test_what_is_left_of_the_maximum_is_never_above_zero():
    moved = program(MOVED.format(kind="max", minuend="%x")).results[0]
    assert largest_is_zero(moved) == (0, 2)
    assert is_nonpositive(moved)


@pytest.mark.parametrize("change", [{"kind": "min"}, {"minuend": "%y"}], ids=str)
def test_other_differences_have_any_sign(change: dict[str, str]):
    text = MOVED.format(**{"kind": "max", "minuend": "%x", **change})
    if "minuend" in change:
        text = "%y: f32[s0, s1, 3]\n" + text
    value = program(text).results[0]
    assert largest_is_zero(value) is None
    assert not is_nonpositive(value)


@pytest.mark.parametrize(
    ("inner", "known"),
    [("abs(%x)", True), ("mul(%x, %x)", True), ("mul(%x, %y)", False), ("exp(%x)", False)],
)
def test_negatives_of_magnitudes_are_never_above_zero(inner: str, known: bool):
    text = f"""
        %x: f32[s0]
        %y: f32[s0]
        %0: f32[s0] = {inner}
        %1: f32[s0] = neg(%0)
    """
    assert is_nonpositive(program(text).results[0]) is known
