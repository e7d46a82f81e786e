"""Loops, their lists and conditionals, and steps of recurrent layers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tests.compiler.cases.raw import raw
from tests.conformance_ops.behaviour import Behaviour, counted, f32, f64, i32, i64, zeros

TRIPS = {"none": i32(0), "one": i32(1), "several": i32(3), "below zero": i32(-2)}


def _counted() -> Iterator[Behaviour]:
    for name, value in (
        ("f32", f32([0.5, -1])),
        ("f64", f64([0.5, -1])),
        ("i32", i32([3, -4])),
        ("i64", i64([3, -4])),
        ("empty", zeros(0)),
    ):

        def doubled(x: Any, n: Any) -> Any:
            return tf.while_loop(lambda i, h: i < n, lambda i, h: (i + 1, h + h - x), [0, x])[1]

        yield Behaviour(
            f"StatelessWhile.{name}",
            doubled,
            {trips: (value, n) for trips, n in TRIPS.items()},
        )

    def divided(x: Any, n: Any) -> Any:
        """An error in one of the iterations."""
        return tf.while_loop(lambda i, h: i < n, lambda i, h: (i + 1, h + 9 // (2 - i)), [0, x])[1]

    yield Behaviour(
        "StatelessWhile.divided",
        divided,
        {
            "before it": (i32([1, 2]), i32(2)),
            "there": (i32([1, 2]), i32(3)),
            "after it": (i32([1, 2]), i32(5)),
        },
    )

    def unbounded(x: Any) -> Any:
        return tf.while_loop(lambda h: tf.reduce_max(h) < 9.0, lambda h: h * 2.0, [x])

    yield Behaviour(
        "StatelessWhile.unbounded",
        unbounded,
        {"usual": (f32([1, 2]),), "at once": (f32([10]),)},
        outside="no bound",
    )


def _lists() -> Iterator[Behaviour]:
    def rows(x: Any) -> Any:
        count = tf.shape(x)[0]
        array = tf.TensorArray(tf.float32, count)
        source = tf.TensorArray(tf.float32, count).unstack(x)
        return tf.while_loop(
            lambda i, _: i < count,
            lambda i, a: (i + 1, a.write(i, source.read(i) * 2.0)),
            [0, array],
        )[1].stack()

    yield Behaviour(
        "StatelessWhile.rows",
        rows,
        {
            "usual": (counted(3, 2),),
            "one": (counted(1, 2),),
            "empty rows": (zeros(3, 0),),
            "none": (zeros(0, 2),),
        },
    )

    def written(x: Any, n: Any) -> Any:
        array = tf.TensorArray(tf.float32, 4, element_shape=[2])
        return tf.while_loop(lambda i, _: i < n, lambda i, a: (i + 1, a.write(i, x)), [0, array])[
            1
        ].stack()

    def grown(x: Any, n: Any) -> Any:
        array = tf.TensorArray(tf.float32, 0, dynamic_size=True, element_shape=[2])
        return tf.while_loop(lambda i, _: i < n, lambda i, a: (i + 1, a.write(i, x)), [0, array])[
            1
        ].stack()

    def read(x: Any, n: Any) -> Any:
        source = tf.TensorArray(tf.float32, 4, element_shape=[2]).unstack(x)
        return tf.while_loop(
            lambda i, _: i < n, lambda i, h: (i + 1, h + source.read(i)), [0, zeros(2)]
        )[1]

    for function, x in ((written, f32([1, 2])), (grown, f32([1, 2])), (read, counted(4, 2))):
        yield Behaviour(
            f"StatelessWhile.{function.__name__}",
            function,
            {
                "none": (x, i32(0)),
                "several": (x, i32(3)),
                "all": (x, i32(4)),
                "past the end": (x, i32(5)),
                "below zero": (x, i32(-1)),
            },
            dims=[x.shape, []],
        )


def _conditionals() -> Iterator[Behaviour]:
    def chosen(x: Any, n: Any) -> Any:
        def body(i: Any, h: Any) -> Any:
            return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: h + x, lambda: h * 2.0)

        return tf.while_loop(lambda i, h: i < n, body, [0, x])[1]

    def switched(x: Any, n: Any) -> Any:
        branches = [lambda: x, lambda: x * 3.0, lambda: -x]

        def body(i: Any, h: Any) -> Any:
            return i + 1, h + tf.switch_case(i - 1, [lambda f=f: f() for f in branches])

        return tf.while_loop(lambda i, h: i < n, body, [0, x])[1]

    for function in (chosen, switched):
        yield Behaviour(
            f"StatelessWhile.{function.__name__}",
            function,
            {trips: (f32([0.5, -1]), n) for trips, n in TRIPS.items()}
            | {"many": (f32([0.5]), i32(6))},
        )

    def other_shapes(x: Any, n: Any) -> Any:
        """Branches whose results have one shape for some inputs only."""

        def body(i: Any, h: Any) -> Any:
            return i + 1, tf.reduce_sum(
                tf.cond(tf.equal(i % 2, 0), lambda: x[1:], lambda: x[:2])
            ) + h

        return tf.while_loop(lambda i, h: i < n, body, [0, 0.0])[1]

    yield Behaviour(
        "StatelessWhile.other_shapes",
        other_shapes,
        {"equal": (f32([1, 2, 3]), i32(3)), "not": (f32([1, 2, 3, 4]), i32(3))},
    )


def _cells() -> Iterator[Behaviour]:
    x, state, diagonal = counted(2, 3) / 8, counted(2, 2) / 4, f32([0.5, -0.5])
    weights, bias = (counted(5, 8) % 7 - 3) / 4, counted(8) / 8

    def lstm(
        x: np.ndarray = x, state: np.ndarray = state, weights: np.ndarray = weights
    ) -> tuple[np.ndarray, ...]:
        return x, state, state, weights, diagonal, diagonal, diagonal, bias

    yield Behaviour(
        "LSTMBlockCell.peephole",
        lambda *inputs: raw("LSTMBlockCell", use_peephole=True, cell_clip=0.5)(*inputs),
        {
            "usual": lstm(),
            "no rows": lstm(zeros(0, 3), zeros(0, 2)),
            "other rows": lstm(zeros(3, 3)),
            "other weights": lstm(weights=zeros(4, 8)),
        },
        dims=[[None, None], [None, 2], [None, 2], [None, 8], [2], [2], [2], [8]],
    )
    yield Behaviour(
        "GRUBlockCell.step",
        lambda *inputs: raw("GRUBlockCell")(*inputs),
        {
            "usual": (x, state, weights[:, :4], weights[:, :2], bias[:4], bias[:2]),
            "no rows": (
                zeros(0, 3),
                zeros(0, 2),
                weights[:, :4],
                weights[:, :2],
                bias[:4],
                bias[:2],
            ),
            "other weights": (x, state, zeros(4, 4), weights[:, :2], bias[:4], bias[:2]),
        },
        dims=[[None, None], [None, 2], [None, 4], [None, 2], [4], [2]],
    )


ROWS = [*_counted(), *_lists(), *_conditionals(), *_cells()]
