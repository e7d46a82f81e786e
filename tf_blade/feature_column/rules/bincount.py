"""DenseBincount: how often each id is in a row, as Keras' multi-hot and count outputs use it."""

from __future__ import annotations

from dataclasses import replace

from tf_blade.feature_column.interpret import Interpreter, IntsResult, Result, ints_rule, rule
from tf_blade.feature_column.rules.pieces import side_by_side
from tf_blade.feature_column.sources import dense_stream
from tf_blade.feature_column.spec import Bag, Expr
from tf_blade.feature_column.values import Counts, Ints, Num, Piece, PiecePart
from tf_blade.graph.graph import Node, TensorRef


@ints_rule("Minimum")
def clamped(m: Interpreter, node: Node) -> IntsResult:
    """Minimum(c, Maximum(c, x))  ->  c."""
    for a, b in (node.inputs, node.inputs[::-1]):
        limit, other = m.scalar(a), m.graph.nodes[b.node]
        if not isinstance(limit, int) or other.op != "Maximum":
            continue
        if limit in (m.scalar(ref) for ref in other.inputs):
            return Ints((Num(limit),), scalar=True)
    return None


@rule("DenseBincount")
def dense_bincount(m: Interpreter, node: Node) -> Result:
    """Ids past `size` count nothing; a negative one is an error, which is left to TensorFlow."""
    ids, size, weights = m.elements(node.inputs[0]), m.ints(node.inputs[1]), node.inputs[2]
    array = m.constant(weights)
    if ids is None or not isinstance(size, Ints) or array is None or array.size:
        return None
    width = size.values[0].const
    dtype = m.dtype(weights)
    if width is None or width <= 0 or dtype not in ("f32", "i32", "i64"):
        return None
    if len(ids.dims) != 2:
        return None
    if not _not_negative(m, ids.expr):
        known = Expr("ge", "bool", (ids.expr, Expr("const", ids.expr.dtype)))
        ids = replace(ids, expr=Expr("require", ids.expr.dtype, (known, ids.expr)))
    found = dense_stream(m, ids, per_element=False)
    if found is None:
        return None
    bag = Bag(found[0], width, binary=node.attrs["binary_output"].b, column=node.name)
    piece = Piece((PiecePart(width, bag=bag),), found[1], found[1], (width,))
    return piece if dtype == "f32" else Counts(piece)


@rule("Cast")
def as_floats(m: Interpreter, node: Node) -> Result:
    """Counts, which are far below 2^24, as f32."""
    counts, dtype = m.value(node.inputs[0]), m.dtype(TensorRef(node.name))
    if isinstance(counts, Counts):
        return counts.piece if dtype == "f32" else counts if dtype in ("i32", "i64") else None
    if isinstance(counts, Piece) and dtype in ("i32", "i64") and _is_counted(m, counts):
        return Counts(counts)
    return None


def _is_counted(m: Interpreter, piece: Piece) -> bool:
    """Whether all of it is whole numbers: how often, or whether, ids are there."""
    bags = [part.bag for part in piece.parts]
    return all(
        bag is not None and bag.table is None and m.streams[bag.stream].weight is None
        for bag in bags
    )


@rule("ConcatV2")
def concat(m: Interpreter, node: Node) -> Result:
    """Counts side by side."""
    pieces = [value.piece for value in map(m.value, node.inputs[:-1]) if isinstance(value, Counts)]
    if len(pieces) < len(node.inputs) - 1:
        return None
    joined = side_by_side(m, pieces[0], pieces, node.inputs[-1])
    return None if joined is None else Counts(joined)


def _not_negative(m: Interpreter, expr: Expr) -> bool:
    if expr.op == "find":
        values = m.vocabularies[expr.at].values
        return int(expr.scalar) >= 0 and all(value >= 0 for value in values)
    if expr.op == "select":
        return all(_not_negative(m, arg) for arg in expr.args[1:])
    if expr.op == "cast":
        widened = expr.dtype == "i64" and expr.args[0].dtype == "i32"
        return widened and _not_negative(m, expr.args[0])
    if expr.op == "const":
        return not isinstance(expr.scalar, bytes) and expr.scalar >= 0
    return expr.op in ("hash_fast", "hash_strong", "bucketize")
