"""However many of the compiler's changes are made, a program computes what it did."""

from __future__ import annotations

import copy

import pytest

from tests.compiler.batch import compile_batch
from tests.compiler.random_programs import drawn
from tests.compiler.rewrite.programs import program
from tf_blade.compiler.emit import emit
from tf_blade.compiler.fuse import plan
from tf_blade.compiler.ir.interpreter import Refused
from tf_blade.compiler.ir.parser import parse
from tf_blade.compiler.ir.program import Program
from tf_blade.compiler.ir.verifier import verify
from tf_blade.compiler.rewrite import RewriteLog, rewrite
from tf_blade.steps import Stage, Steps

COUNT = 24


def compiled(
    text: str, limit: int | None, without: frozenset[tuple[Stage, str]] = frozenset()
) -> tuple[str, Steps]:
    """The source of a program with its first changes made, and which these were."""
    steps = Steps(limit, without)
    result: Program = parse(text)
    rewrite(result, RewriteLog(steps=steps))
    verify(result)
    return emit(result, plan(result, steps)), steps


def test_programs_stopped_after_some_changes_give_the_references_answers():
    sources, tried = [], []
    for i, case in enumerate(drawn(77, COUNT)):
        text = str(case.program)
        made = compiled(text, None)[1].made
        # None, all, and a place between that differs from program to program.
        for limit in dict.fromkeys([0, len(made) * (i % 5) // 5, len(made)]):
            sources.append(compiled(text, limit)[0])
            tried.append((case, f"limit {limit}"))
        # Every second kind of change.
        without = frozenset(list(dict.fromkeys((s.stage, s.rule) for s in made))[i % 2 :: 2])
        source, steps = compiled(text, None, without)
        assert not without & {(step.stage, step.rule) for step in steps.made}
        sources.append(source)
        tried.append((case, f"without {sorted(without)}"))
    answered = 0
    for (case, what), host in zip(tried, compile_batch(sources), strict=True):
        expected = case.expected()
        if expected is None:
            continue
        try:
            got = host.run(case.inputs, [v.type.dtype for v in case.program.results])
        except Refused as refusal:
            pytest.fail(f"{what} refuses ({refusal.reason}) what the reference answers: {case}")
        case.check(got)
        answered += 1
    assert answered > len(tried) // 2


def test_a_change_does_not_depend_on_those_after_it():
    for case in drawn(78, COUNT):
        text = str(case.program)
        made = compiled(text, None)[1].made
        for limit in range(0, len(made) + 1, 4):
            assert compiled(text, limit)[1].made == made[:limit]


def test_without_a_limit_the_watched_compiler_does_what_it_does_unwatched():
    for case in drawn(79, COUNT):
        alone = copy.deepcopy(case.program)
        rewrite(alone)
        assert compiled(str(case.program), None)[0] == emit(alone, plan(alone))


def test_a_step_shows_what_stood_there_before_and_after():
    steps = Steps()
    before = program(
        """
        %x: f32[s0, 4]
        %0: f32[s0, 4] = neg(%x)  // a
        %1: f32[s0, 4] = neg(%0)  // b
        %2: f32[s0, 4] = exp(%1)
        """
    )
    rewrite(before, RewriteLog(steps=steps))
    (step,) = steps.made
    assert (step.number, step.stage, step.rule) == (1, "rewrite", "double_negation")
    assert step.before == "%0: f32[s0, 4] = neg(%x)  // a\n%1: f32[s0, 4] = neg(%0)  // b"
    assert step.after == "%1 is %x"
    assert step.nodes == "a, b"


def test_equal_ops_inlining_and_merged_kernels_are_steps_too():
    steps = Steps()
    before = program(
        """
        %x: f32[s0, 4]
        %0: f32[s0, 4] = exp(%x)  // first
        %1: f32[s0, 4] = exp(%x)  // second
        %2: f32[s0, 4] = add(%0, %1)  // sum
        %3: f32[s0] = reduce(%2, kind=max, dims=[1])  // maximum
        %4: f32[s0, 4] = broadcast_in_dim(%3, shape=[s0, 4], dims=[0])
        %5: f32[s0, 4] = sub(%2, %4)  // difference
        """
    )
    rewrite(before, RewriteLog(steps=steps))
    plan(before, steps)
    stages = [(step.stage, step.rule) for step in steps.made]
    assert stages[0] == ("rewrite", "cse")
    assert steps.made[0].nodes == "first, second"
    assert ("inline", "broadcast_in_dim") in stages
    assert stages[-1] == ("fuse", "row_reduce")
    assert "maximum" in steps.made[-1].nodes and "difference" in steps.made[-1].nodes
