"""Complex numbers and Fourier transforms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from tests.conformance_ops.behaviour import INF, NAN, Behaviour, counted, f32, f64, zeros


def _transforms() -> Iterator[Behaviour]:
    def magnitude(x: Any) -> Any:
        return tf.abs(tf.raw_ops.RFFT(input=x, fft_length=[6]))

    feeds = {
        "usual": (counted(2, 6),),
        "longer": (counted(2, 9),),
        "too short": (counted(2, 5),),
        "no rows": (zeros(0, 6),),
    }
    yield Behaviour("RFFT.magnitude", magnitude, feeds)
    yield Behaviour("RFFT.vector", magnitude, {"usual": (counted(6),), "too short": (counted(2),)})
    yield Behaviour(
        "RFFT.f64",
        lambda x: tf.abs(tf.signal.rfft(x, [6])),
        {"usual": (f64([[1, 2, 3, 4, 5, 6]]),)},
        dims=[[None, 6]],
        outside="no lowering",
    )
    yield Behaviour(
        "Complex.transformed_back",
        lambda x, y: tf.raw_ops.IRFFT(input=tf.complex(x, y), fft_length=[7]),
        {
            "usual": (counted(2, 4), counted(2, 4)),
            "longer": (counted(2, 5), counted(2, 5)),
            "too short": (counted(2, 3), counted(2, 3)),
            "no rows": (zeros(0, 4), zeros(0, 4)),
            "other shapes": (counted(2, 4), counted(3, 4)),
        },
    )


def _numbers() -> Iterator[Behaviour]:
    def product(x: Any, y: Any) -> Any:
        z = tf.complex(x, y)
        w = z * tf.math.conj(z) * z
        return tf.math.real(w), tf.math.imag(w)

    special = f32([NAN, INF, -INF, 0, 3, -4, 1e30])
    yield Behaviour(
        "Complex.size",
        lambda x, y: tf.abs(tf.complex(x, y)),
        {
            "usual": (f32([3, 4]), f32([4, -3])),
            "special": (special, special[::-1].copy()),
            "none": (zeros(0), zeros(0)),
            "other shapes": (zeros(2), zeros(3)),
        },
    )
    yield Behaviour(
        "Complex.product",
        product,
        {"usual": (f32([3, 4]), f32([4, -3])), "none": (zeros(0), zeros(0))},
    )


ROWS = [*_transforms(), *_numbers()]
