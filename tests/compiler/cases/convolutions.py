"""Cases of convolutions: windows, strides, dilations, borders, groups, images of any size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import tensorflow as tf

from tests.compiler.cases.raw import raw
from tests.compiler.values import Arg, Case, NamedShape, finite

BATCHES = (0, 1, 2, 3)
SIDES = (3, 4, 5, 8, 17)
EXPLICIT = (0, 0, 1, 2, 0, 3, 0, 0)
# The window's size, strides, dilations, padding.
WINDOWS: dict[str, tuple[Sequence[int], Sequence[int], Sequence[int], str]] = {
    "pixel": ((1, 1), (1, 1), (1, 1), "SAME"),
    "pixel_steps": ((1, 1), (2, 3), (1, 1), "SAME"),
    "pixel_dilated": ((1, 1), (1, 1), (2, 2), "VALID"),
    "pixel_explicit": ((1, 1), (1, 1), (1, 1), "EXPLICIT"),
    "same": ((3, 3), (1, 1), (1, 1), "SAME"),
    "valid": ((3, 2), (1, 1), (1, 1), "VALID"),
    "steps": ((3, 3), (2, 2), (1, 1), "SAME"),
    "steps_valid": ((2, 3), (3, 2), (1, 1), "VALID"),
    "far_steps": ((2, 2), (3, 4), (1, 1), "SAME"),
    "dilated": ((3, 3), (1, 1), (2, 3), "SAME"),
    "dilated_valid": ((2, 2), (1, 1), (2, 1), "VALID"),
    "explicit": ((4, 3), (2, 1), (1, 1), "EXPLICIT"),
    "row": ((1, 5), (1, 2), (1, 1), "SAME"),
    "column": ((4, 1), (1, 1), (1, 1), "SAME"),
    "column_steps": ((4, 1), (2, 1), (1, 1), "SAME"),
}


def cases() -> Iterator[Case]:
    yield from _images()
    yield from _any_images()
    yield from _grouped()
    yield from _volumes()
    yield from _depthwise()
    yield from _transposed()
    yield from _layers()
    yield from _dilated_by_blocks()


def _attrs(name: str) -> dict[str, object]:
    _, strides, dilations, padding = WINDOWS[name]
    return {
        "strides": [1, *strides, 1],
        "padding": padding,
        "dilations": [1, *dilations, 1],
        "explicit_paddings": EXPLICIT if padding == "EXPLICIT" else (),
    }


def _case(
    name: str,
    op: str,
    attrs: dict[str, object],
    x: NamedShape,
    filters: NamedShape,
    dtype: str = "f32",
    sizes: Sequence[int] = BATCHES,
) -> Case:
    """Sums of up to 180 products of numbers up to 8. What cancels leaves the rounding errors of
    sums whose magnitudes add up to 500: TensorFlow's own f32 results are off by up to 3e-5."""
    return Case(
        f"{op}.{name}",
        raw(op, **attrs),
        (Arg(dtype, x, finite), Arg(dtype, filters, finite)),
        relative=1e-5,
        absolute=1e-4 if dtype == "f32" else 1e-12,
        sizes=sizes,
    )


def _images() -> Iterator[Case]:
    for name, (window, *_) in WINDOWS.items():
        for dtype in ("f32", "f64"):
            x, filters = ("n", 7, 6, 3), (*window, 3, 4)
            yield _case(f"{name}.{dtype}", "Conv2D", _attrs(name), x, filters, dtype)
    many = (("n", 9, 5, 1), (3, 3, 1, 35)), (("n", 5, 30, 20), (3, 3, 20, 2))
    for number, (x, filters) in enumerate(many):
        yield _case(f"channels_{number}", "Conv2D", _attrs("same"), x, filters)
    yield _case(
        "any_filters", "Conv2D", _attrs("same"), ("n", 5, 7, 3), (2, 2, 3, "k"), sizes=BATCHES[1:]
    )


