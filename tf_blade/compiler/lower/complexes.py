"""Complex numbers, which the IR has none of: a tensor of them is its real and its imaginary part.

No cluster reads or writes them: `tf_blade/complexes.py` wraps the nodes around them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.ir.types import DType
from tf_blade.compiler.lower.elementwise import number
from tf_blade.compiler.lower.functions import Lower
from tf_blade.compiler.lower.operands import constant
from tf_blade.compiler.lower.registry import LOWERINGS, decode
from tf_blade.compiler.lower.scope import COMPLEX, Complex, Item, Scope
from tf_blade.errors import UnsupportedError
from tf_blade.graph.graph import Node

# What is done to each part alone: moving elements, choosing among them, adding them up.
_BY_PARTS = (
    "Add AddN AddV2 BroadcastTo ConcatV2 EnsureShape ExpandDims GatherV2 Identity Neg "
    "Pack Pad Reshape ReverseV2 Roll Select SelectV2 Slice Snapshot Split SplitV Squeeze "
    "StopGradient StridedSlice Sub Sum Tile Transpose Unpack ZerosLike"
).split()
# What the real part is asked for alone.
_BY_SHAPE = "Rank Shape Size".split()


def complex_op(*ops: str) -> Callable[[Callable[..., Item]], Callable[..., Item]]:
    """Registers a function of the builder and the node's operands as the lowering of `ops` where
    they have to do with complex numbers; attributes are keywords, as in `registry.lower`."""

    def register(function: Callable[..., Item]) -> Callable[..., Item]:
        keywords = function.__kwdefaults__ or {}

        def lowering(b: Builder, node: Node, scope: Scope, lower: Lower) -> list[Item]:
            operands = [scope.any(ref) for ref in node.inputs]
            attrs = {key: decode(node.attrs[key]) for key in keywords if key in node.attrs}
            return [function(b, *operands, **attrs)]

        COMPLEX.update(dict.fromkeys(ops, lowering))
        return function

    return register


def _by_parts(b: Builder, node: Node, scope: Scope, lower: Lower) -> list[Item]:
    operands = [scope.any(ref) for ref in node.inputs]
    real, imaginary = (
        _plain(b, node, [_part(item, name) for item in operands]) for name in ("real", "imaginary")
    )
    return [Complex(x, y) for x, y in zip(real, imaginary, strict=True)]


def _by_shape(b: Builder, node: Node, scope: Scope, lower: Lower) -> list[Item]:
    return [*_plain(b, node, [_part(scope.any(ref), "real") for ref in node.inputs])]


def _part(item: Item, name: str) -> Value:
    """A part of complex numbers; other operands (axes, conditions) are what they are."""
    part = getattr(item, name) if isinstance(item, Complex) else item
    assert isinstance(part, Value)
    return part


def _plain(b: Builder, node: Node, operands: Sequence[Value]) -> list[Value]:
    """What the op's lowering makes of real numbers."""
    lowering = LOWERINGS[node.op]
    attrs = {key: decode(node.attrs[key]) for key in lowering.attributes if key in node.attrs}
    found = lowering.function(b, *operands, **attrs)
    return list(found) if isinstance(found, Sequence) else [found]


COMPLEX.update(dict.fromkeys(_BY_PARTS, _by_parts))
COMPLEX.update(dict.fromkeys(_BY_SHAPE, _by_shape))


# -- between real and complex numbers ---------------------------------------------------------


@complex_op("Const")
def const(b: Builder, *, value: Any = None) -> Complex:
    """A constant."""
    return Complex(b.constant(value.real, DType.F32), b.constant(value.imag, DType.F32))


@complex_op("Complex")
def make(b: Builder, real: Value, imaginary: Value) -> Complex:
    """Numbers of two parts, which broadcast."""
    return Complex(*b.broadcast_together(real, imaginary))


@complex_op("Real")
def real_part(b: Builder, x: Complex) -> Value:
    """The real part."""
    return x.real


@complex_op("Imag")
def imaginary_part(b: Builder, x: Complex) -> Value:
    """The imaginary part."""
    return x.imaginary


