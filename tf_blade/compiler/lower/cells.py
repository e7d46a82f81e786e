"""One step of recurrent layers, as ops of their own."""

from __future__ import annotations

from collections.abc import Sequence

from tf_blade.compiler.ir import dims as d
from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.lower.elementwise import number
from tf_blade.compiler.lower.nn import bias_add
from tf_blade.compiler.lower.registry import FLOATS, lower
from tf_blade.errors import UnsupportedError


def _joined_product(b: Builder, x: Value, h: Value, w: Value, bias: Value) -> Value:
    """[x, h] w + bias"""
    product = b.dot_general(b.concatenate([x, h], 1), w)
    return bias_add(b, product, bias, data_format="NHWC")


def _parts(b: Builder, gates: Value, count: int, cell: Value) -> list[Value]:
    """The gates [batch, count * size], as values of the cell's shape [batch, size]."""
    rows, size = b.shape(cell)
    if not isinstance(size, int):
        raise UnsupportedError("a cell of unknown size", b.source)
    b.same_dim(b.shape(gates)[0], rows, "rows of the cell's state")
    b.same_dim(b.shape(gates)[1], count * size, "gates of the cell's size")
    return [
        b.slice(gates, [0, i * size], [b.shape(gates)[0], (i + 1) * size]) for i in range(count)
    ]


def _matrices(b: Builder, *values: Value) -> None:
    if any(v.type.rank != 2 for v in values):
        raise UnsupportedError("a cell whose operands are no matrices", b.source)


@lower("LSTMBlockCell", dtypes=FLOATS)
def lstm_block_cell(
    b: Builder,
    x: Value,
    cs_prev: Value,
    h_prev: Value,
    w: Value,
    wci: Value,
    wcf: Value,
    wco: Value,
    bias: Value,
    *,
    forget_bias: float,
    cell_clip: float,
    use_peephole: bool,
) -> Sequence[Value]:
    """A step of an LSTM: its gates, its state and what it hands on."""
    _matrices(b, x, cs_prev, h_prev, w)
    # TensorFlow reports an error.
    b.require_le(1, d.product(b.shape(cs_prev)), "a cell's state is not empty")

    def peeping(gate: Value, weights: Value, state: Value) -> Value:
        return b.add(gate, b.mul(state, weights)) if use_peephole else gate

    gates = _joined_product(b, x, h_prev, w, bias)
    i, ci, f, o = _parts(b, gates, 4, cs_prev)
    i = b.unary("logistic", peeping(i, wci, cs_prev))
    ci = b.unary("tanh", ci)
    f = peeping(b.add(f, number(b, forget_bias, f)), wcf, cs_prev)
    f = b.unary("logistic", f)
    cs = b.add(b.mul(ci, i), b.mul(f, cs_prev))
    if cell_clip > 0:
        cs = b.binary("max", cs, number(b, -cell_clip, cs))
        cs = b.binary("min", cs, number(b, cell_clip, cs))
    o = b.unary("logistic", peeping(o, wco, cs))
    co = b.unary("tanh", cs)
    return i, cs, f, o, ci, co, b.mul(o, co)


@lower("GRUBlockCell", dtypes=FLOATS)
def gru_block_cell(
    b: Builder, x: Value, h_prev: Value, w_ru: Value, w_c: Value, b_ru: Value, b_c: Value
) -> Sequence[Value]:
    """A step of a GRU: its gates, new values and what it hands on."""
    _matrices(b, x, h_prev, w_ru, w_c)
    r, u = (
        b.unary("logistic", gate)
        for gate in _parts(b, _joined_product(b, x, h_prev, w_ru, b_ru), 2, h_prev)
    )
    new = _joined_product(b, x, b.mul(h_prev, r), w_c, b_c)
    (c,) = (b.unary("tanh", part) for part in _parts(b, new, 1, h_prev))
    kept = b.sub(number(b, 1, u), u)
    return r, u, c, b.add(b.mul(u, h_prev), b.mul(kept, c))
