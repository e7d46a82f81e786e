"""Reductions, scans, sorting and positions: axes, empty rows, NaN."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from tests.conformance_ops.behaviour import (
    INF,
    NAN,
    Behaviour,
    boolean,
    counted,
    f32,
    f64,
    i32,
    i64,
    zeros,
)

_SPECIAL = f32([[1, NAN, 3], [INF, 2, -INF], [INF, INF, 1]])


def _reduces() -> Iterator[Behaviour]:
    ops = {
        "Sum": tf.reduce_sum,
        "Prod": tf.reduce_prod,
        "Max": tf.reduce_max,
        "Min": tf.reduce_min,
        "Mean": tf.reduce_mean,
        "EuclideanNorm": tf.math.reduce_euclidean_norm,
    }
    for op, function in ops.items():
        feeds = {
            "usual": (counted(2, 3),),
            "no rows": (zeros(0, 3),),
            "no columns": (zeros(2, 0),),
            "special": (_SPECIAL,),
        }
        yield Behaviour(f"{op}.last", lambda x, function=function: function(x, -1), feeds)
        yield Behaviour(f"{op}.first", lambda x, function=function: function(x, 0), feeds)
        yield Behaviour(f"{op}.all", lambda x, function=function: function(x), feeds)
        yield Behaviour(
            f"{op}.fed_axis",
            lambda x, axis, function=function: function(x, axis),
            {
                "usual": (counted(2, 3), i32(1)),
                "negative": (counted(2, 3), i32(-2)),
                "beyond": (counted(2, 3), i32(2)),
                "far below": (counted(2, 3), i32(-3)),
            },
            outside="unknown rank",
        )
    for op, function in (("All", tf.reduce_all), ("Any", tf.reduce_any)):
        yield Behaviour(
            f"{op}.last",
            lambda x, function=function: function(x, -1),
            {
                "usual": (boolean([[True, False], [True, True]]),),
                "no columns": (np.zeros((2, 0), np.bool_),),
            },
        )
    for name, dtype in (("i32", np.int32), ("i64", np.int64)):
        yield Behaviour(
            f"Sum.{name}",
            lambda x: tf.reduce_sum(x, 0),
            {
                "usual": (counted(4, dtype=dtype),),
                "overflow": (np.full(3, np.iinfo(dtype).max, dtype),),
                "empty": (np.zeros(0, dtype),),
            },
        )
        yield Behaviour(
            f"Mean.{name}",
            lambda x: tf.reduce_mean(x, 0),
            {
                "usual": (np.array([1, 2, 4], dtype),),
                "negative": (np.array([-1, -2], dtype),),
                "empty": (np.zeros(0, dtype),),
            },
        )


def _positions() -> Iterator[Behaviour]:
    for op, function in (("ArgMax", tf.argmax), ("ArgMin", tf.argmin)):
        yield Behaviour(
            f"{op}.last",
            lambda x, function=function: function(x, -1),
            {
                "usual": (f32([[1, 3, 3], [0, -1, -1]]),),
                "no rows": (zeros(0, 3),),
                "no columns": (zeros(2, 0),),
                "infinite": (f32([[-INF, -INF], [INF, INF]]),),
            },
        )
        yield Behaviour(
            f"{op}.fed_axis",
            lambda x, axis, function=function: function(x, axis),
            {
                "usual": (counted(2, 3), i32(0)),
                "beyond": (counted(2, 3), i32(2)),
                "below": (counted(2, 3), i32(-3)),
            },
            outside="is not a constant",
        )
    for name, dtype in (("f32", np.float32), ("f64", np.float64), ("i32", np.int32)):
        yield Behaviour(
            f"TopKV2.{name}",
            lambda x: tf.math.top_k(x, 2),
            {
                "usual": (np.array([[1, 3, 2, 3]], dtype),),
                "exactly": (np.array([[1, 3]], dtype),),
                "too few": (np.array([[1]], dtype),),
                "no rows": (np.zeros((0, 3), dtype),),
            },
        )
    yield Behaviour(
        "TopKV2.fed_k",
        lambda x, k: tf.math.top_k(x, k),
        {
            "usual": (f32([1, 3, 2]), i32(2)),
            "none": (f32([1, 3, 2]), i32(0)),
            "too many": (f32([1, 3, 2]), i32(4)),
            "negative": (f32([1, 3, 2]), i32(-1)),
        },
        outside="not known to be",
    )
    yield Behaviour(
        "InTopKV2.rows",
        lambda x, t: tf.math.in_top_k(t, x, 1),
        {
            "usual": (f32([[1, 2], [3, 1]]), i32([1, 1])),
            "out of range": (f32([[1, 2], [3, 1]]), i32([2, -1])),
            "special": (f32([[NAN, 2], [INF, 1]]), i32([1, 0])),
            "fewer targets": (f32([[1, 2], [3, 1]]), i32([1])),
        },
    )


def _scans() -> Iterator[Behaviour]:
    for op, function in (("Cumsum", tf.cumsum), ("Cumprod", tf.math.cumprod)):
        yield Behaviour(
            f"{op}.last",
            lambda x, function=function: function(x, -1, exclusive=True),
            {
                "usual": (counted(2, 3) + 1,),
                "no rows": (zeros(0, 3),),
                "no columns": (zeros(2, 0),),
                "special": (_SPECIAL,),
            },
        )
        yield Behaviour(
            f"{op}.fed_axis",
            lambda x, axis, function=function: function(x, axis),
            {
                "usual": (counted(2, 3), i32(1)),
                "beyond": (counted(2, 3), i32(2)),
                "below": (counted(2, 3), i32(-3)),
            },
            outside="is not a constant",
        )
        yield Behaviour(
            f"{op}.reverse",
            lambda x, function=function: function(x, 0, reverse=True),
            {"usual": (f64([[1, 2], [3, 4]]),), "empty": (f64(np.zeros((0, 2))),)},
        )


def _softmax() -> Iterator[Behaviour]:
    feeds = {
        "usual": (counted(2, 3),),
        "large": (f32([[1000, 999, -1000]]),),
        "no rows": (zeros(0, 3),),
        "no columns": (zeros(2, 0),),
        "one infinite": (f32([[1, -INF, 3]]),),
    }
    yield Behaviour("Softmax.rows", tf.nn.softmax, feeds)
    yield Behaviour("LogSoftmax.rows", tf.nn.log_softmax, feeds)
    # Whichever result is read, all labels are looked at.
    for name, result in {"rows": 0, "gradient": 1}.items():
        yield Behaviour(
            f"SparseSoftmaxCrossEntropyWithLogits.{name}",
            lambda y, x, result=result: tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits(
                features=x, labels=y
            )[result],
            {
                "usual": (i64([1, 0]), counted(2, 3)),
                "beyond": (i64([1, 3]), counted(2, 3)),
                "negative": (i64([-1, 1]), counted(2, 3)),
                "fewer labels": (i64([1]), counted(2, 3)),
                "no rows": (i64([]), zeros(0, 3)),
                "no classes": (i64([0]), zeros(1, 0)),
                "no rows, no classes": (i64([]), zeros(0, 0)),
            },
        )


ROWS = [*_reduces(), *_positions(), *_scans(), *_softmax()]
