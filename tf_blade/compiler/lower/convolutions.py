"""Convolutions that are matrix products: filters of one pixel.

Filters over several pixels stay in TensorFlow.
"""

from __future__ import annotations

from collections.abc import Sequence

from tf_blade.compiler.ir import dims as d
from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.lower.registry import FLOATS, lower
from tf_blade.errors import UnsupportedError


def _pointwise(
    b: Builder,
    x: Value,
    filters: Value,
    strides: Sequence[int],
    explicit: Sequence[int],
    data_format: str,
) -> Value:
    """x [batch, spatial…, channels] times filters [1…, channels, new channels] at every pixel."""
    rank = x.type.rank
    *window, channels, new = b.shape(filters)
    if not data_format.endswith("C"):
        raise UnsupportedError(f"convolutions in data format {data_format}", b.source)
    if any(n != 1 for n in window) or len(window) != rank - 2:
        raise UnsupportedError("a filter of more than one pixel", b.source)
    if any(explicit):
        raise UnsupportedError("a border around a filter of one pixel", b.source)
    if strides[0] != 1 or strides[-1] != 1:
        raise UnsupportedError("strides over the batch or the channels", b.source)
    if not isinstance(channels, int) or b.shape(x)[-1] != channels:
        raise UnsupportedError("groups of channels", b.source)
    if any(step != 1 for step in strides):
        shape = b.shape(x)
        if not all(isinstance(n, int) for n in shape[1:-1]):
            raise UnsupportedError("strides over dims of unknown size", b.source)
        x = b.slice(x, [0] * rank, shape, [int(step) for step in strides])
    pixels = b.shape(x)[:-1]
    rows = b.reshape(x, [d.product(pixels), channels])
    product = b.dot_general(rows, b.reshape(filters, [channels, new]))
    return b.reshape(product, [*pixels, new])


_IGNORED = ["padding", "use_cudnn_on_gpu", "dilations"]  # a single pixel has nothing between


@lower("Conv2D", dtypes=FLOATS, ignores=_IGNORED)
def conv2d(
    b: Builder,
    x: Value,
    filters: Value,
    *,
    strides: Sequence[int],
    explicit_paddings: Sequence[int],
    data_format: str,
) -> Value:
    """A filter of one pixel over images, channels last, ungrouped"""
    return _pointwise(b, x, filters, strides, explicit_paddings, data_format)


@lower("Conv3D", dtypes=FLOATS, ignores=["padding", "dilations"])
def conv3d(
    b: Builder, x: Value, filters: Value, *, strides: Sequence[int], data_format: str
) -> Value:
    """A filter of one pixel over volumes, channels last, ungrouped"""
    return _pointwise(b, x, filters, strides, (), data_format)
