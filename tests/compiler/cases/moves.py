"""Cases of ops that move elements: blocks of images, rolls, partly reversed sequences."""

from __future__ import annotations

from collections.abc import Iterator

import tensorflow as tf

from tests.compiler.cases.raw import raw
from tests.compiler.values import Arg, Case, anything, computed, finite

SMALL = (0, 1, 2, 3, 5)
IMAGE = Arg("f32", ("n", "h", "w", 3), finite)
MATRIX = Arg("f32", ("n", "m"), finite)


def cases() -> Iterator[Case]:
    yield from _blocks()
    yield from _rolls()
    yield from _sequences()


def _blocks() -> Iterator[Case]:
    for dtype in ("f32", "i64", "bool"):
        image = Arg(dtype, ("n", 4, "w", 3), anything)
        yield Case(
            f"SpaceToDepth.{dtype}",
            lambda x: raw("SpaceToDepth", block_size=2)(x),
            (image,),
            sizes=(0, 2, 3, 6),
            assumes=lambda dims, arrays: dims["w"] > 0,
        )
        image = Arg(dtype, ("n", "h", "w", 12), anything)
        yield Case(
            f"DepthToSpace.{dtype}",
            lambda x: raw("DepthToSpace", block_size=2)(x),
            (image,),
            sizes=SMALL,
            assumes=lambda dims, arrays: all(dims.values()),
        )
    paddings = [[1, 0], [1, 2]]
    yield Case(
        "SpaceToBatch",
        lambda x: raw("SpaceToBatch", block_size=2)(x, paddings),
        (IMAGE,),
        sizes=(1, 3, 5),
    )
    yield Case(
        "SpaceToBatchND.static",
        lambda x: raw("SpaceToBatchND")(x, [2, 3], paddings),
        (IMAGE,),
        sizes=(1, 2, 3, 5, 6, 9),
    )
    yield Case(
        "SpaceToBatchND.one_dim",
        lambda x: raw("SpaceToBatchND")(x, [2], [[0, 0]]),
        (Arg("i32", ("n", "m", 2), anything),),
        sizes=(1, 2, 4, 6),
    )
    fed = computed(lambda rng, dims: rng.integers(-1 if rng.random() < 0.1 else 0, 3, (2, 2)))
    yield Case(
        "SpaceToBatchND.fed",
        lambda x, p: raw("SpaceToBatchND")(x, [2, 1], p),
        (IMAGE, Arg("i64", (2, 2), fed)),
        sizes=(1, 2, 3, 4),
    )
    batch = Arg("f32", ("n", "h", "w", 2), finite)
    yield Case(
        "BatchToSpace",
        lambda x: raw("BatchToSpace", block_size=2)(x, [[1, 0], [0, 1]]),
        (batch,),
        sizes=(1, 2, 4, 8),
    )
    yield Case(
        "BatchToSpaceND.static",
        lambda x: raw("BatchToSpaceND")(x, [2, 3], [[0, 1], [2, 0]]),
        (batch,),
        sizes=(1, 2, 6, 12),
    )
    yield Case(
        "BatchToSpaceND.whole",
        lambda x: raw("BatchToSpaceND")(x, [2], [[0, 0]]),
        (Arg("i64", ("n", "m"), anything),),
        sizes=(2, 3, 4),
    )
    yield Case(
        "BatchToSpaceND.fed",
        lambda x, c: raw("BatchToSpaceND")(x, [1, 2], c),
        (batch, Arg("i32", (2, 2), fed)),
        sizes=(1, 2, 4),
    )


def _rolls() -> Iterator[Case]:
    shift = computed(lambda rng, dims: rng.integers(-9, 10))
    for dtype in ("f32", "i8", "bool"):
        x = Arg(dtype, ("n", "m"), anything)
        yield Case(f"Roll.{dtype}", lambda x: tf.roll(x, 2, 1), (x,))
    yield Case("Roll.back", lambda x: tf.roll(x, -3, 0), (MATRIX,))
    yield Case("Roll.static", lambda x: tf.roll(x, -13, -1), (Arg("f32", ("n", 5), finite),))
    yield Case("Roll.fed", lambda x, s: tf.roll(x, s, 1), (MATRIX, Arg("i32", (), shift)))
    yield Case("Roll.several", lambda x: tf.roll(x, [1, 2, 3], [0, 1, 0]), (MATRIX,))


def _sequences() -> Iterator[Case]:
    def lengths(limit: str):
        def draw(rng, dims):
            wild = rng.random() < 0.2
            low, high = (-2, dims[limit] + 3) if wild else (0, dims[limit] + 1)
            return rng.integers(low, high, dims["n"])

        return computed(draw)

    for dtype, index in (("f32", "i64"), ("i32", "i32"), ("bool", "i64")):
        yield Case(
            f"ReverseSequence.{dtype}.{index}",
            lambda x, s: tf.reverse_sequence(x, s, seq_axis=1, batch_axis=0),
            (Arg(dtype, ("n", "m", 2), anything), Arg(index, ("n",), lengths("m"))),
        )
    yield Case(
        "ReverseSequence.time_major",
        lambda x, s: tf.reverse_sequence(x, s, seq_axis=0, batch_axis=2),
        (Arg("f32", ("m", 2, "n"), anything), Arg("i32", ("n",), lengths("m"))),
    )
