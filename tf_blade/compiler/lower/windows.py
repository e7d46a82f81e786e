"""Windows that move over the spatial dims: pooling, and sums over neighbouring channels.

A window's place is a strided slice, and the places together one element-wise expression: right for
the small windows of pooling layers. The mean of the whole image is a reduction. Other windows stay
in TensorFlow, whose kernels go over the input once.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tf_blade.compiler.ir import dims as d
from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.dims import Dim
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.lower.elementwise import number
from tf_blade.compiler.lower.operands import channels_last, constant
from tf_blade.compiler.lower.registry import FLOATS, NUMBERS, lower
from tf_blade.errors import UnsupportedError

# Measured: with 9 reads of each element we are as fast as TensorFlow, with 25 slower.
_MOST_PLACES = 9


@dataclass(frozen=True)
class _Window:
    """Of each dim: the window's size, its step, the padding before and after, how many there are.

    The batch and the channels have size 1, step 1 and no padding.
    """

    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    counts: tuple[Dim, ...]

    @property
    def moving(self) -> range:
        """The spatial dims."""
        return range(1, len(self.sizes) - 1)

    @property
    def is_padded(self) -> bool:
        return any((*self.low, *self.high))


def _window(
    b: Builder,
    x: Value,
    sizes: Sequence[int],
    steps: Sequence[int],
    padding: str,
    explicit: Sequence[int],
    data_format: str,
) -> _Window:
    """The window of an op's attributes. Raises UnsupportedError for what isn't a small window over
    the spatial dims of channels-last images with static sizes."""
    rank = x.type.rank
    channels_last(b, data_format)
    if len(sizes) != rank or len(steps) != rank:
        raise UnsupportedError("windows of another rank", b.source)
    if (sizes[0], sizes[-1], steps[0], steps[-1]) != (1, 1, 1, 1):
        raise UnsupportedError("windows over the batch or the channels", b.source)
    low, high = [0] * rank, [0] * rank
    counts = list(b.shape(x))
    for axis in range(1, rank - 1):
        n, size, step = counts[axis], int(sizes[axis]), int(steps[axis])
        if not isinstance(n, int):
            raise UnsupportedError("windows over dims of unknown size", b.source)
        if padding == "EXPLICIT":
            low[axis], high[axis] = explicit[2 * axis], explicit[2 * axis + 1]
        elif padding == "SAME":
            missing = max((math.ceil(n / step) - 1) * step + size - n, 0)
            low[axis], high[axis] = missing // 2, missing - missing // 2
        if low[axis] >= size or high[axis] >= size:
            raise UnsupportedError("a window would see padding only", b.source)
        counts[axis] = (n + low[axis] + high[axis] - size) // step + 1
        if n == 0 or counts[axis] < 1:
            raise UnsupportedError("there is no window", b.source)
    return _Window(
        tuple(int(n) for n in sizes),
        tuple(int(n) for n in steps),
        tuple(low),
        tuple(high),
        tuple(counts),
    )


def _places(b: Builder, x: Value, window: _Window, fill: float) -> list[Value]:
    """For each place in the window, what all windows have there."""
    size = math.prod(window.sizes)
    if size > _MOST_PLACES:
        raise UnsupportedError(
            f"a window of {size} elements: beyond {_MOST_PLACES}, TensorFlow's kernel is faster",
            b.source,
        )
    if window.is_padded:
        # The border is a pass over all of the input.
        if max(window.steps) > 1:
            raise UnsupportedError(
                "a border and windows that skip elements: TensorFlow's kernel is faster",
                b.source,
            )
        x = b.pad(x, number(b, fill, x), window.low, window.high)
    found = []
    for offset in itertools.product(*(range(n) for n in window.sizes)):
        limits = list(b.shape(x))
        for axis in window.moving:
            steps = int(window.counts[axis]) - 1
            limits[axis] = offset[axis] + steps * window.steps[axis] + 1
        found.append(b.slice(x, offset, limits, window.steps))
    return found


def _places_of(
    b: Builder,
    x: Value,
    sizes: Sequence[int],
    steps: Sequence[int],
    padding: str,
    explicit: Sequence[int],
    data_format: str,
    fill: float,
) -> list[Value]:
    """For each place in the window of an op's attributes, what all windows have there."""
    unknown = not all(isinstance(n, int) for n in b.shape(x)[1:-1])
    if unknown and _are_side_by_side(b, x, sizes, steps, padding, data_format):
        return _side_by_side(b, x, [int(n) for n in sizes], padding, fill)
    window = _window(b, x, sizes, steps, padding, explicit, data_format)
    return _places(b, x, window, fill)


def _are_side_by_side(
    b: Builder,
    x: Value,
    sizes: Sequence[int],
    steps: Sequence[int],
    padding: str,
    data_format: str,
) -> bool:
    """Whether each element is in one window."""
    channels_last(b, data_format)
    return (
        list(sizes) == list(steps)
        and len(sizes) == x.type.rank
        and (sizes[0], sizes[-1]) == (1, 1)
        and math.prod(sizes) <= _MOST_PLACES
        and padding in ("SAME", "VALID")
    )


