"""Element-wise ops and reshapes of elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tf_blade.feature_column.interpret import MAX_CONSTANTS, Interpreter, Result, compatible, rule
from tf_blade.feature_column.rules.shapes import resolve
from tf_blade.feature_column.sources import leaves_of
from tf_blade.feature_column.spec import Expr
from tf_blade.feature_column.values import Constant, Dims, Elements, Num, product
from tf_blade.graph.graph import Node, TensorRef

BINARY = {
    "Add": "add",
    "AddV2": "add",
    "Sub": "sub",
    "Mul": "mul",
    "FloorMod": "floor_mod",
    "FloorDiv": "floor_div",
    "Maximum": "maximum",
    "Minimum": "minimum",
    "Equal": "eq",
    "NotEqual": "ne",
    "Less": "lt",
    "LessEqual": "le",
    "Greater": "gt",
    "GreaterEqual": "ge",
    "LogicalAnd": "and",
    "LogicalOr": "or",
    "RealDiv": "div",
    "Div": "div",
}
UNARY = {"Neg": "neg", "Abs": "abs", "LogicalNot": "not"}
# An operand that is used twice is there twice: longer expressions stay in TensorFlow.
MAX_OPERATIONS = 100
# From the least on and below the second number, floats have an integer part that the dtype holds.
_INTEGER_PARTS = {"i32": (-(2.0**31), 2.0**31), "i64": (-(2.0**63), 2.0**63)}
TRUE = Expr("const", "bool", scalar=True)


def make(expr: Expr, *operands: Elements) -> Elements | None:
    """Elements of an expression over operands that hold the same elements; None if they don't.

    Constants go with anything, if they are in one element's shape or in that of the others.
    """
    main = [o for o in operands if o.expr.op != "const"] or list(operands[:1])
    first = main[0]
    for other in main[1:]:
        if other.keep != first.keep or other.filled != first.filled:
            return None
        # A kernel compares the shapes of leaves: constants by the place in a row have none.
        unfiltered = first.keep is None and first.filled is None
        checked = unfiltered and all(leaves_of([x.expr]) for x in (first, other))
        if other.dims != first.dims and not (checked and compatible(other.dims, first.dims)):
            return None
    for other in operands:
        fits = other.dims == first.dims or is_constant(other)
        if other.expr.op == "const" and (not fits or len(other.dims) > len(first.dims)):
            return None
    if len(main) > 1 and first.dims == ():
        return None  # two scalars from outside: nothing says which rows they belong to
    if sum(1 for o in operands for _ in o.expr.walk()) > MAX_OPERATIONS:
        return None
    default = None
    if first.filled is not None:
        defaults = tuple(o.expr if o.expr.op == "const" else o.default for o in operands)
        if any(d is None for d in defaults):
            return None
        default = replace(expr, args=tuple(d for d in defaults if d is not None))
    return Elements(expr, first.dims, first.keep, first.filled, default)


def is_constant(elements: Elements) -> bool:
    """Whether the elements are all one constant, in a shape that broadcasts to any."""
    return elements.expr.op == "const" and all(d.const == 1 for d in elements.dims)


def _same_dims(a: Dims, b: Dims, unfiltered: bool) -> bool:
    return a == b or (unfiltered and compatible(a, b))


def operands_of(m: Interpreter, refs: Sequence[TensorRef]) -> list[Elements] | None:
    """The operands of an element-wise op; constants go by the place in a row, if they must."""
    found = [m.elements(ref) for ref in refs]
    shaped = [x for x in found if x is not None and not is_constant(x)]
    for i, ref in enumerate(refs):
        if found[i] is None and shaped:
            found[i] = _spread(m, ref, shaped[0])
    return None if any(x is None for x in found) else [x for x in found if x is not None]


def _spread(m: Interpreter, ref: TensorRef, like: Elements) -> Elements | None:
    """A constant of several numbers, broadcast to each row of dense elements."""
    array, dtype = m.constant(ref), m.dtype(ref)
    row = tuple(dim.const or 0 for dim in like.dims[1:])
    if array is None or dtype not in ("i32", "i64", "f32", "f64") or not like.dims:
        return None
    if like.keep is not None or like.filled is not None or not 0 < np.prod(row) <= MAX_CONSTANTS:
        return None
    try:
        numbers = np.broadcast_to(array, (1, *row))
    except ValueError:
        return None
    constants = tuple(numbers.reshape(-1).tolist())
    return Elements(Expr("constants", dtype, constants=constants), like.dims)


@rule(*BINARY)
def binary(m: Interpreter, node: Node) -> Result:
    """Arithmetic and comparisons without broadcasting, except of constants."""
    operands, dtype = operands_of(m, node.inputs), m.dtype(TensorRef(node.name))
    if operands is None or dtype is None:
        return None
    a, b = operands
    op = BINARY[node.op]
    if (op == "add" and dtype == "string") or (op == "div" and dtype not in ("f32", "f64")):
        return None
    if op == "and":  # ones_like(x, bool) & y  ->  y
        for one, other in ((a, b), (b, a)):
            if one.expr == TRUE and _same_dims(one.dims, other.dims, True):
                return other
    if op == "mul" and dtype in ("i32", "i64"):  # x * 0  ->  0
        for one, other in ((a, b), (b, a)):
            zero = one.expr.op == "const" and one.expr.scalar == 0
            if zero and (one.dims == other.dims or is_constant(other)):
                return one
    if op == "add":  # x + 0  ->  x
        for one, other in ((a, b), (b, a)):
            zero = one.expr.op == "const" and one.expr.scalar == 0 and dtype in ("i32", "i64")
            if zero and (is_constant(one) or one.dims == other.dims):
                return other
    return make(Expr(op, dtype, (a.expr, b.expr)), a, b)


@rule(*UNARY)
def unary(m: Interpreter, node: Node) -> Result:
    """Neg, Abs, LogicalNot."""
    x, dtype = m.elements(node.inputs[0]), m.dtype(TensorRef(node.name))
    if x is None or dtype is None:
        return None
    return make(Expr(UNARY[node.op], dtype, (x.expr,)), x)


@rule("Square")
def square(m: Interpreter, node: Node) -> Result:
    """Square(x)  ->  x * x."""
    x, dtype = m.elements(node.inputs[0]), m.dtype(TensorRef(node.name))
    if x is None or dtype is None:
        return None
    return make(Expr("mul", dtype, (x.expr, x.expr)), x, x)


@rule("Pow")
def power(m: Interpreter, node: Node) -> Result:
    """Pow(x, 2)  ->  x * x."""
    x, dtype = m.elements(node.inputs[0]), m.dtype(TensorRef(node.name))
    if x is None or dtype != "f32" or m.scalar(node.inputs[1]) != 2.0:
        return None
    return make(Expr("mul", dtype, (x.expr, x.expr)), x, x)


@rule("Cast")
def cast(m: Interpreter, node: Node) -> Result:
    """Cast. What TensorFlow makes of floats that the integer can't hold depends on the machine."""
    x, dtype = m.elements(node.inputs[0]), m.dtype(TensorRef(node.name))
    if x is None or dtype is None or dtype == "string" or x.expr.dtype == "string":
        return None
    expr = x.expr
    if expr.dtype in ("f32", "f64") and dtype in _INTEGER_PARTS:
        least, end = (Expr("const", expr.dtype, scalar=n) for n in _INTEGER_PARTS[dtype])
        held = Expr(
            "and", "bool", (Expr("ge", "bool", (expr, least)), Expr("lt", "bool", (expr, end)))
        )
        expr = Expr("require", expr.dtype, (held, expr))
    return make(Expr("cast", dtype, (expr,)), x)


