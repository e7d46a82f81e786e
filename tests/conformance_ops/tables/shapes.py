"""Ops that move elements: shapes, axes and positions that fit, and that don't."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from tests.compiler.cases.raw import raw
from tests.conformance_ops.behaviour import Behaviour, counted, f32, i32, i64, zeros


def _reshapes() -> Iterator[Behaviour]:
    yield Behaviour(
        "Reshape.constant",
        lambda x: tf.reshape(-x, [2, 3]),
        {
            "usual": (counted(6),),
            "too few": (counted(5),),
            "too many": (counted(12),),
            "none": (zeros(0),),
        },
    )
    yield Behaviour(
        "Reshape.what_is_left",
        lambda x: tf.reshape(-x, [-1, 3]),
        {
            "usual": (counted(2, 6),),
            "does not divide": (counted(2, 2),),
            "none": (zeros(0, 3),),
        },
    )
    for name, ints in (("i32", i32), ("i64", i64)):
        yield Behaviour(
            f"Reshape.fed.{name}",
            lambda x, shape: tf.reshape(-x, shape),
            {
                "usual": (counted(6), ints([3, 2])),
                "what is left": (counted(6), ints([-1, 2])),
                "does not divide": (counted(6), ints([-1, 4])),
                "two left": (counted(6), ints([-1, -1])),
                "negative": (counted(6), ints([-2, 3])),
                "other size": (counted(6), ints([4, 2])),
                "left of nothing": (zeros(0), ints([-1, 0])),
                "nothing": (zeros(0), ints([0, 5])),
                "overflow": (counted(6), ints([2**30, 2**30])),
            },
            dims=[[None], [2]],
        )
    yield Behaviour(
        "Squeeze.given",
        lambda x: tf.squeeze(-x, [1]),
        {"usual": (counted(2, 1, 3),), "not 1": (counted(2, 2, 3),), "empty": (zeros(0, 1, 3),)},
    )
    yield Behaviour(
        "ExpandDims.last",
        lambda x: tf.expand_dims(x, -1) * 2.0,
        {"usual": (counted(2, 3),), "empty": (zeros(0, 3),)},
    )
    yield Behaviour(
        "EnsureShape.dims",
        lambda x: tf.ensure_shape(x, [None, 3]),
        {"usual": (counted(2, 3),), "other": (counted(2, 4),), "empty": (zeros(0, 3),)},
    )


def _joins() -> Iterator[Behaviour]:
    yield Behaviour(
        "ConcatV2.rows",
        lambda x, y: tf.concat([x, y], 0),
        {
            "usual": (counted(2, 3), counted(1, 3)),
            "other width": (counted(2, 3), counted(2, 4)),
            "one empty": (zeros(0, 3), counted(1, 3)),
            "empty and of other width": (zeros(0, 4), counted(1, 3)),
            "both empty": (zeros(0, 3), zeros(0, 3)),
        },
    )
    yield Behaviour(
        "ConcatV2.columns",
        lambda x, y: tf.concat([x, y], -1),
        {
            "usual": (counted(2, 3), counted(2, 1)),
            "other height": (counted(2, 3), counted(3, 1)),
            "no columns": (zeros(2, 0), counted(2, 1)),
        },
    )
    yield Behaviour(
        "ConcatV2.fed_axis",
        lambda x, y, axis: tf.raw_ops.ConcatV2(values=[x, y], axis=axis),
        {
            "first": (counted(2, 2), counted(2, 2), i32(0)),
            "last": (counted(2, 2), counted(2, 2), i32(-1)),
            "beyond": (counted(2, 2), counted(2, 2), i32(2)),
        },
        outside="is not a constant",
    )
    yield Behaviour(
        "Pack.first",
        lambda x, y: tf.stack([x, y]),
        {
            "usual": (counted(2, 3), counted(2, 3)),
            "other shape": (counted(2, 3), counted(2, 2)),
            "empty": (zeros(0, 3), zeros(0, 3)),
        },
    )
    yield Behaviour(
        "Unpack.rows",
        lambda x: tf.raw_ops.Unpack(value=x, num=2, axis=0),
        {"usual": (counted(2, 3),), "other number": (counted(3, 3),), "empty": (zeros(2, 0),)},
    )
    yield Behaviour(
        "Split.columns",
        lambda x: tf.split(x, 2, 1),
        {
            "usual": (counted(3, 4),),
            "does not divide": (counted(3, 5),),
            "empty": (zeros(0, 4),),
            "nothing to split": (zeros(2, 0),),
        },
    )
    yield Behaviour(
        "SplitV.sizes",
        lambda x: tf.split(x, [1, -1, 2], 0),
        {
            "usual": (counted(5, 2),),
            "exactly": (counted(3, 2),),
            "too small": (counted(2, 2),),
        },
    )
    yield Behaviour(
        "SplitV.fed_sizes",
        lambda x, sizes: tf.raw_ops.SplitV(value=x, size_splits=sizes, axis=0, num_split=2),
        {
            "usual": (counted(5), i64([2, 3])),
            "what is left": (counted(5), i64([-1, 3])),
            "other sum": (counted(5), i64([2, 2])),
            "two left": (counted(5), i64([-1, -1])),
            "negative": (counted(5), i64([-2, 7])),
        },
        dims=[[None], [2]],
    )


def _slices() -> Iterator[Behaviour]:
    yield Behaviour(
        "Slice.constant",
        lambda x: tf.slice(x, [1, 0], [2, -1]),
        {
            "usual": (counted(4, 3),),
            "exactly": (counted(3, 3),),
            "too short": (counted(2, 3),),
            "empty": (zeros(0, 3),),
        },
    )
    yield Behaviour(
        "Slice.fed",
        tf.slice,
        {
            "usual": (counted(4), i32([1]), i32([2])),
            "all": (counted(4), i32([2]), i32([-1])),
            "none": (counted(4), i32([4]), i32([0])),
            "begin below": (counted(4), i32([-1]), i32([2])),
            "end beyond": (counted(4), i32([3]), i32([2])),
            "size below": (counted(4), i32([0]), i32([-2])),
        },
        dims=[[None], [1], [1]],
    )
    yield Behaviour(
        "StridedSlice.range",
        lambda x, a, z: x[a:z],
        {
            "usual": (counted(5), i32(1), i32(4)),
            "from the end": (counted(5), i32(-3), i32(-1)),
            "beyond": (counted(5), i32(2), i32(99)),
            "crossed": (counted(5), i32(4), i32(1)),
            "empty": (zeros(0), i32(0), i32(3)),
        },
    )
    yield Behaviour(
        "StridedSlice.fed_step",
        lambda x, s: x[::s],
        {
            "usual": (counted(5), i32(2)),
            "back": (counted(5), i32(-1)),
            "zero": (counted(5), i32(0)),
        },
        outside="unknown rank",
    )
    yield Behaviour(
        "StridedSlice.index",
        lambda x, i: x[i],
        {
            "usual": (counted(3, 2), i32(1)),
            "from the end": (counted(3, 2), i32(-3)),
            "beyond": (counted(3, 2), i32(3)),
            "below": (counted(3, 2), i32(-4)),
            "empty": (zeros(0, 2), i32(0)),
        },
    )
    yield Behaviour(
        "StridedSlice.constant_index",
        lambda x: x[:, 2],
        {"usual": (counted(2, 3),), "too narrow": (counted(2, 2),), "empty": (zeros(0, 3),)},
    )


def _moves() -> Iterator[Behaviour]:
    yield Behaviour(
        "Transpose.constant",
        lambda x: tf.transpose(x, [2, 0, 1]),
        {"usual": (counted(2, 3, 4),), "empty": (zeros(2, 0, 4),)},
    )
    yield Behaviour(
        "Transpose.fed",
        lambda x, perm: tf.transpose(x, perm),
        {
            "usual": (counted(2, 3), i32([1, 0])),
            "twice": (counted(2, 3), i32([0, 0])),
            "beyond": (counted(2, 3), i32([0, 2])),
            "negative": (counted(2, 3), i32([-1, 0])),
        },
        dims=[[None, None], [2]],
        outside="is not a constant",
    )
    yield Behaviour(
        "BroadcastTo.constant",
        lambda x: tf.broadcast_to(x, [3, 2]),
        {
            "usual": (counted(1, 2),),
            "all": (counted(3, 2),),
            "one": (counted(1, 1),),
            "does not fit": (counted(2, 2),),
            "wider": (counted(1, 4),),
            "empty": (zeros(0, 2),),
        },
    )
    yield Behaviour(
        "BroadcastTo.fed",
        tf.broadcast_to,
        {
            "usual": (counted(2), i32([3, 2])),
            "does not fit": (counted(2), i32([2, 3])),
            "empty": (counted(1), i32([2, 0])),
            "negative": (counted(1), i32([2, -1])),
        },
        dims=[[None], [2]],
    )
    yield Behaviour(
        "Tile.fed",
        tf.tile,
        {
            "usual": (counted(2, 2), i32([2, 3])),
            "none": (counted(2, 2), i32([2, 0])),
            "negative": (counted(2, 2), i32([2, -1])),
            "empty": (zeros(0, 2), i32([2, 2])),
        },
        dims=[[None, None], [2]],
    )
    yield Behaviour(
        "PadV2.fed",
        lambda x, p: tf.raw_ops.PadV2(input=x, paddings=p, constant_values=7.0),
        {
            "usual": (counted(3), i32([[1, 2]])),
            "none": (counted(3), i32([[0, 0]])),
            "negative": (counted(3), i32([[-1, 1]])),
            "empty": (zeros(0), i32([[1, 1]])),
        },
        dims=[[None], [1, 2]],
    )
    yield Behaviour(
        "MirrorPad.reflect",
        lambda x: tf.pad(x, [[2, 1]], "REFLECT"),
        {
            "usual": (counted(4),),
            "just enough": (counted(3),),
            "too short": (counted(2),),
            "empty": (zeros(0),),
        },
    )
    yield Behaviour(
        "MirrorPad.symmetric",
        lambda x: tf.pad(x, [[2, 1]], "SYMMETRIC"),
        {"usual": (counted(4),), "just enough": (counted(2),), "too short": (counted(1),)},
    )
    yield Behaviour(
        "ReverseV2.constant",
        lambda x: tf.reverse(x, [-1]),
        {"usual": (counted(2, 3),), "empty": (zeros(2, 0),)},
    )
    yield Behaviour(
        "ReverseSequence.batch",
        lambda x, n: tf.reverse_sequence(x, n, seq_axis=1, batch_axis=0),
        {
            "usual": (counted(2, 3), i32([2, 0])),
            "all": (counted(2, 3), i32([3, 3])),
            "too long": (counted(2, 3), i32([4, 1])),
            "negative": (counted(2, 3), i32([-1, 1])),
            "other number": (counted(2, 3), i32([1])),
            "empty": (zeros(0, 3), i32([])),
        },
    )
    yield Behaviour(
        "Roll.constant",
        lambda x: tf.roll(x, [1, -2], [0, 1]),
        {"usual": (counted(3, 4),), "narrow": (counted(1, 1),), "empty": (zeros(0, 4),)},
    )
    for op, attrs in (("SpaceToDepth", {"block_size": 2}), ("DepthToSpace", {"block_size": 2})):
        fits = counted(1, 2, 4, 4)
        yield Behaviour(
            f"{op}.blocks",
            raw(op, **attrs),
            {
                "usual": (fits,),
                "does not divide": (counted(1, 3, 3, 3),),
                "empty": (zeros(0, 2, 4, 4),),
            },
        )
    yield Behaviour(
        "SpaceToBatchND.blocks",
        lambda x: tf.space_to_batch(x, [2, 2], [[0, 0], [1, 1]]),
        {"usual": (counted(1, 2, 2, 1),), "does not divide": (counted(1, 3, 2, 1),)},
    )
    yield Behaviour(
        "BatchToSpaceND.blocks",
        lambda x: tf.batch_to_space(x, [2, 2], [[0, 1], [0, 0]]),
        {
            "usual": (counted(4, 2, 2, 1),),
            "does not divide": (counted(3, 2, 2, 1),),
            "crops too much": (counted(4, 0, 2, 1),),
        },
    )
    yield Behaviour(
        "ResizeNearestNeighbor.up",
        lambda x: tf.image.resize(x, [4, 4], "nearest"),
        {
            "usual": (counted(1, 2, 2, 3),),
            "no channels": (zeros(1, 2, 2, 0),),
            "no images": (zeros(0, 2, 2, 3),),
        },
        dims=[[None, 2, 2, None]],
    )
    yield Behaviour(
        "ResizeBilinear.up",
        lambda x: tf.image.resize(x, [4, 4]),
        {
            "usual": (counted(1, 2, 2, 3),),
            "no channels": (zeros(1, 2, 2, 0),),
            "no images": (zeros(0, 2, 2, 3),),
        },
        dims=[[None, 2, 2, None]],
    )
    yield Behaviour(
        "DiagPart.matrix",
        tf.linalg.tensor_diag_part,
        {"usual": (counted(3, 3),), "not square": (counted(3, 2),), "empty": (zeros(0, 0),)},
    )
    yield Behaviour(
        "Cross.vectors",
        tf.linalg.cross,
        {
            "usual": (counted(2, 3), f32([[1, 0, 2], [3, 1, 1]])),
            "other shapes": (counted(2, 3), counted(1, 3)),
            "not three": (counted(2, 2), counted(2, 2)),
            "empty": (zeros(0, 3), zeros(0, 3)),
        },
    )
    yield Behaviour(
        "MatrixSetDiagV3.main",
        tf.linalg.set_diag,
        {
            "usual": (counted(2, 3, 3), counted(2, 3)),
            "wide": (counted(1, 2, 3), counted(1, 2)),
            "other length": (counted(2, 3, 3), counted(2, 2)),
            "empty": (zeros(0, 3, 3), zeros(0, 3)),
        },
    )
    yield Behaviour(
        "MatrixBandPart.fed",
        lambda x, low, high: tf.linalg.band_part(x, low, high),
        {
            "usual": (counted(3, 3), i64(1), i64(0)),
            "all": (counted(3, 3), i64(-1), i64(-1)),
            "too many": (counted(3, 3), i64(4), i64(0)),
            "exactly": (counted(3, 3), i64(3), i64(3)),
            "empty": (np.zeros((0, 3), np.float32), i64(0), i64(0)),
        },
    )


ROWS = [*_reshapes(), *_joins(), *_slices(), *_moves()]
