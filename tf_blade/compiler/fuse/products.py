"""What a matrix product does to its result before it stores it.

    c = activation(scale * a · b + bias) + residual

Bias and activation are part of `dot_general`. Scale and residual are found here, in the ops behind
it, because they depend on what has storage: an addition that is computed in the loops of its reader
costs nothing there, so that only one which would be a kernel of its own becomes a residual.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator
from dataclasses import dataclass

from tf_blade.compiler.fuse.matrices import base
from tf_blade.compiler.fuse.scalar import splat_value
from tf_blade.compiler.ir.program import Op, Value


@dataclass(frozen=True)
class Epilogue:
    """bias: one number a column. activation: "none" or "relu". residual: of the result's shape."""

    bias: Value | None = None
    activation: str = "none"
    scale: float = 1.0
    residual: Value | None = None

    def __str__(self) -> str:
        parts = [f"bias {self.bias}"] if self.bias is not None else []
        parts += [self.activation] if self.activation != "none" else []
        parts += [f"scale {self.scale:.9g}"] if self.scale != 1 else []
        parts += [f"residual {self.residual}"] if self.residual is not None else []
        return ", ".join(parts)


@dataclass(frozen=True)
class Product:
    """A matrix product and how it ends. written: its result's elements in the order of the root's,
    the transpose of the product if that is what is stored."""

    op: Op
    written: Value
    epilogue: Epilogue


def product_of(root: Value, stored: Container[Value] = ()) -> Product | None:
    """The matrix product that writes `root`: its own op, or the one that it transposes, scales or
    adds to something; None if none does.

    Args:
      stored: values with storage of their own. A product that is one of them writes only that.
    """
    op = root.op
    if op is None:
        return None
    if op.kind == "dot_general":
        bias = op.operands[2] if len(op.operands) == 3 else None
        return Product(op, root, Epilogue(bias, op.attrs["activation"]))
    if op.kind == "transpose" and op.attrs["perm"][-1] == root.type.rank - 1:
        return _of_transpose(root, op, stored)
    if op.kind in ("mul", "div"):
        return _scaled(op, stored)
    return _with_residual(op, stored) if op.kind == "add" else None


def _of_transpose(root: Value, op: Op, stored: Container[Value]) -> Product | None:
    (source,) = op.operands
    if source.op is None or source.op.kind != "dot_general" or source in stored:
        return None
    found = product_of(source)
    return found and Product(found.op, root, found.epilogue)


# dot_general(a, b) * s, dot_general(a, b) / s
def _scaled(op: Op, stored: Container[Value]) -> Product | None:
    orders = [op.operands] if op.kind == "div" else [op.operands, op.operands[::-1]]
    for source, factor in orders:
        if source.op is None or source.op.kind != "dot_general" or source in stored:
            continue
        number = _splat(factor)
        if number is None or (op.kind == "div" and number == 0):
            continue
        scale = 1 / number if op.kind == "div" else number
        found = product_of(source)
        if found is not None and found.epilogue == Epilogue() and math.isfinite(scale):
            return Product(found.op, source, Epilogue(scale=scale))
    return None


# reshape(product) + r
def _with_residual(op: Op, stored: Container[Value]) -> Product | None:
    for value, residual in (op.operands, op.operands[::-1]):
        inside = list(_reshaped(value))
        if base(residual) is inside[-1] or any(v in stored for v in inside):
            continue
        found = product_of(inside[-1], stored)
        if found is None or found.written.op is not found.op or found.epilogue.residual is not None:
            continue
        epilogue = found.epilogue
        end = Epilogue(epilogue.bias, epilogue.activation, epilogue.scale, residual)
        return Product(found.op, found.written, end)
    return None


def _reshaped(value: Value) -> Iterator[Value]:
    """The value and what it is a reshape of."""
    yield value
    while value.op is not None and value.op.kind == "reshape":
        value = value.op.operands[0]
        yield value


def _splat(value: Value) -> float | None:
    """The finite number that all elements are, if that is known."""
    if value.op is not None and value.op.kind == "broadcast_in_dim":
        value = value.op.operands[0]
    number = splat_value(value)
    return float(number) if number is not None and math.isfinite(float(number)) else None
