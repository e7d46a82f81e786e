"""Cases of the ops that only Grappler makes: their answers are those of the ops they stand for.

TensorFlow's CPU kernels cover few of the combinations, and others in builds with oneDNN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import op_def_library, op_def_registry

from tests.compiler.values import Arg, Case, NamedShape, between, finite
from tf_blade.compiler.lower.registry import decode

EPSILON, ALPHA = 1e-3, 0.3
CHANNELS = 4

ACTIVATIONS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "Relu": tf.nn.relu,
    "Relu6": tf.nn.relu6,
    "Elu": tf.nn.elu,
    "LeakyRelu": lambda x: tf.nn.leaky_relu(x, ALPHA),
    "Tanh": tf.tanh,
    "Sigmoid": tf.sigmoid,
    "GeluExact": tf.nn.gelu,
    "GeluApproximate": lambda x: tf.nn.gelu(x, approximate=True),
    "_FusedHardSwish": lambda x: x * tf.nn.relu6(x + 3) / 6,
}
# What Grappler's remapper makes of a product or a convolution.
EPILOGUES: tuple[tuple[str, ...], ...] = (
    ("BiasAdd",),
    *(("BiasAdd", activation) for activation in ACTIVATIONS),
    ("FusedBatchNorm",),
    ("FusedBatchNorm", "Relu"),
    ("FusedBatchNorm", "LeakyRelu"),
    ("BiasAdd", "Add"),
    ("BiasAdd", "Add", "Relu"),
    ("BiasAdd", "Add", "LeakyRelu"),
)
VECTOR = Arg("f32", (CHANNELS,), finite)
POSITIVE = Arg("f32", (CHANNELS,), between(0.1, 4))


def cases() -> Iterator[Case]:
    yield from _products()
    yield from _convolutions()
    yield from _normalisations()


def internal(op: str, **attrs: Any) -> Callable[..., Any]:
    """A function of the inputs of an op that has no Python function. Its attributes are `attrs`
    and defaults."""
    definition = op_def_registry.get(op)
    inferred = {arg.number_attr for arg in definition.input_arg}
    defaults = {
        attr.name: decode(attr.default_value)
        for attr in definition.attr
        if attr.HasField("default_value") and attr.name not in inferred
    }

    def call(**inputs: Any) -> Any:
        return op_def_library.apply_op(op, name="fused", **inputs, **{**defaults, **attrs})

    return call


def _after(epilogue: Sequence[str], y: tf.Tensor, args: Sequence[tf.Tensor]) -> tf.Tensor:
    """What the plain ops make of y."""
    left = list(args)
    for name in epilogue:
        if name == "BiasAdd":
            y = tf.nn.bias_add(y, left.pop(0))
        elif name == "Add":
            y = y + left.pop(0)
        elif name == "FusedBatchNorm":
            scale, offset, mean, variance = (left.pop(0) for _ in range(4))
            y = tf.nn.batch_normalization(y, mean, variance, offset, scale, EPSILON)
        else:
            y = ACTIVATIONS[name](y)
    return y


def _args(epilogue: Sequence[str], result: NamedShape) -> list[Arg]:
    kinds = {
        "BiasAdd": [VECTOR],
        "Add": [Arg("f32", result, finite)],
        "FusedBatchNorm": [VECTOR, VECTOR, VECTOR, POSITIVE],
    }
    return [arg for name in epilogue for arg in kinds.get(name, [])]


def _case(
    op: str,
    epilogue: Sequence[str],
    plain: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
    inputs: tuple[NamedShape, NamedShape],
    result: NamedShape,
    attrs: dict[str, Any],
    sizes: Sequence[int] = (0, 1, 2, 5),
) -> Case:
    names = ("a", "b") if op == "_FusedMatMul" else ("input", "filter")

    def fused(x: tf.Tensor, y: tf.Tensor, *args: tf.Tensor) -> tf.Tensor:
        operands: dict[str, Any] = {**dict(zip(names, (x, y), strict=True)), "args": args}
        own = dict(attrs)
        if op == "_FusedConv2D":
            operands["host_args"], own["num_args"] = [], len(args)
        return internal(
            op, fused_ops=list(epilogue), epsilon=EPSILON, leakyrelu_alpha=ALPHA, **own
        )(**operands)

    return Case(
        f"{op}.{'.'.join(epilogue)}",
        fused,
        (*(Arg("f32", dims, finite) for dims in inputs), *_args(epilogue, result)),
        relative=1e-5,
        absolute=1e-4,  # sums of products up to 8 that cancel, then a factor up to 8
        sizes=sizes,
        plain=lambda x, y, *args: _after(epilogue, plain(x, y), args),
        assumes=lambda dims, arrays: dims.get("k", 1) > 0,  # what TensorFlow's own kernel asks for
    )


def _products() -> Iterator[Case]:
    attrs = {"transpose_a": False, "transpose_b": True}
    for epilogue in EPILOGUES:
        yield _case(
            "_FusedMatMul",
            epilogue,
            lambda x, y: tf.matmul(x, y, transpose_b=True),
            (("n", "k"), (CHANNELS, "k")),
            ("n", CHANNELS),
            attrs,
        )


def _convolutions() -> Iterator[Case]:
    # Of each op: what it stands for, its operands, its result, its strides.
    forms: dict[str, tuple[Callable[..., tf.Tensor], tuple[NamedShape, NamedShape], NamedShape]] = {
        "_FusedConv2D": (
            lambda x, y: tf.nn.conv2d(x, y, [1, 2, 1, 1], "SAME"),
            (("n", 6, 5, 3), (3, 2, 3, CHANNELS)),
            ("n", 3, 5, CHANNELS),
        ),
        "_FusedDepthwiseConv2dNative": (
            lambda x, y: tf.nn.depthwise_conv2d(x, y, [1, 1, 1, 1], "VALID"),
            (("n", 6, 5, 2), (3, 2, 2, 2)),
            ("n", 4, 4, CHANNELS),
        ),
        "_FusedConv3D": (
            lambda x, y: tf.nn.conv3d(x, y, [1, 1, 2, 1, 1], "SAME"),
            (("n", 2, 5, 3, 2), (2, 3, 2, 2, CHANNELS)),
            ("n", 2, 3, 3, CHANNELS),
        ),
    }
    attrs: dict[str, dict[str, Any]] = {
        "_FusedConv2D": {"strides": [1, 2, 1, 1], "padding": "SAME"},
        "_FusedDepthwiseConv2dNative": {"strides": [1, 1, 1, 1], "padding": "VALID"},
        "_FusedConv3D": {"strides": [1, 1, 2, 1, 1], "padding": "SAME"},
    }
    for op, (plain, inputs, result) in forms.items():
        for epilogue in EPILOGUES:
            yield _case(op, epilogue, plain, inputs, result, attrs[op], (1, 2, 3))


def _normalisations() -> Iterator[Case]:
    x = Arg("f32", ("n", "h", 2, CHANNELS), finite)
    for sides, activation in ((0, "Identity"), (0, "Relu"), (1, "Identity"), (1, "Relu")):
        fused = internal(
            "_FusedBatchNormEx",
            activation_mode=activation,
            epsilon=EPSILON,
            is_training=False,
        )

        def plain(x: tf.Tensor, *args: tf.Tensor, activation: str = activation) -> tf.Tensor:
            scale, offset, mean, variance, *others = args
            y = tf.nn.batch_normalization(x, mean, variance, offset, scale, EPSILON)
            return ACTIVATIONS.get(activation, tf.identity)(sum(others, y))

        yield Case(
            f"_FusedBatchNormEx.{activation}.{sides}",
            lambda x, a, b, c, d, *e, op=fused: op(
                x=x, scale=a, offset=b, mean=c, variance=d, side_input=e
            )[0],
            (x, VECTOR, VECTOR, VECTOR, POSITIVE, *[x] * sides),
            relative=1e-5,
            absolute=1e-5,
            plain=plain,
        )
