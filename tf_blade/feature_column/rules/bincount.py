"""DenseBincount: how often each id is in a row, as Keras' multi-hot and count outputs use it."""

from __future__ import annotations

from tf_blade.feature_column.interpret import Interpreter, IntsResult, Result, ints_rule, rule
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
    """Ids past `size` count nothing; a negative one would be an error, so there must be none."""
    ids, size, weights = m.elements(node.inputs[0]), m.ints(node.inputs[1]), node.inputs[2]
    array = m.constant(weights)
    if ids is None or not isinstance(size, Ints) or array is None or array.size:
        return None
    width = size.values[0].const
    dtype = m.dtype(weights)
    if width is None or width <= 0 or dtype not in ("f32", "i32", "i64"):
        return None
    if len(ids.dims) != 2 or not _not_negative(m, ids.expr):
        return None
    found = dense_stream(m, ids, per_element=False)
    if found is None:
        return None
    bag = Bag(found[0], width, binary=node.attrs["binary_output"].b, column=node.name)
    piece = Piece((PiecePart(width, bag=bag),), found[1], found[1], (width,))
    return piece if dtype == "f32" else Counts(piece)


@rule("Cast")
def as_floats(m: Interpreter, node: Node) -> Result:
    """Counts, which are far below 2^24, as f32."""
    counts = m.value(node.inputs[0])
    is_f32 = m.dtype(TensorRef(node.name)) == "f32"
    return counts.piece if isinstance(counts, Counts) and is_f32 else None


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
