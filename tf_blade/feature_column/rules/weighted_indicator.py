"""Weighted indicator columns: the sum of the weights of each id, as tf.sparse.slice and
tf.scatter_nd of (row, id) pairs make it:

pairs = ConcatV2(indices[:, :-1], ids[:, None]); shape = [rows, depth]
SparseReorder(pairs, weights, shape), SparseSlice from 0 on to shape, ScatterNd
"""

from __future__ import annotations

from tf_blade.feature_column.interpret import Interpreter, IntsResult, Result, ints_rule, rule
from tf_blade.feature_column.rules.shapes import constant_axis
from tf_blade.feature_column.sources import sparse_stream
from tf_blade.feature_column.spec import Bag
from tf_blade.feature_column.values import (
    Elements,
    Indices,
    Ints,
    Piece,
    PiecePart,
    RowColumn,
    RowIdPairs,
)
from tf_blade.graph.graph import Node, TensorRef


@rule("StridedSlice")
def row_column(m: Interpreter, node: Node) -> Result:
    """indices[:, :-1] of a matrix's indices."""
    ref = node.inputs[0]
    begin, end, step = (m.constant(ref) for ref in node.inputs[1:])
    if begin is None or end is None or step is None or len(end) != 2 or (step != 1).any():
        return None
    masks = [m.attr_int(node, f"{n}_mask") for n in ("ellipsis", "new_axis", "shrink_axis")]
    from_start = all(m.attr_int(node, "begin_mask") >> i & 1 or begin[i] == 0 for i in (0, 1))
    if any(masks) or not from_start or m.attr_int(node, "end_mask") != 1 or end[1] != -1:
        return None
    shape, known = m.types[ref].shape, m.known_indices(ref)
    if known is not None:
        is_matrix = len(known.dims) == 2
    else:
        is_matrix = m.dtype(ref) == "i64" and shape is not None and shape[1:] == (2,)
    return RowColumn(ref) if is_matrix else None


@rule("ConcatV2")
def pairs(m: Interpreter, node: Node) -> Result:
    """Each element's row beside its id."""
    if len(node.inputs) != 3 or constant_axis(m, node.inputs[2], 2) != 1:
        return None
    rows, ids = m.value(node.inputs[0]), m.elements(node.inputs[1])
    if not isinstance(rows, RowColumn) or ids is None or ids.expr.dtype != "i64":
        return None
    if ids.filled is not None or len(ids.dims) != 2 or ids.dims[1].const != 1:
        return None
    return RowIdPairs(rows.ref, ids)


@rule("SparseReorder")
def weighed(m: Interpreter, node: Node) -> Result:
    """The pairs with weights, in another order."""
    found, weight = m.value(node.inputs[0]), m.elements(node.inputs[1])
    dims = m.vector(node.inputs[2])
    if not isinstance(found, RowIdPairs) or weight is None or weight.expr.dtype != "f32":
        return None
    if dims is None or len(dims) != 2 or (dims[1].const or 0) < 1:
        return None
    indices = _indices(m, found.ref, dims[0].symbols)
    ids = found.ids
    if indices is None or indices.dims[0] != dims[0] or len(weight.dims) != 1:
        return None
    if not ids.keep == weight.keep == indices.keep or weight.filled is not None:
        return None
    same = RowIdPairs(found.ref, ids, indices, weight, dims)
    return (same, same)


def _indices(m: Interpreter, ref: TensorRef, rows: tuple[object, ...]) -> Indices | None:
    """The indices; those from outside are inside of the shape that the number of rows is from."""
    known = m.known_indices(ref)
    if known is not None:
        return None if known.filled else known
    match rows:
        case (("at", TensorRef() as shape, 0),):
            return m.own_indices(ref, shape)
    return None


@ints_rule("SparseSlice")
def sliced_shape(m: Interpreter, node: Node) -> IntsResult:
    """The shape after a slice of everything."""
    found, size = m.value(node.inputs[0]), m.vector(node.inputs[4])
    start = m.vector(node.inputs[3])
    if not isinstance(found, RowIdPairs) or size is None or start is None:
        return None
    if size != found.dims or m.vector(node.inputs[2]) != size or any(x.const != 0 for x in start):
        return None
    return (None, None, Ints(size))


@rule("SparseSlice")
def sliced(m: Interpreter, node: Node) -> Result:
    """Pairs outside of the shape go: ids that are not known."""
    found = m.value(node.inputs[0])
    if m.ints(TensorRef(node.name, 2)) is None or not isinstance(found, RowIdPairs):
        return None
    if m.vector(TensorRef(node.name, 2)) != found.dims or m.value(node.inputs[1]) != found:
        return None
    return (found, found, None)


@rule("ScatterNd")
def scattered(m: Interpreter, node: Node) -> Result:
    """All weights of an id in a row, summed up at its place."""
    found, dims = m.value(node.inputs[0]), m.vector(node.inputs[2])
    if not isinstance(found, RowIdPairs) or found.indices is None:
        return None
    if m.value(node.inputs[1]) != found or dims is None or dims != found.dims:
        return None
    flat = Elements(found.ids.expr, found.ids.dims[:1], found.ids.keep)
    stream = sparse_stream(m, found.indices, flat, found.weight, complete=True)
    if stream is None or len(stream[1]) != 1:
        return None
    depth = dims[1].const or 0
    bag = Bag(stream[0], depth, column=node.name)
    return Piece((PiecePart(depth, bag=bag),), dims[:1], stream[1], (depth,))
