"""The rule engine itself."""

from __future__ import annotations

import pytest

from tests.compiler.rewrite.programs import check, declines, program
from tf_blade.compiler.ir.ops import IrError
from tf_blade.compiler.rewrite.rules import (
    MAX_SOURCE,
    Decline,
    Match,
    RuleSet,
    X,
    Y,
    merge_sources,
    op,
    splat,
    splat_of,
)


def rule_set(*patterns, function) -> RuleSet:
    rules = RuleSet("test")
    rules.rule(*patterns)(function)
    return rules


def test_a_rule_replaces_what_its_pattern_matches():
    """The old ops go away, the new one carries the sources of both."""

    def inverted(m: Match):
        return m.make("div", [m.splat(1), m.make("exp", [m.x])])

    rules = rule_set(op("exp", op("neg", X)), function=inverted)
    before = """
        %x: f32[s0]
        %0: f32[s0] = neg(%x)  // a/Neg
        %1: f32[s0] = exp(%0)  // a/Exp
        %2: f32[s0] = tanh(%1)  // a/Tanh
    """
    expected = """
        %x: f32[s0]
        %c: f32[] = constant(value=1.0)  // a/Exp, a/Neg
        %0: f32[s0] = broadcast_in_dim(%c, shape=[s0], dims=[])  // a/Exp, a/Neg
        %1: f32[s0] = exp(%x)  // a/Exp, a/Neg
        %2: f32[s0] = div(%0, %1)  // a/Exp, a/Neg
        %3: f32[s0] = tanh(%2)  // a/Tanh
    """
    log = check(rules, before, expected)
    assert log.applied == {"inverted": 1}


def test_commutative_operands_match_in_either_order():
    rules = rule_set(op("add", op("neg", X), Y), function=lambda m: m.make("sub", [m.y, m.x]))
    for operands in ("%0, %x", "%x, %0"):
        before = f"%x: f32[2]\n%0: f32[2] = neg(%x)\n%1: f32[2] = add({operands})"
        check(rules, before, "%x: f32[2]\n%1: f32[2] = sub(%x, %x)")


def test_other_operands_match_in_order_only():
    rules = rule_set(op("sub", op("neg", X), Y), function=lambda m: m.x)
    check(rules, "%x: f32[2]\n%0: f32[2] = neg(%x)\n%1: f32[2] = sub(%x, %0)")


def test_a_name_used_twice_is_one_value():
    rules = rule_set(op("mul", X, X), function=lambda m: m.make("abs", [m.x]))
    check(rules, "%x: f32[2]\n%1: f32[2] = mul(%x, %x)", "%x: f32[2]\n%1: f32[2] = abs(%x)")
    check(rules, "%x: f32[2]\n%y: f32[2]\n%1: f32[2] = mul(%x, %y)")


def test_none_is_silent_and_a_decline_is_logged():
    before = "%x: f32[2]\n%1: f32[2] = exp(%x)"
    assert not check(rule_set(op("exp", X), function=lambda m: None), before).declined
    declines(rule_set(op("exp", X), function=lambda m: Decline("not today")), before, "not today")


def test_rules_apply_until_none_does():
    rules = rule_set(op("neg", op("neg", X)), function=lambda m: m.x)
    lines = ["%x: f32[2]", "%0: f32[2] = neg(%x)"]
    lines += [f"%{i}: f32[2] = neg(%{i - 1})" for i in range(1, 9)]
    check(rules, "\n".join(lines), "%x: f32[2]\n%0: f32[2] = neg(%x)")


