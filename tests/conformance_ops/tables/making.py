"""Ops that make tensors of a size that is given."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from tests.conformance_ops.behaviour import (
    INF,
    NAN,
    Behaviour,
    counted,
    f32,
    f64,
    i32,
    i64,
    zeros,
)


def _rows() -> Iterator[Behaviour]:
    for name, ints in (("i32", i32), ("i64", i64)):
        yield Behaviour(
            f"OneHot.{name}",
            lambda i: tf.one_hot(i, 3),
            {
                "usual": (ints([0, 2]),),
                "out of range": (ints([-1, 3, 1]),),
                "none": (ints([]),),
            },
        )
    yield Behaviour(
        "OneHot.fed_depth",
        lambda i, n, on: tf.one_hot(i, n, on_value=on, off_value=-on, axis=0),
        {
            "usual": (i32([0, 2]), i32(3), f32(5)),
            "no depth": (i32([0, 2]), i32(0), f32(5)),
            "negative depth": (i32([0, 2]), i32(-1), f32(5)),
            "special": (i32([0, 2]), i32(3), f32(NAN)),
        },
    )
    for name, ints in (("i32", i32), ("i64", i64)):
        yield Behaviour(
            f"Range.{name}",
            lambda a, z, d: tf.range(a, z, d),
            {
                "usual": (ints(1), ints(9), ints(3)),
                "down": (ints(5), ints(0), ints(-2)),
                "none": (ints(3), ints(3), ints(1)),
                "crossed": (ints(5), ints(1), ints(1)),
                "crossed down": (ints(1), ints(5), ints(-1)),
                "no step": (ints(0), ints(5), ints(0)),
            },
            outside="delta must be constant",
        )
        yield Behaviour(
            f"Range.constant_delta.{name}",
            lambda a, z: tf.range(a, z, tf.constant(-2, a.dtype)),
            {
                "usual": (ints(9), ints(2)),
                "exactly": (ints(9), ints(1)),
                "none": (ints(3), ints(3)),
                "crossed": (ints(1), ints(5)),
                "far": (ints(2**30), ints(2**30 - 5)),
            },
        )
    yield Behaviour(
        "Fill.fed",
        lambda d, x: tf.fill(d, x),
        {
            "usual": (i32([2, 3]), f32(1.5)),
            "empty": (i32([2, 0]), f32(1.5)),
            "negative": (i32([2, -1]), f32(1.5)),
            "special": (i32([1, 2]), f32(-INF)),
        },
        dims=[[2], []],
    )
    yield Behaviour(
        "Fill.i64",
        lambda d, x: tf.fill(d, x),
        {
            "usual": (i64([2]), i32(7)),
            "negative": (i64([-2]), i32(7)),
        },
        dims=[[1], []],
    )
    yield Behaviour(
        "LinSpace.fed",
        lambda a, z, n: tf.raw_ops.LinSpace(start=a, stop=z, num=n),
        {
            "usual": (f32(1), f32(9), i32(5)),
            "one": (f32(1), f32(9), i32(1)),
            "none": (f32(1), f32(9), i32(0)),
            "negative": (f32(1), f32(9), i32(-3)),
            "down": (f32(9), f32(1), i32(3)),
            "special": (f32(INF), f32(1), i32(3)),
        },
    )
    yield Behaviour(
        "LinSpace.f64",
        lambda a, z: tf.raw_ops.LinSpace(start=a, stop=z, num=4),
        {"usual": (f64(0), f64(1)), "special": (f64(NAN), f64(1))},
    )
    yield Behaviour(
        "Bincount.plain",
        lambda x: tf.raw_ops.Bincount(arr=x, size=4, weights=np.zeros(0, np.int32)),
        {
            "usual": (i32([0, 3, 3]),),
            "beyond": (i32([0, 4, 9]),),
            "negative": (i32([0, -1]),),
            "none": (i32([]),),
        },
    )
    yield Behaviour(
        "Bincount.weights",
        lambda x, w: tf.raw_ops.Bincount(arr=x, size=4, weights=w),
        {
            "usual": (i32([0, 3, 3]), f32([1, 2, 4])),
            "special": (i32([0, 1]), f32([NAN, INF])),
            "fewer weights": (i32([0, 3, 3]), f32([1, 2])),
            "negative": (i32([0, -1]), f32([1, 2])),
        },
    )
    yield Behaviour(
        "Bincount.fed_size",
        lambda x, n: tf.raw_ops.Bincount(arr=x, size=n, weights=np.zeros(0, np.float32)),
        {
            "usual": (i32([0, 1, 1]), i32(3)),
            "no bins": (i32([0, 1, 1]), i32(0)),
            "negative size": (i32([0, 1, 1]), i32(-1)),
        },
    )
    yield Behaviour(
        "DenseBincount.rows",
        lambda x: tf.raw_ops.DenseBincount(input=x, size=3, weights=np.zeros((0, 0), np.float32)),
        {
            "usual": (i32([[0, 2], [1, 1]]),),
            "beyond": (i32([[0, 3], [1, 1]]),),
            "negative": (i32([[0, -1], [1, 1]]),),
            "empty": (zeros(0, 2, dtype=np.int32),),
        },
    )
    yield Behaviour(
        "ZerosLike.i32",
        lambda x: tf.zeros_like(x) + tf.cast(tf.size(x), tf.int32),
        {"usual": (counted(2, 2, dtype=np.int32),), "empty": (zeros(0, 2, dtype=np.int32),)},
    )
    yield Behaviour(
        "SparseToDense.fed",
        lambda i, v: tf.raw_ops.SparseToDense(
            sparse_indices=i,
            output_shape=[5],
            sparse_values=v,
            default_value=-1.0,
            validate_indices=True,
        ),
        {
            "usual": (i64([[1], [3]]), f32([7, 8])),
            "not sorted": (i64([[3], [1]]), f32([7, 8])),
            "twice": (i64([[1], [1]]), f32([7, 8])),
            "beyond": (i64([[1], [5]]), f32([7, 8])),
            "negative": (i64([[-1], [3]]), f32([7, 8])),
            "none": (zeros(0, 1, dtype=np.int64), f32([])),
        },
        dims=[[None, 1], [None]],
    )


ROWS = list(_rows())
