"""Ops that Grappler makes of several: a product, a convolution or a batch normalisation, and what
is done to its result element by element."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.lower.convolutions import conv2d, conv3d, depthwise_conv2d, one_group
from tf_blade.compiler.lower.elementwise import number
from tf_blade.compiler.lower.matmul import matmul
from tf_blade.compiler.lower.nn import (
    bias_add,
    elu,
    fused_batch_norm_v3,
    leaky_relu,
    normalised,
    relu,
    relu6,
)
from tf_blade.compiler.lower.registry import FLOATS, lower
from tf_blade.errors import UnsupportedError


def _add(b: Builder, y: Value, other: Value) -> Value:
    if y.type.rank != other.type.rank:
        raise UnsupportedError("a fused Add that broadcasts", b.source)
    for n, k in zip(y.type.shape, other.type.shape, strict=True):
        b.same_dim(n, k, "a fused Add doesn't broadcast")
    return b.add(y, b.retype(other, y.type.shape))


def _gelu_exact(b: Builder, x: Value) -> Value:
    """x / 2 erfc(-x / sqrt 2)"""
    erfc = b.unary("erfc", b.mul(x, number(b, -math.sqrt(0.5), x)))
    return b.mul(b.mul(number(b, 0.5, x), x), erfc)


def _gelu_approximate(b: Builder, x: Value) -> Value:
    """x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x³)))"""
    cube = b.mul(b.mul(x, x), x)
    inner = b.add(x, b.mul(number(b, 0.044715, x), cube))
    tanh = b.unary("tanh", b.mul(number(b, math.sqrt(2 / math.pi), x), inner))
    return b.mul(b.mul(number(b, 0.5, x), x), b.add(number(b, 1, x), tanh))


def _hard_swish(b: Builder, x: Value) -> Value:
    """x relu6(x + 3) / 6"""
    return b.mul(b.mul(x, relu6(b, b.add(x, number(b, 3, x)))), number(b, 1 / 6, x))


# Of one operand, by the names in `fused_ops` and `activation_mode`.
_ACTIVATIONS: dict[str, Callable[[Builder, Value], Value]] = {
    "Identity": lambda b, x: x,
    "Relu": relu,
    "Relu6": relu6,
    "Elu": elu,
    "Tanh": lambda b, x: b.unary("tanh", x),
    "Sigmoid": lambda b, x: b.unary("logistic", x),
    "GeluExact": _gelu_exact,
    "GeluApproximate": _gelu_approximate,
    "_FusedHardSwish": _hard_swish,
}


@dataclass(frozen=True)
class _Epilogue:
    """What is done to a result [..., channels]: the attributes of a _Fused op."""

    fused_ops: Sequence[str]
    epsilon: float
    leakyrelu_alpha: float

    def __call__(self, b: Builder, y: Value, args: Sequence[Value]) -> Value:
        """args: the operands of all the fused ops, in order."""
        left = list(args)

        def take(count: int) -> list[Value]:
            if len(left) < count:
                raise UnsupportedError("fewer arguments than its fused ops take", b.source)
            taken = left[:count]
            del left[:count]
            return taken

        for name in self.fused_ops:
            if name == "BiasAdd":
                y = bias_add(b, y, *take(1), data_format="NHWC")
            elif name == "Add":
                y = _add(b, y, *take(1))
            elif name == "FusedBatchNorm":
                scale, offset, mean, variance = take(4)
                y = normalised(b, y, scale, offset, mean, variance, y.type.rank - 1, self.epsilon)
            elif name == "LeakyRelu":
                y = leaky_relu(b, y, alpha=self.leakyrelu_alpha)
            elif name in _ACTIVATIONS:
                y = _ACTIVATIONS[name](b, y)
            else:
                raise UnsupportedError(f"{name} fused into it", b.source)
        if left:
            raise UnsupportedError("more arguments than its fused ops take", b.source)
        return y


@lower("_FusedMatMul", dtypes=FLOATS)
def fused_mat_mul(
    b: Builder,
    x: Value,
    y: Value,
    *args: Value,
    transpose_a: bool,
    transpose_b: bool,
    fused_ops: Sequence[str],
    epsilon: float,
    leakyrelu_alpha: float,
) -> Value:
    """The product of two matrices; then a bias, sums, activations."""
    # TensorFlow leaves out the bias of an empty sum of products.
    inner = b.shape(x)[0 if transpose_a else 1]
    b.require_le(1, inner, "there is something to sum up")
    product = matmul(b, x, y, transpose_a=transpose_a, transpose_b=transpose_b)
    return _Epilogue(fused_ops, epsilon, leakyrelu_alpha)(b, product, args)


@lower("_FusedConv2D", dtypes=FLOATS, ignores=["use_cudnn_on_gpu", "num_args"])
def fused_conv2d(
    b: Builder,
    x: Value,
    filters: Value,
    *args: Value,
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: str,
    explicit_paddings: Sequence[int],
    data_format: str,
    filter_format: str,
    num_host_args: int,
    fused_ops: Sequence[str],
    epsilon: float,
    leakyrelu_alpha: float,
) -> Value:
    """Convolution over images, channels last; then a bias or normalisation, sums, activations."""
    if filter_format != "HWIO" or num_host_args != 0:
        raise UnsupportedError("quantised forms", b.source)
    one_group(b, x, filters)  # TensorFlow's fused kernels report an error for several
    y = conv2d(
        b,
        x,
        filters,
        strides=strides,
        dilations=dilations,
        padding=padding,
        explicit_paddings=explicit_paddings,
        data_format=data_format,
    )
    return _Epilogue(fused_ops, epsilon, leakyrelu_alpha)(b, y, args)


@lower("_FusedConv3D", dtypes=FLOATS)
def fused_conv3d(
    b: Builder,
    x: Value,
    filters: Value,
    *args: Value,
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: str,
    padding_list: Sequence[int],
    data_format: str,
    fused_ops: Sequence[str],
    epsilon: float,
    leakyrelu_alpha: float,
) -> Value:
    """Convolution over volumes, channels last; then a bias or normalisation, sums, activations."""
    if padding_list:
        raise UnsupportedError("a border fused into it", b.source)
    y = conv3d(
        b,
        x,
        filters,
        strides=strides,
        dilations=dilations,
        padding=padding,
        data_format=data_format,
    )
    return _Epilogue(fused_ops, epsilon, leakyrelu_alpha)(b, y, args)


@lower("_FusedDepthwiseConv2dNative", dtypes=FLOATS)
def fused_depthwise_conv2d(
    b: Builder,
    x: Value,
    filters: Value,
    *args: Value,
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: str,
    data_format: str,
    fused_ops: Sequence[str],
    epsilon: float,
    leakyrelu_alpha: float,
) -> Value:
    """Filters that see one channel each; then a bias or normalisation, sums, activations."""
    y = depthwise_conv2d(
        b,
        x,
        filters,
        strides=strides,
        dilations=dilations,
        padding=padding,
        explicit_paddings=(),
        data_format=data_format,
    )
    return _Epilogue(fused_ops, epsilon, leakyrelu_alpha)(b, y, args)


@lower(
    "_FusedBatchNormEx",
    dtypes={"T": FLOATS, "U": FLOATS},
    ignores=["exponential_avg_factor"],
    outputs=3,  # the others are for training
)
def fused_batch_norm_ex(
    b: Builder,
    x: Value,
    scale: Value,
    offset: Value,
    mean: Value,
    variance: Value,
    *side_inputs: Value,
    epsilon: float,
    activation_mode: str,
    data_format: str,
    is_training: bool,
) -> list[Value]:
    """Batch normalisation (inference), plus another tensor, then an activation."""
    y, *statistics = fused_batch_norm_v3(
        b,
        x,
        scale,
        offset,
        mean,
        variance,
        epsilon=epsilon,
        data_format=data_format,
        is_training=is_training,
    )
    for other in side_inputs:
        y = _add(b, y, other)
    if activation_mode not in _ACTIVATIONS:
        raise UnsupportedError(f"{activation_mode} fused into it", b.source)
    return [_ACTIVATIONS[activation_mode](b, y), *statistics]
