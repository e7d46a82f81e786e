"""Quantisation that is simulated in f32, as quantisation-aware training leaves it in a model."""

from __future__ import annotations

from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.lower.elementwise import number
from tf_blade.compiler.lower.registry import lower


def _quantized(
    b: Builder, x: Value, low: Value, high: Value, num_bits: int, narrow_range: bool
) -> Value:
    """x as one of 2^num_bits numbers at equal distances from about low to about high, 0 among
    them. low and high broadcast to x. The order of operations is TensorFlow's."""
    first, last = number(b, int(narrow_range), x), number(b, 2**num_bits - 1, x)
    half = number(b, 0.5, x)
    scale = b.div(b.sub(high, low), b.sub(last, first))
    zero = b.sub(first, b.div(low, scale))
    # C's round; the number is positive here.
    rounded = b.unary("floor", b.add(zero, half))
    inside = b.select(b.compare("GT", zero, last), last, rounded)
    zero = b.select(b.compare("LT", zero, first), first, inside)
    low, high = b.mul(b.sub(first, zero), scale), b.mul(b.sub(last, zero), scale)
    inverse = b.div(number(b, 1, x), scale)
    shift = b.unary("floor", b.add(b.mul(b.unary("neg", low), inverse), half))
    clamped = b.sub(b.binary("max", b.binary("min", x, high), low), low)
    steps = b.unary("floor", b.add(b.sub(b.mul(clamped, inverse), shift), half))
    return b.mul(steps, scale)


@lower("FakeQuantWithMinMaxArgs")
def fake_quant_with_min_max_args(
    b: Builder, x: Value, *, min: float, max: float, num_bits: int, narrow_range: bool
) -> Value:
    """x rounded to one of 2^num_bits numbers between constants."""
    return _quantized(b, x, number(b, min, x), number(b, max, x), num_bits, narrow_range)


@lower("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")
def fake_quant_with_min_max_vars(
    b: Builder, x: Value, low: Value, high: Value, *, num_bits: int, narrow_range: bool
) -> Value:
    """x rounded to one of 2^num_bits numbers between bounds (of each channel); 0 if both are 0."""
    found = _quantized(b, x, low, high, num_bits, narrow_range)
    zero = number(b, 0, x)
    nothing = b.binary("and", b.compare("EQ", low, zero), b.compare("EQ", high, zero))
    return b.select(nothing, zero, found)