@rule("AsString")
def as_string(m: Interpreter, node: Node) -> Result:
    """Decimal text of integers, in the default format."""
    x = m.elements(node.inputs[0])
    plain = (
        m.attr_int(node, "width") in (-1, 0)
        and not node.attrs["fill"].s
        and not node.attrs["scientific"].b
        and not node.attrs["shortest"].b
    )
    if x is None or x.expr.dtype not in ("i32", "i64") or not plain:
        return None
    return make(Expr("as_string", "string", (x.expr,)), x)


@rule("StringToHashBucketFast")
def hash_fast(m: Interpreter, node: Node) -> Result:
    """Farmhash's Fingerprint64, modulo num_buckets."""
    x = m.elements(node.inputs[0])
    if x is None:
        return None
    return make(Expr("hash_fast", "i64", (x.expr,), buckets=node.attrs["num_buckets"].i), x)


@rule("StringToHashBucketStrong")
def hash_strong(m: Interpreter, node: Node) -> Result:
    """SipHash with a key, modulo num_buckets."""
    x = m.elements(node.inputs[0])
    key = list(node.attrs["key"].list.i)
    if x is None or len(key) != 2:
        return None
    buckets = node.attrs["num_buckets"].i
    return make(Expr("hash_strong", "i64", (x.expr,), buckets=buckets, key=(key[0], key[1])), x)


