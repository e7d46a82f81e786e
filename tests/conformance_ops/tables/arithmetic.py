"""Element by element: broadcasting, special values, integers that can't be divided."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from tests.conformance_ops.behaviour import (
    INF,
    NAN,
    Behaviour,
    counted,
    f32,
    i32,
    i64,
    zeros,
)

_SPECIAL = f32([NAN, INF, -INF, 0.0, -0.0, 1.0, -2.5, 3e38, 1e-30])


def _binary() -> Iterator[Behaviour]:
    ops = {
        "AddV2": tf.add,
        "Sub": tf.subtract,
        "Mul": tf.multiply,
        "RealDiv": tf.realdiv,
        "FloorDiv": tf.math.floordiv,
        "FloorMod": tf.math.floormod,
        "Maximum": tf.maximum,
        "Minimum": tf.minimum,
        "SquaredDifference": tf.math.squared_difference,
        "DivNoNan": tf.math.divide_no_nan,
        "MulNoNan": lambda x, y: tf.math.multiply_no_nan(x, y),
        "Xdivy": tf.math.xdivy,
        "Less": tf.less,
        "GreaterEqual": tf.greater_equal,
        "Equal": tf.equal,
        "NotEqual": tf.not_equal,
    }
    grid = np.meshgrid(_SPECIAL, _SPECIAL)
    for op, function in ops.items():
        yield Behaviour(
            f"{op}.f32",
            function,
            {
                "usual": (counted(2, 3), counted(2, 3) + 1),
                "row": (counted(2, 3), counted(1, 3) + 1),
                "column": (counted(2, 1), counted(1, 3) + 1),
                "does not fit": (counted(2, 3), counted(2, 2)),
                "empty": (zeros(0, 3), zeros(1, 3)),
                "both empty": (zeros(0, 3), zeros(0, 3)),
                "special": (grid[0], grid[1]),
            },
        )
    yield Behaviour(
        "AddV2.scalars",
        tf.add,
        {"usual": (f32(1), f32(2)), "special": (f32(INF), f32(-INF))},
    )
    yield Behaviour(
        "AddV2.scalar_and_matrix",
        tf.add,
        {"usual": (f32(1), counted(2, 2)), "empty": (f32(1), zeros(0, 2))},
    )


def _integers() -> Iterator[Behaviour]:
    lowest = {np.int8: -128, np.int32: -(2**31), np.int64: -(2**63)}
    for name, dtype in (("i8", np.int8), ("i32", np.int32), ("i64", np.int64), ("u8", np.uint8)):
        ops = {"FloorDiv": tf.math.floordiv, "FloorMod": tf.math.floormod}
        ops["TruncateDiv"] = tf.truncatediv
        if dtype in (np.int32, np.int64):
            ops["TruncateMod"] = tf.truncatemod
        for op, function in ops.items():
            signed = dtype is not np.uint8
            x = np.array([7, -7, 7, -7, 0] if signed else [7, 8, 9, 1, 0], dtype)
            y = np.array([2, 2, -2, -2, 3] if signed else [2, 2, 4, 5, 3], dtype)
            yield Behaviour(
                f"{op}.{name}",
                function,
                {
                    "usual": (x, y),
                    "by zero": (x, np.zeros(5, dtype)),
                    "one zero": (x, np.array([1, 2, 3, 0, 4], dtype)),
                    "no elements by zero": (np.zeros(0, dtype), np.zeros(0, dtype)),
                    "none by one zero": (np.zeros(0, dtype), np.zeros(1, dtype)),
                    "lowest": (np.array([lowest.get(dtype, 0)], dtype), np.array([1], dtype)),
                },
            )
    for name, ints in (("i32", i32), ("i64", i64)):
        yield Behaviour(
            f"Pow.{name}",
            tf.pow,
            {
                "usual": (ints([2, -3, 0, 5]), ints([10, 3, 0, 0])),
                "negative exponent": (ints([2, 3]), ints([1, -1])),
                "negative exponent of one": (ints([1]), ints([-1])),
                "overflow": (ints([10]), ints([40])),
                "empty": (ints([]), ints([])),
            },
        )
        yield Behaviour(
            f"LeftShift.{name}",
            tf.bitwise.left_shift,
            {
                "usual": (ints([1, -1, 5]), ints([3, 4, 0])),
                "too far": (ints([1, -1, 5]), ints([64, 99, -1])),
            },
        )
        yield Behaviour(
            f"RightShift.{name}",
            tf.bitwise.right_shift,
            {
                "usual": (ints([8, -8, 5]), ints([1, 2, 0])),
                "too far": (ints([1, -1, 5]), ints([64, 99, -1])),
            },
        )


def _unary() -> Iterator[Behaviour]:
    ops = {
        "Abs": tf.abs,
        "Neg": tf.negative,
        "Sign": tf.sign,
        "Exp": tf.exp,
        "Log": tf.math.log,
        "Log1p": tf.math.log1p,
        "Sqrt": tf.sqrt,
        "Rsqrt": tf.math.rsqrt,
        "Tanh": tf.tanh,
        "Sigmoid": tf.sigmoid,
        "Relu": tf.nn.relu,
        "Relu6": tf.nn.relu6,
        "Elu": tf.nn.elu,
        "Softplus": tf.nn.softplus,
        "Floor": tf.floor,
        "Rint": tf.math.rint,
        "Round": tf.round,
        "IsNan": tf.math.is_nan,
        "IsFinite": tf.math.is_finite,
        "IsInf": tf.math.is_inf,
        "Erf": tf.math.erf,
    }
    for op, function in ops.items():
        yield Behaviour(
            f"{op}.special",
            function,
            {
                "special": (_SPECIAL,),
                "halves": (f32([0.5, 1.5, 2.5, -0.5, -1.5]),),
                "empty": (f32([]),),
            },
        )
    for op in ("CheckNumerics", "CheckNumericsV2"):
        check = getattr(tf.raw_ops, op)
        yield Behaviour(
            f"{op}.f32",
            lambda x, check=check: check(tensor=tf.sqrt(x), message="a root"),
            {
                "usual": (f32([1, 4]),),
                "nan": (f32([1, -1]),),
                "inf": (f32([1, INF]),),
                "both": (f32([NAN, INF]),),
                "empty": (f32([]),),
            },
            outside="stateful",
        )
    yield Behaviour(
        "ClipByValue.fed",
        lambda x, low, high: tf.raw_ops.ClipByValue(t=x, clip_value_min=low, clip_value_max=high),
        {
            "usual": (counted(5), f32(1), f32(3)),
            "crossed": (counted(5), f32(3), f32(1)),
            "special": (_SPECIAL, f32(-1), f32(1)),
            "nan bound": (counted(3), f32(NAN), f32(1)),
        },
    )
    for source, target in (
        (np.float32, tf.int32),
        (np.int64, tf.int32),
        (np.int32, tf.uint8),
        (np.float32, tf.bool),
        (np.bool_, tf.float32),
    ):
        name = f"{np.dtype(source).name}_to_{target.name}"
        values = [0, 1, 2, 200, 100000] if np.dtype(source).kind == "i" else [0, 1, -2.7, 3.5]
        yield Behaviour(
            f"Cast.{name}",
            lambda x, target=target: tf.cast(tf.identity(x), target),
            {"usual": (np.array(values).astype(source),), "empty": (np.zeros(0, source),)},
        )


ROWS = [*_binary(), *_integers(), *_unary()]
