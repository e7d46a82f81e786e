"""Loops of the IR: text, rules, and when they end."""

from __future__ import annotations

import numpy as np
import pytest

from tf_blade.compiler.ir.interpreter import Refused, run
from tf_blade.compiler.ir.loops import counters, is_bounded
from tf_blade.compiler.ir.ops import IrError
from tf_blade.compiler.ir.parser import ParseError, parse
from tf_blade.compiler.ir.program import Program
from tf_blade.compiler.ir.verifier import verify

GOOD = """
program p(%n: i32[], %x: f32[s0, 4]) -> (%2, %3) {
  symbol s0 = dim(%x, 0)
  %0: i32[] = constant(value=0)
  %1: i64[] = while(%0, %x, %n, min_trips=0)  // model/while
  program condition(%p0: i32[], %p1: f32[s0, 4], %p2: i32[]) -> (%0) {
    %0: bool[] = compare(%p0, %p2, direction=LT)
  }
  program body(%p0: i32[], %p1: f32[s0, 4], %p2: i32[]) -> (%1, %2) {
    %0: i32[] = constant(value=1)
    %1: i32[] = add(%p0, %0)
    %2: f32[s0, 4] = add(%p1, %p1)  // model/while/add
  }
  %2: f32[s0, 4] = carried(%1, index=1)
  %3: i32[] = carried(%1, index=0)
}
"""


def test_texts_read_back():
    program = parse(GOOD)
    verify(program)
    assert str(program).strip() == GOOD.strip()


def test_it_runs_until_the_condition_fails():
    x = np.ones((2, 4), np.float32)
    for n, factor in ((-3, 1), (0, 1), (1, 2), (5, 32)):
        result, count = run(parse(GOOD), [np.asarray(n, np.int32), x])
        np.testing.assert_array_equal(result, x * factor)
        assert count == max(n, 0)


def test_too_few_iterations_are_refused():
    program = parse(GOOD.replace("min_trips=0", "min_trips=1"))
    x = np.ones((1, 4), np.float32)
    with pytest.raises(Refused, match="model/while: no iteration"):
        run(program, [np.asarray(0, np.int32), x])
    run(program, [np.asarray(1, np.int32), x])


def test_too_many_iterations_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tf_blade.compiler.ir.interpreter.MAX_TRIPS", 3)
    x = np.ones((1, 4), np.float32)
    run(parse(GOOD), [np.asarray(3, np.int32), x])
    with pytest.raises(Refused, match="more than"):
        run(parse(GOOD), [np.asarray(4, np.int32), x])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("while(%0, %x, %n,", "while(%0, %x,", "wrong parameters"),
        ("while(%0, %x, %n,", "while(%n, %n, %n,", "condition: %p1 isn't %n"),
        ("body(%p0: i32[], %p1: f32[s0, 4]", "body(%p0: i32[], %p1: f32[4, 4]", "'%2: .*result"),
        ("-> (%1, %2) {", "-> (%2, %1) {", r"%p0 becomes f32\[s0, 4\]"),
        ("-> (%0) {", "-> (%p0) {", "must give one bool"),
        ("add(%p1, %p1)", "add(%p1, %q)", "not defined"),
        ("carried(%1, index=1)", "carried(%1, index=2)", "index out of range"),
        ("carried(%1, index=1)", "carried(%0, index=1)", "carried by no loop"),
        ("%3: i32[] = carried", "%3: i64[] = carried", r"the result is i32\[\]"),
    ],
)
def test_broken_loops(old: str, new: str, message: str):
    assert old in GOOD
    with pytest.raises((IrError, ParseError), match=message):
        verify(parse(GOOD.replace(old, new)))


def test_a_program_belongs_to_an_op():
    lines = GOOD.splitlines()
    with pytest.raises(ParseError, match="no op runs program condition"):
        parse("\n".join([*lines[:3], *lines[5:]]))
    with pytest.raises(ParseError, match="has no end"):
        parse("\n".join([*lines[:9], "}"]))


def parts(text: str) -> tuple[Program, Program]:
    program = parse(text)
    verify(program)
    (loop,) = (op for op in program.ops if op.kind == "while")
    return loop.attrs["condition"], loop.attrs["body"]


@pytest.mark.parametrize(
    ("test", "step", "bounded"),
    [
        ("compare(%p0, %p2, direction=LT)", "add(%p0, %0)", True),
        ("compare(%p0, %p2, direction=LT)", "add(%0, %p0)", True),
        ("compare(%p2, %p0, direction=GT)", "add(%p0, %0)", True),
        ("compare(%p0, %p2, direction=GT)", "sub(%p0, %0)", True),
        ("compare(%p2, %p0, direction=LT)", "sub(%p0, %0)", True),
        ("compare(%p0, %p2, direction=LE)", "add(%p0, %0)", False),  # the largest integer
        ("compare(%p0, %p2, direction=NE)", "add(%p0, %0)", False),
        ("compare(%p0, %p2, direction=LT)", "sub(%p0, %0)", False),
        ("compare(%p0, %p2, direction=GT)", "add(%p0, %0)", False),
        ("compare(%p0, %p0, direction=LT)", "add(%p0, %0)", False),
        ("compare(%p0, %p2, direction=LT)", "mul(%p0, %0)", False),
        ("compare(%p0, %p2, direction=LT)", "add(%p2, %0)", False),
        ("compare(%p0, %p2, direction=LT)", "sub(%0, %p0)", False),
    ],
)
def test_loops_that_end_for_certain(test: str, step: str, bounded: bool):
    text = GOOD.replace("compare(%p0, %p2, direction=LT)", test).replace("add(%p0, %0)", step)
    assert is_bounded(*parts(text)) == bounded


def test_one_of_several_demands_bounds_a_loop():
    two = """%1: bool[] = compare(%p0, %p2, direction=LT)
    %2: bool[] = compare(%p2, %p0, direction=NE)
    %0: bool[] = {}(%2, %1)"""
    test = "%0: bool[] = compare(%p0, %p2, direction=LT)"
    condition, body = parts(GOOD.replace(test, two.format("and")))
    assert is_bounded(condition, body)
    assert list(counters(condition, body)) == [(0, condition.params[2])]
    assert not is_bounded(*parts(GOOD.replace(test, two.format("or"))))


def test_a_row_is_replaced_and_one_outside_refused():
    program = parse(
        """program p(%x: f32[s0, 2], %i: i64[], %y: f32[2]) -> (%0) {
          symbol s0 = dim(%x, 0)
          %0: f32[s0, 2] = dynamic_update(%x, %i, %y)
        }"""
    )
    verify(program)
    x, y = np.zeros((3, 2), np.float32), np.ones(2, np.float32)
    (result,) = run(program, [x, np.int64(2), y])
    np.testing.assert_array_equal(result, [[0, 0], [0, 0], [1, 1]])
    assert not x.any()
    for index in (-1, 3):
        with pytest.raises(Refused, match="index outside"):
            run(program, [x, np.int64(index), y])
