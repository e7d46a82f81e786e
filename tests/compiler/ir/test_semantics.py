"""The reference semantics against TensorFlow's kernels, special values included."""

from __future__ import annotations

import numpy as np
import pytest

from tf_blade.compiler.ir.semantics import RULES, UNARY
from tf_blade.compiler.ir.types import DType

tf = pytest.importorskip("tensorflow")

FLOATS = np.concatenate(
    [
        [0.0, -0.0, np.nan, np.inf, -np.inf, 0.5, -0.5, 1.0, -1.0, 1.5, 2.5, -2.5, 1e-30, 1e30],
        np.linspace(-9, 9, 60),
        np.linspace(-1, 1, 41),
    ]
)
INTEGERS = [0, 1, 2, 3, 7, 31, 32, 100, 127]

TF_UNARY = {
    **{k: k.capitalize() for k in "neg abs sign exp expm1 log log1p sqrt rsqrt sin cos".split()},
    **{k: k.capitalize() for k in "tan asin acos atan sinh cosh tanh asinh acosh atanh".split()},
    **{k: k.capitalize() for k in "erf erfc floor ceil round".split()},
    "logistic": "Sigmoid",
    "is_finite": "IsFinite",
    "is_inf": "IsInf",
    "is_nan": "IsNan",
}
TF_BINARY = {
    "add": "AddV2",
    "sub": "Sub",
    "mul": "Mul",
    "div": "RealDiv",
    "floor_div": "FloorDiv",
    "rem": "Mod",
    "floor_mod": "FloorMod",
    "pow": "Pow",
    "max": "Maximum",
    "min": "Minimum",
    "atan2": "Atan2",
}


def signed_and_bounds(dtype: np.dtype) -> np.ndarray:
    bounds = np.iinfo(dtype)
    values = [*INTEGERS, bounds.min, bounds.max]
    if bounds.min < 0:
        values += [-v for v in INTEGERS]
    return np.array(values, dtype)


def tf_result(name: str, *operands: np.ndarray) -> np.ndarray:
    letters = {"Atan2": "yx"}.get(name, "xy")[: len(operands)]
    return getattr(tf.raw_ops, name)(**dict(zip(letters, operands, strict=True))).numpy()


def reference(kind: str, *operands: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(RULES[kind](*operands))


def assert_close(got: np.ndarray, expected: np.ndarray, kind: str) -> None:
    """Within a few ulps; TensorFlow's own approximations are further off in the far tails."""
    assert got.dtype == expected.dtype
    epsilon = np.finfo(got.dtype).eps if got.dtype.kind == "f" else 0
    np.testing.assert_allclose(got, expected, rtol=24 * epsilon, atol=1e-37, err_msg=kind)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", sorted(TF_UNARY))
def test_unary_ops_of_floats(kind, dtype):
    x = FLOATS.astype(dtype)
    if kind in ("sin", "cos", "tan"):
        x = x[~(np.abs(x) > 1e6)]
    if kind == "erf" and dtype is np.float64:  # TensorFlow's erf of an f64 infinity is NaN
        x = x[~np.isinf(x)]
    assert_close(reference(kind, x), tf_result(TF_UNARY[kind], x), kind)


def test_the_table_above_is_complete():
    assert UNARY.keys() == TF_UNARY.keys() | {"not"}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", sorted(TF_BINARY))
def test_binary_ops_of_floats(kind, dtype):
    x, y = (m.ravel().astype(dtype) for m in np.meshgrid(FLOATS, FLOATS))
    if kind == "rem":
        x, y = x[np.abs(y) > 0], y[np.abs(y) > 0]
    expected = tf_result(TF_BINARY[kind], x, y)
    got = reference(kind, x, y)
    if kind in ("max", "min"):  # which zero wins is nobody's business
        got, expected = got + 0, expected + 0
    assert_close(got, expected, kind)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.int8, np.uint8])
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("add", "AddV2"),
        ("sub", "Sub"),
        ("mul", "Mul"),
        ("max", "Maximum"),
        ("min", "Minimum"),
        ("div", "TruncateDiv"),
        ("floor_div", "FloorDiv"),
        ("rem", "TruncateMod"),
        ("floor_mod", "FloorMod"),
        ("and", "BitwiseAnd"),
        ("or", "BitwiseOr"),
        ("xor", "BitwiseXor"),
        ("shift_left", "LeftShift"),
        ("shift_right", "RightShift"),
    ],
)
def test_binary_ops_of_integers(kind, name, dtype):
    if name == "TruncateMod" and dtype in (np.int8, np.uint8):
        pytest.skip("TensorFlow has no such kernel")
    values = signed_and_bounds(np.dtype(dtype))
    x, y = (m.ravel() for m in np.meshgrid(values, values))
    if kind in ("div", "floor_div", "rem", "floor_mod"):
        x, y = x[y != 0], y[y != 0]
        if kind.startswith("floor"):  # MIN / -1 traps or wraps, by compiler
            keep = ~(
                (x == np.iinfo(dtype).min) & (y == dtype(-1) if x.dtype.kind == "i" else False)
            )
            x, y = x[keep], y[keep]
    np.testing.assert_array_equal(reference(kind, x, y), tf_result(name, x, y))


@pytest.mark.parametrize("source", list(DType))
@pytest.mark.parametrize("target", list(DType))
def test_conversions(source, target):
    if source is target:
        return
    if source.is_float or source.is_half:
        # Truncation, and only what every integer type holds: the rest is undefined in C.
        x = np.array([0.0, -0.0, 0.2, 0.99, 1.5, 100.7], source.numpy)
        if not target.is_integer:
            x = np.concatenate([x, FLOATS.astype(source.numpy)])
        elif target.is_signed:
            x = np.concatenate([x, -x])
    elif source is DType.BOOL:
        x = np.array([False, True])
    else:
        x = signed_and_bounds(source.numpy)
    with np.errstate(all="ignore"):
        got = RULES["convert"](x, dtype=target)
        want = tf.cast(x, target.numpy).numpy()
    assert got.dtype == want.dtype
    if target.is_half:  # numpy takes no NaN of bfloat16 for another
        got, want = got.astype(np.float32), want.astype(np.float32)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("kind", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int64])
@pytest.mark.parametrize("shape", [(3, 4), (0, 4), (3, 0)])
def test_reductions(kind, dtype, shape):
    x = np.random.default_rng(0).integers(-5, 6, shape).astype(dtype)
    expected = getattr(tf, f"reduce_{kind}")(x, axis=0).numpy()
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(RULES["reduce"](x, kind=kind, dims=(0,)), expected)
    if dtype is np.float32 and x.size:
        x[0, 0] = np.nan
        expected = getattr(tf, f"reduce_{kind}")(x, axis=0).numpy()
        np.testing.assert_array_equal(RULES["reduce"](x, kind=kind, dims=(0,)), expected)


def test_the_relu_epilogue_is_tensorflows_relu():
    x = FLOATS.astype(np.float32)[:, None]
    got = RULES["dot_general"](
        x, np.ones((1, 1), np.float32), transpose_a=False, transpose_b=False, activation="relu"
    )
    np.testing.assert_array_equal(got, tf.nn.relu(x).numpy())
