"""Tables in several partitions, as tf.nn.embedding_lookup gathers from them:

    DynamicPartition(ids of each part), DynamicPartition(Range), GatherV2 …, ParallelDynamicStitch

"mod": id i is row i // P of part i % P. "div": with n = q P + e rows in all, the first e parts have
q + 1 rows, the others q.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tf_blade.feature_column.interpret import Interpreter, Result, rule
from tf_blade.feature_column.rules.elements import with_dims
from tf_blade.feature_column.rules.shapes import resolve
from tf_blade.feature_column.rules.tables import finish, table_of
from tf_blade.feature_column.spec import Expr, Table
from tf_blade.feature_column.values import (
    Coordinates,
    Distinct,
    Elements,
    Partition,
    PartRows,
    Vectors,
    product,
)
from tf_blade.graph.graph import Node


@rule("DynamicPartition")
def partition(m: Interpreter, node: Node) -> Result:
    """Elements, or their places, sorted into parts."""
    count = m.attr_int(node, "num_partitions")
    part = m.elements(node.inputs[1])
    data = m.value(node.inputs[0])
    if not isinstance(data, Coordinates) or data.of != data.dims:
        data = m.elements(node.inputs[0])
    if part is None or data is None or len(part.dims) != 1 or data.dims != part.dims:
        return None
    ids = None
    if isinstance(data, Elements):
        if data.keep != part.keep or data.filled != part.filled:
            return None
        ids = data
    return tuple(Partition(part, ids, i, count) for i in range(count))


@rule("GatherV2", "ResourceGather")
def gather(m: Interpreter, node: Node) -> Result:
    """Rows of one part."""
    at = m.value(node.inputs[1])
    if not isinstance(at, Partition) or at.rows is None or m.attr_int(node, "batch_dims"):
        return None
    if node.op == "GatherV2" and m.scalar(node.inputs[2]) != 0:
        return None
    shape = m.output_shape(node)
    if shape is None or len(shape) < 2:
        return None
    found = table_of(m, node.inputs[0], shape[1:])
    if found is None:
        return None
    return PartRows(found[0].parts[0], found[1], at)


@rule("ParallelDynamicStitch", "DynamicStitch")
def stitch(m: Interpreter, node: Node) -> Result:
    """The rows of all parts, in the order of the ids."""
    count = len(node.inputs) // 2
    places = [m.value(ref) for ref in node.inputs[:count]]
    rows = [m.value(ref) for ref in node.inputs[count:]]
    first = rows[0]
    if not isinstance(first, PartRows) or first.part.count != count or first.part.rows is None:
        return None
    leaves: list[int] = []
    for i, (place, row) in enumerate(zip(places, rows, strict=True)):
        if not isinstance(row, PartRows) or row.tail != first.tail:
            return None
        if row.part != Partition(first.part.part, first.part.rows, i, count):
            return None
        if place != Partition(first.part.part, None, i, count):
            return None
        leaves.append(row.leaf)
    ids = first.part.rows
    base = _base(m, first.part.part.expr, ids.expr, leaves)
    if base is None:
        return None
    expr, table = base
    elements = Elements(expr, ids.dims, ids.keep, ids.filled, None)
    if expr.op == "value":
        unique = m.value(m.leaves[expr.at])
        if isinstance(unique, Distinct) and not unique.place:
            return Vectors(table, unique.ids, first.tail, distinct=True)
    if ids.filled is not None:
        return None
    return finish(m, node, Vectors(table, elements, first.tail))


def _base(
    m: Interpreter, part: Expr, row: Expr, leaves: Sequence[int]
) -> tuple[Expr, Table] | None:
    """The ids that were sorted into parts, and the table, if these are its formulas."""
    if part.op == "cast" and part.dtype == "i32":
        part = part.args[0]
    count = len(leaves)
    if row.op == "floor_div" and part == Expr("floor_mod", row.dtype, row.args):
        if row.args[1] == Expr("const", row.dtype, scalar=count):
            return row.args[0], Table(tuple(leaves), "mod")
        return None
    sizes = [m.rows_of_leaf(leaf) for leaf in leaves]
    if row.op != "select" or row.args[1].op != "floor_mod" or None in sizes:
        return None
    whole = sum(size for size in sizes if size is not None)
    each, extra = divmod(whole, count)
    ids = row.args[1].args[0]
    dtype = ids.dtype

    def const(value: int) -> Expr:
        return Expr("const", dtype, scalar=value)

    rest = Expr("sub", dtype, (ids, const(extra)))
    at = Expr(
        "maximum",
        dtype,
        (
            Expr("floor_div", dtype, (ids, const(each + 1))),
            Expr("floor_div", dtype, (rest, const(each))),
        ),
    )
    expected = Expr(
        "select",
        dtype,
        (
            Expr("lt", "bool", (at, const(extra))),
            Expr("floor_mod", dtype, (ids, const(each + 1))),
            Expr("floor_mod", dtype, (rest, const(each))),
        ),
    )
    if sizes != [each + (i < extra) for i in range(count)] or part != at or row != expected:
        return None
    return ids, Table(tuple(leaves), "div")


@rule("Reshape")
def shape_of_ids(m: Interpreter, node: Node) -> Result:
    """Rows of a table in the shape that the ids had: what follows the stitch."""
    vectors, target = m.value(node.inputs[0]), m.vector(node.inputs[1])
    if not isinstance(vectors, Vectors) or target is None or len(vectors.ids.dims) != 1:
        return None
    rank = len(target) - len(vectors.tail)
    if rank < 1 or tuple(dim.const for dim in target[rank:]) != vectors.tail:
        return None
    if rank == 1:
        return vectors
    dims = resolve(target[:rank], product(vectors.ids.dims))
    if dims is None or vectors.distinct or vectors.weight is not None:
        return None
    return finish(m, node, replace(vectors, ids=with_dims(vectors.ids, dims)))
