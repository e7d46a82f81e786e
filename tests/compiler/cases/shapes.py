"""Cases of ops about shapes, and of shape arithmetic."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from tests.compiler.cases.raw import raw
from tests.compiler.values import Arg, Case, anything, below, between, computed, finite

X = Arg("f32", ("n", "m", 4), finite)
MATRIX = Arg("f32", ("n", "m"), finite)
VECTOR = Arg("f32", ("n",), finite)


def cases() -> Iterator[Case]:
    yield from _asking()
    yield from _reshapes()
    yield from _changing()
    yield from _joining()
    yield from _making()


def _asking() -> Iterator[Case]:
    for out in (tf.int32, tf.int64):
        yield Case(f"Shape.{out.name}", raw("Shape", out_type=out), (X,))
        yield Case(f"Size.{out.name}", raw("Size", out_type=out), (X,))
    yield Case(
        "ShapeN", lambda x, y: tf.raw_ops.ShapeN(input=[x, y], out_type=tf.int64), (X, VECTOR)
    )
    yield Case("Rank", raw("Rank"), (X,))
    yield Case("Shape.scalar", raw("Shape"), (Arg("f32", (), finite),))
    yield Case(
        "BroadcastArgs",
        lambda x, y: tf.raw_ops.BroadcastArgs(s0=tf.shape(x), s1=tf.shape(y)),
        (X, Arg("f32", ("m", 1), finite)),
    )
    yield Case(
        "ConcatOffset",
        lambda x, y: tf.raw_ops.ConcatOffset(concat_dim=1, shape=[tf.shape(x), tf.shape(y)]),
        (MATRIX, Arg("f32", ("n", "k"), finite)),
    )
    yield Case("InvertPermutation", lambda: tf.raw_ops.InvertPermutation(x=[2, 0, 1, 3]), ())
    yield Case("IdentityN", lambda x, y: tf.raw_ops.IdentityN(input=[x, y]), (X, VECTOR))
    for op in (
        "Identity",
        "StopGradient",
        "PreventGradient",
        "Snapshot",
        "GuaranteeConst",
        "DeepCopy",
    ):
        yield Case(op, raw(op), (X,))


def _reshapes() -> Iterator[Case]:
    def to(shape):
        return lambda x: tf.reshape(x, shape)

    yield Case("Reshape.flat", to([-1]), (X,))
    yield Case("Reshape.static", to([-1, 8]), (X,), sizes=(0, 2, 4))
    yield Case("Reshape.not_divisible", to([-1, 3]), (MATRIX,), sizes=(1, 2, 3))
    yield Case("Reshape.to_scalar", to([]), (VECTOR,), sizes=(1,))
    yield Case("Reshape.from_scalar", to([1, 1]), (Arg("f32", (), finite),))
    yield Case("Reshape.fixed", to([2, 6]), (MATRIX,), sizes=(2, 3, 4, 6))
    yield Case(
        "Reshape.merge_by_shape",
        lambda x: tf.reshape(x, [tf.shape(x)[0] * tf.shape(x)[1], 4]),
        (X,),
    )
    yield Case(
        "Reshape.merge_and_back",
        lambda x: tf.reshape(tf.reshape(x, [-1, 4]) * 2.0, [-1, tf.shape(x)[1], 4]) + x,
        (X,),
        assumes=lambda dims, arrays: dims["m"] > 0,
    )
    yield Case(
        "Reshape.split_last",
        lambda x: tf.reshape(x, tf.concat([tf.shape(x)[:-1], [2, -1]], 0)),
        (X,),
        assumes=lambda dims, arrays: dims["n"] * dims["m"] > 0,
    )

    def some_shape(rng, dims):
        total = dims["n"] * dims["m"]
        first = int(rng.choice([n for n in range(1, total + 1) if total % n == 0] or [0]))
        shape = [first, total // first if first else 5]
        if rng.random() < 0.6 and total:
            shape[rng.integers(2)] = -1
        if rng.random() < 0.2:
            shape[rng.integers(2)] = int(rng.choice([-1, -2, 0, 7]))
        return shape

    for dtype in ("i32", "i64"):
        yield Case(
            f"Reshape.fed_shape.{dtype}",
            lambda x, s: tf.reshape(x, s),
            (MATRIX, Arg(dtype, (2,), computed(some_shape))),
            assumes=lambda dims, arrays: dims["n"] * dims["m"] > 0,
        )
    yield Case(
        "Reshape.fed_shape.one",
        lambda x, s: tf.reshape(x, s),
        (MATRIX, Arg("i32", (1,), computed(lambda rng, dims: [rng.choice([-1, 6, 0])]))),
        sizes=(0, 2, 3),
    )


def _changing() -> Iterator[Case]:
    for axis in (0, 1, -1, -2):
        yield Case(f"ExpandDims.{axis}", lambda x, a=axis: tf.expand_dims(x, a), (MATRIX,))
    ones = Arg("f32", ("n", 1, "m", 1), finite)
    yield Case("Squeeze.one", raw("Squeeze", axis=[1]), (ones,))
    yield Case("Squeeze.two", raw("Squeeze", axis=[-1, 1]), (ones,))
    yield Case("Squeeze.all", raw("Squeeze"), (Arg("f32", (1, 3, 1), finite),))
    yield Case("Squeeze.unknown", raw("Squeeze", axis=[0]), (MATRIX,), sizes=(1, 2))
    for i, perm in enumerate(([0, 1, 2], [2, 0, 1], [1, 0, 2], [-1, 1, 0])):
        yield Case(f"Transpose.{i}", lambda x, p=perm: raw("Transpose")(x, p), (X,))
    yield Case(
        "Transpose.scalar",
        lambda x: raw("Transpose")(x, np.zeros(0, np.int32)),
        (Arg("f32", (), finite),),
    )
    yield Case(
        "BroadcastTo.static", lambda x: tf.broadcast_to(x, [2, 3, 4]), (Arg("f32", (3, 1), finite),)
    )
    yield Case(
        "BroadcastTo.like",
        lambda x, y: tf.broadcast_to(y, tf.shape(x)),
        (X, Arg("f32", ("m", 1), finite)),
    )
    yield Case(
        "BroadcastTo.fed",
        lambda x, s: tf.broadcast_to(x, s),
        (
            Arg("f32", ("n", 1), finite),
            Arg("i32", (3,), computed(lambda rng, dims: [2, dims["n"], rng.integers(-1, 4)])),
        ),
    )
    yield Case("Tile.static", lambda x: tf.tile(x, [2, 1, 3]), (X,))
    yield Case("Tile.ones", lambda x: tf.tile(x, [1, 1, 1]), (X,))
    yield Case("Tile.zero", lambda x: tf.tile(x, [1, 0, 2]), (X,))
    yield Case("Tile.of_ones", lambda x: tf.tile(x, [2, 3]), (Arg("f32", (1, "n"), finite),))
    yield Case(
        "Tile.scalar", lambda x: raw("Tile")(x, np.zeros(0, np.int32)), (Arg("f32", (), finite),)
    )
    yield Case(
        "Tile.by_shape",
        lambda x, y: tf.tile(x[:, None], [1, tf.shape(y)[0]]),
        (VECTOR, Arg("f32", ("m",), finite)),
    )
    multiples = computed(lambda rng, dims: rng.integers(-1 if rng.random() < 0.2 else 0, 4, 3))
    yield Case("Tile.fed", raw("Tile"), (X, Arg("i64", (3,), multiples)))


def _joining() -> Iterator[Case]:
    left, right = Arg("f32", ("n", 2), finite), Arg("f32", ("n", "m"), finite)
    for axis in (1, -1):
        yield Case(
            f"ConcatV2.columns.{axis}",
            lambda x, y, z, a=axis: tf.concat([x, y, z], a),
            (left, right, left),
        )
    yield Case(
        "ConcatV2.rows", lambda x, y: tf.concat([x, y], 0), (X, Arg("f32", ("k", "m", 4), finite))
    )
    yield Case("ConcatV2.one", lambda x: tf.raw_ops.ConcatV2(values=[x, x], axis=0)[:1], (X,))
    yield Case("Concat", lambda x, y: tf.raw_ops.Concat(concat_dim=1, values=[x, y]), (left, right))
    yield Case(
        "ConcatV2.assumed_equal",
        lambda x, y: tf.concat([x, y], 1),
        (left, Arg("f32", ("k", 3), finite)),
        sizes=(1, 2),
    )
    for dtype in ("i8", "bool", "f64", "u64"):
        both = (Arg(dtype, ("n", 2), anything), Arg(dtype, ("n", "m"), anything))
        yield Case(f"ConcatV2.{dtype}", lambda x, y: tf.concat([x, y], 1), both)
    for axis in (0, 1, -1):
        yield Case(f"Pack.{axis}", lambda x, y, a=axis: tf.stack([x, y, x], a), (MATRIX, MATRIX))
    yield Case("Pack.scalars", lambda x, y: tf.stack([x, y]), (Arg("f32", (), finite),) * 2)
    for axis in (0, 1, -1):
        arg = Arg("f32", (3, 3, 3), finite)
        yield Case(f"Unpack.{axis}", lambda x, a=axis: tf.unstack(x, 3, a), (arg,))
    yield Case("Unpack.unknown", lambda x: tf.unstack(x, 2, 0), (MATRIX,), sizes=(1, 2))
    yield Case("Split.static", lambda x: tf.split(x, 2, -1), (X,))
    yield Case("Split.one", lambda x: tf.split(x, 1, 0), (X,))
    yield Case("Split.unknown", lambda x: tf.split(x, 3, 0), (X,), sizes=(0, 1, 3, 6))
    yield Case("SplitV.static", lambda x: tf.split(x, [1, 3, 0], -1), (X,))
    yield Case("SplitV.rest", lambda x: tf.split(x, [1, -1, 2], 0), (X,), sizes=(2, 3, 7))

    def sizes(rng, dims):
        first = int(rng.integers(0, dims["n"] + 1))
        return [first, dims["n"] - first + (1 if rng.random() < 0.2 else 0)]

    yield Case(
        "SplitV.fed",
        lambda x, s: tf.raw_ops.SplitV(value=x, size_splits=s, axis=0, num_split=2),
        (X, Arg("i32", (2,), computed(sizes))),
    )


def _making() -> Iterator[Case]:
    yield Case(
        "Const",
        lambda x: x + tf.constant([[1.5, -2.5], [np.inf, 0.0]]),
        (Arg("f32", ("n", 1, 2), finite),),
    )
    yield Case(
        "Const.splat", lambda x: x + tf.fill([3, 40], 2.5), (Arg("f32", ("n", 1, 40), finite),)
    )
    yield Case("Const.empty", lambda: tf.constant(np.zeros((0, 3), np.float32)), ())
    for dtype in ("f32", "i64", "bool"):
        value = Arg(dtype, (), anything)
        yield Case(f"Fill.{dtype}.static", lambda v: tf.fill([2, 3], v), (value,))
        yield Case(f"Fill.{dtype}.by_shape", lambda x, v: tf.fill(tf.shape(x), v), (X, value))
    dims = computed(lambda rng, dims: rng.integers(-1 if rng.random() < 0.2 else 0, 4, 2))
    yield Case("Fill.fed", lambda s: tf.fill(s, 7), (Arg("i64", (2,), dims),))
    yield Case("Range.static", lambda: tf.range(3, 20, 4), ())
    yield Case("Range.long", lambda: tf.range(100), ())
    yield Case("Range.floats", lambda: tf.range(0.5, 3.0, 0.25), ())
    yield Case("Range.by_shape", lambda x: tf.range(tf.shape(x)[0]), (VECTOR,))
    yield Case("Range.down", lambda x: tf.range(tf.shape(x)[0], -1, -2), (VECTOR,))
    end = computed(lambda rng, dims: rng.integers(-3, 12))
    for dtype in ("i32", "i64"):
        yield Case(
            f"Range.fed.{dtype}",
            lambda a, z, t=dtype: tf.raw_ops.Range(
                start=a, limit=z, delta=tf.constant(3, tf.int32 if t == "i32" else tf.int64)
            ),
            (Arg(dtype, (), end), Arg(dtype, (), end)),
        )
    count = computed(lambda rng, dims: rng.integers(-1, 12))
    for dtype in ("f32", "f64"):
        ends = (Arg(dtype, (), finite), Arg(dtype, (), finite))
        for index in ("i32", "i64"):
            yield Case(
                f"LinSpace.{dtype}.{index}",
                raw("LinSpace"),
                (*ends, Arg(index, (), count)),
                ulps=8,
                absolute=1e-6,
            )
        for n in (1, 2, 9):
            yield Case(
                f"LinSpace.{dtype}.{n}",
                lambda a, z, n=n: raw("LinSpace")(a, z, n),
                ends,
                ulps=8,
                absolute=1e-6,
            )
    yield Case(
        "EnsureShape",
        lambda x: tf.ensure_shape(x, [None, 3, 4]) * 2.0,
        (X,),
        sizes=(2, 3),
    )
    yield Case("positions", lambda x: x + tf.cast(tf.range(tf.shape(x)[1]), tf.float32), (MATRIX,))
    for dtype in ("u8", "i8", "i32", "i64"):
        indices = between(0 if dtype == "u8" else -2, 7)
        for axis in (-1, 0, 1):
            yield Case(
                f"OneHot.{dtype}.{axis}",
                lambda i, a=axis: tf.raw_ops.OneHot(
                    indices=i, depth=5, on_value=2.0, off_value=-1.0, axis=a
                ),
                (Arg(dtype, ("n", "m"), indices),),
            )
    depth = computed(lambda rng, dims: rng.integers(-1, 6))
    yield Case(
        "OneHot.fed_depth",
        lambda i, n: tf.one_hot(i, n, dtype=tf.bool, on_value=True, off_value=False),
        (Arg("i32", ("n",), below(6)), Arg("i32", (), depth)),
    )
