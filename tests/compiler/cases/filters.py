"""Cases of ops whose results' sizes depend on data."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from tests.compiler.cases.raw import raw
from tests.compiler.values import Arg, Case, anything, between, computed, finite

INF, NAN = float("inf"), float("nan")
# Few different numbers, some of them at the ends of their dtype; zeros of both signs.
REPEATED = between(-3, 3, 0.0, -0.0, INF, -INF, NAN)


def cases() -> Iterator[Case]:
    yield from _where()
    yield from _unique()
    yield from _filtered()
    yield from _sparse_reshape()
    yield from _filled_rows()


def _where() -> Iterator[Case]:
    for dtype in ("bool", "f32", "f64", "i8", "u16", "i64", "u64"):
        values = anything if dtype == "bool" else between(-1, 2, 0.0)
        yield Case(f"Where.{dtype}", tf.where, (Arg(dtype, ("n",), values),))
    for rank in (2, 3, 4):
        dims = ("n", 3, "m", 2)[:rank]
        yield Case(f"Where.rank{rank}", tf.where, (Arg("bool", dims, anything),))
    yield Case("Where.special", tf.where, (Arg("f32", ("n",), between(0, 1, 0.0, -0.0, NAN)),))
    yield Case(
        "Where.constant",
        lambda x: tf.where(tf.constant([True, False, True])) + tf.cast(x, tf.int64),
        (Arg("i32", (), finite),),
    )
    yield Case("Where.none", tf.where, (Arg("bool", ("n",), lambda r, s, t, d: r.random(s) < 0),))
    yield Case("Where.all", tf.where, (Arg("bool", ("n",), lambda r, s, t, d: r.random(s) < 2),))


def _unique() -> Iterator[Case]:
    for dtype in ("i32", "i64", "i8", "u8", "u32", "u64", "f32", "f64"):
        arg = Arg(dtype, ("n",), between(-3, 4) if dtype[0] != "f" else REPEATED)
        yield Case(f"Unique.{dtype}", raw("Unique"), (arg,))
        yield Case(f"UniqueWithCounts.{dtype}", raw("UniqueWithCounts", out_idx="int64"), (arg,))
    wide = Arg("i64", ("n",), anything)
    yield Case("Unique.wide", raw("Unique", out_idx="int64"), (wide,))
    for op in ("UniqueV2", "UniqueWithCountsV2"):
        for name, axis in (("vector", []), ("axis", [0])):
            yield Case(
                f"{op}.{name}",
                lambda x, op=op, axis=axis: raw(op)(x, tf.constant(axis, tf.int64)),
                (Arg("i32", ("n",), between(0, 4)),),
            )


def _filtered() -> Iterator[Case]:
    rows, mask = Arg("f32", ("n", "m"), finite), Arg("bool", ("n",), anything)
    yield Case("Where.mask", tf.boolean_mask, (rows, mask))
    yield Case("Where.mask2", tf.boolean_mask, (rows, Arg("bool", ("n", "m"), anything)))
    yield Case(
        "Where.mask_fused",
        lambda x, m: tf.reduce_sum(tf.nn.relu(tf.boolean_mask(x * 2.0, m)) + 1.0, axis=0),
        (rows, mask),
        relative=1e-5,
    )
    yield Case(
        "Where.softmax",
        lambda x, m: [tf.nn.softmax(tf.boolean_mask(x, m)), tf.boolean_mask(x, m)],
        (Arg("f32", ("n", 5), finite), mask),
        relative=1e-5,
    )
    yield Case(
        "Where.product",
        lambda x, m, w: tf.nn.relu(tf.boolean_mask(x, m) @ w),
        (rows, mask, Arg("f32", ("m", 3), finite)),
        relative=1e-4,
        absolute=1e-4,
    )
    yield Case(
        "Where.size",
        lambda x, m: tf.cast(tf.shape(tf.boolean_mask(x, m)), tf.float32) * 0.5,
        (rows, mask),
    )
    yield Case(
        "Where.mean",
        lambda x, m: tf.reduce_mean(tf.boolean_mask(x, m)),
        (rows, mask),
        relative=1e-5,
    )
    yield Case(
        "Where.two",
        lambda x, m, k: [
            tf.concat([tf.boolean_mask(x, m), tf.boolean_mask(x, k)], 0),
            tf.boolean_mask(x, m)[:, None] * tf.boolean_mask(x, k)[None],
        ],
        (Arg("f32", ("n",), finite), mask, mask),
    )
    yield Case(
        "Where.again",
        lambda x, m: tf.boolean_mask(y := tf.boolean_mask(x, m), y > 0.0),
        (Arg("f32", ("n",), finite), mask),
    )
    yield Case(
        "Where.added",
        lambda x, m, y: tf.concat([tf.boolean_mask(x, m), [1.0]], 0) + y,
        (Arg("f32", ("n",), finite), mask, Arg("f32", ("k",), finite)),
        assumes=lambda dims, arrays: (
            dims["k"] == arrays[1].sum() + 1 and 1 not in (dims["k"], arrays[1].sum() + 1)
        ),
    )
    yield Case(
        "Where.as_long",
        lambda x, m, y: tf.boolean_mask(x, m) + y,
        (Arg("f32", ("n",), finite), mask, Arg("f32", ("k",), finite)),
        assumes=lambda dims, arrays: dims["k"] == arrays[1].sum(),
    )
    yield Case(
        "Unique.table",
        lambda x, i: tf.gather(tf.gather(x, (u := tf.unique(i)).y) * 2.0, u.idx),
        (Arg("f32", (5, "m"), finite), Arg("i32", ("n",), between(0, 5))),
    )


# -- sparse tensors ---------------------------------------------------------------------------


def _indices(share: float, *dims: int):
    """Index vectors into these dims in order, sometimes out of order or range."""

    def draw(rng: np.random.Generator, sizes) -> np.ndarray:
        flat = np.sort(rng.integers(0, int(np.prod(dims)), sizes["k"]))
        found = np.stack(np.unravel_index(flat, dims), 1)
        if len(found) and rng.random() < share:
            found[rng.integers(len(found)), rng.integers(len(dims))] = rng.integers(-1, 9)
        return found

    return computed(draw)


def _in_order(dims, arrays) -> bool:
    """Whether the rows are: others are for TensorFlow."""
    return bool((np.diff(arrays[0][:, 0]) >= 0).all())


def _inside(*shape: int):
    return lambda dims, arrays: bool(((arrays[0] >= 0) & (arrays[0] < shape)).all())


def _sparse_reshape() -> Iterator[Case]:
    for name, dims in {
        "flat": [-1],
        "wider": [2, 3, -1],
        "plain": [6, 4],
        "same": [4, 6],
    }.items():
        yield Case(
            f"SparseReshape.{name}",
            lambda i, dims=dims: raw("SparseReshape")(i, [4, 6], dims),
            (Arg("i64", ("k", 2), _indices(0.2, 4, 6)),),
            sizes=(0, 1, 2, 5, 17),
            assumes=(lambda *_: True) if name == "same" else _inside(4, 6),
        )
    shape = Arg("i64", (2,), computed(lambda rng, dims: [[4, 6], [2, 12], [0, 6]][rng.integers(3)]))
    new = Arg(
        "i64", (2,), computed(lambda rng, d: [[3, 8], [-1, 6], [0, 7], [-1, -1]][rng.integers(4)])
    )
    yield Case(
        "SparseReshape.fed",
        raw("SparseReshape"),
        (Arg("i64", ("k", 2), _indices(0.2, 2, 6)), shape, new),
        sizes=(0, 1, 2, 5),
        # A dense tensor without elements that is given another such shape is left to TensorFlow.
        assumes=lambda dims, arrays: arrays[1].prod() > 0 and _inside(*arrays[1])(dims, arrays),
    )
    wide = Arg("i64", (2,), computed(lambda rng, dims: [2 ** int(rng.integers(20, 45)), 2**22]))
    yield Case(
        "SparseReshape.wide",
        lambda i, s: raw("SparseReshape")(i, s, [-1]),
        (Arg("i64", ("k", 2), _indices(0.0, 4, 6)), wide),
        sizes=(0, 1, 5),
    )


def _filled_rows() -> Iterator[Case]:
    for dtype in ("f32", "i64", "bool"):
        yield Case(
            f"SparseFillEmptyRows.{dtype}",
            lambda i, v, f: raw("SparseFillEmptyRows")(i, v, [5, 3], f),
            (
                Arg("i64", ("k", 2), _indices(0.3, 5, 3)),
                Arg(dtype, ("k",), anything),
                Arg(dtype, (), anything),
            ),
            sizes=(0, 1, 2, 5, 17),
            assumes=_in_order,
        )
    yield Case(
        "SparseFillEmptyRows.fed",
        raw("SparseFillEmptyRows"),
        (
            Arg("i64", ("k", 1), _indices(0.1, 5)),
            Arg("f32", ("k",), finite),
            Arg("i64", (1,), between(-1, 9)),
            Arg("f32", (), finite),
        ),
        sizes=(0, 1, 2, 5),
        assumes=_in_order,
    )
    yield Case(
        "SparseFillEmptyRows.pooled",
        lambda i, v, w: raw("SparseSegmentMeanWithNumSegments")(
            tf.gather(w, (u := tf.unique((r := raw("SparseFillEmptyRows")(i, v, [5, 3], 0))[1])).y),
            u.idx,
            r[0][:, 0],
            5,
        ),
        (
            Arg("i64", ("k", 2), _indices(0.0, 5, 3)),
            Arg("i32", ("k",), between(0, 4)),
            Arg("f32", (4, "m"), finite),
        ),
        sizes=(0, 1, 2, 5, 17),
        relative=1e-5,
        absolute=1e-5,
    )
