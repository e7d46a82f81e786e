"""Activations, softmax, bias and batch normalisation."""

from __future__ import annotations

from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.dims import Shape
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.lower.elementwise import number
from tf_blade.compiler.lower.registry import FLOATS, NUMBERS, lower
from tf_blade.errors import UnsupportedError

# The constants of self-normalising networks, as in TensorFlow's kernel.
SELU_SCALE = 1.0507009873554804934193349852946
SELU_SCALE_ALPHA = 1.7580993408473768599402175208123


@lower("Relu", dtypes=NUMBERS)
def relu(b: Builder, x: Value) -> Value:
    """max(x, 0); NaN stays NaN"""
    return b.binary("max", x, number(b, 0, x))


@lower("Relu6", dtypes=NUMBERS)
def relu6(b: Builder, x: Value) -> Value:
    """min(max(x, 0), 6)"""
    return b.binary("min", relu(b, x), number(b, 6, x))


@lower("LeakyRelu", dtypes=FLOATS)
def leaky_relu(b: Builder, x: Value, *, alpha: float) -> Value:
    """x where x > 0, else alpha x"""
    # As TensorFlow writes it, which matters for infinities when alpha is 0.
    return b.binary("max" if alpha < 1 else "min", x, b.mul(x, number(b, alpha, x)))


@lower("Elu", dtypes=FLOATS)
def elu(b: Builder, x: Value) -> Value:
    """x where x >= 0, else exp(x) - 1"""
    return b.select(b.compare("LT", x, number(b, 0, x)), b.unary("expm1", x), x)


@lower("Selu", dtypes=FLOATS)
def selu(b: Builder, x: Value) -> Value:
    """Scaled elu, with the scale and alpha of self-normalising networks."""
    negative = b.mul(number(b, SELU_SCALE_ALPHA, x), b.unary("expm1", x))
    positive = b.mul(number(b, SELU_SCALE, x), x)
    return b.select(b.compare("LT", x, number(b, 0, x)), negative, positive)


@lower("Softplus", dtypes=FLOATS)
def softplus(b: Builder, x: Value) -> Value:
    """log(1 + exp(x)) = max(x, 0) + log1p(exp(-|x|)), which never overflows"""
    decayed = b.unary("exp", b.unary("neg", b.unary("abs", x)))
    return b.add(b.binary("max", x, number(b, 0, x)), b.unary("log1p", decayed))


@lower("Softsign", dtypes=FLOATS)
def softsign(b: Builder, x: Value) -> Value:
    """x / (1 + |x|)"""
    return b.div(x, b.add(number(b, 1, x), b.unary("abs", x)))


def over_last(b: Builder, kind: str, x: Value) -> Value:
    """A reduction over the last dim, which stays as 1."""
    return b.reshape(b.reduce(kind, x, [x.type.rank - 1]), (*b.shape(x)[:-1], 1))


@lower("Softmax", dtypes=FLOATS)
def softmax(b: Builder, x: Value) -> Value:
    """exp(x - max x) / sum of these, over the last dim"""
    e = b.unary("exp", b.sub(x, over_last(b, "max", x)))
    return b.div(e, over_last(b, "sum", e))


@lower("LogSoftmax", dtypes=FLOATS)
def log_softmax(b: Builder, x: Value) -> Value:
    """x - max x - log(sum of exp(x - max x)), over the last dim"""
    shifted = b.sub(x, over_last(b, "max", x))
    return b.sub(shifted, b.unary("log", over_last(b, "sum", b.unary("exp", shifted))))


def channel_axis(data_format: str, rank: int) -> int:
    """The axis of the channels: the last, or 1 in the NC… formats."""
    return 1 if data_format.startswith("NC") else rank - 1


def _along_channels(b: Builder, vector: Value, shape: Shape, axis: int) -> Value:
    """A vector with one element for each channel, broadcast to `shape`."""
    b.same_dim(vector.type.shape[0], shape[axis], "one element for each channel")
    return b.broadcast_in_dim(b.retype(vector, [shape[axis]]), _canonical(b, shape), [axis])


def _canonical(b: Builder, shape: Shape) -> Shape:
    return tuple(b.canonical(n) for n in shape)


@lower("BiasAdd", dtypes=NUMBERS)
def bias_add(b: Builder, value: Value, bias: Value, *, data_format: str) -> Value:
    """y = value + bias along the channel dim"""
    axis = channel_axis(data_format, value.type.rank)
    return b.add(value, _along_channels(b, bias, value.type.shape, axis))


@lower("BiasAddV1", dtypes=NUMBERS)
def bias_add_v1(b: Builder, value: Value, bias: Value) -> Value:
    """y = value + bias along the last dim"""
    return bias_add(b, value, bias, data_format="NHWC")


@lower(
    "FusedBatchNormV3",
    "FusedBatchNormV2",
    "FusedBatchNorm",
    dtypes={"T": FLOATS, "U": FLOATS},
    ignores=["exponential_avg_factor"],
    outputs=3,  # the others are for training
)
def fused_batch_norm_v3(
    b: Builder,
    x: Value,
    scale: Value,
    offset: Value,
    mean: Value,
    variance: Value,
    *,
    epsilon: float,
    data_format: str,
    is_training: bool,
) -> list[Value]:
    """y = (x - mean) / sqrt(variance + epsilon) scale + offset along the channel dim (inference)"""
    if is_training:
        raise UnsupportedError("batch statistics of training mode are not computed", b.source)
    if x.type.dtype is not scale.type.dtype:
        raise UnsupportedError("x and scale have different dtypes", b.source)
    axis = channel_axis(data_format, x.type.rank)
    return [normalised(b, x, scale, offset, mean, variance, axis, epsilon), mean, variance]


def normalised(
    b: Builder,
    x: Value,
    scale: Value,
    offset: Value,
    mean: Value,
    variance: Value,
    axis: int,
    epsilon: float,
) -> Value:
    """(x - mean) / sqrt(variance + epsilon) scale + offset, all vectors along one dim of x."""
    # The factor is computed once a channel.
    factor = b.mul(scale, b.unary("rsqrt", b.add(variance, number(b, epsilon, variance))))
    centred = b.sub(x, _along_channels(b, mean, x.type.shape, axis))
    scaled = b.mul(centred, _along_channels(b, factor, x.type.shape, axis))
    return b.add(scaled, _along_channels(b, offset, x.type.shape, axis))