def _side_by_side(
    b: Builder, x: Value, sizes: Sequence[int], padding: str, fill: float
) -> list[Value]:
    """_places of windows that lie side by side, in an image of any size: there, an image of windows
    is a reshape."""
    dims = list(b.shape(x))
    low: list[Dim] = [0] * len(dims)
    high: list[Dim] = [0] * len(dims)
    cut = list(dims)
    split: list[Dim] = [dims[0]]
    for axis in range(1, len(dims) - 1):
        n, size = dims[axis], sizes[axis]
        count = d.ceil_div(n, size) if padding == "SAME" else d.floor_div(n, size)
        b.require_le(1, count, "there is a window")
        cut[axis] = d.product([count, size])
        missing = d.simplify(cut[axis] - n)
        low[axis] = d.floor_div(missing, 2)
        high[axis] = d.simplify(missing - low[axis])
        split += [count, size]
    if padding == "SAME":
        x = b.pad(x, number(b, fill, x), low, high)
    else:
        x = b.slice(x, [0] * len(dims), cut)
    split.append(dims[-1])
    x = b.reshape(x, split)
    found = []
    for offset in itertools.product(*(range(n) for n in sizes[1:-1])):
        starts: list[Dim] = [0] * len(split)
        limits = list(split)
        for i, place in enumerate(offset):
            starts[2 * i + 2], limits[2 * i + 2] = place, place + 1
        found.append(b.reshape(b.slice(x, starts, limits), [dims[0], *split[1:-1:2], dims[-1]]))
    return found


def _averages(b: Builder, x: Value, window: _Window) -> Value:
    if window.is_padded:
        raise UnsupportedError("means beside a border: TensorFlow's kernel is faster", b.source)
    if window.sizes[1:-1] == b.shape(x)[1:-1]:  # one window, the whole image
        total = b.reduce("sum", x, range(1, x.type.rank - 1))
        total = b.reshape(total, window.counts)
    else:
        total = functools.reduce(b.add, _places(b, x, window, 0))
    return b.div(total, number(b, math.prod(window.sizes), x))


@lower("AvgPool", dtypes=FLOATS)
def avg_pool(
    b: Builder,
    x: Value,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
    data_format: str,
) -> Value:
    """The mean of each window of an image, none over the border."""
    return _averages(b, x, _window(b, x, ksize, strides, padding, (), data_format))


@lower("AvgPool3D", dtypes=FLOATS)
def avg_pool_3d(
    b: Builder,
    x: Value,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
    data_format: str,
) -> Value:
    """The mean of each window of a volume, none over the border."""
    return _averages(b, x, _window(b, x, ksize, strides, padding, (), data_format))


def _lowest(x: Value) -> float:
    dtype = x.type.dtype
    info = np.finfo(dtype.numpy) if dtype.is_float else np.iinfo(dtype.numpy)
    return info.min


def _maxima(
    b: Builder,
    x: Value,
    sizes: Sequence[int],
    steps: Sequence[int],
    padding: str,
    explicit: Sequence[int],
    data_format: str,
) -> Value:
    """As TensorFlow's kernel: it starts from the lowest finite number, and NaN never wins."""

    def larger(best: Value, place: Value) -> Value:
        return b.select(b.compare("GT", place, best), place, best)

    places = _places_of(b, x, sizes, steps, padding, explicit, data_format, _lowest(x))
    return functools.reduce(larger, places, number(b, _lowest(x), x))


@lower("MaxPool", dtypes=NUMBERS)
def max_pool(
    b: Builder,
    x: Value,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
    explicit_paddings: Sequence[int],
    data_format: str,
) -> Value:
    """The maximum of each window of an image; NaN never wins"""
    return _maxima(b, x, ksize, strides, padding, explicit_paddings, data_format)


@lower("MaxPoolV2", dtypes=NUMBERS, constants=[1, 2])
def max_pool_v2(
    b: Builder, x: Value, ksize: Value, strides: Value, *, padding: str, data_format: str
) -> Value:
    """The maximum of each window of an image; NaN never wins"""
    sizes = [int(n) for n in constant(b, ksize, "the window's size").flat]
    steps = [int(n) for n in constant(b, strides, "the strides").flat]
    return _maxima(b, x, sizes, steps, padding, (), data_format)


@lower("MaxPool3D", dtypes=FLOATS)
def max_pool_3d(
    b: Builder,
    x: Value,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
    data_format: str,
) -> Value:
    """The maximum of each window of a volume; NaN wins (in TensorFlow it depends on its place)"""
    places = _places_of(b, x, ksize, strides, padding, (), data_format, -math.inf)
    return functools.reduce(lambda best, place: b.binary("max", best, place), places)


# TensorFlow multiplies with a band matrix; sums of neighbours are faster up to here at least.
_FARTHEST = 8


@lower("LRN", dtypes=FLOATS)
def lrn(
    b: Builder, x: Value, *, depth_radius: int, bias: float, alpha: float, beta: float
) -> Value:
    """x / (bias + alpha sum of the squares of neighbouring channels)^beta"""
    if depth_radius > _FARTHEST:
        raise UnsupportedError(f"a window of {2 * depth_radius + 1} channels", b.source)
    channels = b.shape(x)[-1]
    border = [*[0] * (x.type.rank - 1), depth_radius]
    squares = b.pad(b.mul(x, x), number(b, 0, x), border, border)
    total: Value | None = None
    for offset in range(2 * depth_radius + 1):
        starts: list[Dim] = [*[0] * (x.type.rank - 1), offset]
        limits: list[Dim] = [*b.shape(x)[:-1], channels + offset]
        place = b.slice(squares, starts, limits)
        total = place if total is None else b.add(total, place)
    assert total is not None
    size = b.add(number(b, bias, x), b.mul(number(b, alpha, x), total))
    if beta == 1:
        return b.div(x, size)
    if beta == 0.5:
        return b.mul(x, b.unary("rsqrt", size))
    return b.mul(x, b.unary("exp", b.mul(number(b, -beta, x), b.unary("log", size))))
