"""Gathers, scatters and segments: indices of every kind."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from tests.compiler.cases.raw import raw
from tests.conformance_ops.behaviour import (
    INF,
    NAN,
    Behaviour,
    boolean,
    counted,
    f32,
    i32,
    i64,
    zeros,
)


def _gathers() -> Iterator[Behaviour]:
    table, special = counted(4, 3), f32([[NAN, 1], [INF, -INF], [-0.0, 2]])
    for name, ints in (("i32", i32), ("i64", i64)):
        yield Behaviour(
            f"GatherV2.rows.{name}",
            lambda p, i: tf.gather(p, i),
            {
                "usual": (table, ints([0, 3, 3, 1])),
                "none": (table, ints([])),
                "empty table, no index": (zeros(0, 3), ints([])),
                "empty table": (zeros(0, 3), ints([0])),
                "no columns": (zeros(4, 0), ints([1, 2])),
                "no columns, out of range": (zeros(4, 0), ints([1, 9])),
                "below": (table, ints([0, -1])),
                "beyond": (table, ints([4, 0])),
                "far beyond": (table, ints([2**31 - 1])),
                "special": (special, ints([2, 1, 0])),
            },
        )
    yield Behaviour(
        "GatherV2.scalar_index",
        lambda p, i: tf.gather(p, i, axis=1),
        {
            "usual": (table, i32(2)),
            "below": (table, i32(-1)),
            "beyond": (table, i32(3)),
            "no rows": (zeros(0, 3), i32(1)),
            "no rows, beyond": (zeros(0, 3), i32(5)),
        },
    )
    yield Behaviour(
        "GatherV2.batch",
        lambda p, i: tf.gather(p, i, axis=1, batch_dims=1),
        {
            "usual": (table, i64([[0], [1], [2], [2]])),
            "beyond": (table, i64([[0], [1], [3], [2]])),
            "other batch": (table, i64([[0], [1]])),
            "empty batch": (zeros(0, 3), zeros(0, 2, dtype=np.int64)),
        },
    )
    yield Behaviour(
        "GatherV2.large_index",
        lambda p, i: tf.gather(p, i),
        {"2^40": (table, i64([2**40])), "-2^40": (table, i64([-(2**40)]))},
    )
    for name, dtype in (("bool", np.bool_), ("u8", np.uint8), ("f64", np.float64)):
        yield Behaviour(
            f"GatherV2.of.{name}",
            lambda p, i: tf.gather(p, i),
            {
                "usual": (counted(3, dtype=dtype), i32([2, 0])),
                "beyond": (counted(3, dtype=dtype), i32([3])),
            },
        )
    yield Behaviour(
        "Gather.v1",
        raw("Gather"),
        {
            "usual": (table, i32([1, 0])),
            "beyond": (table, i32([4])),
            "empty": (zeros(0, 3), i32([])),
        },
    )
    yield Behaviour(
        "GatherNd.elements",
        lambda p, i: tf.gather_nd(p, i),
        {
            "usual": (table, i32([[0, 1], [3, 2]])),
            "row below": (table, i32([[-1, 0]])),
            "column beyond": (table, i32([[0, 3]])),
            "none": (table, zeros(0, 2, dtype=np.int32)),
            "empty table": (zeros(0, 3), i32([[0, 0]])),
            "empty table, no index": (zeros(0, 3), zeros(0, 2, dtype=np.int32)),
        },
        dims=[[None, None], [None, 2]],
    )
    yield Behaviour(
        "GatherNd.rows",
        lambda p, i: tf.gather_nd(p, i),
        {
            "usual": (table, i64([[3], [0]])),
            "beyond": (table, i64([[4], [0]])),
            "large": (table, i64([[2**40]])),
        },
        dims=[[None, None], [None, 1]],
    )


def _scatters() -> Iterator[Behaviour]:
    yield Behaviour(
        "ScatterNd.rows",
        lambda i, u: tf.scatter_nd(i, u, [4, 2]),
        {
            "usual": (i32([[1], [3], [1]]), counted(3, 2)),
            "beyond": (i32([[4]]), counted(1, 2)),
            "below": (i32([[-1]]), counted(1, 2)),
            "none": (zeros(0, 1, dtype=np.int32), zeros(0, 2)),
            "other width": (i32([[1]]), counted(1, 3)),
            "fewer updates": (i32([[1], [2]]), counted(1, 2)),
            "special": (i32([[0], [0], [2]]), f32([[NAN, 1], [1, INF], [-INF, -0.0]])),
        },
        dims=[[None, 1], [None, None]],
    )
    yield Behaviour(
        "ScatterNd.fed_shape",
        lambda i, u, s: tf.scatter_nd(i, u, s),
        {
            "usual": (i32([[1]]), counted(1), i32([3])),
            "beyond": (i32([[3]]), counted(1), i32([3])),
            "empty": (i32([[0]]), counted(1), i32([0])),
            "negative": (i32([[0]]), counted(1), i32([-1])),
        },
        dims=[[None, 1], [None], [1]],
    )
    ops = {
        "TensorScatterUpdate": tf.tensor_scatter_nd_update,
        "TensorScatterAdd": tf.tensor_scatter_nd_add,
        "TensorScatterSub": tf.tensor_scatter_nd_sub,
        "TensorScatterMax": tf.tensor_scatter_nd_max,
        "TensorScatterMin": tf.tensor_scatter_nd_min,
    }
    for op, function in ops.items():
        yield Behaviour(
            f"{op}.rows",
            lambda t, i, u, function=function: function(t, i, u),
            {
                "usual": (counted(4, 2), i32([[1], [3]]), counted(2, 2)),
                "twice": (counted(4, 2), i32([[1], [1]]), counted(2, 2)),
                "beyond": (counted(4, 2), i32([[4]]), counted(1, 2)),
                "below": (counted(4, 2), i32([[-2]]), counted(1, 2)),
                "none": (counted(4, 2), zeros(0, 1, dtype=np.int32), zeros(0, 2)),
                "empty target": (zeros(0, 2), i32([[0]]), counted(1, 2)),
                "empty target, none": (zeros(0, 2), zeros(0, 1, dtype=np.int32), zeros(0, 2)),
                "other width": (counted(4, 2), i32([[1]]), counted(1, 3)),
                "fewer updates": (counted(4, 2), i32([[1], [2]]), counted(1, 2)),
                "special": (counted(3, 1), i32([[0], [1]]), f32([[NAN], [-INF]])),
                "special target": (f32([[NAN], [INF]]), i32([[0], [1]]), f32([[1], [2]])),
            },
            dims=[[None, None], [None, 1], [None, None]],
        )
    yield Behaviour(
        "TensorScatterUpdate.elements",
        tf.tensor_scatter_nd_update,
        {
            "usual": (counted(2, 3), i64([[0, 2], [1, 0]]), f32([7, 8])),
            "column beyond": (counted(2, 3), i64([[0, 3]]), f32([7])),
            "large": (counted(2, 3), i64([[2**40, 0]]), f32([7])),
        },
        dims=[[None, None], [None, 2], [None]],
    )


def _segments() -> Iterator[Behaviour]:
    ops = {
        "UnsortedSegmentSum": tf.math.unsorted_segment_sum,
        "UnsortedSegmentProd": tf.math.unsorted_segment_prod,
        "UnsortedSegmentMax": tf.math.unsorted_segment_max,
        "UnsortedSegmentMin": tf.math.unsorted_segment_min,
    }
    for op, function in ops.items():
        for name, ints in (("i32", i32), ("i64", i64)):
            yield Behaviour(
                f"{op}.{name}",
                lambda x, ids, n, function=function: function(x, ids, n),
                {
                    "usual": (counted(3, 2), ints([1, 0, 1]), i32(3)),
                    "negative ids": (counted(3, 2), ints([1, -1, -5]), i32(2)),
                    "id beyond": (counted(3, 2), ints([1, 0, 2]), i32(2)),
                    "no rows": (zeros(0, 2), ints([]), i32(2)),
                    "no segments": (zeros(0, 2), ints([]), i32(0)),
                    "rows but no segments": (counted(1, 2), ints([0]), i32(0)),
                    "negative number": (counted(1, 2), ints([0]), i32(-1)),
                    "fewer ids": (counted(3, 2), ints([0, 0]), i32(2)),
                    "special": (f32([[NAN, INF], [1, -INF]]), ints([0, 0]), i32(1)),
                    "nan last": (f32([[1], [NAN]]), ints([0, 0]), i32(1)),
                    "infinite": (f32([[INF], [-INF]]), ints([0, 1]), i32(3)),
                },
            )
    sums = {
        "SegmentSum": tf.math.segment_sum,
        "SegmentMean": tf.math.segment_mean,
        "SegmentMax": tf.math.segment_max,
        "SegmentMin": tf.math.segment_min,
        "SegmentProd": tf.math.segment_prod,
    }
    for op, function in sums.items():
        yield Behaviour(
            f"{op}.constant_ids",
            lambda x, function=function: function(x, tf.constant([0, 0, 2])),
            {
                "usual": (counted(3, 2),),
                "fewer rows": (counted(2, 2),),
                "more rows": (counted(4, 2),),
                "no columns": (zeros(3, 0),),
                "special": (f32([[NAN], [1], [INF]]),),
                "nan last": (f32([[1], [NAN], [-INF]]),),
            },
        )
        yield Behaviour(
            f"{op}.fed_ids",
            lambda x, i, function=function: function(x, i),
            {
                "usual": (counted(3, 2), i32([0, 0, 2])),
                "not sorted": (counted(3, 2), i32([1, 0, 2])),
                "negative": (counted(3, 2), i32([-1, 0, 2])),
                "none": (zeros(0, 2), i32([])),
                "fewer": (counted(3, 2), i32([0, 0])),
            },
            outside="is not a constant",
        )


def _only_shapes() -> Iterator[Behaviour]:
    """TensorFlow runs what only a Shape reads, too."""
    yield Behaviour(
        "GatherV2.only_its_shape",
        lambda p, i: tf.shape(tf.gather(p, i)),
        {"usual": (counted(3, 2), i32([2, 0])), "beyond": (counted(3, 2), i32([3]))},
    )
    yield Behaviour(
        "TensorScatterUpdate.only_its_shape",
        lambda t, i, u: tf.shape(tf.tensor_scatter_nd_update(t, i, u)),
        {
            "usual": (counted(3, 2), i32([[2]]), counted(1, 2)),
            "beyond": (counted(3, 2), i32([[3]]), counted(1, 2)),
        },
        dims=[[None, None], [None, 1], [None, None]],
    )
    yield Behaviour(
        "FloorDiv.only_its_size",
        lambda x, y: tf.size(x // y),
        {"usual": (i32([4, 5]), i32([2, 1])), "by zero": (i32([4, 5]), i32([2, 0]))},
    )
    yield Behaviour(
        "Pow.only_its_shape",
        lambda x, y: tf.shape(tf.pow(x, y)),
        {"usual": (i64([4, 5]), i64([2, 1])), "negative": (i64([4, 5]), i64([2, -1]))},
    )


def _boolean() -> Iterator[Behaviour]:
    yield Behaviour(
        "Select.rows",
        lambda c, x, y: tf.raw_ops.Select(condition=c, x=x, y=y),
        {
            "usual": (boolean([True, False]), counted(2, 3), -counted(2, 3)),
            "other length": (boolean([True]), counted(2, 3), -counted(2, 3)),
            "other shapes": (boolean([True, False]), counted(2, 3), -counted(2, 4)),
            "empty": (boolean([]), zeros(0, 3), zeros(0, 3)),
        },
    )
    yield Behaviour(
        "SelectV2.broadcast",
        tf.where,
        {
            "usual": (boolean([[True], [False]]), counted(3), f32([-1])),
            "does not fit": (boolean([[True], [False]]), counted(3), counted(2)),
            "special": (boolean([[True, False]]), f32([NAN, 1]), f32([INF])),
            "empty": (boolean([[True]]), zeros(0), f32([1])),
        },
    )
    yield Behaviour(
        "InvertPermutation.i32",
        tf.math.invert_permutation,
        {
            "usual": (i32([2, 0, 1]),),
            "twice": (i32([0, 0, 1]),),
            "beyond": (i32([0, 3, 1]),),
            "negative": (i32([0, -1, 1]),),
            "empty": (i32([]),),
        },
        outside="is not a constant",
    )


def _filters() -> Iterator[Behaviour]:
    yield Behaviour(
        "Where.bool",
        tf.where,
        {
            "usual": (boolean([[True, False], [True, True]]),),
            "all": (boolean([[True, True]]),),
            "none": (boolean([[False], [False]]),),
            "no rows": (boolean(np.zeros((0, 2))),),
            "no columns": (boolean(np.zeros((2, 0))),),
        },
    )
    yield Behaviour(
        "Where.f32",
        tf.where,
        {"special": (f32([0, -0.0, NAN, INF, 1e-45, -1]),), "empty": (zeros(0),)},
    )
    yield Behaviour(
        "Where.mask",
        lambda x, m: tf.boolean_mask(x, m) * 2.0,
        {
            "usual": (counted(3, 2), boolean([True, False, True])),
            "none": (counted(3, 2), boolean([False, False, False])),
            "other length": (counted(3, 2), boolean([True, False])),
            "empty": (zeros(0, 2), boolean([])),
        },
    )


def _repeated() -> Iterator[Behaviour]:
    low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    integers = {
        "usual": (i64([3, 1, 3, 0, 1]),),
        "extremes": (i64([low, high, 0, low, -1, high]),),
        "empty": (i64([]),),
    }
    for op in ("Unique", "UniqueWithCounts"):
        yield Behaviour(f"{op}.i64", lambda x, op=op: getattr(tf.raw_ops, op)(x=x), integers)
        yield Behaviour(
            f"{op}.f32",
            lambda x, op=op: getattr(tf.raw_ops, op)(x=x, out_idx=tf.int64),
            {"special": (f32([0.0, -0.0, NAN, INF, NAN, -INF, INF]),)},
        )
    yield Behaviour(
        "UniqueV2.matrix",
        lambda x: tf.raw_ops.UniqueV2(x=x, axis=tf.constant([0], tf.int64)),
        {"usual": (i64([[1, 2], [3, 4], [1, 2]]),)},
        outside="a tensor of rank 2",
    )


ROWS = [
    *_gathers(),
    *_scatters(),
    *_segments(),
    *_only_shapes(),
    *_boolean(),
    *_filters(),
    *_repeated(),
]
