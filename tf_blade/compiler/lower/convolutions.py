"""Convolutions over channels-last images: matrix products where a filter has one pixel, else the
host's convolution. Other data formats stay in TensorFlow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tf_blade.compiler.ir import dims as d
from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.dims import Dim
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.lower.operands import channels_last
from tf_blade.compiler.lower.registry import FLOATS, lower
from tf_blade.errors import UnsupportedError

# Elements that the window of one pixel may see: the library copies those at a border.
_MOST_SEEN = 32 * 1024


@dataclass(frozen=True)
class _Geometry:
    """Of each spatial dim: the step and the dilation, the padding before x, how many windows."""

    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    low: tuple[Dim, ...]
    sizes: tuple[Dim, ...]


def _spatial(b: Builder, values: Sequence[int], rank: int, what: str) -> tuple[int, ...]:
    """The spatial ones of an attribute with a number for each dim."""
    if len(values) != rank or values[0] != 1 or values[-1] != 1:
        raise UnsupportedError(f"{what} over the batch or the channels", b.source)
    return tuple(int(n) for n in values[1:-1])


def _geometry(
    b: Builder,
    x: Value,
    filters: Value,
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: str,
    explicit: Sequence[int],
    data_format: str,
) -> _Geometry:
    """From a TensorFlow op's attributes. Raises UnsupportedError for what has no lowering."""
    rank = x.type.rank
    channels_last(b, data_format)
    window = b.shape(filters)[:-1]
    if filters.type.rank != rank or not all(isinstance(n, int) and n > 0 for n in window):
        raise UnsupportedError("a filter of unknown size", b.source)
    if math.prod(window) > _MOST_SEEN:
        raise UnsupportedError(f"a window of {math.prod(window)} elements", b.source)
    steps = _spatial(b, strides, rank, "strides")
    rates = _spatial(b, dilations, rank, "dilations")
    low: list[Dim] = []
    sizes: list[Dim] = []
    for axis, n in enumerate(b.shape(x)[1:-1]):
        extent = (window[axis] - 1) * rates[axis] + 1
        before, size = _along(b, n, extent, steps[axis], padding, explicit[2 * axis + 2 :])
        low.append(before)
        sizes.append(size)
    return _Geometry(steps, rates, tuple(low), tuple(sizes))


def _along(
    b: Builder, n: Dim, extent: Dim, step: int, padding: str, explicit: Sequence[int]
) -> tuple[Dim, Dim]:
    """The padding before n elements, and how many windows of this extent there are."""
    if padding == "SAME":
        count = d.ceil_div(n, step)
        missing = d.larger((count - 1) * step + extent - n, 0)
        return d.floor_div(missing, 2), count
    before, after = (int(i) for i in explicit[:2]) if padding == "EXPLICIT" else (0, 0)
    if before < 0 or after < 0:
        raise UnsupportedError("negative padding", b.source)
    b.require_le(extent, n + before + after, "a window fits")
    return before, d.simplify(d.floor_div(n + before + after - extent, step) + 1)


def _is_product(geometry: _Geometry, filters: Value) -> bool:
    one_pixel = all(n == 1 for n in filters.type.shape[:-2])
    steps = all(step == 1 for step in geometry.strides)
    return one_pixel and steps and all(n == 0 for n in geometry.low)


def _convolution(b: Builder, x: Value, filters: Value, geometry: _Geometry) -> Value:
    """x [batch, spatial…, groups * channels] with filter [window…, channels, new channels]."""
    *_, channels, new = b.shape(filters)
    if not isinstance(channels, int) or channels < 1:
        raise UnsupportedError("a filter of an unknown number of channels", b.source)
    seen = b.shape(x)[-1]
    if not isinstance(seen, int):  # groups are rare
        seen = b.same_dim(seen, channels, "channels of a convolution")
    groups, rest = divmod(int(seen), channels)
    if rest != 0 or groups < 1:
        raise UnsupportedError("groups of channels that the filter doesn't fit", b.source)
    if groups > 1 and (not isinstance(new, int) or new % groups != 0):
        raise UnsupportedError("filters that can't be shared out to the groups", b.source)
    pixels = b.shape(x)[:-1]
    if groups == 1 and _is_product(geometry, filters) and pixels[1:] == geometry.sizes:
        rows = b.reshape(x, [d.product(pixels), channels])
        product = b.dot_general(rows, b.reshape(filters, [channels, new]))
        return b.reshape(product, [*pixels, new])
    return b.conv(
        x,
        filters,
        strides=geometry.strides,
        dilations=geometry.dilations,
        low=geometry.low,
        sizes=geometry.sizes,
        groups=groups,
    )


def one_group(b: Builder, x: Value, filters: Value) -> None:
    """All filters see all channels."""
    b.same_dim(b.shape(x)[-1], b.shape(filters)[-2], "one group of channels")


@lower("Conv2D", dtypes=FLOATS, ignores=["use_cudnn_on_gpu"])
def conv2d(
    b: Builder,
    x: Value,
    filters: Value,
    *,
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: str,
    explicit_paddings: Sequence[int],
    data_format: str,
) -> Value:
    """Convolution over images, channels last; groups of channels, too"""
    geometry = _geometry(b, x, filters, strides, dilations, padding, explicit_paddings, data_format)
    return _convolution(b, x, filters, geometry)


@lower("Conv3D", dtypes=FLOATS)
def conv3d(
    b: Builder,
    x: Value,
    filters: Value,
    *,
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: str,
    data_format: str,
) -> Value:
    """Convolution over volumes, channels last"""
    geometry = _geometry(b, x, filters, strides, dilations, padding, (), data_format)
    # TensorFlow reports an error for both.
    one_group(b, x, filters)
    if any(n != 1 for n in geometry.dilations):
        raise UnsupportedError("dilated filters", b.source)
    return _convolution(b, x, filters, geometry)


@lower("DepthwiseConv2dNative", dtypes=FLOATS)
def depthwise_conv2d(
    b: Builder,
    x: Value,
    filters: Value,
    *,
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: str,
    explicit_paddings: Sequence[int],
    data_format: str,
) -> Value:
    """Filters [window…, channels, multiplier] that see one channel each, channels last"""
    geometry = _geometry(b, x, filters, strides, dilations, padding, explicit_paddings, data_format)
    # TensorFlow's kernels disagree: Eigen's takes neither.
    if any(n != 1 for n in geometry.dilations):
        raise UnsupportedError("dilated filters", b.source)
    if len(set(geometry.strides)) != 1:
        raise UnsupportedError("strides that differ", b.source)
    *window, channels, multiplier = b.shape(filters)
    one_group(b, x, filters)
    if not isinstance(channels, int) or not isinstance(multiplier, int):
        raise UnsupportedError("a filter of an unknown number of channels", b.source)
    # A group a channel: the same elements in the same order.
    return _convolution(b, x, b.reshape(filters, [*window, 1, channels * multiplier]), geometry)
