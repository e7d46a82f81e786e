"""Cases of slices, gathers, padding and reversal."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import tensorflow as tf

from tests.compiler.cases.raw import raw
from tests.compiler.values import Arg, Case, anything, below, computed, finite

X = Arg("f32", ("n", "m", 4), finite)
VECTOR = Arg("f32", ("n",), finite)
SMALL = (0, 1, 2, 3, 5, 9)

# Python's own notation covers all the masks of StridedSlice.
STRIDED = {
    "head": lambda x: x[:3],
    "tail": lambda x: x[2:],
    "last": lambda x: x[-1:],
    "but_last": lambda x: x[:-1],
    "middle": lambda x: x[1:-1],
    "far": lambda x: x[-5:7],
    "beyond": lambda x: x[20:30],
    "crossed": lambda x: x[4:2],
    "step": lambda x: x[::2],
    "step_from": lambda x: x[1:6:3],
    "reverse": lambda x: x[::-1],
    "reverse_step": lambda x: x[::-2],
    "reverse_range": lambda x: x[5:0:-1],
    "reverse_head": lambda x: x[2::-1],
    "reverse_tail": lambda x: x[:-4:-1],
    "reverse_empty": lambda x: x[0:3:-1],
    "index": lambda x: x[0],
    "index_last": lambda x: x[-1],
    "index_columns": lambda x: x[:, 1],
    "index_static": lambda x: x[..., 2],
    "ellipsis": lambda x: x[1:, ..., ::2],
    "ellipsis_empty": lambda x: x[:, :, ..., 1:3],
    "new_axes": lambda x: x[:, None, ..., None],
    "new_axis_index": lambda x: x[None, 0, :, None, 1:],
    "many": lambda x: x[1:4, ::-1, -3:-1],
    "full": lambda x: x[:],
}


def cases() -> Iterator[Case]:
    yield from _slices()
    yield from _gathers()
    yield from _pads()


def _slices() -> Iterator[Case]:
    for name, function in STRIDED.items():
        yield Case(f"StridedSlice.{name}", function, (X,), sizes=SMALL)
    for dtype in ("i8", "bool", "f64", "u16"):
        arg = Arg(dtype, ("n", 3), anything)
        yield Case(f"StridedSlice.{dtype}", lambda x: x[1::2, ::-1], (arg,))
    position = computed(lambda rng, dims: rng.integers(-6, 7))
    fed = Arg("i32", (), position)
    yield Case("StridedSlice.fed_range", lambda x, a, z: x[a:z], (X, fed, fed), sizes=SMALL)
    yield Case("StridedSlice.fed_back", lambda x, a, z: x[a:z:-1], (X, fed, fed), sizes=SMALL)
    yield Case("StridedSlice.fed_step", lambda x, a: x[a::2], (X, fed), sizes=SMALL)
    yield Case("StridedSlice.fed_index", lambda x, a: x[:, a], (X, fed), sizes=SMALL)
    yield Case(
        "StridedSlice.fed_vectors",
        lambda x, a, z: tf.strided_slice(x, a, z, [1, 2], end_mask=2),
        (X, *(Arg("i64", (2,), computed(lambda rng, dims: rng.integers(-6, 7, 2))),) * 2),
        sizes=SMALL,
    )
    yield Case("StridedSlice.by_shape", lambda x: x[: tf.shape(x)[1] - 1], (X,), sizes=SMALL)
    yield Case("StridedSlice.halves", lambda x: x[: tf.shape(x)[0] // 2], (X,), sizes=SMALL)

    yield Case("Slice.static", lambda x: tf.slice(x, [1, 0, 2], [-1, 1, 2]), (X,), sizes=SMALL)
    yield Case("Slice.all", lambda x: tf.slice(x, [0, 0, 0], [-1, -1, -1]), (X,), sizes=SMALL)
    numbers = computed(lambda rng, dims: rng.integers(-1, 4, 2))
    yield Case(
        "Slice.fed",
        lambda x, a, s: tf.slice(x, a, s),
        (Arg("f32", ("n", "m"), finite), Arg("i32", (2,), numbers), Arg("i32", (2,), numbers)),
        sizes=SMALL,
    )


def _not_empty(*names: str) -> Callable[..., bool]:
    """TensorFlow doesn't look at the indices when the result is empty."""
    return lambda dims, arrays: all(dims[n] > 0 for n in names)


