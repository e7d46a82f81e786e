"""Convolutions, also transposed ones, and what is written with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from tests.compiler.cases.raw import raw
from tests.conformance_ops.behaviour import INF, NAN, Behaviour, counted, f32, zeros


def _small(*shape: int, dtype: type = np.float32) -> np.ndarray:
    """Numbers whose sums of products stay exact."""
    return counted(*shape, dtype=dtype) % 7 - 3


def _images() -> Iterator[Behaviour]:
    filters = _small(3, 2, 2, 4)
    feeds: dict[str, Sequence[np.ndarray]] = {
        "usual": (_small(2, 5, 4, 2), filters),
        "smaller than the window": (_small(2, 1, 1, 2), filters),
        "no images": (zeros(0, 5, 4, 2), filters),
        "no rows": (zeros(2, 0, 4, 2), filters),
        "no pixels": (zeros(2, 0, 0, 2), filters),
        "other channels": (_small(2, 5, 4, 3), filters),
        "no channels": (zeros(2, 5, 4, 0), filters),
        "special": (f32([NAN, INF, 1, -INF] * 10).reshape(1, 5, 4, 2), filters),
    }
    forms: dict[str, dict[str, object]] = {
        "same": {"padding": "SAME", "strides": [1, 1]},
        "valid": {"padding": "VALID", "strides": [1, 1]},
        "steps": {"padding": "SAME", "strides": [2, 3]},
        "dilated": {"padding": "VALID", "strides": [1, 1], "dilations": [2, 1]},
        "explicit": {"padding": [[0, 0], [2, 0], [0, 3], [0, 0]], "strides": [1, 1]},
    }
    for name, options in forms.items():
        yield Behaviour(
            f"Conv2D.{name}",
            lambda x, w, options=options: tf.nn.conv2d(x, w, **options),
            feeds,
            dims=[[None] * 4, filters.shape],
        )
    yield Behaviour(
        "Conv2D.f64",
        lambda x, w: tf.nn.conv2d(x, w, 1, "SAME"),
        {
            "usual": (_small(2, 5, 4, 2, dtype=np.float64), filters.astype(np.float64)),
            "no images": (zeros(0, 5, 4, 2, dtype=np.float64), filters.astype(np.float64)),
        },
        dims=[[None] * 4, filters.shape],
    )
    yield Behaviour(
        "Conv2D.groups",
        lambda x, w: tf.nn.conv2d(x, w, 1, "SAME"),
        {
            "usual": (_small(2, 5, 4, 4), filters),
            "no images": (zeros(0, 5, 4, 4), filters),
        },
        dims=[[None, None, None, 4], filters.shape],
    )
    yield Behaviour(
        "Conv2D.pixel",
        lambda x, w: tf.nn.conv2d(x, w, 1, "VALID"),
        {
            "usual": (_small(2, 3, 4, 2), _small(1, 1, 2, 5)),
            "no images": (zeros(0, 3, 4, 2), _small(1, 1, 2, 5)),
            "no columns": (zeros(2, 3, 0, 2), _small(1, 1, 2, 5)),
            "other channels": (_small(2, 3, 4, 3), _small(1, 1, 2, 5)),
        },
        dims=[[None] * 4, [1, 1, 2, 5]],
    )
    yield Behaviour(
        "Conv2D.layer",
        lambda x, w, c: tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, w, 1, "SAME"), c)),
        {
            "usual": (_small(2, 5, 4, 2), filters, counted(4) - 2),
            "no images": (zeros(0, 5, 4, 2), filters, counted(4)),
        },
        dims=[[None] * 4, filters.shape, [4]],
    )
    yield Behaviour(
        "Conv2D.channels_first",
        lambda x, w: tf.nn.conv2d(x, w, 1, "SAME", data_format="NCHW"),
        {"usual": (_small(2, 2, 5, 4), filters)},
        dims=[[None] * 4, filters.shape],
        outside="data format NCHW",
    )


def _other_ranks() -> Iterator[Behaviour]:
    yield Behaviour(
        "Conv2D.sequence",
        lambda x, w: tf.nn.conv1d(x, w, 2, "SAME"),
        {
            "usual": (_small(2, 7, 2), _small(3, 2, 4)),
            "no sequences": (zeros(0, 7, 2), _small(3, 2, 4)),
            "no steps": (zeros(2, 0, 2), _small(3, 2, 4)),
            "other channels": (_small(2, 7, 3), _small(3, 2, 4)),
        },
        dims=[[None] * 3, [3, 2, 4]],
    )
    yield Behaviour(
        "Conv3D.same",
        lambda x, w: tf.nn.conv3d(x, w, [1, 1, 2, 1, 1], "SAME"),
        {
            "usual": (_small(2, 3, 4, 3, 2), _small(2, 2, 3, 2, 3)),
            "no volumes": (zeros(0, 3, 4, 3, 2), _small(2, 2, 3, 2, 3)),
            "no layers": (zeros(2, 0, 4, 3, 2), _small(2, 2, 3, 2, 3)),
            "other channels": (_small(2, 3, 4, 3, 4), _small(2, 2, 3, 2, 3)),
        },
        dims=[[None] * 5, [2, 2, 3, 2, 3]],
    )
    yield Behaviour(
        "DepthwiseConv2dNative.valid",
        raw("DepthwiseConv2dNative", strides=[1, 1, 1, 1], padding="VALID"),
        {
            "usual": (_small(2, 5, 4, 3), _small(3, 2, 3, 2)),
            "no images": (zeros(0, 5, 4, 3), _small(3, 2, 3, 2)),
            "other channels": (_small(2, 5, 4, 2), _small(3, 2, 3, 2)),
            "smaller than the window": (_small(2, 1, 4, 3), _small(3, 2, 3, 2)),
        },
        dims=[[None] * 4, [3, 2, 3, 2]],
    )


def _transposed() -> Iterator[Behaviour]:
    def upsampled(x: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        n, height, width, _ = tf.unstack(tf.shape(x))
        return tf.nn.conv2d_transpose(x, w, [n, 2 * height, 2 * width, 2], 2, "SAME")

    def fixed(x: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        return tf.nn.conv2d_transpose(x, w, [tf.shape(x)[0], 6, 6, 2], 2, "SAME")

    filters = _small(3, 3, 2, 4)
    yield Behaviour(
        "Conv2DBackpropInput.same",
        upsampled,
        {
            "usual": (_small(2, 3, 4, 4), filters),
            "no images": (zeros(0, 3, 4, 4), filters),
            "other channels": (_small(2, 3, 4, 3), filters),
        },
        dims=[[None] * 4, filters.shape],
    )
    yield Behaviour(
        "Conv2DBackpropInput.fixed",
        fixed,
        {
            "usual": (_small(2, 3, 3, 4), filters),
            "another size": (_small(2, 4, 3, 4), filters),
        },
        dims=[[None] * 4, filters.shape],
    )


def _blocks() -> Iterator[Behaviour]:
    def dilated(x: tf.Tensor, w: tf.Tensor, crop: int) -> tf.Tensor:
        blocks = tf.space_to_batch_nd(x, [2, 2], [[2, 2], [2, 2]])
        blocks = tf.nn.conv2d(blocks, w, 1, "VALID")
        return tf.batch_to_space(blocks, [2, 2], [[0, crop], [0, 0]])

    filters = _small(3, 3, 2, 4)
    for crop in (0, 1):
        yield Behaviour(
            f"BatchToSpaceND.dilated_{crop}",
            lambda x, w, crop=crop: dilated(x, w, crop),
            {
                "usual": (_small(2, 6, 4, 2), filters),
                "does not divide": (_small(2, 5, 4, 2), filters),
                "no images": (zeros(0, 6, 4, 2), filters),
                "no rows": (zeros(2, 0, 4, 2), filters),
                "other channels": (_small(2, 6, 4, 3), filters),
            },
            dims=[[None] * 4, filters.shape],
        )


def _normalisation() -> Iterator[Behaviour]:
    channel = f32([1, -2, 0.5])
    for data_format, shape in (("NHWC", (2, 4, 2, 3)), ("NCHW", (2, 3, 4, 2))):

        def normalised(*inputs: tf.Tensor, data_format: str = data_format) -> tf.Tensor:
            return raw("FusedBatchNormV3", is_training=False, data_format=data_format)(*inputs)[0]

        yield Behaviour(
            f"FusedBatchNormV3.{data_format}",
            normalised,
            {
                "usual": (_small(*shape), channel, channel, channel, channel**2),
                "no images": (zeros(0, *shape[1:]), channel, channel, channel, channel**2),
                "no variance": (_small(*shape), channel, channel, channel, zeros(3)),
                "other channels": (_small(*shape), zeros(2), zeros(2), zeros(2), zeros(2)),
            },
        )


ROWS = [
    *_images(),
    *_other_ranks(),
    *_transposed(),
    *_blocks(),
    *_normalisation(),
]
