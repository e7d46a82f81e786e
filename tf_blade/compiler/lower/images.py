"""Images of another size. Sizes are known, so what each pixel is made of is, too."""

from __future__ import annotations

import numpy as np

from tf_blade.compiler.ir import dims as d
from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.ir.types import DType
from tf_blade.compiler.lower.operands import content
from tf_blade.compiler.lower.registry import NUMBERS, lower
from tf_blade.errors import UnsupportedError

_F32 = np.float32


def _sizes(b: Builder, images: Value, size: Value) -> list[tuple[int, int]]:
    """(old, new) height and width."""
    pairs = list(zip(b.shape(images)[1:3], content(b, size, "the new size"), strict=True))
    found = [(old, new) for old, new in pairs if isinstance(old, int) and isinstance(new, int)]
    if len(found) < 2 or any(n < 1 for pair in found for n in pair):
        raise UnsupportedError("the image's old and new size must be known", b.source)
    b.require_le(1, b.shape(images)[3], "an image has at least one channel")
    return found


def _scale(old: int, new: int, align_corners: bool) -> np.float32:
    if align_corners and new > 1:
        return _F32(old - 1) / _F32(new - 1)
    return _F32(old) / _F32(new)


def _taken(b: Builder, images: Value, axis: int, places: np.ndarray) -> Value:
    if places.tolist() == list(range(int(images.type.shape[axis]))):
        return images
    return b.gather(images, b.constant(places, DType.I32), axis)


@lower("AdjustContrastv2", dtypes=frozenset([DType.F32]))
def adjust_contrast_v2(b: Builder, images: Value, contrast_factor: Value) -> Value:
    """Each channel of each image moved from its mean by a factor."""
    *_, h, w, _ = b.shape(images)
    rank = images.type.rank
    over = [rank - 3, rank - 2]
    size = b.convert(b.shape_value(d.simplify(h * w), DType.I64), DType.F32)
    kept = [1 if i in over else n for i, n in enumerate(b.shape(images))]
    mean = b.reshape(b.div(b.reduce("sum", images, over), size), kept)
    return b.add(b.mul(b.sub(images, mean), contrast_factor), mean)


@lower("ResizeNearestNeighbor", dtypes=NUMBERS, contents=[1])
def resize_nearest_neighbor(
    b: Builder, images: Value, size: Value, *, align_corners: bool, half_pixel_centers: bool
) -> Value:
    """Images of another size; each pixel is the nearest one."""
    for axis, (old, new) in enumerate(_sizes(b, images, size), 1):
        at = np.arange(new, dtype=_F32)
        scaled = (at + _F32(0.5) if half_pixel_centers else at) * _scale(old, new, align_corners)
        # C's round: halves go up.
        nearest = np.floor(scaled + _F32(0.5)) if align_corners else np.floor(scaled)
        images = _taken(b, images, axis, np.clip(nearest.astype(np.int64), 0, old - 1))
    return images


@lower("ResizeBilinear", dtypes=NUMBERS, contents=[1])
def resize_bilinear(
    b: Builder, images: Value, size: Value, *, align_corners: bool, half_pixel_centers: bool
) -> Value:
    """Images of another size, f32; each pixel is mixed from the four around it."""
    images = b.convert(images, DType.F32)
    sizes = _sizes(b, images, size)
    # Columns are mixed first, as in TensorFlow.
    for axis in (2, 1):
        old, new = sizes[axis - 1]
        at, scale = np.arange(new, dtype=_F32), _scale(old, new, align_corners)
        half = _F32(0.5)
        place = (at + half) * scale - half if half_pixel_centers else at * scale
        below = np.floor(place)
        first = np.maximum(below.astype(np.int64), 0)
        second = np.minimum(np.ceil(place).astype(np.int64), old - 1)
        share = place - below
        left, right = _taken(b, images, axis, first), _taken(b, images, axis, second)
        if not share.any():
            images = left
            continue
        view = [1, 1, 1, 1]
        view[axis] = new
        weight = b.reshape(b.constant(share, DType.F32), view)
        images = b.add(left, b.mul(b.sub(right, left), weight))
    return images
