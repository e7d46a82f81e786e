"""Gradients of activations, for models that serve them, and losses with their gradients.

The formulas are TensorFlow's, in its order of operations.
"""

from __future__ import annotations

from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.lower.elementwise import is_zero, number
from tf_blade.compiler.lower.nn import SELU_SCALE, SELU_SCALE_ALPHA, channel_axis, over_last
from tf_blade.compiler.lower.registry import FLOATS, INDICES, NUMBERS, lower
from tf_blade.compiler.lower.scatters import between
from tf_blade.errors import UnsupportedError


def _masked(b: Builder, gradients: Value, condition: Value) -> Value:
    """The gradients times 1 or 0: a NaN or an infinity stays one."""
    return b.mul(gradients, b.convert(condition, gradients.type.dtype))


def _unless_zero(b: Builder, dy: Value, gradient: Value) -> Value:
    """The gradient, 0 where dy = 0 whatever else it is made of."""
    return b.select(is_zero(b, dy), number(b, 0, dy), gradient)


@lower("ReluGrad", dtypes=FLOATS)
def relu_grad(b: Builder, gradients: Value, features: Value) -> Value:
    """The gradient of relu: gradients where features > 0, else 0"""
    return _masked(b, gradients, b.compare("GT", features, number(b, 0, features)))


@lower("Relu6Grad", dtypes=FLOATS)
def relu6_grad(b: Builder, gradients: Value, features: Value) -> Value:
    """The gradient of relu6: gradients where 0 < features < 6, else 0"""
    above = b.compare("GT", features, number(b, 0, features))
    below = b.compare("LT", features, number(b, 6, features))
    return _masked(b, gradients, b.binary("and", above, below))


@lower("LeakyReluGrad", dtypes=FLOATS)
def leaky_relu_grad(b: Builder, gradients: Value, features: Value, *, alpha: float) -> Value:
    """The gradient of leaky_relu: gradients where features > 0, else alpha gradients"""
    above = b.compare("GT", features, number(b, 0, features))
    return b.select(above, gradients, b.mul(gradients, number(b, alpha, gradients)))


@lower("EluGrad", dtypes=FLOATS)
def elu_grad(b: Builder, gradients: Value, outputs: Value) -> Value:
    """The gradient of elu, from its outputs."""
    below = b.compare("LT", outputs, number(b, 0, outputs))
    return b.select(below, b.mul(b.add(outputs, number(b, 1, outputs)), gradients), gradients)


@lower("SeluGrad", dtypes=FLOATS)
def selu_grad(b: Builder, gradients: Value, outputs: Value) -> Value:
    """The gradient of selu, from its outputs."""
    below = b.compare("LT", outputs, number(b, 0, outputs))
    slope = b.add(outputs, number(b, SELU_SCALE_ALPHA, outputs))
    return b.select(
        below, b.mul(gradients, slope), b.mul(gradients, number(b, SELU_SCALE, gradients))
    )


@lower("SoftplusGrad", dtypes=FLOATS)
def softplus_grad(b: Builder, gradients: Value, features: Value) -> Value:
    """The gradient of softplus: gradients / (exp(-features) + 1)"""
    decayed = b.unary("exp", b.unary("neg", features))
    return b.div(gradients, b.add(decayed, number(b, 1, features)))


@lower("SoftsignGrad", dtypes=FLOATS)
def softsign_grad(b: Builder, gradients: Value, features: Value) -> Value:
    """The gradient of softsign: gradients / (1 + |features|)²"""
    size = b.add(number(b, 1, features), b.unary("abs", features))
    return b.div(gradients, b.mul(size, size))


@lower("SigmoidGrad", dtypes=FLOATS)
def sigmoid_grad(b: Builder, y: Value, dy: Value) -> Value:
    """The gradient of sigmoid: dy y (1 - y)"""
    return b.mul(b.mul(dy, y), b.sub(number(b, 1, y), y))