def _any_images() -> Iterator[Case]:
    for name, (window, *_) in WINDOWS.items():
        x, filters = ("n", "h", "w", 2), (*window, 2, 5)
        yield _case(f"any_image.{name}", "Conv2D", _attrs(name), x, filters, sizes=SIDES)


def _grouped() -> Iterator[Case]:
    for name in ("same", "steps", "dilated_valid"):
        window = WINDOWS[name][0]
        x, filters = ("n", 6, 7, 6), (*window, 2, 9)
        yield _case(f"grouped.{name}", "Conv2D", _attrs(name), x, filters)


def _volumes() -> Iterator[Case]:
    forms: dict[str, tuple[Sequence[int], Sequence[int], str]] = {
        "pixel": ((1, 1, 1), (1, 1, 1), "VALID"),
        "pixel_steps": ((1, 1, 1), (2, 1, 2), "VALID"),
        "same": ((3, 2, 3), (1, 1, 1), "SAME"),
        "steps": ((2, 3, 2), (2, 1, 2), "SAME"),
        "valid": ((2, 1, 3), (1, 2, 1), "VALID"),
    }
    for name, (window, strides, padding) in forms.items():
        attrs: dict[str, object] = {
            "strides": [1, *strides, 1],
            "padding": padding,
        }
        yield _case(name, "Conv3D", attrs, ("n", 4, 5, 6, 3), (*window, 3, 4), sizes=BATCHES[1:])


def _depthwise() -> Iterator[Case]:
    for name in ("same", "valid", "steps", "explicit_steps"):
        window: Sequence[int] = (3, 3)
        attrs = _attrs("steps" if name == "explicit_steps" else name)
        if name == "explicit_steps":
            attrs |= {"padding": "EXPLICIT", "explicit_paddings": EXPLICIT}
        for multiplier, channels in ((1, 5), (2, 3), (1, 37), (3, 1)):
            x, filters = ("n", 7, 6, channels), (*window, channels, multiplier)
            yield _case(
                f"{name}.{channels}x{multiplier}", "DepthwiseConv2dNative", attrs, x, filters
            )
    yield _case("f64", "DepthwiseConv2dNative", _attrs("same"), ("n", 4, 6, 9), (3, 3, 9, 1), "f64")
    yield _case(
        "any_image",
        "DepthwiseConv2dNative",
        _attrs("steps"),
        ("n", "h", "w", 4),
        (3, 3, 4, 1),
        sizes=SIDES,
    )


