"""Rows picked from tables and added up, and products with sparse matrices."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from tests.compiler.cases.raw import raw
from tests.conformance_ops.behaviour import INF, NAN, Behaviour, counted, f32, i32, i64, zeros


def _segments() -> Iterator[Behaviour]:
    table = counted(4, 3)
    for op in ("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN"):
        yield Behaviour(
            f"{op}WithNumSegments.fed_ids",
            lambda x, i, s, op=op: raw(f"{op}WithNumSegments")(x, i, s, 3),
            {
                "usual": (table, i32([0, 3, 3]), i32([0, 0, 2])),
                "index beyond": (table, i32([0, 4]), i32([0, 1])),
                "index below": (table, i32([-1, 0]), i32([0, 1])),
                "falling": (table, i32([0, 1]), i32([1, 0])),
                "segment beyond": (table, i32([0, 1]), i32([0, 3])),
                "negative segment": (table, i32([0, 1]), i32([-1, 0])),
                "fewer segments": (table, i32([0, 1]), i32([0])),
                "none": (table, i32([]), i32([])),
                "empty table": (zeros(0, 3), i32([0]), i32([0])),
                "special": (f32([[NAN], [INF], [-INF]]), i32([0, 1, 2]), i32([0, 1, 1])),
            },
        )
        yield Behaviour(
            f"{op}.constant_ids",
            lambda x, i, op=op: raw(op)(x, i, tf.constant([0, 0, 2])),
            {
                "usual": (table, i32([0, 3, 1])),
                "beyond": (table, i32([0, 4, 1])),
                "fewer": (table, i32([0, 1])),
                "no columns": (zeros(4, 0), i32([0, 3, 1])),
            },
        )


def _products() -> Iterator[Behaviour]:
    yield Behaviour(
        "SparseTensorDenseMatMul.fed",
        lambda i, v, b: tf.raw_ops.SparseTensorDenseMatMul(
            a_indices=i, a_values=v, a_shape=tf.constant([2, 3], tf.int64), b=b
        ),
        {
            "usual": (i64([[0, 1], [1, 2]]), f32([2, 3]), counted(3, 2)),
            "row beyond": (i64([[2, 0]]), f32([2]), counted(3, 2)),
            "column beyond": (i64([[0, 3]]), f32([2]), counted(3, 2)),
            "negative": (i64([[-1, 0]]), f32([2]), counted(3, 2)),
            "does not fit": (i64([[0, 1]]), f32([2]), counted(2, 2)),
            "none": (np.zeros((0, 2), np.int64), f32([]), counted(3, 2)),
            "fewer values": (i64([[0, 1], [1, 2]]), f32([2]), counted(3, 2)),
        },
        dims=[[None, 2], [None], [None, None]],
    )


def _windows() -> Iterator[Behaviour]:
    for op in ("MaxPool", "AvgPool"):
        yield Behaviour(
            f"{op}.windows",
            lambda x, op=op: raw(
                op, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID", data_format="NHWC"
            )(x),
            {
                "usual": (counted(2, 4, 4, 2),),
                "no images": (zeros(0, 4, 4, 2),),
                "no channels": (zeros(1, 4, 4, 0),),
                "infinite": (np.full((1, 4, 4, 1), -INF, np.float32),),
                "nan": (np.full((1, 4, 4, 1), NAN, np.float32),),
            },
            dims=[[None, 4, 4, None]],
        )


def _reshapes() -> Iterator[Behaviour]:
    def reshaped(i, s, n):
        return tf.raw_ops.SparseReshape(input_indices=i, input_shape=s, new_shape=n)

    two = i64([[0, 1], [1, 2]])
    none = np.zeros((0, 2), np.int64)
    yield Behaviour(
        "SparseReshape.fed",
        reshaped,
        {
            "usual": (two, i64([2, 3]), i64([3, 2])),
            "hole": (two, i64([2, 3]), i64([-1, 6])),
            "same": (two, i64([2, 3]), i64([2, 3])),
            "beyond": (i64([[0, 1], [5, 2]]), i64([2, 3]), i64([3, -1])),
            "below": (i64([[0, 1], [-1, 2]]), i64([2, 3]), i64([3, -1])),
            "beyond, same": (i64([[0, 9]]), i64([2, 3]), i64([2, 3])),
            "does not fit": (two, i64([2, 3]), i64([4, 2])),
            "does not divide": (two, i64([2, 3]), i64([4, -1])),
            "two holes": (two, i64([2, 3]), i64([-1, -1])),
            "negative": (two, i64([2, 3]), i64([-2, -3])),
            "negative before": (two, i64([-2, -3]), i64([2, 3])),
            "none": (none, i64([2, 3]), i64([3, 2])),
            "empty": (none, i64([2, 0]), i64([0, 7])),
            "empty, hole": (none, i64([2, 0]), i64([0, -1])),
            "an element of nothing": (i64([[0, 1]]), i64([2, 0]), i64([0, 2])),
            "too large": (none, i64([2**40, 2**40]), i64([-1, 2**40])),
            "large": (i64([[2**39, 5]]), i64([2**40, 2**20]), i64([-1, 2**10])),
        },
        dims=[[None, 2], [2], [2]],
    )
    yield Behaviour(
        "SparseReshape.unknown_rank",
        reshaped,
        {"usual": (two, i64([2, 3]), i64([3, 2]))},
        outside="describes a shape and has an unknown length",
    )


def _filled() -> Iterator[Behaviour]:
    def filled(i, v, s, d):
        return tf.raw_ops.SparseFillEmptyRows(indices=i, values=v, dense_shape=s, default_value=d)

    two, nine = i64([[0, 1], [2, 0]]), f32(9)
    none = np.zeros((0, 2), np.int64)
    yield Behaviour(
        "SparseFillEmptyRows.fed",
        filled,
        {
            "usual": (two, f32([1, 2]), i64([4, 3]), nine),
            "out of order": (i64([[2, 0], [0, 1]]), f32([1, 2]), i64([4, 3]), nine),
            "columns out of order": (i64([[0, 2], [0, 1]]), f32([1, 2]), i64([2, 3]), nine),
            "full": (i64([[0, 0], [1, 0]]), f32([1, 2]), i64([2, 3]), nine),
            "none": (none, f32([]), i64([3, 2]), nine),
            "no rows": (none, f32([]), i64([0, 2]), nine),
            "an element of no rows": (i64([[0, 0]]), f32([1]), i64([0, 2]), nine),
            "row beyond": (i64([[3, 0]]), f32([1]), i64([3, 2]), nine),
            "negative row": (i64([[-1, 0]]), f32([1]), i64([3, 2]), nine),
            "column beyond": (i64([[0, 7]]), f32([1]), i64([1, 2]), nine),
            "fewer values": (two, f32([1]), i64([4, 3]), nine),
            "negative shape": (none, f32([]), i64([-1, 2]), nine),
            "nan": (two, f32([NAN, -0.0]), i64([4, 3]), f32(INF)),
        },
        dims=[[None, 2], [None], [2], []],
    )


ROWS = [*_segments(), *_products(), *_windows(), *_reshapes(), *_filled()]
