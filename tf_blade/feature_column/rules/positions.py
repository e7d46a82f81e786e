"""Filters: where a mask is true, and what is gathered there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tf_blade.feature_column.interpret import Interpreter, Result, compatible, conjunction, rule
from tf_blade.feature_column.interpret import count as number_of
from tf_blade.feature_column.rules.shapes import resolve
from tf_blade.feature_column.sources import leaves_of
from tf_blade.feature_column.spec import Expr
from tf_blade.feature_column.values import (
    CoordinateRows,
    Coordinates,
    DenseBase,
    Elements,
    Indices,
    Ints,
    Num,
    Positions,
    product,
)
from tf_blade.graph.graph import Node, TensorRef


@rule("Identity", "StopGradient", "PreventGradient", "Snapshot")
def same(m: Interpreter, node: Node) -> Result:
    """The input itself."""
    return m.value(node.inputs[0])


@rule("Where")
def where(m: Interpreter, node: Node) -> Result:
    """Where(mask): positions, row-major."""
    mask = m.elements(node.inputs[0])
    if mask is None or mask.expr.dtype != "bool" or mask.filled or not mask.dims:
        return None
    return Positions(mask.keep, conjunction(mask.keep, mask.expr), mask.dims)


@rule("Reshape", "Squeeze")
def flatten(m: Interpreter, node: Node) -> Result:
    """Positions along one axis as a vector."""
    found = m.value(node.inputs[0])
    if not isinstance(found, Positions) or found.flat or len(found.dims) != 1:
        return None
    if node.op == "Squeeze":
        flat = [a % 2 for a in node.attrs["squeeze_dims"].list.i] == [1]
    else:
        flat = m.constant(node.inputs[1]) is not None and m.scalar(node.inputs[1]) == -1
    return replace(found, flat=True) if flat else None


@rule("GatherNd")
def gather_nd(m: Interpreter, node: Node) -> Result:
    """x[positions], for positions in the shape of x."""
    at = m.value(node.inputs[1])
    if not isinstance(at, Positions) or at.flat:
        return None
    return _gathered(m, m.elements(node.inputs[0]), at)


@rule("GatherV2")
def gather(m: Interpreter, node: Node) -> Result:
    """Elements, or indices, at positions along the only axis (tf.sparse.retain, boolean_mask)."""
    at = m.value(node.inputs[1])
    if not isinstance(at, Positions) or not at.flat:
        return None
    if m.scalar(node.inputs[2]) != 0 or m.attr_int(node, "batch_dims"):
        return None
    indices = m.known_indices(node.inputs[0])
    if indices is not None:
        if indices.filled or indices.keep != at.outer:
            return None
        return replace(indices, keep=at.keep)
    return _gathered(m, m.elements(node.inputs[0]), at)


def _gathered(m: Interpreter, x: Elements | None, at: Positions) -> Elements | None:
    if x is None or x.filled:
        return None
    if x.keep != at.outer:
        x = _filtered_alike(m, x, at)
        return None if x is None else Elements(x.expr, (number_of(at.keep),), at.keep)
    if not (x.dims == at.dims or (x.keep is None and compatible(x.dims, at.dims))):
        return None
    return Elements(x.expr, (number_of(at.keep),), at.keep)


def _filtered_alike(m: Interpreter, x: Elements, at: Positions) -> Elements | None:
    """Elements of one dense tensor at positions of what passed the filter of another one.

    Weights of a dense column are made sparse by themselves: they belong to the ids if both have
    theirs at the same places, which is required.
    """
    if x.keep is None or at.outer is None:
        return None
    leaves = leaves_of([x.expr, x.keep, at.keep])
    shapes = [m.tensor_dims(m.leaves[leaf]) for leaf in leaves]
    first = shapes[0]
    if first is None or len(first) < 2:
        return None  # values of SparseTensors, perhaps
    if not all(shape is not None and compatible(shape, first) for shape in shapes):
        return None
    same = Expr("eq", "bool", (x.keep, at.outer))
    return replace(x, expr=Expr("require", x.expr.dtype, (same, x.expr)))


# -- indices of all elements of a dense tensor, as bucketized columns make them -----------


@rule("Range")
def range_(m: Interpreter, node: Node) -> Result:
    """Range(0, n, 1)."""
    end = m.ints(node.inputs[1])
    if m.scalar(node.inputs[0]) != 0 or m.scalar(node.inputs[2]) != 1:
        return None
    if not isinstance(end, Ints) or len(end.values) != 1 or end.values[0].const is not None:
        return None
    return Coordinates(0, end.values, end.values)


@rule("ExpandDims")
def column(m: Interpreter, node: Node) -> Result:
    """[n] -> [n, 1]."""
    x, axis = m.value(node.inputs[0]), m.scalar(node.inputs[1])
    if not isinstance(x, Coordinates) or len(x.dims) != 1 or axis not in (1, -1):
        return None
    return replace(x, dims=(*x.dims, Num(1)))


@rule("Tile")
def tile(m: Interpreter, node: Node) -> Result:
    """Coordinates along the second axis, or repeated along it; or one constant repeated."""
    times = m.vector(node.inputs[1])
    if times is None:
        return None
    x = m.value(node.inputs[0])
    if isinstance(x, Coordinates) and len(x.dims) == 2 and len(x.of) == 1 and len(times) == 2:
        if times[0].const != 1 or times[1].const is None:
            return None
        of = (x.of[0], times[1])
        return Coordinates(0, of, of)
    numbers, dtype = m.constant(node.inputs[0]), m.dtype(TensorRef(node.name))
    if numbers is None or numbers.ndim != 1 or len(times) != 1 or dtype is None:
        return None
    if numbers.size == 1:
        return Elements(Expr("const", dtype, scalar=numbers.item()), times)
    if numbers.dtype.kind == "i" and np.array_equal(numbers, np.arange(numbers.size)):
        of = (times[0], Num(numbers.size))
        return Coordinates(1, of, (product(of),))
    return None


@rule("Reshape")
def reshape(m: Interpreter, node: Node) -> Result:
    """Coordinates stay in row-major order."""
    x, target = m.value(node.inputs[0]), m.vector(node.inputs[1])
    if not isinstance(x, Coordinates) or target is None:
        return None
    dims = resolve(target, product(x.dims))
    return None if dims is None else replace(x, dims=dims)


@rule("Pack")
def pack(m: Interpreter, node: Node) -> Result:
    """The coordinates along both axes as [2, n]."""
    if len(node.inputs) != 2 or m.attr_int(node, "axis") != 0:
        return None
    rows, columns = m.value(node.inputs[0]), m.value(node.inputs[1])
    if not isinstance(rows, Coordinates) or rows.axis != 0 or len(rows.of) != 2:
        return None
    if len(rows.dims) != 1:
        return None
    if isinstance(columns, Coordinates):
        fits = columns.axis == 1 and columns.of == rows.of and columns.dims == rows.dims
    else:
        zeros = isinstance(columns, Elements) and columns.expr == Expr("const", "i32", scalar=0)
        fits = zeros and rows.of[1].const == 1 and columns.dims == rows.dims  # type: ignore[union-attr]
    return CoordinateRows(rows.of) if fits else None


@rule("Transpose")
def transpose(m: Interpreter, node: Node) -> Result:
    """[2, n] -> [n, 2]: indices of all positions."""
    x, order = m.value(node.inputs[0]), m.constant(node.inputs[1])
    if not isinstance(x, CoordinateRows) or order is None or order.tolist() != [1, 0]:
        return None
    return Indices(DenseBase(x.of), None, x.of, (1, 1))


@rule("Cast")
def cast(m: Interpreter, node: Node) -> Result:
    """Indices as i64."""
    x = m.value(node.inputs[0])
    is_i64 = m.dtype(TensorRef(node.name)) == "i64"
    return x if isinstance(x, Indices) and is_i64 else None