def _transposed() -> Iterator[Case]:
    # The window's size, strides, padding, the result's size for an image of 4 x 5.
    forms: dict[str, tuple[Sequence[int], Sequence[int], str, Sequence[int]]] = {
        "blocks": ((2, 2), (2, 2), "VALID", (8, 10)),
        "same": ((3, 3), (2, 2), "SAME", (8, 10)),
        "same_odd": ((3, 3), (2, 2), "SAME", (7, 9)),
        "valid": ((3, 4), (2, 3), "VALID", (9, 16)),
        "beyond": ((3, 4), (2, 3), "VALID", (10, 18)),
        "row": ((1, 7), (1, 4), "SAME", (4, 20)),
        "column": ((3, 1), (1, 1), "SAME", (4, 5)),
        "gaps": ((2, 1), (3, 2), "SAME", (12, 9)),
    }
    for name, (window, strides, padding, size) in forms.items():

        def transposed(
            filters: tf.Tensor,
            x: tf.Tensor,
            strides: Sequence[int] = strides,
            padding: str = padding,
            size: Sequence[int] = size,
        ) -> tf.Tensor:
            return tf.nn.conv2d_transpose(x, filters, [tf.shape(x)[0], *size, 3], strides, padding)

        for dtype in ("f32", "f64"):
            yield Case(
                f"Conv2DBackpropInput.{name}.{dtype}",
                transposed,
                (Arg(dtype, (*window, 3, 2), finite), Arg(dtype, ("n", 4, 5, 2), finite)),
                relative=1e-5,
                absolute=1e-5,
                sizes=BATCHES[1:],
            )

    def upsampled(filters: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
        n, height, width, _ = tf.unstack(tf.shape(x))
        return tf.nn.conv2d_transpose(x, filters, [n, 2 * height, 3 * width, 4], [2, 3], "SAME")

    yield Case(
        "Conv2DBackpropInput.any_image",
        upsampled,
        (Arg("f32", (3, 5, 4, 2), finite), Arg("f32", ("n", "h", "w", 2), finite)),
        relative=1e-5,
        absolute=1e-5,
        sizes=SIDES,
    )


def _layers() -> Iterator[Case]:
    """With what surrounds a convolution: a border made beforehand, a bias, an activation."""

    def layer(x: tf.Tensor, filters: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
        padded = tf.pad(x, [[0, 0], [1, 2], [0, 3], [0, 0]])
        y = tf.nn.conv2d(padded, filters, [1, 2, 1, 1], "VALID")
        return tf.nn.relu(tf.nn.bias_add(y, bias))

    yield Case(
        "Conv2D.layer",
        layer,
        (
            Arg("f32", ("n", "h", 6, 3), finite),
            Arg("f32", (3, 3, 3, 20), finite),
            Arg("f32", (20,), finite),
        ),
        relative=1e-5,
        absolute=1e-5,
        sizes=SIDES,
    )


def _dilated_by_blocks() -> Iterator[Case]:
    """SpaceToBatchND, a convolution, BatchToSpaceND: how many models write dilated ones."""

    def images(x: tf.Tensor, filters: tf.Tensor) -> tf.Tensor:
        return tf.nn.conv2d(x, filters, [1, 1, 1, 1], "VALID")

    def channels(x: tf.Tensor, filters: tf.Tensor) -> tf.Tensor:
        return tf.nn.depthwise_conv2d(x, filters, [1, 1, 1, 1], "VALID")

    def sequences(x: tf.Tensor, filters: tf.Tensor) -> tf.Tensor:
        return tf.nn.conv1d(x, filters, 1, "VALID")

    def biased(x: tf.Tensor, filters: tf.Tensor) -> tf.Tensor:
        return tf.nn.relu(tf.nn.bias_add(images(x, filters), [0.5, -1.0, 2.0, 0.0]))

    forms: dict[str, tuple[Callable[..., tf.Tensor], NamedShape, NamedShape, Sequence[int]]] = {
        "images": (images, ("n", 13, 11, 3), (3, 2, 3, 4), (2, 3)),
        "any_image": (images, ("n", "h", 14, 3), (3, 3, 3, 4), (3, 2)),
        "rows_only": (images, ("n", "h", 6, 3), (2, 3, 3, 4), (2, 1)),
        "layer": (biased, ("n", 13, "h", 3), (2, 2, 3, 4), (3, 4)),
        "channels": (channels, ("n", "h", 9, 5), (3, 2, 5, 2), (2, 2)),
        "sequence": (sequences, ("n", 20, 3), (3, 3, 5), (4,)),
        "any_sequence": (sequences, ("n", "h", 3), (3, 3, 5), (3,)),
    }
    for name, (convolve, x, filters, rates) in forms.items():
        for padding in ("SAME", "VALID"):

            def dilated(
                x: tf.Tensor,
                filters: tf.Tensor,
                convolve: Callable[..., tf.Tensor] = convolve,
                rates: Sequence[int] = rates,
                padding: str = padding,
            ) -> tf.Tensor:
                window = tf.constant(filters.shape.as_list()[: len(rates)])
                return tf.nn.with_space_to_batch(
                    x,
                    list(rates),
                    padding,
                    lambda blocks, *_: convolve(blocks, filters),
                    filter_shape=window,
                )

            yield Case(
                f"BatchToSpaceND.dilated.{name}.{padding}",
                dilated,
                (Arg("f32", x, finite), Arg("f32", filters, finite)),
                relative=1e-5,
                absolute=1e-4,
                sizes=(1, 7, 8, 12, 17),
            )
