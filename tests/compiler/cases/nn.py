"""Cases of neural-network ops and matrix products."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from tests.compiler.cases.raw import raw
from tests.compiler.values import Arg, Case, NamedShape, anything, between, finite

F = ("f32", "f64")
_ROWS: dict[str, NamedShape] = {"matrix": ("n", "m"), "static": ("n", 5), "cube": ("n", "m", 3)}


def cases() -> Iterator[Case]:
    yield from _activations()
    yield from _matmuls()
    yield from _einsums()
    yield from _layers()


def _activations() -> Iterator[Case]:
    for dtype in F:
        for op in ("Softmax", "LogSoftmax"):
            for name, dims in _ROWS.items():
                arg = Arg(dtype, dims, between(-20, 20))
                yield Case(f"{op}.{dtype}.{name}", raw(op), (arg,), relative=2e-5, absolute=1e-5)
        arg = Arg(dtype, ("n", 4), between(-5, 5, float("inf"), float("-inf"), float("nan")))
        yield Case(f"Softmax.{dtype}.special", raw("Softmax"), (arg,), relative=2e-5, absolute=1e-7)
    for dtype in (*F, "i32"):
        for data_format, dims in {"NHWC": ("n", "m", 4), "NCHW": ("n", 4, "m", 2)}.items():
            args = (Arg(dtype, dims, anything), Arg(dtype, (4,), anything))
            bias_add = raw("BiasAdd", data_format=data_format)
            yield Case(f"BiasAdd.{dtype}.{data_format}", bias_add, args)
    args = (Arg("f32", ("n", "m"), anything), Arg("f32", ("m",), anything))
    yield Case("BiasAddV1.f32", raw("BiasAddV1"), args)


def _matmuls() -> Iterator[Case]:
    tolerance: dict[str, Any] = {"relative": 1e-5, "absolute": 1e-5}
    for dtype in F:
        for ta in (False, True):
            for tb in (False, True):
                x = Arg(dtype, ("k", "n") if ta else ("n", "k"), finite)
                y = Arg(dtype, ("m", "k") if tb else ("k", "m"), finite)
                matmul = raw("MatMul", transpose_a=ta, transpose_b=tb)
                yield Case(f"MatMul.{dtype}.{int(ta)}{int(tb)}", matmul, (x, y), **tolerance)
    weights = Arg("f32", (3, 5), finite)
    yield Case(
        "MatMul.f32.assumed_equal",
        raw("MatMul"),
        (Arg("f32", ("n", "k"), finite), weights),
        sizes=(0, 1, 3),
        **tolerance,
    )
    forms: dict[str, tuple[NamedShape, NamedShape, bool, bool]] = {
        "same_batch": (("b", "n", "k"), ("b", "k", "m"), False, False),
        "adjoint": (("b", "c", "k", "n"), ("b", "c", "m", "k"), True, True),
        "shared_right": (("b", "n", "k"), ("k", 4), False, False),
        "shared_right_one": (("b", "n", "k"), (1, "k", 4), False, False),
        "shared_left": (("n", "k"), ("b", "k", "m"), False, False),
        "broadcast": (("b", 1, "n", "k"), ("c", "k", "m"), False, True),
        "matrices": (("n", "k"), ("k", "m"), False, False),
    }
    for name, (left, right, adj_x, adj_y) in forms.items():
        if name == "broadcast":
            right = ("c", "m", "k")
        for op in ("BatchMatMulV2", "BatchMatMulV3"):
            attrs: dict[str, Any] = {"adj_x": adj_x, "adj_y": adj_y}
            if op == "BatchMatMulV3":
                attrs["Tout"] = tf.float32
            args = (Arg("f32", left, finite), Arg("f32", right, finite))
            yield Case(f"{op}.{name}", raw(op, **attrs), args, sizes=(0, 1, 2, 5), **tolerance)
    args = (Arg("f64", ("b", "n", "k"), finite), Arg("f64", ("b", "k", "m"), finite))
    yield Case("BatchMatMul.f64", raw("BatchMatMul"), args, sizes=(0, 1, 2, 5), **tolerance)
    yield Case(
        "Sum.masked_mean",
        lambda x, w: (
            tf.reduce_sum(x * w[..., None], 1) / tf.maximum(tf.reduce_sum(w[..., None], 1), 1e-9)
        ),
        (Arg("f32", ("b", "n", "m"), finite), Arg("f32", ("b", "n"), between(0, 1))),
        sizes=(0, 1, 2, 5, 9, 300),
        **tolerance,
    )
    x, y, z = (Arg("f32", dims, finite) for dims in (("n", 4), (4, 5), ("n", 5)))
    yield Case(
        "MatMul.with_residual",
        lambda x, y, b, z: tf.nn.relu(x @ y + b) + z,
        (x, y, Arg("f32", (5,), finite), z),
        **tolerance,
    )
    args = (Arg("f32", ("b", "n", 4), finite), Arg("f32", ("b", "m", 4), finite))
    for name, scaled in {
        "divided": lambda x, y: tf.matmul(x, y, adjoint_b=True) / 8.0**0.5,
        "multiplied": lambda x, y: 0.3 * tf.matmul(x, y, adjoint_b=True),
    }.items():
        yield Case(f"BatchMatMulV2.{name}", scaled, args, sizes=(0, 1, 2, 5), **tolerance)


# Equations of dense layers and attention, and the forms that need transposes or sums.
EINSUMS: dict[str, list[tuple[int | str, ...]]] = {
    "ab,bc->ac": [("n", "k"), ("k", "m")],
    "abc,cd->abd": [("n", "m", 4), (4, 3)],
    "abc,cde->abde": [("n", "m", 4), (4, 2, 3)],
    "aecd,abcd->acbe": [("n", "m", 2, 3), ("n", "k", 2, 3)],
    "acbe,aecd->abcd": [("n", 2, "k", "m"), ("n", "m", 2, 3)],
    "abcd,cde->abe": [("n", "m", 2, 3), (2, 3, 4)],
    "...x,xy->...y": [("n", "m", 4), (4, 5)],
    "...ab,...bc->...ac": [("n", 2, "m", 3), ("n", 2, 3, "k")],
    "ab,cb->ca": [("n", "k"), ("m", "k")],
    "ab,ab->a": [("n", "k"), ("n", "k")],
    "ab,cd->acbd": [("n", 2), ("m", 3)],
    "abc,bd->ad": [("n", "m", 3), ("m", 2)],
    "abc->cab": [("n", "m", 2)],
    "abc->b": [("n", "m", 2)],
    "ab->": [("n", "m")],
}


def _einsums() -> Iterator[Case]:
    for equation, shapes in EINSUMS.items():
        yield Case(
            f"Einsum.{equation.replace(',', '_').replace('->', '_to_').replace('...', 'X')}",
            lambda *inputs, equation=equation: tf.raw_ops.Einsum(inputs=inputs, equation=equation),
            tuple(Arg("f32", dims, finite) for dims in shapes),
            relative=1e-5,
            absolute=1e-5,
        )


def _layers() -> Iterator[Case]:
    formats: dict[str, NamedShape] = {"NHWC": ("n", "h", 2, 3), "NCHW": ("n", 3, "h", 2)}
    for op in ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"):
        channel = Arg("f32", (3,), finite)
        variance = Arg("f32", (3,), between(0.1, 4))
        for data_format, dims in formats.items():
            yield Case(
                f"{op}.{data_format}",
                lambda *inputs, op=op, data_format=data_format: (
                    raw(op, is_training=False, data_format=data_format)(*inputs).y
                ),
                (Arg("f32", dims, finite), channel, channel, channel, variance),
                relative=1e-5,
                absolute=1e-5,
            )
    x = Arg("f32", ("n", "m", 8), finite)
    row = Arg("f32", (8,), finite)
    yield Case("layer_norm", _layer_norm, (x, row, row), relative=2e-5, absolute=2e-5)
    yield Case("gelu", lambda x: tf.nn.gelu(x), (x,), ulps=64, absolute=1e-6)
    yield Case("gelu_tanh", lambda x: tf.nn.gelu(x, approximate=True), (x,), ulps=64, absolute=1e-6)
    q = Arg("f32", ("n", "t", 8), finite)
    mask = Arg("bool", ("n", "t"), anything)
    yield Case(
        "attention",
        _attention,
        (q, Arg("f32", (8, 8), finite), Arg("f32", (8, 8), finite), mask),
        assumes=lambda dims, arrays: dims["t"] > 0,
        sizes=(0, 1, 2, 5),
        relative=1e-4,
        absolute=1e-4,
    )
    yield Case(
        "dense",
        lambda x, w, c: tf.nn.relu(tf.nn.bias_add(tf.matmul(x, w), c)),
        (Arg("f32", ("n", 6), finite), Arg("f32", (6, 4), finite), Arg("f32", (4,), finite)),
        relative=1e-5,
        absolute=1e-5,
    )


def _layer_norm(x, scale, offset):
    mean = tf.reduce_mean(x, -1, keepdims=True)
    variance = tf.reduce_mean(tf.math.squared_difference(x, mean), -1, keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + 1e-3) * scale + offset


def _attention(x, wq, wk, mask):
    """Two heads, shapes computed at run time as Keras and BERT do."""
    batch, length = tf.shape(x)[0], tf.shape(x)[1]

    def heads(y):
        return tf.transpose(tf.reshape(y, tf.stack([batch, length, 2, 4])), [0, 2, 1, 3])

    flat = tf.reshape(x, [-1, 8])
    q, k = heads(tf.matmul(flat, wq)), heads(tf.matmul(flat, wk))
    scores = tf.matmul(q, k, transpose_b=True) / 2.0
    scores += (1.0 - tf.cast(mask[:, None, None, :], tf.float32)) * -1e4
    mixed = tf.matmul(tf.nn.softmax(scores), q)
    return tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), [-1, length, 8])
