"""How a graph of the IR's primitives is written in TensorFlow's ops: several ways for each.

    @spell("add")
    def add(s, op, x, y): ...

A spelling gets the speller (which draws), the op, and its operands as tensors. Broadcasts that
TensorFlow does by itself are left to it now and then.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tests.fuzz.graph_maker import Block, Call, GraphMaker
from tf_blade.compiler.ir.dims import FUNCTIONS, Dim, Shape
from tf_blade.compiler.ir.ops import BINARY
from tf_blade.compiler.ir.program import ComputedSize, InputDim, Op, Value

Tensor = Any
SPELLINGS: dict[str, Callable[..., Tensor]] = {}


def spell(*kinds: str) -> Callable[[Callable[..., Tensor]], Callable[..., Tensor]]:
    """Registers the decorated function as the spelling of the primitives `kinds`."""

    def register(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        for kind in kinds:
            SPELLINGS[kind] = function
        return function

    return register


class Speller:
    """Writes a maker's graph into the current TensorFlow graph."""

    def __init__(self, maker: GraphMaker) -> None:
        self.m = maker
        self.tensors: dict[Value, Tensor] = {}
        self.inputs: list[Tensor] = []

    def write(self, results: Sequence[Value]) -> list[Tensor]:
        """The tensors of `results`; `inputs` are the placeholders then."""
        for i, placeholder in enumerate(self.m.placeholders):
            dtype = placeholder.value.type.dtype.numpy
            made = tf.compat.v1.placeholder(dtype, placeholder.static, name=f"x{i}")
            self.tensors[placeholder.value] = made
            self.inputs.append(made)
        self._block(self.m.root)
        return [self.tensors[v] for v in results]

    def _block(self, block: Block) -> None:
        for item in block.items:
            if isinstance(item, Call):
                self._call(item)
            else:
                operands = [self.tensors[v] for v in item.operands]
                self.tensors[item.result] = SPELLINGS[item.kind](self, item, *operands)

    def _call(self, call: Call) -> None:
        def body(block: Block, params: list[Value]) -> Callable[..., list[Tensor]]:
            def run(*arguments: Tensor) -> list[Tensor]:
                # A body may be traced more than once.
                outside = dict(self.tensors)
                self.tensors.update(zip(params, arguments, strict=True))
                self._block(block)
                found = [tf.identity(self.tensors[v]) for v in block.results]
                self.tensors = outside
                return found

            return run

        pairs = zip(call.blocks, call.params, strict=True)
        bodies = [body(block, params) for block, params in pairs]
        made = call.build([self.tensors[v] for v in call.inputs], bodies)
        self.tensors.update(zip(call.results, made, strict=True))

    # -- shapes ---------------------------------------------------------------------------

    def dim(self, dim: Dim) -> Tensor:
        """A dim as an int, or as a scalar i32 tensor computed from shapes and inputs."""
        dim = self.m.builder.canonical(dim)
        if isinstance(dim, int):
            return dim
        if dim.is_Integer:
            return int(dim)
        if dim.is_Symbol:
            source = self.m.builder.program.symbols[dim]
            if isinstance(source, ComputedSize):
                return tf.cast(self.tensors[source.value], tf.int32)
            tensor = self.tensors[self.m.builder.program.params[source.param]]
            return tf.shape(tensor)[source.axis] if isinstance(source, InputDim) else tensor[0]
        arguments = [self.dim(a) for a in dim.args]
        if dim.is_Add:
            return sum(arguments[1:], arguments[0])
        if dim.is_Mul:
            return functools.reduce(operator.mul, arguments)
        if dim.is_Pow:
            return functools.reduce(operator.mul, [arguments[0]] * int(dim.exp))
        return _FUNCTIONS[type(dim)](*arguments)

    def shape(self, shape: Shape, *, infer: bool = False) -> Tensor:
        """A shape for Reshape, BroadcastTo …; `infer`: one unknown dim may be -1."""
        parts = [self.dim(n) for n in shape]
        unknown = [i for i, n in enumerate(parts) if not isinstance(n, int)]
        if infer and unknown and self.m.flag():
            parts[unknown[0]] = -1
        if all(isinstance(n, int) for n in parts):
            return tf.constant(parts, self.m.choose([tf.int32, tf.int64]), [len(parts)])
        return tf.stack(parts)

    def implicit(self, op: Op) -> list[Tensor]:
        """The operands, without broadcasts that TensorFlow does by itself."""
        sources = [_unbroadcast(v) for v in op.operands]
        shapes = [self.m.shape(v) for v in sources]
        if _broadcast(shapes) == self.m.shape(op.result) and self.m.integer(0, 3):
            return [self.tensors[v] for v in sources]
        return [self.tensors[v] for v in op.operands]

    def choose(self, *ways: Callable[[], Tensor]) -> Tensor:
        return self.m.choose(ways)()


