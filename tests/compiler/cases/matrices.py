"""Cases of diagonals, bands and cross products."""

from __future__ import annotations

from collections.abc import Iterator

import tensorflow as tf

from tests.compiler.cases.raw import raw
from tests.compiler.values import Arg, Case, anything, computed, finite

SMALL = (0, 1, 2, 3, 5)
MATRIX = Arg("f32", ("n", "r", "c"), finite)


def cases() -> Iterator[Case]:
    yield from _making()
    yield from _reading()
    yield from _changing()
    for dtype in ("f32", "f64", "i32", "u8", "i64"):
        vectors = Arg(dtype, ("n", 3), finite)
        yield Case(f"Cross.{dtype}", raw("Cross"), (vectors, vectors), ulps=4, absolute=1e-5)
    unknown = Arg("f32", ("n", "m"), finite)
    yield Case("Cross.assumed_3", raw("Cross"), (unknown, unknown), absolute=1e-5, sizes=(3,))


def _making() -> Iterator[Case]:
    for dtype in ("f32", "i8", "bool"):
        diagonal = Arg(dtype, ("b", "n"), anything)
        yield Case(f"MatrixDiag.{dtype}", raw("MatrixDiag"), (diagonal,))
    yield Case("MatrixDiag.vector", raw("MatrixDiag"), (Arg("f64", ("n",), anything),))
    for dtype in ("f32", "f64", "i32", "i64"):
        yield Case(f"Diag.{dtype}", raw("Diag"), (Arg(dtype, ("n",), anything),))
    yield Case("Diag.matrix", raw("Diag"), (Arg("f32", ("n", "m"), anything),), sizes=SMALL)
    padding = Arg("f32", (), anything)
    # The number of the diagonal, its length, rows, columns.
    forms: list[tuple[int, int | str, int, int]] = [
        (0, "n", -1, -1),
        (0, "n", 9, -1),
        (0, "n", -1, 9),
        (2, 4, -1, -1),
        (2, 4, 7, -1),
        (2, 4, -1, 8),
        (-3, 4, -1, -1),
        (-3, 4, 9, -1),
        (-3, 4, -1, 6),
        (1, 4, 5, 5),
    ]
    for op in ("MatrixDiagV2", "MatrixDiagV3"):
        for k, length, rows, columns in forms:
            yield Case(
                f"{op}.{k}.{rows}.{columns}",
                lambda x, p, op=op, k=k, rows=rows, columns=columns: raw(op)(
                    x, k, rows, columns, p
                ),
                (Arg("f32", ("b", length), finite), padding),
                sizes=(1, 2, 5, 9),
            )
    yield Case(
        "MatrixDiagV3.band_of_one",
        lambda x: raw("MatrixDiagV3")(x, [1, 1], -1, -1, 0.0),
        (Arg("f32", ("b", 3), finite),),
    )
    yield Case(
        "MatrixDiagV3.by_shape",
        lambda x: raw("MatrixDiagV3")(x, 0, tf.shape(x)[1], tf.shape(x)[1], 0.0),
        (Arg("f32", ("b", "n"), finite),),
    )


def _reading() -> Iterator[Case]:
    for dtype in ("f32", "i16", "bool"):
        matrix = Arg(dtype, ("n", "r", "c"), anything)
        yield Case(f"MatrixDiagPart.{dtype}", raw("MatrixDiagPart"), (matrix,), sizes=SMALL)
    square = (Arg("f32", ("n", 5, 5), finite),)
    yield Case("MatrixDiagPart.static", raw("MatrixDiagPart"), square)
    for dtype in ("f32", "f64", "i32", "i64"):
        matrix = Arg(dtype, ("n", "m"), anything)
        yield Case(f"DiagPart.{dtype}", raw("DiagPart"), (matrix,), sizes=(0, 2, 3))
    yield Case(
        "DiagPart.four", raw("DiagPart"), (Arg("f32", ("n", 2, "n", 2), anything),), sizes=SMALL
    )
    for op in ("MatrixDiagPartV2", "MatrixDiagPartV3"):
        for name, k in {"main": 0, "above": 1, "below": -2, "band_of_one": [2, 2]}.items():
            yield Case(
                f"{op}.{name}",
                lambda x, op=op, k=k: raw(op)(x, k, 0.0),
                (MATRIX,),
                sizes=SMALL,
            )


def _changing() -> Iterator[Case]:
    for dtype in ("f32", "i8", "bool"):
        args = (Arg(dtype, ("n", "r", "r"), anything), Arg(dtype, ("n", "r"), anything))
        yield Case(f"MatrixSetDiag.{dtype}", raw("MatrixSetDiag"), args, sizes=SMALL)
    for op in ("MatrixSetDiagV2", "MatrixSetDiagV3"):
        for k, length in ((0, 3), (1, 3), (-2, 1)):
            yield Case(
                f"{op}.{k}",
                lambda x, v, op=op, k=k: raw(op)(x, v, k),
                (Arg("f32", ("n", 3, 4), finite), Arg("f32", ("n", length), finite)),
                sizes=SMALL,
            )
    limits = computed(lambda rng, dims: rng.integers(-2, 5))
    for dtype in ("f32", "i32", "bool"):
        yield Case(
            f"MatrixBandPart.{dtype}",
            lambda x: tf.linalg.band_part(x, 1, -1),
            (Arg(dtype, ("n", "r", "c"), anything),),
            sizes=(1, 2, 3, 5),
        )
    for index in ("i32", "i64"):
        limit = Arg(index, (), limits)
        yield Case(f"MatrixBandPart.fed.{index}", raw("MatrixBandPart"), (MATRIX, limit, limit))
