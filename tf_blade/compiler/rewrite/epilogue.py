"""Rules that fold what surrounds a matrix product into `dot_general`, or a convolution into `conv`:
transposes of a product's operands, a bias, a relu. The library then does them while the tile is in
registers."""

from __future__ import annotations

from typing import Any

from tf_blade.compiler.ir.program import Op, Value
from tf_blade.compiler.rewrite.rules import Decline, Match, RuleSet, op, splat, value

rules = RuleSet("epilogue")

DOT = op("dot_general conv", name="dot")
# What a layer applied to every position of a sequence makes: the positions are rows of one product.
RESHAPED = op("reshape", DOT, name="reshaped")
BIAS = value("bias", test=lambda v: v.type.rank == 1)


def _op(v: Value) -> Op:
    assert v.op is not None
    return v.op


# dot_general(transpose(a), b) -> dot_general(a, b, transpose_a), and so for b
@rules.rule(op("dot_general"))
def dot_of_transpose(m: Match) -> Value | Decline | None:
    operands, attrs = list(m.root.operands), dict(m.root.attrs)
    declined = None
    for i, flag in enumerate(("transpose_a", "transpose_b")):
        operand = operands[i]
        if operand.op is None or operand.op.kind != "transpose":
            continue
        if not _swaps_last_two(operand.op.attrs["perm"]):
            declined = Decline("the transpose moves more than the last two dims")
            continue
        operands[i] = operand.op.operands[0]
        attrs[flag] = not attrs[flag]
    if attrs == m.root.attrs:
        return declined
    return m.make("dot_general", operands, **attrs)


def _swaps_last_two(perm: tuple[int, ...]) -> bool:
    rank = len(perm)
    return rank >= 2 and perm == (*range(rank - 2), rank - 1, rank - 2)


# dot_general(a, b) + bias -> dot_general(a, b, bias), and so for conv
@rules.rule(op("add", DOT, op("broadcast_in_dim", BIAS, name="spread")))
def dot_with_bias(m: Match) -> Value | Decline | None:
    if tuple(_op(m.spread).attrs["dims"]) != (m.type.rank - 1,):
        return Decline("the added vector does not run along the last dim")
    if len(_op(m.dot).operands) != 2:
        return Decline("the product has a bias")
    if _op(m.dot).attrs["activation"] != "none":
        return Decline("the bias comes after the activation")
    if not m.single_use(m.dot):
        return Decline("the product without bias is used elsewhere")
    return _remade(m, [*_op(m.dot).operands, m.bias])


# max(dot_general(a, b, …), 0) -> dot_general(a, b, …, relu)
@rules.rule(op("max", DOT, splat("zero", 0)))
def dot_with_relu(m: Match) -> Value | Decline:
    if _op(m.dot).attrs["activation"] != "none":
        return Decline("the product has an activation")
    if not m.single_use(m.dot):
        return Decline("the product before the relu is used elsewhere")
    return _remade(m, _op(m.dot).operands, activation="relu")


# reshape(dot_general(a, b)) + bias -> reshape(dot_general(a, b, bias)), the last dim kept
@rules.rule(op("add", RESHAPED, op("broadcast_in_dim", BIAS, name="spread")))
def dot_with_bias_behind_reshape(m: Match) -> Value | Decline | None:
    if m.dot.type.shape[-1] != m.type.shape[-1]:
        return Decline("the reshape changes the last dim")
    if not m.single_use(m.reshaped):
        return Decline("the product without bias is used elsewhere")
    biased = dot_with_bias(m)
    return _reshaped(m, biased) if isinstance(biased, Value) else biased


# max(reshape(dot_general(a, b, …)), 0) -> reshape(dot_general(a, b, …, relu))
@rules.rule(op("max", RESHAPED, splat("zero", 0)))
def dot_with_relu_behind_reshape(m: Match) -> Value | Decline | None:
    if not m.single_use(m.reshaped):
        return Decline("the product before the relu is used elsewhere")
    cut = dot_with_relu(m)
    return _reshaped(m, cut) if isinstance(cut, Value) else cut


def _reshaped(m: Match, product: Value) -> Value:
    return m.make("reshape", [product], shape=m.type.shape)


def _remade(m: Match, operands: list[Value], **changed: Any) -> Value:
    return m.make(_op(m.dot).kind, operands, **{**_op(m.dot).attrs, **changed})
