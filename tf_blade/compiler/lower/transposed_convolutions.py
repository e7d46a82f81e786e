"""Transposed convolutions: a matrix product gives what every pixel adds to the places of its
window; then the windows are added up where they overlap, one spatial dim after the other."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from tf_blade.compiler.ir import dims as d
from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.dims import Dim
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.lower.elementwise import number
from tf_blade.compiler.lower.operands import channels_last
from tf_blade.compiler.lower.registry import FLOATS, lower
from tf_blade.errors import UnsupportedError

# Windows that overlap in one pixel, in each dim: the border around each of them is a pass.
_MOST_OVERLAPS = 3


def _padded(b: Builder, x: Value, axis: int, low: Dim, high: Dim) -> Value:
    """x with zeros before and after it in one dim."""
    if low == 0 and high == 0:
        return x
    lows: list[Dim] = [0] * x.type.rank
    highs: list[Dim] = [0] * x.type.rank
    lows[axis], highs[axis] = low, high
    return b.pad(x, number(b, 0, x), lows, highs)


def _sliced(b: Builder, x: Value, axis: int, start: Dim, limit: Dim) -> Value:
    shape = b.shape(x)
    starts: list[Dim] = [0] * len(shape)
    limits = list(shape)
    starts[axis], limits[axis] = start, limit
    return x if start == 0 and limit == shape[axis] else b.slice(x, starts, limits)


def _added_up(b: Builder, x: Value, pixels: int, places: int, step: int) -> Value:
    """x has pixels in dim `pixels` and the places of their windows in dim `places`. Windows begin
    `step` apart: the result has blocks of `step` pixels, and in dim `places` the pixels of a block.
    """
    size = int(b.shape(x)[places])
    overlaps = -(-size // step)
    if overlaps > _MOST_OVERLAPS:
        raise UnsupportedError(f"{overlaps} windows that overlap", b.source)
    terms = []
    for i in range(overlaps):
        limit = min((i + 1) * step, size)
        part = _sliced(b, x, places, i * step, limit)
        part = _padded(b, part, places, 0, step - (limit - i * step))
        terms.append(_padded(b, part, pixels, i, overlaps - 1 - i))
    return functools.reduce(b.add, terms)


def _before(b: Builder, n: Dim, size: int, step: int, padding: str, count: Dim) -> Dim:
    """How far the first window begins before the result of n pixels, if x has `count` pixels."""
    if padding == "SAME":
        b.same_dim(d.ceil_div(n, step), count, "windows over the result")
        return d.floor_div(d.larger((count - 1) * step + size - n, 0), 2)
    b.require_le(size, n, "a window fits")
    windows = d.floor_div(n - size, step) + 1
    b.same_dim(windows, count, "windows over the result")
    return 0


@lower(
    "Conv2DBackpropInput",
    dtypes=FLOATS,
    contents=[0],
    ignores=["use_cudnn_on_gpu", "explicit_paddings"],  # which EXPLICIT padding uses
)
def conv2d_backprop_input(
    b: Builder,
    sizes: Value,
    filters: Value,
    x: Value,
    *,
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: str,
    data_format: str,
) -> Value:
    """Transposed convolution over images, channels last; windows that overlap in few pixels"""
    result = b.content(sizes)
    if result is None or result.shape != (4,):
        raise UnsupportedError("a result of unknown size", b.source)
    channels_last(b, data_format)
    if padding == "EXPLICIT" or any(n != 1 for n in dilations):
        raise UnsupportedError("a transposed convolution of this form", b.source)
    if strides[0] != 1 or strides[-1] != 1:
        raise UnsupportedError("strides over the batch or the channels", b.source)
    window = [n for n in b.shape(filters)[:-1] if isinstance(n, int) and n > 0]
    if len(window) != 3:
        raise UnsupportedError("a filter of unknown size", b.source)
    b.same_dim(b.shape(x)[-1], b.shape(filters)[-1], "channels of a transposed convolution")
    height, width, new = window
    b.same_dim(result[0], b.shape(x)[0], "batch of a transposed convolution")
    b.same_dim(result[3], new, "channels of a transposed convolution")
    steps = [int(n) for n in strides[1:3]]
    before = [
        _before(b, result[axis + 1], window[axis], steps[axis], padding, b.shape(x)[axis + 1])
        for axis in range(2)
    ]
    pixels, channels = b.shape(x)[:-1], b.shape(x)[-1]
    product = b.dot_general(
        b.reshape(x, [d.product(pixels), channels]),
        b.reshape(filters, [height * width * new, channels]),
        transpose_b=True,
    )
    y = b.reshape(product, [*pixels, height, width, new])
    for axis in range(2):
        y = _added_up(b, y, axis + 1, axis + 3, steps[axis])
    n, rows, columns = b.shape(y)[:3]
    y = b.transpose(y, [0, 1, 3, 2, 4, 5])
    y = b.reshape(y, [n, rows * steps[0], columns * steps[1], new])
    for axis in range(2):
        # Behind the last window there may be pixels that none reaches.
        end = d.simplify(before[axis] + result[axis + 1])
        y = _padded(b, y, axis + 1, 0, d.larger(end - b.shape(y)[axis + 1], 0))
        y = _sliced(b, y, axis + 1, before[axis], end)
    return b.retype(y, [n, *(b.canonical(k) for k in result[1:])])
