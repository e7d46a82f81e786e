from __future__ import annotations

import pytest

from tests.compiler.rewrite.programs import check
from tf_blade.compiler.rewrite.cse import share_common


def test_equal_ops_become_one():
    before = """
        %x: f32[s0]
        %0: f32[s0] = exp(%x)  // a/Exp
        %1: f32[s0] = exp(%x)  // b/Exp
        %2: f32[s0] = neg(%0)
        %3: f32[s0] = neg(%1)
        %4: f32[s0] = sub(%2, %3)
    """
    expected = """
        %x: f32[s0]
        %0: f32[s0] = exp(%x)  // a/Exp, b/Exp
        %2: f32[s0] = neg(%0)
        %4: f32[s0] = sub(%2, %2)
    """
    check(share_common, before, expected)


def test_results_follow():
    before = """program p(%x: f32[2]) -> (%0, %1) {
        %0: f32[2] = exp(%x)
        %1: f32[2] = exp(%x)
    }"""
    expected = """program p(%x: f32[2]) -> (%0, %0) {
        %0: f32[2] = exp(%x)
    }"""
    check(share_common, before, expected)


@pytest.mark.parametrize(("kind", "shared"), [("add", True), ("sub", False), ("pow", False)])
def test_operands_of_commutative_ops_have_no_order(kind, shared):
    before = f"""
        %x: f32[2]
        %y: f32[2]
        %0: f32[2] = {kind}(%x, %y)
        %1: f32[2] = {kind}(%y, %x)
        %2: f32[2] = div(%0, %1)
    """
    expected = f"""
        %x: f32[2]
        %y: f32[2]
        %0: f32[2] = {kind}(%x, %y)
        %2: f32[2] = div(%0, %0)
    """
    check(share_common, before, expected if shared else None)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("f32[] = constant(value=0.0)", "f32[] = constant(value=-0.0)"),
        ("f32[] = constant(value=1.0)", "f64[] = constant(value=1.0)"),
        ("f32[2] = reduce(%x, kind=sum, dims=[0])", "f32[2] = reduce(%x, kind=sum, dims=[1])"),
        ("i32[2, 2] = convert(%x, dtype=i32)", "i64[2, 2] = convert(%x, dtype=i64)"),
        ("f32[2, 2] = exp(%x)", "f32[2, 2] = expm1(%x)"),
    ],
)
def test_ops_that_differ_in_an_attribute_stay(first, second):
    before = f"""program p(%x: f32[2, 2]) -> (%0, %1) {{
        %0: {first}
        %1: {second}
    }}"""
    check(share_common, before)


def test_equal_nans_are_shared():
    before = """program p() -> (%0, %1) {
        %0: f32[] = constant(value=nan)
        %1: f32[] = constant(value=nan)
    }"""
    expected = "program p() -> (%0, %0) {\n%0: f32[] = constant(value=nan)\n}"
    check(share_common, before, expected)
