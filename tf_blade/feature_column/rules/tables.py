"""Rows of tables: gathers, and sums of gathered rows by segment."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tf_blade.feature_column.interpret import Interpreter, Result, ints_rule, rule
from tf_blade.feature_column.rules.elements import make
from tf_blade.feature_column.sources import dense_stream, sparse_stream
from tf_blade.feature_column.spec import Bag, Combiner, Expr, Table
from tf_blade.feature_column.values import (
    Distinct,
    Elements,
    Indices,
    Ints,
    Num,
    Piece,
    PiecePart,
    RowIds,
    Vectors,
)
from tf_blade.graph.graph import Node, TensorRef
from tf_blade.graph.types import ARG

COMBINERS: dict[str, Combiner] = {
    "SparseSegmentSum": "sum",
    "SparseSegmentMean": "mean",
    "SparseSegmentSqrtN": "sqrtn",
    "SegmentSum": "sum",
}
# What a table may be: a variable, its value, or a constant.
TABLES = ("Const", "VarHandleOp", "ReadVariableOp", "VariableV2", "Identity", ARG)


@rule("LookupTableFindV2")
def find(m: Interpreter, node: Node) -> Result:
    """A key's value in a table."""
    keys, default = m.elements(node.inputs[1]), m.scalar(node.inputs[2])
    if keys is None or not isinstance(default, int) or keys.expr.dtype not in ("string", "i64"):
        return None
    if m.dtype(TensorRef(node.name)) != "i64":
        return None
    number = m.vocabulary(node.inputs[0])
    if number is None:
        # What it gives stands for itself, but its shape is that of the keys.
        own = TensorRef(node.name)
        moved = m.finds.get(own) if keys.keep is not None else None
        leaf = Expr("value", "i64", at=m.leaf(moved or own))
        if node.name in m.behind:
            return None
        return Elements(leaf, keys.dims, keys.keep if moved else None)
    return make(Expr("find", "i64", (keys.expr,), at=number, scalar=default), keys)


@ints_rule("LookupTableSizeV2")
def table_size(m: Interpreter, node: Node) -> Ints | None:
    """How many keys a table of known contents has."""
    number = m.vocabulary(node.inputs[0])
    if number is None:
        return None
    return Ints((Num(len(m.vocabularies[number].keys)),), scalar=True)


@rule("LookupTableSizeV2")
def table_size_value(m: Interpreter, node: Node) -> Result:
    """The same as an element."""
    found = m.ints(TensorRef(node.name))
    if not isinstance(found, Ints) or found.values[0].const is None:
        return None
    return Elements(Expr("const", "i64", scalar=found.values[0].const), ())


@rule("Unique", "UniqueV2")
def unique(m: Interpreter, node: Node) -> Result:
    """Distinct ids, and where each id is among them."""
    ids = m.elements(node.inputs[0])
    if ids is None or len(ids.dims) != 1 or ids.expr.dtype not in ("i32", "i64"):
        return None
    return (Distinct(ids, place=False), Distinct(ids, place=True))


@rule("GatherV2", "ResourceGather")
def gather(m: Interpreter, node: Node) -> Result:
    """Rows of a table; or a row for each element out of the rows of the distinct elements."""
    if m.attr_int(node, "batch_dims"):
        return None
    if node.op == "GatherV2" and m.scalar(node.inputs[2]) != 0:
        return None
    ids = m.value(node.inputs[1])
    params = m.value(node.inputs[0])
    if isinstance(params, Vectors):
        if isinstance(ids, Distinct) and ids.place and params.distinct and ids.ids == params.ids:
            return replace(params, distinct=False)
        return None
    distinct = isinstance(ids, Distinct) and not ids.place
    elements = ids.ids if isinstance(ids, Distinct) else m.elements(node.inputs[1])
    if elements is None or (isinstance(ids, Distinct) and ids.place):
        return None
    shape = m.types[node.inputs[0]].shape
    row = None if not shape else shape[1:]
    if node.op == "ResourceGather":
        rank, shape = m.types[node.inputs[1]].rank, m.types[TensorRef(node.name)].shape
        row = None if rank is None or shape is None else shape[rank:]
    if row is None or m.types[TensorRef(node.name)].dtype.name != "float32":
        return None
    found = table_of(m, node.inputs[0], row)
    if found is None or elements.expr.dtype not in ("i32", "i64"):
        return None
    table, tail = found
    return finish(m, node, Vectors(table, elements, tail, distinct))