def test_single_use_counts_results_and_readers():
    """neg is read twice in the first program, is a result of the second, has one use in the
    third."""
    rules = rule_set(
        op("exp", op("neg", X, name="inner")),
        function=lambda m: m.make("exp", [m.x]) if m.single_use(m.inner) else None,
    )
    twice = "%x: f32[2]\n%0: f32[2] = neg(%x)\n%1: f32[2] = exp(%0)\n%2: f32[2] = add(%0, %1)"
    check(rules, twice)
    result = """program p(%x: f32[2]) -> (%0, %1) {
        %0: f32[2] = neg(%x)
        %1: f32[2] = exp(%0)
    }"""
    check(rules, result)
    once = "%x: f32[2]\n%0: f32[2] = neg(%x)\n%1: f32[2] = exp(%0)"
    check(rules, once, "%x: f32[2]\n%1: f32[2] = exp(%x)")


def test_uses_are_released_when_a_reader_goes_away():
    """Once the neg of the product is gone, the product has one use, in the same sweep."""
    rules = RuleSet("test")
    rules.rule(op("sub", op("mul", X, Y, name="inner"), op("mul", X, Y, name="inner")))(
        lambda m: m.inner
    )
    rules.rule(op("exp", op("mul", X, Y, name="inner")))(
        lambda m: m.make("exp", [m.x]) if m.single_use(m.inner) else None
    )
    before = """
        %x: f32[2]
        %0: f32[2] = mul(%x, %x)
        %1: f32[2] = sub(%0, %0)
        %2: f32[2] = exp(%1)
    """
    check(rules, before, "%x: f32[2]\n%2: f32[2] = exp(%x)")


def test_a_name_that_the_pattern_lacks_is_an_error():
    rules = rule_set(op("exp", X), function=lambda m: m.y)
    with pytest.raises(AttributeError, match="the pattern names no 'y'"):
        rules.apply(program("%x: f32[2]\n%0: f32[2] = exp(%x)"))


def test_a_replacement_of_another_type_is_an_error():
    def wrong(m: Match):
        return m.make("reshape", [m.x], shape=(2, 1))

    with pytest.raises(IrError, match="rule wrong"):
        rule_set(op("exp", X), function=wrong).apply(program("%x: f32[2]\n%0: f32[2] = exp(%x)"))


def test_rule_sets_add_up():
    first = rule_set(op("exp", X), function=lambda m: m.x)
    second = rule_set(op("log", X), function=lambda m: m.x)
    before = "%x: f32[2]\n%0: f32[2] = exp(%x)\n%1: f32[2] = log(%0)\n%2: f32[2] = abs(%1)"
    check(first + second, before, "%x: f32[2]\n%0: f32[2] = abs(%x)")


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("f32[3] = constant(value=[2.0, 2.0, 2.0])", "2.0"),
        ("f32[2] = constant(value=[0.0, -0.0])", None),
        ("f32[2] = constant(value=[nan, nan])", "nan"),
        ("f32[0] = constant(value=[])", None),
        ("f32[2] = neg(%x)", None),
    ],
)
def test_splat_of(line, number):
    found = splat_of(program(f"%x: f32[2]\n%0: {line}").results[0])
    assert (None if found is None else str(found)) == number


def test_splat_pattern_sees_through_broadcasts():
    rules = rule_set(op("mul", X, splat("c", 3)), function=lambda m: m.x)
    before = """
        %x: f32[s0]
        %c: f32[] = constant(value=3.0)
        %0: f32[s0] = broadcast_in_dim(%c, shape=[s0], dims=[])
        %1: f32[s0] = mul(%0, %x)
        %2: f32[s0] = abs(%1)
    """
    check(rules, before, "%x: f32[s0]\n%2: f32[s0] = abs(%x)")
    check(rules, before.replace("3.0", "4.0"))


def test_sources_are_merged_once_each_and_cut_off():
    assert merge_sources("a, b", "", "b, c") == "a, b, c"
    names = [f"layer/{i}" for i in range(100)]
    merged = merge_sources(*names)
    assert merged.startswith("layer/0, layer/1") and merged.endswith(", …")
    assert len(merged) <= MAX_SOURCE + 3
    assert merge_sources(merged, "layer/0") == merged
    assert merge_sources("x" * 500) == "x" * 500