def _gathers() -> Iterator[Case]:
    table = Arg("f32", ("v", 3), finite)
    wild = below("v", out_of_range=0.3)
    for dtype in ("i32", "i64"):
        indices = Arg(dtype, ("n", "m"), wild)
        yield Case(f"GatherV2.rows.{dtype}", lambda p, i: tf.gather(p, i), (table, indices))
        yield Case(f"Gather.{dtype}", raw("Gather"), (table, indices))
    yield Case(
        "GatherV2.axis",
        lambda p, i: tf.gather(p, i, axis=-1),
        (Arg("f32", ("n", "m", 5), finite), Arg("i32", ("k",), below(5, out_of_range=0.3))),
        assumes=_not_empty("n", "m"),
    )
    yield Case(
        "GatherV2.scalar",
        lambda p, i: tf.gather(p, i, axis=1),
        (Arg("i64", ("n", "v"), anything), Arg("i32", (), below("v"))),
        assumes=_not_empty("n"),
    )
    yield Case(
        "GatherV2.batch",
        lambda p, i: tf.gather(p, i, axis=1, batch_dims=1),
        (Arg("f32", ("n", "v", 2), finite), Arg("i32", ("n", "m"), wild)),
    )
    yield Case(
        "GatherV2.batch_later_axis",
        lambda p, i: tf.gather(p, i, axis=2, batch_dims=1),
        (Arg("f32", ("n", 2, "v"), finite), Arg("i64", ("n", "m"), wild)),
    )
    yield Case(
        "GatherV2.negative_batch",
        lambda p, i: tf.raw_ops.GatherV2(params=p, indices=i, axis=1, batch_dims=-1),
        (Arg("f32", ("n", "v", 2), finite), Arg("i32", ("n", "m"), wild)),
    )
    yield Case(
        "GatherNd.rows",
        lambda p, i: tf.gather_nd(p, i[..., None]),
        (table, Arg("i32", ("n", "m"), wild)),
    )
    for dtype in ("i32", "i64"):
        yield Case(
            f"GatherNd.elements.{dtype}",
            lambda p, i, j: tf.gather_nd(p, tf.stack([i, j], -1)),
            (
                Arg("f32", ("v", "m"), finite),
                Arg(dtype, ("n",), below("v", out_of_range=0.2)),
                Arg(dtype, ("n",), below("m", out_of_range=0.2)),
            ),
        )
    yield Case(
        "GatherNd.slices",
        lambda p, i: tf.gather_nd(p, i),
        (Arg("f32", (3, 4, "m"), finite), Arg("i32", ("n", 2, 2), below(3, out_of_range=0.3))),
        assumes=_not_empty("m"),
    )
    yield Case(
        "Gather.of_shape",
        lambda x, v: tf.fill(tf.gather(tf.shape(x), [2, 0]), v),
        (X, Arg("f32", (), finite)),
    )


def _pads() -> Iterator[Case]:
    paddings = [[1, 0], [0, 2], [3, 1]]
    yield Case("Pad.static", lambda x: tf.pad(x, paddings), (X,))
    yield Case("Pad.none", lambda x: tf.raw_ops.Pad(input=x, paddings=[[0, 0]] * 3), (X,))
    for dtype in ("i8", "f64", "bool"):
        yield Case(
            f"Pad.{dtype}",
            lambda x: tf.raw_ops.Pad(input=x, paddings=[[1, 2]]),
            (Arg(dtype, ("n",), anything),),
        )
    yield Case(
        "PadV2.static",
        lambda x, v: tf.raw_ops.PadV2(input=x, paddings=paddings, constant_values=v),
        (X, Arg("f32", (), anything)),
    )
    fed = computed(lambda rng, dims: rng.integers(-1 if rng.random() < 0.2 else 0, 3, (2, 2)))
    matrix = Arg("f32", ("n", "m"), finite)
    for dtype in ("i32", "i64"):
        yield Case(f"Pad.fed.{dtype}", raw("Pad"), (matrix, Arg(dtype, (2, 2), fed)))
    yield Case(
        "Pad.to_length",
        lambda x, n: tf.pad(x, [[0, n - tf.shape(x)[0]]]),
        (VECTOR, Arg("i32", (), computed(lambda rng, dims: rng.integers(0, 9)))),
    )
    for mode in ("REFLECT", "SYMMETRIC"):
        op = raw("MirrorPad", mode=mode)
        yield Case(f"MirrorPad.{mode}", lambda x, op=op: op(x, [[2, 1], [0, 2]]), (matrix,))
        args = (matrix, Arg("i32", (2, 2), fed))
        yield Case(f"MirrorPad.{mode}.fed", op, args)
    for axes in ([0], [-1, 0], []):
        name = "_".join(map(str, axes)) or "none"
        yield Case(
            f"ReverseV2.{name}",
            lambda x, a=axes: raw("ReverseV2")(x, tf.constant(a, tf.int32)),
            (X,),
        )
    # TensorFlow reports an error for an empty first dim.
    yield Case("Reverse", lambda x: raw("Reverse")(x, [True, False, True]), (X,), sizes=(1, 2, 5))