def table_of(
    m: Interpreter, ref: TensorRef, row: tuple[int | None, ...]
) -> tuple[Table, tuple[int, ...]] | None:
    """A variable's resource, or a tensor that doesn't depend on rows of tables, as a table.

    Args:
      row: dims of a row as far as they are known.
    """
    source = m.graph.nodes[ref.node]
    if source.op == "ReadVariableOp" and m.may_replace(source.name):
        ref = source.inputs[0]
    if (
        m.graph.nodes[ref.node].op not in TABLES
        or ref.node in m.behind
        or any(dim is None for dim in row)
    ):
        return None
    return Table((m.leaf(ref),)), tuple(dim for dim in row if dim is not None)


def finish(m: Interpreter, node: Node, vectors: Vectors) -> Vectors | Piece | None:
    """Vectors as they are; of all elements of a dense tensor, as rows of an output."""
    ids = vectors.ids
    if (
        vectors.distinct
        or ids.keep is not None
        or ids.filled is not None
        or vectors.weight is not None
    ):
        return vectors
    single = all(dim.const == 1 for dim in ids.dims[1:])
    found = dense_stream(m, ids, per_element=not single)
    if found is None:
        return vectors
    stream, rows = found
    width = int(np.prod(vectors.tail, dtype=np.int64))
    bag = Bag(stream, width, vectors.table, max_norm=vectors.max_norm, column=node.name)
    tail = (1,) * (len(ids.dims) - len(rows)) + vectors.tail
    return Piece((PiecePart(width, bag=bag),), rows, rows, tail, vectors=vectors)


def vectors_of(m: Interpreter, ref: TensorRef) -> Vectors | None:
    """Rows of a table, one an element or one a distinct element."""
    value = m.value(ref)
    if isinstance(value, Piece):
        return value.vectors
    return value if isinstance(value, Vectors) else None


@rule("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN")
def sparse_segment(m: Interpreter, node: Node) -> Result:
    """Rows of a table, or of its distinct elements, summed up by row."""
    data, places, segments = node.inputs
    rows, ids = m.value(segments), m.value(places)
    if not isinstance(rows, RowIds):
        return None
    vectors = vectors_of(m, data)
    if vectors is not None:
        if not isinstance(ids, Distinct) or not ids.place or not vectors.distinct:
            return None
        if ids.ids != vectors.ids:
            return None
    else:
        elements, shape = m.elements(places), m.types[data].shape
        if elements is None or not shape or m.types[data].dtype.name != "float32":
            return None
        found = table_of(m, data, shape[1:])
        if found is None:
            return None
        vectors = Vectors(found[0], elements, found[1])
    return bag_of(m, node, vectors, rows.indices, COMBINERS[node.op])


@rule("SegmentSum")
def segment_sum(m: Interpreter, node: Node) -> Result:
    """Rows of a table, perhaps weighted, summed up by row."""
    vectors, rows = vectors_of(m, node.inputs[0]), m.value(node.inputs[1])
    if vectors is None or vectors.distinct or not isinstance(rows, RowIds):
        return None
    return bag_of(m, node, vectors, rows.indices, "sum")


def bag_of(
    m: Interpreter, node: Node, vectors: Vectors, indices: Indices, combiner: Combiner
) -> Piece | None:
    """A bag, one row for each row of the indices."""
    ids, weight = vectors.ids, vectors.weight
    base = replace(indices, filled=False)
    for x in (ids, weight):
        if x is not None and (x.keep != indices.keep or x.filled != filled_by(indices)):
            return None
    if len(ids.dims) != 1:
        return None
    empty: int | None = None
    if indices.filled:
        empty = constant_id(ids.default)
        fills_with_one = weight is None or weight.default == Expr("const", "f32", scalar=1.0)
        if empty is None or not fills_with_one:
            return None
    found = sparse_stream(m, base, ids, weight, complete=indices.filled)
    if found is None:
        return None
    stream, row_dims = found
    width = int(np.prod(vectors.tail, dtype=np.int64))
    bag = Bag(stream, width, vectors.table, combiner, empty, vectors.max_norm, column=node.name)
    if indices.filled:
        rows = indices.dims[:1]
    else:
        rows = row_dims = (Num(1, (("rows of", stream),)),)
    return Piece(
        (PiecePart(width, bag=bag),),
        row_dims if len(row_dims) == 1 else rows,
        row_dims,
        vectors.tail,
        filled=base if indices.filled else None,
        weight=weight,
    )


def filled_by(indices: Indices) -> Indices | None:
    """What elements that belong to these indices were filled by."""
    return replace(indices, filled=False) if indices.filled else None


def constant_id(expr: Expr | None) -> int | None:
    """The integer that a constant expression gives."""
    if expr is not None and expr.op == "cast" and expr.dtype == "i64":
        expr = expr.args[0]
    if expr is None or expr.op != "const" or not isinstance(expr.scalar, int):
        return None
    return expr.scalar
