"""What is done to bags: weights, means by weight, zeros for empty rows; and indicators."""

from __future__ import annotations

from dataclasses import replace

from tf_blade.feature_column.interpret import Interpreter, Result, rule
from tf_blade.feature_column.rules.shapes import constant_axis
from tf_blade.feature_column.rules.tables import filled_by, vectors_of
from tf_blade.feature_column.sources import dense_stream, sparse_stream
from tf_blade.feature_column.spec import Bag, Combiner, Expr
from tf_blade.feature_column.values import (
    Counts,
    DenseIds,
    Elements,
    EmptyRows,
    Hot,
    Num,
    Piece,
    PiecePart,
    RowIds,
    Totals,
    ZerosOf,
    product,
)
from tf_blade.graph.graph import Node


@rule("Mul")
def weigh(m: Interpreter, node: Node) -> Result:
    """Rows of a table times [n, 1] weights."""
    for a, b in (node.inputs, node.inputs[::-1]):
        vectors, weight = vectors_of(m, a), m.value(b)
        if vectors is None or vectors.distinct or vectors.weight is not None:
            continue
        if not isinstance(weight, Elements) or weight.expr.dtype != "f32":
            continue
        ids = vectors.ids
        column = len(weight.dims) == 1 + len(vectors.tail) and len(ids.dims) == 1
        if not column or any(dim.const != 1 for dim in weight.dims[1:]):
            continue
        if weight.keep == ids.keep and weight.filled == ids.filled:
            return replace(vectors, weight=weight)
    return None


@rule("SegmentSum")
def total_weight(m: Interpreter, node: Node) -> Result:
    """The weights of a row's elements, summed up."""
    weight, rows = m.value(node.inputs[0]), m.value(node.inputs[1])
    if not isinstance(weight, Elements) or not isinstance(rows, RowIds):
        return None
    if weight.keep != rows.indices.keep or weight.filled != filled_by(rows.indices):
        return None
    return Totals(rows.indices, weight)


@rule("Sqrt")
def root(m: Interpreter, node: Node) -> Result:
    """The root of the sum of squared weights."""
    x = m.value(node.inputs[0])
    return replace(x, root=True) if isinstance(x, Totals) and not x.root else None


@rule("DivNoNan", "RealDiv")
def divide(m: Interpreter, node: Node) -> Result:
    """A weighted sum over the total of the weights, or over the root of that of their squares.

    RealDiv gives NaN where the total is 0. It can't be where only positive weights are kept.
    """
    piece, totals = m.value(node.inputs[0]), m.value(node.inputs[1])
    if not isinstance(piece, Piece) or not isinstance(totals, Totals) or piece.weight is None:
        return None
    (part,) = piece.parts
    weight = piece.weight
    if part.bag is None or part.bag.combiner != "sum" or len(piece.tail) != 1:
        return None
    if totals.weight.keep != weight.keep or totals.weight.filled != weight.filled:
        return None
    squared = Expr("mul", "f32", (weight.expr, weight.expr))
    combiner: Combiner
    if not totals.root and totals.weight.expr == weight.expr:
        combiner = "mean"
    elif totals.root and totals.weight.expr == squared:
        combiner = "sqrtn"
    else:
        return None
    if node.op == "RealDiv" and not (combiner == "mean" and _only_positive(weight)):
        return None
    bag = replace(part.bag, combiner=combiner)
    return replace(piece, parts=(replace(part, bag=bag),), weight=None)


def _only_positive(weight: Elements) -> bool:
    positive = Expr("gt", "bool", (weight.expr, Expr("const", "f32", scalar=0.0)))
    todo = [weight.keep] if weight.keep is not None else []
    while todo:
        expr = todo.pop()
        if expr == positive:
            return True
        if expr.op == "and":
            todo += expr.args
    return False


@rule("ZerosLike")
def zeros(m: Interpreter, node: Node) -> Result:
    """Zeros for the empty rows of a bag."""
    x = m.value(node.inputs[0])
    return ZerosOf(x) if isinstance(x, Piece) else None


@rule("Select", "SelectV2")
def clear_empty_rows(m: Interpreter, node: Node) -> Result:
    """Zeros where a row has no element."""
    empty, zero, piece = (m.value(ref) for ref in node.inputs)
    if not isinstance(empty, EmptyRows) or not isinstance(piece, Piece):
        return None
    if zero != ZerosOf(piece) or piece.filled != empty.indices or len(piece.tail) != 1:
        return None
    if empty.columns not in (piece.tail[0], *((1,) if node.op == "SelectV2" else ())):
        return None
    (part,) = piece.parts
    if part.bag is None:
        return None
    bag = replace(part.bag, empty=None)
    return replace(piece, parts=(replace(part, bag=bag),), filled=None, weight=None)


# -- indicators ---------------------------------------------------------------------------


@rule("OneHot")
def one_hot(m: Interpreter, node: Node) -> Result:
    """A row with a 1 at the id's place, 0 elsewhere; all 0 for ids out of range."""
    ref, depth_ref, on, off = node.inputs
    depth = m.scalar(depth_ref)
    if not isinstance(depth, int) or depth <= 0 or node.attrs["axis"].i != -1:
        return None
    dtype = m.dtype(on)
    if m.scalar(on) != 1 or m.scalar(off) != 0 or dtype not in ("f32", "i32", "i64"):
        return None
    value = m.value(ref)
    if isinstance(value, DenseIds):
        missing = not 0 <= value.default < depth
        return Hot(value, depth) if missing and dtype == "f32" else None
    ids = m.elements(ref)
    if ids is None or ids.expr.dtype not in ("i32", "i64"):
        return None
    single = all(dim.const == 1 for dim in ids.dims[1:])
    found = dense_stream(m, ids, per_element=not single)
    if found is None:
        return None
    bag = Bag(found[0], depth, column=node.name)
    tail = (1,) * (len(ids.dims) - len(found[1])) + (depth,)
    piece = Piece((PiecePart(depth, bag=bag),), found[1], found[1], tail, ids=ids)
    return piece if dtype == "f32" else Counts(piece)


@rule("Sum", "Max")
def multi_hot(m: Interpreter, node: Node) -> Result:
    """How often, or whether, each id is in a row."""
    hot = m.value(node.inputs[0])
    integers = isinstance(hot, Counts)
    if isinstance(hot, Counts):
        hot = hot.piece
    if not isinstance(hot, (Hot, Piece)) or node.attrs["keep_dims"].b:
        return None
    if isinstance(hot, Hot):
        dims, depth = hot.ids.indices.dims, hot.depth
    elif hot.ids is not None:
        dims, depth = hot.ids.dims, hot.parts[0].width
    else:
        return None
    if constant_axis(m, node.inputs[1], len(dims) + 1) != len(dims) - 1 or len(dims) < 2:
        return None
    if node.op == "Max" and (dims[-1].const or 0) < 1:
        return None  # the maximum of nothing is -inf
    if isinstance(hot, Hot):
        indices = hot.ids.indices
        groups = (sum(indices.groups[:-1]), indices.groups[-1])
        merged = replace(indices, dims=(product(dims[:-1]), dims[-1]), groups=groups)
        found = sparse_stream(m, merged, hot.ids.ids, None, complete=True)
    else:
        assert hot.ids is not None
        found = dense_stream(m, hot.ids, per_element=False) if len(dims) == 2 else None
    if found is None:
        return None
    bag = Bag(found[0], depth, binary=node.op == "Max", column=node.name)
    rows: tuple[Num, ...] = dims[:-1]
    piece = Piece((PiecePart(depth, bag=bag),), rows, rows, (depth,))
    return Counts(piece) if integers else piece