@rule("Bucketize")
def bucketize(m: Interpreter, node: Node) -> Result:
    """How many boundaries are less or equal."""
    x = m.elements(node.inputs[0])
    if x is None:
        return None
    boundaries = tuple(node.attrs["boundaries"].list.f)
    return make(Expr("bucketize", "i32", (x.expr,), boundaries=boundaries), x)


@rule("Select", "SelectV2")
def select(m: Interpreter, node: Node) -> Result:
    """The second or third operand, element by element."""
    operands, dtype = operands_of(m, node.inputs), m.dtype(TensorRef(node.name))
    if operands is None or dtype is None or is_constant(operands[0]):
        return None
    return make(Expr("select", dtype, tuple(p.expr for p in operands)), *operands)


@rule("Fill")
def fill(m: Interpreter, node: Node) -> Result:
    """One constant in a given shape."""
    dims, value = m.vector(node.inputs[0]), m.scalar(node.inputs[1])
    dtype = m.dtype(TensorRef(node.name))
    if dims is None or dtype is None or not isinstance(value, (int, float, bytes)):
        return None
    return Elements(Expr("const", dtype, scalar=value), dims)


@rule("ZerosLike", "OnesLike")
def like(m: Interpreter, node: Node) -> Result:
    """A constant in the shape of elements."""
    x, dtype = m.elements(node.inputs[0]), m.dtype(TensorRef(node.name))
    if x is None or dtype is None or dtype == "string":
        return None
    return Elements(Expr("const", dtype, scalar=int(node.op == "OnesLike")), x.dims)


@rule("Reshape")
def reshape(m: Interpreter, node: Node) -> Result:
    """Elements stay in row-major order."""
    x, target = m.elements(node.inputs[0]), m.vector(node.inputs[1])
    if x is None or target is None or isinstance(m.value(node.inputs[0]), Constant):
        return None
    dims = resolve(target, product(x.dims))
    return None if dims is None else with_dims(x, dims)


@rule("ExpandDims")
def expand_dims(m: Interpreter, node: Node) -> Result:
    """One more dim of 1."""
    x, axis = m.elements(node.inputs[0]), m.scalar(node.inputs[1])
    if x is None or not isinstance(axis, int) or isinstance(m.value(node.inputs[0]), Constant):
        return None
    at = axis if axis >= 0 else len(x.dims) + 1 + axis
    return with_dims(x, (*x.dims[:at], Num(1), *x.dims[at:]))


@rule("Squeeze")
def squeeze(m: Interpreter, node: Node) -> Result:
    """Dims of 1 that are given, and known to be 1, go."""
    x = m.elements(node.inputs[0])
    axes = list(node.attrs["squeeze_dims"].list.i)
    if x is None or not axes or isinstance(m.value(node.inputs[0]), Constant):
        return None
    gone = {axis % len(x.dims) for axis in axes}
    if any(x.dims[i].const != 1 for i in gone):
        return None
    return with_dims(x, tuple(d for i, d in enumerate(x.dims) if i not in gone))


def with_dims(x: Elements, dims: Dims) -> Elements:
    """The elements in another shape."""
    return Elements(x.expr, dims, x.keep, x.filled, x.default)
