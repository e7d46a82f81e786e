"""Cases of updates at indices, segments and counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from tests.compiler.cases.raw import raw
from tests.compiler.values import Arg, Case, Values, anything, below, between, computed, finite

CLOSE: dict[str, Any] = {"relative": 1e-5, "absolute": 1e-5}
INF, NAN = float("inf"), float("nan")
F = ("f32", "f64")


def cases() -> Iterator[Case]:
    yield from _tensors()
    yield from _sparse_to_dense()
    yield from _stitches()
    yield from _counts()
    yield from _unsorted()
    yield from _constant_segments()
    yield from _sparse_segments()
    yield from _products()


def _tensors() -> Iterator[Case]:
    wild = below("n", out_of_range=0.2)
    rows = Arg("i32", ("k", 1), wild)
    updates = Arg("f32", ("k", "m"), finite)
    some = (0, 1, 2, 3, 5, 8, 17)

    def not_empty(dims: Any, arrays: Any) -> bool:
        return bool(dims["m"] > 0)

    for dtype in (*F, "i32", "u8"):
        yield Case(
            f"ScatterNd.rows.{dtype}",
            lambda i, u, x: raw("ScatterNd")(i, u, tf.shape(x)),
            (rows, Arg(dtype, ("k", "m"), finite), Arg("f32", ("n", "m"), finite)),
            sizes=some,
            assumes=not_empty,
            **CLOSE,
        )
    for index in ("i32", "i64"):
        yield Case(
            f"ScatterNd.elements.{index}",
            lambda i, u, s: raw("ScatterNd")(i, u, s),
            (
                Arg(index, ("k", 2), below(3, out_of_range=0.2)),
                Arg("f32", ("k",), finite),
                Arg(index, (2,), computed(lambda rng, dims: rng.integers(2, 5, 2))),
            ),
            **CLOSE,
        )
    yield Case(
        "ScatterNd.static",
        lambda i, u: raw("ScatterNd")(i, u, [7, 2, 3]),
        (Arg("i64", ("a", "b", 1), below(7)), Arg("f32", ("a", "b", 2, 3), finite)),
        sizes=(0, 1, 2, 5),
        **CLOSE,
    )
    special = between(-2, 2, INF, -INF, NAN)
    for op in ("Update", "Add", "Sub", "Min", "Max"):
        forms: list[tuple[str, Values]] = [("f32", special), ("f64", finite), ("i64", anything)]
        if op == "Update":
            forms += [("bool", anything), ("i8", anything)]
        for dtype, values in forms:
            yield Case(
                f"TensorScatter{op}.rows.{dtype}",
                raw(f"TensorScatter{op}"),
                (Arg(dtype, ("n", "m"), values), rows, Arg(dtype, ("k", "m"), values)),
                sizes=some,
                assumes=not_empty,
                **CLOSE,
            )
        yield Case(
            f"TensorScatter{op}.elements",
            raw(f"TensorScatter{op}"),
            (
                Arg("f32", ("n", 3), finite),
                Arg("i64", ("k", 2), below(3, out_of_range=0.1)),
                Arg("f32", ("k",), finite),
            ),
            sizes=(0, 1, 3, 9),
            **CLOSE,
        )
        yield Case(
            f"TensorScatter{op}.wide",
            raw(f"TensorScatter{op}"),
            (
                Arg("f32", ("n", 5, 1, 7), finite),
                rows,
                Arg("f32", ("k", 5, 1, 7), finite),
            ),
            sizes=(1, 3, 40),
            **CLOSE,
        )
    yield Case(
        "ScatterNdNonAliasingAdd",
        raw("ScatterNdNonAliasingAdd"),
        (Arg("f32", ("n", "m"), finite), rows, updates),
        assumes=not_empty,
        **CLOSE,
    )


def _sparse_to_dense() -> Iterator[Case]:
    def places(rng, dims):
        count, total = dims["k"], 12
        if count > total or rng.random() < 0.2:
            return rng.integers(0, 5, (count, 2))
        flat = rng.choice(total, count, replace=False)
        return [[p // 4, p % 4] for p in sorted(flat)] if count else []

    for dtype in ("f32", "i64", "bool"):
        for checked in (True, False):
            yield Case(
                f"SparseToDense.{dtype}.{checked}",
                lambda i, v, f, c=checked: raw("SparseToDense", validate_indices=c)(
                    i, tf.constant([3, 4], i.dtype), v, f
                ),
                (
                    Arg("i64", ("k", 2), computed(places)),
                    Arg(dtype, ("k",), anything),
                    Arg(dtype, (), anything),
                ),
                sizes=(0, 1, 2, 5),
            )
    value, default = Arg("f32", (), finite), Arg("f32", (), finite)
    yield Case(
        "SparseToDense.vector",
        lambda i, v, f, x: raw("SparseToDense", validate_indices=False)(i, tf.shape(x), v, f),
        (
            Arg("i32", ("k",), below("n", out_of_range=0.2)),
            value,
            default,
            Arg("f32", ("n",), finite),
        ),
    )
    yield Case(
        "SparseToDense.scalar",
        lambda i, v, f: raw("SparseToDense")(i, [5], v, f),
        (Arg("i32", (), below(5, out_of_range=0.3)), value, default),
    )


def _stitches() -> Iterator[Case]:
    left, right = Arg("f32", (2, "n"), finite), Arg("f32", (2, 2, "n"), finite)
    for op in ("DynamicStitch", "ParallelDynamicStitch"):
        yield Case(
            op,
            lambda x, y, op=op: getattr(tf.raw_ops, op)(
                indices=[[3, 0], [[1, 2], [4, 3 if op == "DynamicStitch" else 5]]], data=[x, y]
            ),
            (left, right),
        )


def _counts() -> Iterator[Case]:
    wild = below(9, out_of_range=0.2)
    values = Arg("i32", ("n", "m"), wild)
    for dtype in (*F, "i32", "i64"):
        kind = getattr(
            tf, {"f32": "float32", "f64": "float64", "i32": "int32", "i64": "int64"}[dtype]
        )
        weights = Arg(dtype, ("n", "m"), finite)
        yield Case(
            f"Bincount.{dtype}", lambda v, w: raw("Bincount")(v, 6, w), (values, weights), **CLOSE
        )
        yield Case(
            f"Bincount.{dtype}.plain",
            lambda v, k=kind: raw("Bincount")(v, 6, tf.zeros([0], k)),
            (values,),
        )
    size = Arg("i32", (), computed(lambda rng, dims: rng.integers(-1, 12)))
    yield Case(
        "Bincount.fed",
        lambda v, s: raw("Bincount")(v, s, tf.zeros([0])),
        (Arg("i32", ("n",), wild), size),
    )
    for index in ("i32", "i64"):
        rows = Arg(index, ("n", "m"), wild)
        dtype = tf.int32 if index == "i32" else tf.int64
        for binary in (False, True):
            count = raw("DenseBincount", binary_output=binary)
            yield Case(
                f"DenseBincount.{index}.{binary}",
                lambda v, c=count, t=dtype: c(v, tf.constant(7, t), tf.zeros([0])),
                (rows,),
            )
            yield Case(
                f"DenseBincount.{index}.{binary}.weights",
                lambda v, w, c=count, t=dtype: c(v, tf.constant(7, t), w),
                (rows, Arg("f32", ("n", "m"), finite)),
                **CLOSE,
            )
        yield Case(
            f"DenseBincount.{index}.vector",
            lambda v, t=dtype: raw("DenseBincount")(v, tf.constant(7, t), tf.zeros([0], tf.int64)),
            (Arg(index, ("n",), wild),),
        )


def _unsorted() -> Iterator[Case]:
    def ids(rng, dims):
        found = rng.integers(-2, 5, (dims["k"], dims["l"]))
        if found.size and rng.random() < 0.2:
            found[0, 0] = 7
        return found

    vector = computed(lambda rng, dims: ids(rng, {**dims, "l": 1}).reshape(-1))
    for op, values in {"Sum": finite, "Prod": between(-2, 2), "Max": finite, "Min": finite}.items():
        for dtype in (*F, "i32", "u8"):
            for index in ("i32", "i64"):
                yield Case(
                    f"UnsortedSegment{op}.{dtype}.{index}",
                    lambda x, i, op=op: raw(f"UnsortedSegment{op}")(x, i, 5),
                    (Arg(dtype, ("k", "m"), values), Arg(index, ("k",), vector)),
                    relative=1e-4,
                    absolute=1e-5,
                    # TensorFlow doesn't look at the ids of nothing.
                    assumes=lambda dims, arrays: dims["m"] > 0,
                )
        yield Case(
            f"UnsortedSegment{op}.matrix",
            lambda x, i, s, op=op: raw(f"UnsortedSegment{op}")(x, i, s),
            (
                Arg("f32", ("k", "l", 3), values),
                Arg("i64", ("k", "l"), computed(ids)),
                Arg("i32", (), computed(lambda rng, dims: rng.integers(-1, 9))),
            ),
            sizes=(0, 1, 2, 5),
            relative=1e-4,
            absolute=1e-5,
        )
        yield Case(
            f"UnsortedSegment{op}.scalars",
            lambda x, i, y, op=op: raw(f"UnsortedSegment{op}")(x, i, tf.shape(y)[0]),
            (
                Arg("f32", ("k",), values),
                Arg("i64", ("k",), below("n", out_of_range=0.2)),
                Arg("f32", ("n",), finite),
            ),
            relative=1e-4,
            absolute=1e-5,
        )


def _constant_segments() -> Iterator[Case]:
    for op, values in {
        "Sum": finite,
        "Mean": finite,
        "Prod": between(-2, 2),
        "Max": finite,
        "Min": finite,
    }.items():
        for dtype in (*F, "i32") if op != "Mean" else F:
            for index in (tf.int32, tf.int64):
                yield Case(
                    f"Segment{op}.{dtype}.{index.name}",
                    lambda x, op=op, t=index: raw(f"Segment{op}")(
                        x, tf.constant([0, 0, 1, 1, 1, 4], t)
                    ),
                    (Arg(dtype, (6, "m"), values),),
                    **CLOSE,
                )
    for op in ("Sum", "Mean", "SqrtN"):
        for dtype in F:
            yield Case(
                f"SparseSegment{op}.{dtype}",
                lambda x, i, op=op: raw(f"SparseSegment{op}")(x, i, tf.constant([0, 1, 1, 4])),
                (Arg(dtype, ("n", "m"), finite), Arg("i32", ("k",), below("n", out_of_range=0.2))),
                sizes=(1, 4, 9),
                **CLOSE,
            )


def _sparse_segments() -> Iterator[Case]:
    def ids(rng, dims):
        found = sorted(rng.integers(0, 5, dims["k"]))
        if found and rng.random() < 0.3:
            found[rng.integers(len(found))] = rng.choice([-1, 0, 4, 5])
        return found

    for op in ("Sum", "Mean", "SqrtN"):
        for dtype in (*F, "i32") if op == "Sum" else F:
            for index in ("i32", "i64"):
                yield Case(
                    f"SparseSegment{op}WithNumSegments.{dtype}.{index}",
                    lambda x, i, s, op=op: raw(f"SparseSegment{op}WithNumSegments")(x, i, s, 5),
                    (
                        Arg(dtype, ("n", "m"), finite),
                        Arg(index, ("k",), below("n", out_of_range=0.1)),
                        Arg(index, ("k",), computed(ids)),
                    ),
                    **CLOSE,
                )
        yield Case(
            f"SparseSegment{op}WithNumSegments.fed",
            lambda x, i, s, n, op=op: raw(f"SparseSegment{op}WithNumSegments")(x, i, s, n),
            (
                Arg("f32", ("n", 3), finite),
                Arg("i32", ("k",), below("n")),
                Arg("i32", ("k",), computed(ids)),
                Arg("i32", (), computed(lambda rng, dims: rng.integers(-1, 9))),
            ),
            **CLOSE,
        )


def _products() -> Iterator[Case]:
    def places(rng, dims):
        found = rng.integers(0, 3, (dims["k"], 2))
        if len(found) and rng.random() < 0.2:
            found[0, rng.integers(2)] = 7
        return found

    for dtype in (*F, "i32"):
        for a, b in ((False, False), (True, False), (False, True)):
            # A is [4, 3], its adjoint [3, 4].
            dense = ("m", 4 if a else 3) if b else (4 if a else 3, "m")
            yield Case(
                f"SparseTensorDenseMatMul.{dtype}.{int(a)}{int(b)}",
                lambda i, v, y, a=a, b=b: raw("SparseTensorDenseMatMul", adjoint_a=a, adjoint_b=b)(
                    i, v, tf.constant([4, 3], tf.int64), y
                ),
                (
                    Arg("i64", ("k", 2), computed(places)),
                    Arg(dtype, ("k",), finite),
                    Arg(dtype, dense, finite),
                ),
                **CLOSE,
            )
