"""Products of matrices, and biases."""

from __future__ import annotations

from collections.abc import Iterator

import tensorflow as tf

from tests.conformance_ops.behaviour import INF, NAN, Behaviour, counted, f32, zeros


def _rows() -> Iterator[Behaviour]:
    special = f32([[NAN, 1], [INF, 0]])
    for name, options in (
        ("plain", {}),
        ("transpose_a", {"transpose_a": True}),
        ("transpose_b", {"transpose_b": True}),
    ):
        yield Behaviour(
            f"MatMul.{name}",
            lambda a, b, options=options: tf.matmul(a, b, **options),
            {
                "usual": (counted(2, 2), counted(2, 2)),
                "does not fit": (counted(2, 3), counted(4, 5)),
                "no rows": (zeros(0, 2), counted(2, 2)),
                "nothing to add up": (zeros(2, 0), zeros(0, 2)),
                "no columns": (counted(2, 2), zeros(2, 0)),
                "special": (special, f32([[1, 0], [0, 1]])),
            },
        )
    yield Behaviour(
        "BatchMatMulV2.batch",
        tf.matmul,
        {
            "usual": (counted(2, 2, 3), counted(2, 3, 2)),
            "one for all": (counted(2, 2, 3), counted(1, 3, 2)),
            "does not fit": (counted(2, 2, 3), counted(2, 2, 2)),
            "other batch": (counted(2, 2, 3), counted(3, 3, 2)),
            "empty batch": (zeros(0, 2, 3), zeros(0, 3, 2)),
            "nothing to add up": (zeros(2, 2, 0), zeros(2, 0, 2)),
        },
    )
    yield Behaviour(
        "BatchMatMulV2.matrix",
        tf.matmul,
        {
            "usual": (counted(2, 2, 3), counted(3, 2)),
            "does not fit": (counted(2, 2, 3), counted(2, 2)),
            "empty": (zeros(2, 0, 3), counted(3, 2)),
        },
    )
    for equation, fits in (
        ("ij,jk->ik", (counted(2, 3), counted(3, 2))),
        ("bij,bkj->bik", (counted(2, 2, 3), counted(2, 4, 3))),
    ):
        a, b = fits
        yield Behaviour(
            f"Einsum.{equation}",
            lambda a, b, equation=equation: tf.einsum(equation, a, b),
            {
                "usual": fits,
                "does not fit": (a, b[..., :-1] if equation.startswith("b") else b[:-1]),
                "empty": (a[:0], b[:0] if equation.startswith("b") else b),
            },
        )
    yield Behaviour(
        "BiasAdd.rows",
        tf.nn.bias_add,
        {
            "usual": (counted(2, 3), counted(3)),
            "other length": (counted(2, 3), counted(2)),
            "one": (counted(2, 3), counted(1)),
            "empty": (zeros(0, 3), counted(3)),
            "special": (f32([[NAN, INF]]), f32([1, -INF])),
        },
    )
    yield Behaviour(
        "BiasAdd.after_matmul",
        lambda a, w, b: tf.nn.relu(tf.nn.bias_add(tf.matmul(a, w), b)),
        {
            "usual": (counted(2, 3), counted(3, 2) - 2, counted(2)),
            "does not fit": (counted(2, 2), counted(3, 2), counted(2)),
            "other bias": (counted(2, 3), counted(3, 2), counted(3)),
            # Not a shorter one: TensorFlow's fused kernel reads beyond its end.
        },
    )
    yield Behaviour(
        "SoftmaxCrossEntropyWithLogits.rows",
        lambda x, y: tf.raw_ops.SoftmaxCrossEntropyWithLogits(features=x, labels=y)[0],
        {
            "usual": (counted(2, 3), f32([[0, 1, 0], [1, 0, 0]])),
            "one label for all": (counted(2, 3), f32([[0, 1, 0]])),
            "does not fit": (counted(2, 3), f32([[0, 1]])),
            "empty": (zeros(0, 3), zeros(0, 3)),
        },
    )


ROWS = list(_rows())
