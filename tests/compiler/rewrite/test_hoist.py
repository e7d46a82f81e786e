"""What leaves a loop because it can be done at once."""

from __future__ import annotations

import numpy as np
import pytest

from tf_blade.compiler.ir.interpreter import run
from tf_blade.compiler.ir.parser import parse
from tf_blade.compiler.ir.program import Program
from tf_blade.compiler.ir.verifier import verify
from tf_blade.compiler.rewrite.hoist import hoist_products

FLAGS = "transpose_a=false, transpose_b=false, activation=none"
# A recurrent layer: h = tanh(x[t] * w + h * u).
LAYER = f"""
program p(%x: f32[s0, s1, 3], %w: f32[3, 5] constant, %u: f32[5, 5], %h: f32[s1, 5]) -> (%4) {{
  symbol s0 = dim(%x, 0)
  symbol s1 = dim(%x, 1)
  %0: i32[] = constant(value=0)
  %1: i32[] = shape_value(dtype=i32, shape=[], elements=[s0])
  %2: f32[s0, s1, 3] = abs(%x)
  %3: i64[] = while(%0, %h, %1, %2, %w, %u, min_trips=0)
  program condition(%p0: i32[], %p1: f32[s1, 5], %p2: i32[], %p3: f32[s0, s1, 3],
   %p4: f32[3, 5], %p5: f32[5, 5]) -> (%0) {{
    %0: bool[] = compare(%p0, %p2, direction=LT)
  }}
  program body(%p0: i32[], %p1: f32[s1, 5], %p2: i32[], %p3: f32[s0, s1, 3],
   %p4: f32[3, 5], %p5: f32[5, 5]) -> (%1, %6) {{
    %0: i32[] = constant(value=1)
    %1: i32[] = add(%p0, %0)
    %2: f32[s1, 3] = gather(%p3, %p0, axis=0, batch_dims=0)
    %3: f32[s1, 5] = dot_general(%2, %p4, {FLAGS})
    %4: f32[s1, 5] = dot_general(%p1, %p5, {FLAGS})
    %5: f32[s1, 5] = add(%3, %4)
    %6: f32[s1, 5] = tanh(%5)
  }}
  %4: f32[s1, 5] = carried(%3, index=1)
}}
""".replace(",\n   ", ", ")


def layer(*changes: tuple[str, str]) -> Program:
    text = LAYER
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    program = parse(text)
    verify(program)
    return program


def inputs(steps: int, batch: int) -> list[np.ndarray]:
    rng = np.random.default_rng(steps)
    shapes = [(steps, batch, 3), (3, 5), (5, 5), (batch, 5)]
    return [rng.standard_normal(s).astype(np.float32) for s in shapes]


def products(program: Program) -> tuple[int, int]:
    """How many there are outside loops and in the bodies."""
    bodies = [op.attrs["body"] for op in program.ops if op.kind == "while"]
    outside, *inside = (
        sum(op.kind == "dot_general" for op in each.ops) for each in (program, *bodies)
    )
    return outside, sum(inside)


@pytest.mark.parametrize("steps", [0, 1, 4])
def test_the_product_with_the_inputs_is_computed_before_the_loop(steps: int):
    before, after = layer(), layer()
    assert hoist_products(after)
    verify(after)
    assert products(after) == (1, 1)
    (loop,) = (op for op in after.ops if op.kind == "while")
    read = [op.operands[0] for op in loop.attrs["body"].ops if op.kind == "gather"]
    assert read == [loop.attrs["body"].params[-1]]
    assert len(loop.operands) == 5, "the inputs themselves are no longer read"
    assert not hoist_products(after)
    args = inputs(steps, 2)
    np.testing.assert_allclose(run(after, args)[0], run(before, args)[0], rtol=1e-5)


def test_a_transposition_is_not_carried_out():
    swapped = (
        ("%x: f32[s0, s1, 3]", "%x: f32[s1, s0, 3]"),
        ("symbol s0 = dim(%x, 0)", "symbol s0 = dim(%x, 1)"),
        ("symbol s1 = dim(%x, 1)", "symbol s1 = dim(%x, 0)"),
        ("abs(%x)", "transpose(%x, perm=[1, 0, 2])"),
    )
    before, after = layer(*swapped), layer(*swapped)
    assert hoist_products(after)
    verify(after)
    (product,) = (op for op in after.ops if op.kind == "dot_general")
    assert product.operands[0] is after.params[0]
    args = inputs(4, 2)
    args[0] = args[0].swapaxes(0, 1)
    np.testing.assert_allclose(run(after, args)[0], run(before, args)[0], rtol=1e-5)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(("elements=[s0]", "elements=[s1]"), id="it need not go through all rows"),
        pytest.param(("constant(value=0)", "constant(value=1)"), id="it starts in the middle"),
        pytest.param(("gather(%p3, %p0,", "gather(%p3, %p2,"), id="a row of another number"),
        pytest.param(("direction=LT", "direction=LE"), id="it goes past the last row"),
        pytest.param(("(%2, %p4, ", "(%2, %w, "), id="the matrix is computed in the body"),
    ],
)
def test_other_products_stay(change: tuple[str, str]):
    changes = [change]
    if change[1] == "(%2, %w, ":
        line = "    %w: f32[3, 5] = exp(%p4)\n    %3: f32[s1, 5] = dot"
        changes.append(("    %3: f32[s1, 5] = dot", line))
    program = layer(*changes)
    assert not hoist_products(program)
    assert products(program) == (0, 2)