@lower("TanhGrad", dtypes=FLOATS)
def tanh_grad(b: Builder, y: Value, dy: Value) -> Value:
    """The gradient of tanh: dy (1 - y²)"""
    return b.mul(dy, b.sub(number(b, 1, y), b.mul(y, y)))


@lower("InvGrad", "ReciprocalGrad", dtypes=FLOATS)
def reciprocal_grad(b: Builder, y: Value, dy: Value) -> Value:
    """The gradient of 1 / x: -dy y², 0 where dy = 0"""
    return _unless_zero(b, dy, b.mul(b.mul(y, y), b.unary("neg", dy)))


@lower("RsqrtGrad", dtypes=FLOATS)
def rsqrt_grad(b: Builder, y: Value, dy: Value) -> Value:
    """The gradient of rsqrt: -0.5 dy y³, 0 where dy = 0"""
    cube = b.mul(y, b.mul(y, y))
    return _unless_zero(b, dy, b.mul(b.mul(dy, number(b, -0.5, y)), cube))


@lower("SqrtGrad", dtypes=FLOATS)
def sqrt_grad(b: Builder, y: Value, dy: Value) -> Value:
    """The gradient of sqrt: 0.5 dy / y, 0 where dy = 0"""
    return _unless_zero(b, dy, b.div(b.mul(dy, number(b, 0.5, y)), y))


@lower("BiasAddGrad", dtypes=NUMBERS)
def bias_add_grad(b: Builder, gradients: Value, *, data_format: str) -> Value:
    """The sum of the gradients over all dims but the channels'."""
    kept = channel_axis(data_format, gradients.type.rank)
    return b.reduce("sum", gradients, [i for i in range(gradients.type.rank) if i != kept])


# -- losses -----------------------------------------------------------------------------------


def _exponentials(b: Builder, features: Value) -> tuple[Value, Value, Value]:
    """features - max, exp of that, and the sum of those, [rows, 1]."""
    shifted = b.sub(features, over_last(b, "max", features))
    exponentials = b.unary("exp", shifted)
    return shifted, exponentials, over_last(b, "sum", exponentials)


@lower("SoftmaxCrossEntropyWithLogits", dtypes=FLOATS)
def softmax_cross_entropy_with_logits(b: Builder, features: Value, labels: Value) -> list[Value]:
    """For each row, the cross entropy between labels and softmax of features; and its gradient."""
    features, labels = b.broadcast_together(features, labels)
    shifted, exponentials, total = _exponentials(b, features)
    terms = b.mul(labels, b.sub(b.unary("log", total), shifted))
    return [b.reduce("sum", terms, [1]), b.sub(b.div(exponentials, total), labels)]


@lower("SparseSoftmaxCrossEntropyWithLogits", dtypes={"T": FLOATS, "Tlabels": INDICES})
def sparse_softmax_cross_entropy_with_logits(
    b: Builder, features: Value, labels: Value
) -> list[Value]:
    """For each row, -log softmax of features at the row's label; and its gradient."""
    if features.type.rank != 2:
        raise UnsupportedError(f"features of rank {features.type.rank}", b.source)
    count = b.same_dim(b.shape(features)[0], b.shape(labels)[0], "one label for each row")
    features = b.retype(features, (count, b.shape(features)[1]))
    shape = b.shape(features)
    b.require_le(1, shape[1], "there is a class")
    labels = b.retype(labels, (count,))
    # Here, since the gradient alone would not look at it.
    labels = b.checked(labels, between(b, labels, b.shape_value(shape[1], labels.type.dtype)))
    shifted, exponentials, total = _exponentials(b, features)
    picked = b.gather(shifted, labels, 1, 1)
    loss = b.sub(b.reshape(b.unary("log", total), [shape[0]]), picked)
    places = b.iota(labels.type.dtype, shape, 1)
    hit = b.compare("EQ", b.broadcast_in_dim(labels, shape, [0]), places)
    share = b.div(exponentials, total)
    return [loss, b.select(hit, b.sub(share, number(b, 1, share)), share)]
