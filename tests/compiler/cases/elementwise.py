"""Cases of ops that work one element at a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle

import numpy as np
import tensorflow as tf

from tests.compiler.cases.raw import raw
from tests.compiler.values import (
    Arg,
    Case,
    NamedShape,
    Values,
    anything,
    between,
    computed,
    finite,
    nonzero,
)

F = ("f32", "f64")
I = ("i8", "i16", "i32", "i64")  # noqa: E741
U = ("u8", "u16", "u32", "u64")
ALL = (*F, *I, "bool", *U)
SOME = ("i8", "i32", "i64", "u8", "u64")  # where one template serves all integers
INF, NAN = float("inf"), float("nan")
SHARP = (0.0, -0.0, INF, -INF, NAN)

# op: dtypes, values, ulps. Where values are bounded, TensorFlow's own error grows outside.
UNARY: dict[str, tuple[tuple[str, ...], Values, float]] = {
    "Neg": ((*F, *I), anything, 0),
    "Abs": ((*F, *I), anything, 0),
    "Sign": ((*F, *I), anything, 0),
    "Square": ((*F, "i32", "i64"), anything, 0),
    "Reciprocal": (F, anything, 4),
    "Inv": (F, anything, 4),
    "Exp": (F, between(-80, 80, *SHARP, 1000, -1000), 4),
    "Expm1": (F, between(-40, 40, *SHARP, 1000, -1000, 1e-6), 4),
    "Log": (F, between(0, 100, *SHARP, 1e-30, 1e30, -1, 1), 4),
    "Log1p": (F, between(-1, 10, *SHARP, 1e-9, 1e30, -2, -1), 4),
    "Sqrt": (F, between(0, 100, *SHARP, 1e30, -1), 1),
    "Rsqrt": (F, between(0, 100, INF, NAN, 0.0, 1e30, -1), 4),
    "Sin": (F, between(-100, 100, *SHARP), 4),
    "Cos": (F, between(-100, 100, *SHARP), 4),
    "Tan": (F, between(-1.4, 1.4, *SHARP), 4),
    "Asin": (F, between(-1, 1, *SHARP, 1, -1, 2), 4),
    "Acos": (F, between(-1, 1, *SHARP, 1, -1, 2), 4),
    "Atan": (F, between(-50, 50, *SHARP), 4),
    "Sinh": (F, between(-40, 40, *SHARP), 8),
    "Cosh": (F, between(-40, 40, *SHARP), 8),
    "Tanh": (F, between(-12, 12, *SHARP, 1e-6), 8),
    "Asinh": (F, between(-40, 40, *SHARP), 8),
    "Acosh": (F, between(1, 40, 1, 0, INF, NAN), 8),
    "Atanh": (F, between(-1, 1, NAN, 0.0, 1, -1, 2), 8),
    "Sigmoid": (F, between(-30, 30, *SHARP), 8),
    "Erf": (F, between(-5, 5, 0.0, NAN, 1e-6), 8),
    "Erfc": (F, between(-5, 5, *SHARP), 32),
    "Floor": (F, anything, 0),
    "Ceil": (F, anything, 0),
    "Rint": (F, anything, 0),
    "Round": (F, anything, 0),
    "Invert": ((*I, *U), anything, 0),
    "IsNan": (F, anything, 0),
    "IsInf": (F, anything, 0),
    "IsFinite": (F, anything, 0),
    "LogicalNot": (("bool",), anything, 0),
    "ZerosLike": (ALL, anything, 0),
    "OnesLike": ((*F, *I, "bool"), anything, 0),
    "Relu": ((*F, "i32", "u8"), anything, 0),
    "Relu6": ((*F, "i64"), anything, 0),
    "Softplus": (F, between(-30, 30, *SHARP), 8),
    "Softsign": (F, anything, 1),
}

# op: dtypes, values of both operands, ulps.
BINARY: dict[str, tuple[tuple[str, ...], tuple[Values, Values], float]] = {
    "Add": ((*F, "i32"), (anything, anything), 0),
    "AddV2": ((*F, *I, "u8", "u16", "u32", "u64"), (anything, anything), 0),
    "Sub": ((*F, *SOME), (anything, anything), 0),
    "Mul": ((*F, *SOME), (anything, anything), 0),
    "Div": ((*F, "i32", "i64", "u8"), (anything, nonzero), 1),
    "RealDiv": (F, (anything, anything), 1),
    "FloorDiv": (SOME, (anything, nonzero), 0),
    "TruncateDiv": ((*F, *SOME), (anything, nonzero), 0),
    "Mod": (("f32", "i32"), (anything, nonzero), 0),
    "FloorMod": ((*F, *SOME), (anything, nonzero), 0),
    "TruncateMod": (("f64", "i64"), (anything, nonzero), 0),
    "DivNoNan": (F, (anything, anything), 1),
    "MulNoNan": (F, (anything, anything), 0),
    "Maximum": ((*F, *SOME), (anything, anything), 0),
    "Minimum": ((*F, *SOME), (anything, anything), 0),
    "Pow": (F, (between(0, 6, *SHARP, 1, -1, -2), between(-4, 4, *SHARP, 1, 2, -3)), 8),
    "SquaredDifference": ((*F, "i32", "i64"), (anything, anything), 0),
    "Atan2": (F, (between(-5, 5, *SHARP), between(-5, 5, *SHARP)), 4),
    "Xdivy": (F, (anything, anything), 1),
    "Xlogy": (F, (between(-3, 3, *SHARP), between(0, 9, *SHARP, -1)), 8),
    "Xlog1py": (F, (between(-3, 3, *SHARP), between(-1, 9, *SHARP, -2)), 8),
    "BitwiseAnd": ((*I, *U), (anything, anything), 0),
    "BitwiseOr": (SOME, (anything, anything), 0),
    "BitwiseXor": (SOME, (anything, anything), 0),
    "LeftShift": (SOME, (anything, anything), 0),
    "RightShift": (SOME, (anything, anything), 0),
    "Equal": ((*F, "i64", "bool"), (finite, finite), 0),
    "NotEqual": ((*F, "i32", "u8", "bool"), (anything, anything), 0),
    "Less": ((*F, *SOME), (anything, anything), 0),
    "LessEqual": ((*F, "i32", "i64"), (anything, anything), 0),
    "Greater": ((*F, "i32", "u64"), (anything, anything), 0),
    "GreaterEqual": ((*F, "i64", "u32"), (anything, anything), 0),
    "LogicalAnd": (("bool",), (anything, anything), 0),
    "LogicalOr": (("bool",), (anything, anything), 0),
}

_SHAPES: list[NamedShape] = [("n", "m"), ("n",), ("n", 3, "m"), ()]
# Pairs that broadcast: equal dims, a trailing vector, a scalar, static ones on both sides.
_PAIRS: list[tuple[NamedShape, NamedShape]] = [
    (("n", "m"), ("n", "m")),
    (("n", "m"), ("m",)),
    (("n", 4), ("n", 1)),
    ((), ("n", "m")),
    (("n", 1, "m"), ("k", 1)),
    ((), ()),
]


def cases() -> Iterator[Case]:
    shapes = cycle(_SHAPES)
    for op, (dtypes, values, ulps) in UNARY.items():
        for dtype in dtypes:
            yield Case(f"{op}.{dtype}", raw(op), (Arg(dtype, next(shapes), values),), ulps=ulps)
    pairs = cycle(_PAIRS)
    for op, (dtypes, (left, right), ulps) in BINARY.items():
        for dtype in dtypes:
            x, y = next(pairs)
            args = (Arg(dtype, x, left), Arg(dtype, y, right))
            yield Case(f"{op}.{dtype}", raw(op), args, ulps=ulps)
    yield from _broadcasts()
    yield from _casts()
    yield from _others()


def _broadcasts() -> Iterator[Case]:
    for i, (x, y) in enumerate(_PAIRS):
        args = (Arg("f32", x, anything), Arg("f32", y, anything))
        yield Case(f"Add.broadcast_{i}", raw("AddV2"), args)
    # Two unknown dims are taken for equal; where one of them is 1, the run may be refused.
    yield Case(
        "Add.assumed_equal",
        raw("AddV2"),
        (Arg("f32", ("n", "m"), anything), Arg("f32", ("k",), anything)),
        assumes=lambda dims, arrays: dims["m"] == dims["k"],
        sizes=(1, 3),
    )
    yield Case(
        "Add.chain_of_equal_dims",
        lambda x, y, z: (x + y) * tf.reshape(z, [-1]) - x,
        (Arg("f32", ("n",), finite), Arg("f32", ("m",), finite), Arg("f32", ("k", 2), finite)),
        assumes=lambda dims, arrays: dims["n"] == dims["m"] == 2 * dims["k"],
        sizes=(1, 2, 4),
        ulps=1,
    )


def _casts() -> Iterator[Case]:
    def to(targets):
        return lambda x: [tf.cast(x, tf.dtypes.as_dtype(_TF_NAMES[t])) for t in targets]

    dims = ("n", "m")
    for source in (*I, *U, "bool"):
        targets = [t for t in ALL if t != source]
        yield Case(f"Cast.{source}", to(targets), (Arg(source, dims, anything),))
    for source, other in (F, F[::-1]):
        # Outside an integer type's range the C++ cast is undefined: not compared.
        yield Case(f"Cast.{source}", to([other, "bool"]), (Arg(source, dims, anything),))
        yield Case(f"Cast.{source}.signed", to(I), (Arg(source, dims, between(-120, 120)),))
        yield Case(f"Cast.{source}.unsigned", to(U), (Arg(source, dims, between(0, 250)),))


_TF_NAMES = {
    "f32": "float32",
    "f64": "float64",
    "bool": "bool",
    **{f"i{n}": f"int{n}" for n in (8, 16, 32, 64)},
    **{f"u{n}": f"uint{n}" for n in (8, 16, 32, 64)},
}


def _checks() -> Iterator[Case]:
    for op in ("CheckNumerics", "CheckNumericsV2"):
        check = raw(op, message="it")
        for dtype in F:
            for name, values in {"finite": finite, "anything": between(-1, 1, *SHARP)}.items():
                args = (Arg(dtype, ("n", "m"), values),)
                yield Case(f"{op}.{dtype}.{name}", check, args, sizes=(0, 1, 2, 5))
    # What nobody reads is checked, too.
    x = Arg("f32", ("n", 2), between(-1, 1, 0.5, 0.5, 0.5, INF))
    check = raw("CheckNumerics", message="it")
    yield Case("CheckNumerics.part_read", lambda x: check(tf.exp(x))[:1] * 2.0, (x,), ulps=4)


def _others() -> Iterator[Case]:
    yield from _checks()
    for dtype in (*I, *U):
        yield Case(
            f"PopulationCount.{dtype}",
            raw("PopulationCount"),
            (Arg(dtype, ("n", 3), anything),),
        )
    for dtype in F:
        # Infinity times 0 is NaN or not, as TensorFlow's vector width falls.
        for alpha, values in ((0.2, anything), (1.5, anything), (0.0, finite)):
            arg = Arg(dtype, ("n", "m"), values)
            yield Case(f"LeakyRelu.{dtype}.{alpha}", raw("LeakyRelu", alpha=alpha), (arg,), ulps=1)
        # TensorFlow computes exp(x) - 1, which loses what is below the last place of 1.
        for op in ("Elu", "Selu"):
            arg = Arg(dtype, ("n", "m"), between(-20, 20, *SHARP))
            yield Case(f"{op}.{dtype}", raw(op), (arg,), ulps=4, absolute=2e-7)
        x = Arg(dtype, ("n", "m"), finite)
        yield Case(f"ApproximateEqual.{dtype}", raw("ApproximateEqual", tolerance=0.75), (x, x))
        # Without quotients so small that TensorFlow flushes them to zero before it rounds down.
        divisor = between(-9, 9, 0.0, INF, NAN, 2.0)
        args = (Arg(dtype, ("n", "m"), between(-90, 90, *SHARP)), Arg(dtype, ("m",), divisor))
        yield Case(f"FloorDiv.{dtype}", raw("FloorDiv"), args)
    for dtype in (*F, "i32", "i64"):
        x = Arg(dtype, ("n", "m"), anything)
        bound = Arg(dtype, (), anything)
        yield Case(f"ClipByValue.{dtype}.scalars", raw("ClipByValue"), (x, bound, bound))
        yield Case(f"ClipByValue.{dtype}.tensors", raw("ClipByValue"), (x, x, x))
        yield Case(
            f"AddN.{dtype}",
            lambda *terms: tf.raw_ops.AddN(inputs=list(terms)),
            (Arg(dtype, ("n", 2), finite),) * 4,
            ulps=4,
            absolute=1e-6,
        )
    for dtype in ("i16", "i32", "i64"):
        # Negative exponents are errors in TensorFlow.
        args = (Arg(dtype, ("n",), anything), Arg(dtype, ("n",), between(-1, 12)))
        yield Case(f"Pow.{dtype}", raw("Pow"), args, sizes=(0, 1, 2, 3))
    for op in ("Div", "FloorDiv", "FloorMod", "TruncateMod"):
        args = (Arg("i32", ("n",), finite), Arg("i32", ("n",), between(-2, 3)))
        yield Case(f"{op}.i32.by_zero", raw(op), args, sizes=(0, 1, 2, 4))
    for op in ("Equal", "NotEqual"):
        args = (Arg("f32", ("n", 3), finite), Arg("f32", ("n", 1), finite))
        yield Case(f"{op}.shapes_may_differ", raw(op, incompatible_shape_error=False), args)
    for dtype in ("f32", "i8", "i64", "bool"):
        x, y = Arg(dtype, ("n", 3), anything), Arg(dtype, ("n", 3), anything)
        rows = Arg("bool", ("n",), anything)
        yield Case(f"Select.{dtype}.rows", raw("Select"), (rows, x, y))
        one = Arg("bool", (), anything)
        yield Case(f"SelectV2.{dtype}.scalar", raw("SelectV2"), (one, x, y))
    everywhere = Arg("bool", ("n", 3), anything)
    x = Arg("f32", ("n", 3), anything)
    yield Case("Select.f32.elements", raw("Select"), (everywhere, x, x))
    yield Case("Select.f32.scalar", raw("Select"), (Arg("bool", (), anything), x, x))
    broadcast = (Arg("bool", ("n", 1), anything), Arg("f32", ("m",), anything))
    yield Case("SelectV2.f32.broadcast", raw("SelectV2"), (*broadcast, Arg("f32", (), anything)))
    for dtype in (*F, "i32", "i64"):
        bounds = [-3.5, 0.0, 1.25, 100.0]
        arg = Arg(dtype, ("n", "m"), anything)
        yield Case(f"Bucketize.{dtype}", raw("Bucketize", boundaries=bounds), (arg,))
    yield Case("Bucketize.none", raw("Bucketize", boundaries=[]), (Arg("f32", ("n",), finite),))
    for op in ("LowerBound", "UpperBound"):
        for dtype in ("f32", "i64"):
            ordered = computed(lambda rng, dims: np.sort(rng.integers(-4, 5, (2, 5)), axis=1))
            args = (Arg(dtype, (2, 5), ordered), Arg(dtype, (2, "n"), anything))
            yield Case(f"{op}.{dtype}", raw(op), args)
