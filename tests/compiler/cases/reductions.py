"""Cases of reductions."""

from __future__ import annotations

from collections.abc import Iterator

import tensorflow as tf

from tests.compiler.cases.raw import raw
from tests.compiler.values import Arg, Case, Values, anything, below, between, finite

F = ("f32", "f64")
INF, NAN = float("inf"), float("nan")

# op: dtypes, values.
REDUCTIONS: dict[str, tuple[tuple[str, ...], Values]] = {
    "Sum": ((*F, "i32", "i64", "i8", "u8"), finite),
    "Prod": ((*F, "i32", "i64"), between(-2, 2)),
    "Mean": ((*F, "i32", "i64"), finite),
    "Max": ((*F, "i32", "i64", "i8", "u8"), anything),
    "Min": ((*F, "i32", "i64", "i16", "u16"), anything),
    "EuclideanNorm": (F, finite),
}
# dims of the operand, axes, keep_dims.
FORMS: dict[str, tuple[tuple[int | str, ...], list[int] | int, bool]] = {
    "rows": (("n", "m"), [-1], False),
    "columns": (("n", "m"), 0, True),
    "all": (("n", 2, "m"), [0, 1, 2], False),
    "middle": (("n", "m", 3), [1], True),
    "ends": (("n", "m", 3), [2, 0], False),
    "none": (("n", "m"), [], False),
    "scalar": ((), [], True),
}


def cases() -> Iterator[Case]:
    for op, (dtypes, values) in REDUCTIONS.items():
        for dtype in dtypes:
            forms = FORMS if dtype == "f32" else {k: FORMS[k] for k in ("rows", "ends")}
            for name, (dims, axes, keep) in forms.items():
                yield _case(op, dtype, name, dims, axes, keep, values)
    for op in ("All", "Any"):
        for name, (dims, axes, keep) in FORMS.items():
            yield _case(op, "bool", name, dims, axes, keep, anything)
    for op in ("Sum", "Mean", "Max", "Min"):
        special = between(-3, 3, INF, -INF, NAN)
        yield _case(op, "f32", "special", ("n", "m"), [1], False, special)
    for dtype in F:
        arg = Arg(dtype, ("n", "m"), finite)
        yield Case(f"L2Loss.{dtype}", raw("L2Loss"), (arg,), relative=1e-5)
    yield from _positions()
    yield from _scans()
    yield from _rankings()


def _case(op, dtype, name, dims, axes, keep, values) -> Case:
    return Case(
        f"{op}.{dtype}.{name}",
        lambda x: raw(op, keep_dims=keep)(x, tf.constant(axes, tf.int32)),
        (Arg(dtype, dims, values),),
        relative=1e-5,
        absolute=1e-5,
    )


def _positions() -> Iterator[Case]:
    # Few different values, so that ties decide.
    ties = between(-2, 3)
    special = between(-1, 1, INF, -INF, NAN, 0.5, 0.5, 3.4028234663852886e38)
    for op in ("ArgMax", "ArgMin"):
        for dtype, values in {
            "f32": special,
            "f64": special,
            "i32": ties,
            "u8": between(0, 3),
        }.items():
            for axis, out in ((0, tf.int32), (-1, tf.int64)):
                yield Case(
                    f"{op}.{dtype}.{axis}",
                    lambda x, op=op, axis=axis, out=out: raw(op, output_type=out)(x, axis),
                    (Arg(dtype, ("n", "m"), values),),
                )


def _scans() -> Iterator[Case]:
    wide = ("n", "m", 3)
    forms: dict[str, tuple[tuple[int | str, ...], int]] = {
        "vector": (("n",), 0),
        "rows": (("n", "m"), -1),
        "columns": (("n", "m"), 0),
        "middle": (wide, 1),
    }
    drawn: dict[str, tuple[tuple[str, ...], Values]] = {
        "Cumsum": ((*F, "i32", "u8"), finite),
        "Cumprod": ((*F, "i32", "u8"), between(-2, 2)),
        "CumulativeLogsumexp": (F, between(-9, 9, -INF, -INF, INF, 80.0)),
    }
    for op, (dtypes, values) in drawn.items():
        for dtype in dtypes:
            for name, (dims, axis) in forms.items():
                for exclusive, reverse in (
                    (False, False),
                    (True, False),
                    (False, True),
                    (True, True),
                ):
                    if dtype != "f32" and exclusive == reverse and name != "middle":
                        continue
                    yield Case(
                        f"{op}.{dtype}.{name}.{int(exclusive)}{int(reverse)}",
                        lambda x, op=op, axis=axis, e=exclusive, r=reverse: raw(
                            op, exclusive=e, reverse=r
                        )(x, axis),
                        (Arg(dtype, dims, values),),
                        relative=1e-5,
                        absolute=1e-5,
                        sizes=(0, 1, 2, 5, 17, 300),
                    )
    yield Case(
        "Cumsum.fused",
        lambda x, y: tf.cumsum(tf.transpose(tf.exp(x)) * y, 0) + 1.0,
        (Arg("f32", ("n", "m"), finite), Arg("f32", ("n",), finite)),
        relative=1e-4,
        absolute=1e-4,
    )


def _rankings() -> Iterator[Case]:
    ties = between(-3, 4)
    for dtype, values in {
        "f32": between(-2, 2, INF, -INF, 0.0, -0.0, 1.0, 1.0),
        "f64": finite,
        "i32": ties,
        "i8": anything,
        "u64": anything,
    }.items():
        for k in (1, 3, 8):
            # Fewer elements than k are an error.
            arg = Arg(dtype, ("n", "m"), values)
            yield Case(f"TopKV2.{dtype}.{k}", lambda x, k=k: tf.math.top_k(x, k), (arg,))
        yield Case(
            f"TopKV2.{dtype}.long",
            lambda x: tf.math.top_k(x, 20),
            (Arg(dtype, (2, "n", "m"), values),),
            sizes=(20, 33, 400),
        )
    for out in (tf.int16, tf.int64):
        yield Case(
            f"TopKV2.{out.name}",
            lambda x, out=out: raw("TopKV2", index_type=out)(x, tf.constant(2, out)),
            (Arg("f32", ("m",), finite),),
        )
    yield Case(
        "TopKV2.nan",
        lambda x: tf.math.top_k(x, 2),
        (Arg("f32", ("n", 5), between(-1, 1, NAN, 0.5)),),
        assumes=lambda dims, arrays: not (arrays[0] != arrays[0]).any(),
    )
    yield Case(
        "TopKV2.fused",
        lambda x, y: tf.math.top_k(x * y + 1.0, 4).indices,
        (Arg("f32", ("n", 9), finite), Arg("f32", (9,), finite)),
    )
    special = between(-2, 2, INF, NAN, *[1.0] * 9)
    for dtype in ("i32", "i64"):
        for name, values in {"finite": ties, "special": special}.items():
            args = (
                Arg("f32", ("n", "m"), values),
                Arg(dtype, ("n",), below("m", out_of_range=0.5)),
            )
            yield Case(f"InTopK.{dtype}.{name}", raw("InTopK", k=2), args)
            limit = Arg(dtype, (), between(0, 5))
            yield Case(f"InTopKV2.{dtype}.{name}", raw("InTopKV2"), (*args, limit))