@complex_op("Cast")
def cast(b: Builder, x: Item, *, DstT: DType | None = None) -> Item:
    """Real numbers get an imaginary part of 0; complex ones lose theirs."""
    if isinstance(x, Complex):
        return x if DstT is None else b.convert(x.real, DstT)
    assert isinstance(x, Value)
    real = b.convert(x, DType.F32)
    return Complex(real, b.splat(0, DType.F32, b.shape(real)))


@complex_op("ComplexAbs")
def magnitude(b: Builder, x: Complex) -> Value:
    """The distance from 0, which doesn't overflow; infinite where one part is."""
    first, second = b.unary("abs", x.real), b.unary("abs", x.imaginary)
    larger, smaller = b.binary("max", first, second), b.binary("min", first, second)
    ratio = b.div(smaller, larger)
    one = number(b, 1, ratio)
    scaled = b.mul(larger, b.unary("sqrt", b.add(one, b.mul(ratio, ratio))))
    found = b.select(b.compare("EQ", larger, number(b, 0, larger)), larger, scaled)
    infinite = b.binary("or", b.unary("is_inf", first), b.unary("is_inf", second))
    return b.select(infinite, number(b, np.inf, larger), found)


@complex_op("Angle")
def angle(b: Builder, x: Complex) -> Value:
    """The angle to the positive real numbers."""
    return b.binary("atan2", x.imaginary, x.real)


# -- arithmetic -------------------------------------------------------------------------------


@complex_op("Conj")
def conjugate(b: Builder, x: Complex) -> Complex:
    """The numbers with their imaginary parts negated."""
    return Complex(x.real, b.unary("neg", x.imaginary))


@complex_op("Mul")
def multiply(b: Builder, x: Complex, y: Complex) -> Complex:
    """Products, broadcasting."""
    return _product(b, x, y)


def _product(b: Builder, x: Complex, y: Complex) -> Complex:
    real = b.sub(b.mul(x.real, y.real), b.mul(x.imaginary, y.imaginary))
    return Complex(real, b.add(b.mul(x.real, y.imaginary), b.mul(x.imaginary, y.real)))


@complex_op("Square")
def square(b: Builder, x: Complex) -> Complex:
    """x x"""
    return _product(b, x, x)


@complex_op("Exp")
def exponential(b: Builder, x: Complex) -> Complex:
    """exp(real) (cos(imaginary) + i sin(imaginary))"""
    size = b.unary("exp", x.real)
    cos, sin = (b.unary(kind, x.imaginary) for kind in ("cos", "sin"))
    return Complex(b.mul(size, cos), b.mul(size, sin))


# -- Fourier transforms -----------------------------------------------------------------------


def _cut(b: Builder, x: Value, length: int) -> Value:
    """The first elements along the last dim. TensorFlow reports an error if there are fewer."""
    *leading, n = b.shape(x)
    b.require_le(length, n, "as many numbers as are transformed")
    if n == length:
        return x
    return b.slice(x, [0] * x.type.rank, [*leading, length])


def _length(b: Builder, fft_length: Value) -> int:
    found = constant(b, fft_length, "fft_length")
    if found.shape != (1,) or found[0] < 1:
        raise UnsupportedError(f"transforms of length {found.tolist()}", b.source)
    return int(found[0])


@complex_op("RFFT")
def rfft(b: Builder, x: Value, fft_length: Value) -> Complex:
    """The first half of the discrete Fourier transform of real numbers, along the last dim."""
    numbers = _cut(b, x, _length(b, fft_length))
    spectrum = b.rfft(numbers)
    shape = b.shape(spectrum)
    parts = (
        b.reshape(b.slice(spectrum, [i, *[0] * (len(shape) - 1)], [i + 1, *shape[1:]]), shape[1:])
        for i in range(2)
    )
    return Complex(*parts)


@complex_op("IRFFT")
def irfft(b: Builder, x: Complex, fft_length: Value) -> Value:
    """The real numbers of which the first half of the transform is known."""
    length = _length(b, fft_length)
    real, imaginary = (_cut(b, part, length // 2 + 1) for part in (x.real, x.imaginary))
    return b.irfft(real, imaginary, length)