_FUNCTIONS: dict[Any, Callable[..., Tensor]] = {
    FUNCTIONS["floor_div"]: lambda a, b: a // b,
    FUNCTIONS["floor_mod"]: lambda a, b: a % b,
    FUNCTIONS["max"]: tf.maximum,
    FUNCTIONS["min"]: tf.minimum,
    FUNCTIONS["if_negative"]: lambda a, b, c: tf.where(a < 0, b, c),
}


def _unbroadcast(value: Value) -> Value:
    op = value.op
    if op is None or op.kind != "broadcast_in_dim":
        return value
    rank, dims = len(op.attrs["shape"]), op.attrs["dims"]
    aligned = tuple(range(rank - len(dims), rank))
    return op.operands[0] if tuple(dims) == aligned else value


def _broadcast(shapes: Sequence[Shape]) -> Shape | None:
    """What TensorFlow makes of these shapes whatever the sizes are; None: it depends."""
    rank = max(len(s) for s in shapes)
    result: list[Dim] = []
    for axis in range(-rank, 0):
        dims = {s[axis] for s in shapes if len(s) >= -axis} - {1}
        if len(dims) > 1:
            return None
        result.append(dims.pop() if dims else 1)
    return tuple(result)


# -- element by element ---------------------------------------------------------------------

_UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "neg": tf.negative,
    "logistic": tf.sigmoid,
    "rsqrt": tf.math.rsqrt,
    "log": tf.math.log,
    "log1p": tf.math.log1p,
    "expm1": tf.math.expm1,
    "erf": tf.math.erf,
    "erfc": tf.math.erfc,
    "is_finite": tf.math.is_finite,
    "is_inf": tf.math.is_inf,
    "is_nan": tf.math.is_nan,
    **{
        name: getattr(tf, name)
        for name in (
            "abs sign exp sqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh".split()
        )
    },
}
_ROUNDING = {"floor": tf.floor, "ceil": tf.math.ceil, "round": tf.round}


@spell(*_UNARY)
def _unary(s: Speller, op: Op, x: Tensor) -> Tensor:
    return _UNARY[op.kind](x)


@spell(*_ROUNDING)
def _round(s: Speller, op: Op, x: Tensor) -> Tensor:
    return _ROUNDING[op.kind](x) if x.dtype.is_floating else tf.identity(x)


@spell("not")
def _not(s: Speller, op: Op, x: Tensor) -> Tensor:
    return tf.logical_not(x) if x.dtype == tf.bool else tf.bitwise.invert(x)


_BITS = {
    "and": (tf.logical_and, tf.bitwise.bitwise_and),
    "or": (tf.logical_or, tf.bitwise.bitwise_or),
    "xor": (tf.not_equal, tf.bitwise.bitwise_xor),
}
_BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "sub": tf.subtract,
    "max": tf.maximum,
    "min": tf.minimum,
    "pow": tf.pow,
    "atan2": tf.atan2,
    "floor_div": tf.math.floordiv,
    "floor_mod": tf.math.floormod,
    "rem": tf.truncatemod,
    "shift_left": tf.bitwise.left_shift,
    "shift_right": tf.bitwise.right_shift,
}


@spell(*BINARY)
def _binary(s: Speller, op: Op, *operands: Tensor) -> Tensor:
    x, y = s.implicit(op)
    if op.kind in _BITS:
        return _BITS[op.kind][0 if x.dtype == tf.bool else 1](x, y)
    if op.kind == "add":
        ways = [tf.add, lambda a, b: tf.raw_ops.Add(x=a, y=b)]
        if y.shape.rank == 1 and (x.shape.rank or 0) >= 2 and s.m.flag():
            return tf.nn.bias_add(x, y)
        if op.operands[0].type == op.operands[1].type:
            ways.append(lambda a, b: tf.add_n(list(operands)))
        return s.m.choose(ways)(x, y)
    if op.kind == "mul":
        if op.operands[0] is op.operands[1]:
            return s.choose(lambda: tf.square(x), lambda: tf.multiply(x, x))
        return tf.multiply(x, y)
    if op.kind == "div":
        return tf.realdiv(x, y) if x.dtype.is_floating else tf.truncatediv(x, y)
    return _BINARY[op.kind](x, y)


