"""No rule drops what may be an error in TensorFlow."""

from __future__ import annotations

import pytest

from tests.compiler.rewrite.programs import check, declines, program
from tf_blade.compiler.ir.refusals import may_refuse
from tf_blade.compiler.rewrite.algebra import rules

REASON = "what it drops may be an error"


def zero_times(line: str) -> str:
    """%a, made by the line, is multiplied by zeros."""
    return f"""
        %x: i32[s0]
        %y: i32[s0]
        %t: i32[7]
        %k: i32[] = constant(value=0)
        %c: i32[s0] = broadcast_in_dim(%k, shape=[s0], dims=[])
        %two: i32[] = constant(value=2)
        %twos: i32[s0] = broadcast_in_dim(%two, shape=[s0], dims=[])
        %a: i32[s0] = {line}
        %r: i32[s0] = mul(%a, %c)
    """


@pytest.mark.parametrize(
    "line", ["floor_div(%x, %y)", "gather(%t, %x, axis=0, batch_dims=0)", "pow(%x, %y)"]
)
def test_a_rule_that_drops_an_error_is_declined(line):
    declines(rules, drop_unread(zero_times(line)), REASON)


@pytest.mark.parametrize("line", ["add(%x, %y)", "floor_div(%x, %twos)", "pow(%x, %twos)"])
def test_what_is_never_an_error_is_dropped(line):
    expected = """
        %x: i32[s0]
        %y: i32[s0]
        %t: i32[7]
        %k: i32[] = constant(value=0)
        %c: i32[s0] = broadcast_in_dim(%k, shape=[s0], dims=[])
    """
    check(rules, drop_unread(zero_times(line)), expected)


def test_an_error_that_another_op_still_reads_is_not_lost():
    before = """
        %x: i32[s0]
        %y: i32[s0]
        %k: i32[] = constant(value=0)
        %c: i32[s0] = broadcast_in_dim(%k, shape=[s0], dims=[])
        %a: i32[s0] = floor_div(%x, %y)
        %b: i32[s0] = mul(%a, %c)
        %r: i32[s0] = max(%b, %a)
    """
    log = check(
        rules,
        before,
        """
        %x: i32[s0]
        %y: i32[s0]
        %a: i32[s0] = floor_div(%x, %y)
        %k: i32[] = constant(value=0)
        %c: i32[s0] = broadcast_in_dim(%k, shape=[s0], dims=[])
        %r: i32[s0] = max(%c, %a)
        """,
    )
    assert not any(reason == REASON for _, reason in log.declined)


@pytest.mark.parametrize(
    ("line", "refuses"),
    [
        ("i32[2] = gather(%t, %good, axis=0, batch_dims=0)", False),
        ("i32[2] = gather(%t, %bad, axis=0, batch_dims=0)", True),
        ("i32[s0] = gather(%t, %x, axis=0, batch_dims=0)", True),
        ("i32[s0] = rem(%x, %x)", True),
        ("f32[] = div(%f, %f)", False),
        ("f32[] = pow(%f, %f)", False),
        ("i32[s0] = add(%x, %x)", False),
    ],
)
def test_which_ops_may_refuse(line, refuses):
    (*_, last) = program(f"""
        %x: i32[s0]
        %t: i32[7]
        %f: f32[]
        %good: i32[2] = constant(value=[0, 6])
        %bad: i32[2] = constant(value=[0, 7])
        %0: {line}
    """).ops
    assert may_refuse(last) == refuses


def drop_unread(text: str) -> str:
    """The text without the twos, where nothing reads them: a rewrite would drop them."""
    lines = text.splitlines()
    if "%twos)" in text:
        return text
    return "\n".join(line for line in lines if "%two" not in line)
