from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.rewrite.programs import check, program
from tf_blade.compiler.ir.interpreter import run
from tf_blade.compiler.rewrite.products import rules

FLAGS = "transpose_a={}, transpose_b={}, activation={}"


def test_a_product_over_one_element_is_a_multiplication():
    before = f"""
        %x: f32[s0, 6, 1]
        %y: f32[s0, 1, 1]
        %0: f32[s0, 6, 1] = dot_general(%x, %y, {FLAGS.format("false", "false", "none")})
    """
    after = """
        %x: f32[s0, 6, 1]
        %y: f32[s0, 1, 1]
        %0: f32[s0, 6] = reshape(%x, shape=[s0, 6])
        %1: f32[s0, 1] = reshape(%y, shape=[s0, 1])
        %2: f32[s0, 6, 1] = broadcast_in_dim(%0, shape=[s0, 6, 1], dims=[0, 1])
        %3: f32[s0, 6, 1] = broadcast_in_dim(%1, shape=[s0, 6, 1], dims=[0, 2])
        %4: f32[s0, 6, 1] = mul(%2, %3)
    """
    check(rules, before, after)


@pytest.mark.parametrize("activation", ["none", "relu"])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
def test_it_computes_the_same(transposed, shared, activation):
    a, b = ("1, 6", "5, 1") if transposed else ("6, 1", "1, 5")
    flag = "true" if transposed else "false"
    batch = "" if shared else "s0, "
    text = f"""
        %x: f32[s0, {a}]
        %y: f32[{batch}{b}]
        %0: f32[s0, 6, 5] = dot_general(%x, %y, {FLAGS.format(flag, flag, activation)})
    """
    before, after = program(text), program(text)
    assert rules.apply(after)
    assert all(op.kind != "dot_general" for op in after.ops)
    random = np.random.default_rng(0)
    shapes = [[3, *map(int, a.split(","))], [*([] if shared else [3]), *map(int, b.split(","))]]
    args = [random.normal(size=shape).astype(np.float32) for shape in shapes]
    np.testing.assert_array_equal(run(before, args)[0], run(after, args)[0])


@pytest.mark.parametrize("k", ["2", "s1"])
def test_other_products_stay(k):
    flags = FLAGS.format("false", "false", "none")
    check(
        rules,
        f"""
        %x: f32[s0, {k}]
        %y: f32[{k}, 4]
        %0: f32[s0, 4] = dot_general(%x, %y, {flags})
    """,
    )