_COMPARE = {
    "EQ": tf.equal,
    "NE": tf.not_equal,
    "LT": tf.less,
    "LE": tf.less_equal,
    "GT": tf.greater,
    "GE": tf.greater_equal,
}


@spell("compare")
def _compare(s: Speller, op: Op, *operands: Tensor) -> Tensor:
    return _COMPARE[op.attrs["direction"]](*s.implicit(op))


@spell("select")
def _select(s: Speller, op: Op, *operands: Tensor) -> Tensor:
    c, x, y = s.implicit(op)
    return s.choose(
        lambda: tf.where(c, x, y),
        lambda: tf.raw_ops.Select(condition=operands[0], x=operands[1], y=operands[2]),
    )


@spell("convert")
def _convert(s: Speller, op: Op, x: Tensor) -> Tensor:
    return tf.cast(x, op.attrs["dtype"].numpy)


@spell("checked")
def _checked(s: Speller, op: Op, x: Tensor, condition: Tensor) -> Tensor:
    if x.dtype.is_floating and s.m.flag():
        return tf.debugging.check_numerics(x, "checked")
    with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(condition), ["checked"])]):
        return tf.identity(x)


# -- made from nothing, or from shapes ------------------------------------------------------


@spell("constant")
def _constant(s: Speller, op: Op) -> Tensor:
    return tf.constant(op.attrs["value"])


@spell("iota")
def _iota(s: Speller, op: Op) -> Tensor:
    shape, dim = op.attrs["shape"], op.attrs["dim"]
    counted = tf.cast(tf.range(s.dim(shape[dim])), op.attrs["dtype"].numpy)
    view = [1] * len(shape)
    view[dim] = -1
    return tf.broadcast_to(tf.reshape(counted, view), s.shape(shape))


@spell("shape_value")
def _shape_value(s: Speller, op: Op) -> Tensor:
    parts = [s.dim(n) for n in op.attrs["elements"]]
    dtype = op.attrs["dtype"].numpy
    if not op.attrs["shape"]:
        return tf.cast(parts[0], dtype)
    return tf.reshape(tf.cast(tf.stack(parts), dtype), op.attrs["shape"])


# -- moving elements ------------------------------------------------------------------------


@spell("broadcast_in_dim")
def _broadcast_in_dim(s: Speller, op: Op, x: Tensor) -> Tensor:
    shape, source = op.attrs["shape"], s.m.shape(op.operands[0])
    view: list[Dim] = [1] * len(shape)
    for n, d in zip(source, op.attrs["dims"], strict=True):
        view[d] = n
    if not source and s.m.flag():
        return tf.fill(s.shape(shape), x)
    if tuple(view) != source:
        x = _reshaped(s, op.operands[0], x, tuple(view))
    repeats = [n if k == 1 and n != 1 else 1 for n, k in zip(shape, view, strict=True)]
    return s.choose(
        lambda: tf.broadcast_to(x, s.shape(shape)),
        lambda: tf.tile(x, s.shape(tuple(repeats))),
    )


@spell("reshape")
def _reshape(s: Speller, op: Op, x: Tensor) -> Tensor:
    return _reshaped(s, op.operands[0], x, op.attrs["shape"])


def _reshaped(s: Speller, value: Value, x: Tensor, target: Shape) -> Tensor:
    """Reshape, or ExpandDims and Squeeze where these do."""
    source = s.m.shape(value)
    target = tuple(s.m.builder.canonical(n) for n in target)
    ones = [i for i, n in enumerate(target) if n == 1]
    if tuple(n for n in target if n != 1) == source and s.m.flag():
        for i in ones:
            x = tf.expand_dims(x, i)
        return x
    dropped = [i for i, n in enumerate(source) if n == 1]
    if dropped and tuple(n for n in source if n != 1) == target and s.m.flag():
        return tf.squeeze(x, dropped)
    return tf.reshape(x, s.shape(target, infer=True))


