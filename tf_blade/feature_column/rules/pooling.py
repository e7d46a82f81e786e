"""Sums and means over the ids of a row of a dense tensor, perhaps masked or weighted:

Sum(Gather(table, ids [B, T]) * Tile(weights [B, T, 1]), axis 1)   ->   a bag of T ids a row
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tf_blade.feature_column.interpret import Interpreter, Result, rule
from tf_blade.feature_column.rules.shapes import constant_axis
from tf_blade.feature_column.sources import dense_stream
from tf_blade.feature_column.spec import Bag
from tf_blade.feature_column.values import (
    Elements,
    Piece,
    PiecePart,
    Repeated,
    Vectors,
    WeightedRows,
)
from tf_blade.graph.graph import Node


@rule("Tile")
def repeat(m: Interpreter, node: Node) -> Result:
    """[B, T, 1] -> [B, T, n]: one weight for all floats of a row of a table."""
    x, times = m.elements(node.inputs[0]), m.constant(node.inputs[1])
    if x is None or x.keep is not None or x.filled is not None or x.expr.dtype != "f32":
        return None
    if times is None or len(x.dims) != 3 or x.dims[2].const != 1:
        return None
    if times.shape != (3,) or times[:2].tolist() != [1, 1]:
        return None
    return Repeated(x, int(times[2]))


@rule("Mul")
def weigh(m: Interpreter, node: Node) -> Result:
    """Each row of the table times its element's weight."""
    for a, b in (node.inputs, node.inputs[::-1]):
        piece, weight = m.value(a), m.value(b)
        if not isinstance(piece, Piece) or piece.vectors is None:
            continue
        vectors = piece.vectors
        if len(vectors.ids.dims) != 2 or len(vectors.tail) != 1:
            continue
        if isinstance(weight, Repeated) and weight.times == vectors.tail[0]:
            weight = weight.elements
        if not isinstance(weight, Elements) or weight.expr.dtype != "f32":
            continue
        if weight.keep is not None or weight.filled is not None or len(weight.dims) != 3:
            continue
        if weight.dims[:2] == vectors.ids.dims and weight.dims[2].const == 1:
            return WeightedRows(replace(vectors, weight=weight))
    return None


@rule("Sum", "Mean")
def pool(m: Interpreter, node: Node) -> Result:
    """One vector for each row of the ids."""
    value = m.value(node.inputs[0])
    vectors: Vectors | None = None
    if (isinstance(value, WeightedRows) and node.op == "Sum") or isinstance(value, Piece):
        vectors = value.vectors
    elif isinstance(value, Vectors) and not value.distinct and value.weight is None:
        vectors = value  # rows that no output can be: see `finish`
    if vectors is None or len(vectors.ids.dims) != 2 or node.attrs["keep_dims"].b:
        return None
    rank = 2 + len(vectors.tail)
    if constant_axis(m, node.inputs[1], rank) != 1 or (vectors.ids.dims[1].const or 0) < 1:
        return None
    weight = vectors.weight
    found = dense_stream(m, vectors.ids, per_element=False, weight=weight)
    if found is None:
        return None
    width = int(np.prod(vectors.tail, dtype=np.int64))
    bag = Bag(
        found[0],
        width,
        vectors.table,
        "mean" if node.op == "Mean" else "sum",
        max_norm=vectors.max_norm,
        column=node.name,
    )
    return Piece((PiecePart(width, bag=bag),), found[1], found[1], vectors.tail)