@spell("transpose")
def _transpose(s: Speller, op: Op, x: Tensor) -> Tensor:
    return tf.transpose(x, list(op.attrs["perm"]))


@spell("slice")
def _slice(s: Speller, op: Op, x: Tensor) -> Tensor:
    bounds = [op.attrs[k] for k in ("start", "limit", "stride")]
    start, limit, stride = bounds
    if all(n == 1 for n in stride) and s.m.flag():
        size = tuple(e - b for b, e in zip(start, limit, strict=True))
        begins = tf.cast(s.shape(start), tf.int32)
        return tf.slice(x, begins, tf.cast(s.shape(size), tf.int32))
    if s.m.flag():
        return x[tuple(slice(s.dim(b), s.dim(e), n) for b, e, n in zip(*bounds, strict=True))]
    begins, ends = (tf.cast(s.shape(n), tf.int64) for n in (start, limit))
    return tf.strided_slice(x, begins, ends, tf.constant(stride, tf.int64))


@spell("reverse")
def _reverse(s: Speller, op: Op, x: Tensor) -> Tensor:
    dims = op.attrs["dims"]
    back = [slice(None, None, -1 if i in dims else 1) for i in range(x.shape.rank)]
    return s.choose(lambda: tf.reverse(x, list(dims)), lambda: x[tuple(back)])


@spell("concatenate")
def _concatenate(s: Speller, op: Op, *operands: Tensor) -> Tensor:
    return tf.concat(operands, op.attrs["dim"])


@spell("pad")
def _pad(s: Speller, op: Op, x: Tensor, fill: Tensor) -> Tensor:
    pairs = [list(p) for p in zip(op.attrs["low"], op.attrs["high"], strict=True)]
    return tf.raw_ops.PadV2(input=x, paddings=pairs, constant_values=fill)


@spell("gather")
def _gather(s: Speller, op: Op, params: Tensor, indices: Tensor) -> Tensor:
    axis, batch = op.attrs["axis"], op.attrs["batch_dims"]
    if axis == 0 and s.m.flag():
        return tf.gather_nd(params, tf.expand_dims(indices, -1))
    return tf.gather(params, indices, axis=axis, batch_dims=batch)


# -- combining elements ---------------------------------------------------------------------

_REDUCE = {
    "sum": tf.reduce_sum,
    "prod": tf.reduce_prod,
    "max": tf.reduce_max,
    "min": tf.reduce_min,
    "and": tf.reduce_all,
    "or": tf.reduce_any,
}
_SCATTER = {
    "set": tf.tensor_scatter_nd_update,
    "sum": tf.tensor_scatter_nd_add,
    "max": tf.tensor_scatter_nd_max,
    "min": tf.tensor_scatter_nd_min,
}


@spell("reduce")
def _reduce(s: Speller, op: Op, x: Tensor) -> Tensor:
    function, dims = _REDUCE[op.attrs["kind"]], list(op.attrs["dims"])
    return s.choose(
        lambda: function(x, dims),
        lambda: tf.squeeze(function(x, dims, keepdims=True), dims),
    )


@spell("scatter")
def _scatter(s: Speller, op: Op, target: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    kind = op.attrs["kind"]
    if s.m.integer(0, 5):  # otherwise one out of range may be an error
        indices = tf.math.floormod(indices, tf.cast(tf.shape(target)[0], indices.dtype))
    if kind == "sum" and s.m.flag():
        return target + tf.math.unsorted_segment_sum(updates, indices, tf.shape(target)[0])
    return _SCATTER[kind](target, tf.expand_dims(indices, 1), updates)


@spell("scan")
def _scan(s: Speller, op: Op, x: Tensor) -> Tensor:
    exclusive, reverse = op.attrs["exclusive"], op.attrs["reverse"]
    return tf.cumsum(x, op.attrs["dim"], exclusive=exclusive, reverse=reverse)


@spell("top_k")
def _top_k(s: Speller, op: Op, x: Tensor) -> Tensor:
    return tf.math.top_k(x, op.attrs["k"]).indices


@spell("positions")
def _positions(s: Speller, op: Op, mask: Tensor) -> Tensor:
    return tf.reshape(tf.where(mask), [-1])


@spell("first_equal")
def _first_equal(s: Speller, op: Op, x: Tensor) -> Tensor:
    group = tf.unique(x).idx
    first = tf.math.unsorted_segment_min(tf.range(tf.size(x)), group, tf.size(x))
    return tf.gather(first, group)


@spell("dot_general")
def _dot_general(s: Speller, op: Op, a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
    turn_a, turn_b = op.attrs["transpose_a"], op.attrs["transpose_b"]
    equation = f"...{'kn' if turn_a else 'nk'},...{'mk' if turn_b else 'km'}->...nm"
    product = s.choose(
        lambda: tf.matmul(a, b, transpose_a=turn_a, transpose_b=turn_b),
        lambda: tf.einsum(equation, a, b),
    )
    if bias is not None:
        product = s.choose(lambda: tf.nn.bias_add(product, bias), lambda: product + bias)
    return tf.nn.relu(product) if op.attrs["activation"] == "relu" else product


_CONVOLUTIONS = {1: tf.nn.conv1d, 2: tf.nn.conv2d, 3: tf.nn.conv3d}


@spell("conv")
def _conv(s: Speller, op: Op, x: Tensor, filters: Tensor, bias: Tensor | None = None) -> Tensor:
    """The border and the size of the result are pads and slices around windows that fit."""
    rank, strides, rates = x.shape.rank - 2, op.attrs["strides"], op.attrs["dilations"]
    window = op.operands[1].type.shape[:rank]
    ends = []
    for i, n in enumerate(op.attrs["sizes"]):
        reach = (n - 1) * strides[i] + (int(window[i]) - 1) * rates[i] + 1
        ends.append(tf.maximum(s.dim(s.m.builder.canonical(reach)), 0))
    x = tf.pad(
        x, [[0, 0], *([n, end] for n, end in zip(op.attrs["low"], ends, strict=True)), [0, 0]]
    )
    seen = [slice(None), *(slice(0, end) for end in ends)]
    x = x[tuple(seen)]

    def plain(x: Tensor, w: Tensor, rates: Sequence[int] = rates) -> Tensor:
        return _CONVOLUTIONS[rank](x, w, strides, "VALID", dilations=rates)

    def zeros_between(x: Tensor, w: Tensor) -> Tensor:
        return plain(x, _with_zeros(w, rates), [1] * rank)

    def blocks(x: Tensor, w: Tensor) -> Tensor:
        return tf.nn.with_space_to_batch(
            x, rates, "VALID", lambda y, *_: plain(y, w, [1] * rank), filter_shape=window
        )

    ways = [zeros_between]
    if rank < 3 or set(rates) == {1}:
        ways.append(plain)
    if set(strides) == {1} and set(rates) != {1}:
        ways.append(blocks)
    convolve, groups = s.m.choose(ways), op.attrs["groups"]
    if rank == 2 and convolve is plain:  # which knows groups of channels
        y = convolve(x, filters)
    else:
        parts = zip(tf.split(x, groups, -1), tf.split(filters, groups, -1), strict=True)
        y = tf.concat([convolve(*part) for part in parts], -1)
    if bias is not None:
        y = y + bias
    return tf.nn.relu(y) if op.attrs["activation"] == "relu" else y


@spell("rfft")
def _rfft(s: Speller, op: Op, x: Tensor) -> Tensor:
    spectrum = tf.signal.rfft(x)
    return tf.stack([tf.math.real(spectrum), tf.math.imag(spectrum)])


@spell("irfft")
def _irfft(s: Speller, op: Op, real: Tensor, imaginary: Tensor) -> Tensor:
    return tf.signal.irfft(tf.complex(real, imaginary), [op.attrs["length"]])


def _with_zeros(w: Tensor, rates: Sequence[int]) -> Tensor:
    """A filter with its places `rates` apart."""
    for axis, rate in enumerate(rates):
        shape = w.shape.as_list()
        border = [[0, 0]] * (len(shape) + 1)
        border[axis + 1] = [0, rate - 1]
        w = tf.pad(tf.expand_dims(w, axis + 1), border)
        shape[axis] *= rate
        w = tf.reshape(w, shape)
        kept = [slice(None)] * axis + [slice(0, shape[axis] - rate + 1)]
        w = w[tuple(kept)]
    return w
