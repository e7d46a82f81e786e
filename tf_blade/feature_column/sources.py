"""From elements and their indices to the streams of a lookup."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tf_blade.feature_column.interpret import Interpreter, compatible
from tf_blade.feature_column.spec import Cross, Dense, Expr, Source, Sparse, Stream
from tf_blade.feature_column.values import (
    CrossBase,
    DenseBase,
    Dims,
    Elements,
    Indices,
    Num,
    OpenInts,
    SparseBase,
    product,
)

MAX_ROW_DIMS = 2
NO_ROW = (Num(0),)


def leaves_of(expressions: Iterable[Expr | None]) -> tuple[int, ...]:
    """Numbers of the leaves, in order of first use."""
    found: dict[int, None] = {}
    for expr in expressions:
        for part in expr.walk() if expr is not None else ():
            if part.op == "value":
                found[part.at] = None
    return tuple(found)


def constants_fit(expressions: Iterable[Expr | None], row: Dims) -> bool:
    """Whether constants that go by the place in a row are as many as there are places in one.

    Args:
      row: the dims of a row; NO_ROW where rows have different numbers of elements.
    """
    lengths = {
        len(part.constants)
        for expr in expressions
        for part in (expr.walk() if expr is not None else ())
        if part.op == "constants"
    }
    return lengths <= {product(row).const}


def source_of(
    m: Interpreter, indices: Indices, expressions: list[Expr], complete: bool
) -> tuple[Source, Dims] | None:
    """A source of elements at these indices, and the dims of its rows; None if there is none.

    Args:
      expressions: of the elements.
      complete: whether rows without elements at the end count.
    """
    base = indices.base
    leaves = leaves_of([*expressions, indices.keep])
    row_dims = indices.groups[0] if indices.groups else 1
    if not 1 <= row_dims <= MAX_ROW_DIMS or not leaves:
        return None
    row = base.dims[1:] if isinstance(base, DenseBase) and row_dims == 1 else NO_ROW
    if not constants_fit([*expressions, indices.keep], row):
        return None
    if isinstance(base, DenseBase):
        if not complete:
            return None
        return _dense_source(m, leaves, base.dims, row_dims)
    if isinstance(base, CrossBase):
        if leaves != (base.values,) or row_dims != 1 or not complete:
            return None
        return m.crosses[base.values], indices.dims[:1]
    if any(m.types[m.leaves[leaf]].rank not in (1, None) for leaf in leaves):
        return None
    if not complete and row_dims != 1:
        return None
    rows = _leading(m, base, row_dims)
    if rows is None:
        return None
    source = Sparse(base.indices, leaves, base.shape, row_dims, complete, base.rank)
    return source, rows


def _leading(m: Interpreter, base: SparseBase, count: int) -> Dims | None:
    shape = m.ints(m.leaves[base.shape])
    if isinstance(shape, OpenInts):
        return tuple(shape.at(i) for i in range(count))
    return None if shape is None else shape.values[:count]


def _dense_source(
    m: Interpreter, leaves: tuple[int, ...], dims: Dims, row_dims: int
) -> tuple[Dense, Dims] | None:
    """Elements of leaves of the shape `dims`, up to dims of 1."""
    shapes = [m.tensor_dims(m.leaves[leaf]) for leaf in leaves]
    first = _shape_of(shapes, _squeezed(dims), _squeezed)
    if not first:
        return None
    rest = tuple(-1 if dim.const is None else dim.const for dim in first[1:])
    if row_dims == 1:
        return Dense(leaves, False, rest), dims[:1]
    if len(first) != row_dims or not compatible(first, dims[:row_dims]):
        return None
    return Dense(leaves, True, rest), dims[:row_dims]


def _whole_cross_source(m: Interpreter, leaf: int, dims: Dims) -> tuple[Cross, Dims] | None:
    """The elements of a cross in the shape `dims`, of which each row has as many."""
    cross = m.crosses[leaf]
    return (cross, dims[:1]) if dims[:1] == m.rows[cross.parts[0]] else None


def _shape_of(shapes: list[Dims | None], dims: Dims, form: Callable[[Dims], Dims]) -> Dims | None:
    """The shape of the leaves, if one has exactly these dims, and the others may have them too.

    A kernel checks the others; equal dims of that one prove that rows are where they should be.
    """
    found = [shape for shape in shapes if shape is not None and form(shape) == dims]
    if not found or not all(s is not None and compatible(s, found[0]) for s in shapes):
        return None
    return found[0]


def _squeezed(dims: Dims) -> Dims:
    return dims[:1] + tuple(dim for dim in dims[1:] if dim.const != 1)


def sparse_stream(
    m: Interpreter, indices: Indices, ids: Elements, weight: Elements | None, complete: bool
) -> tuple[int, Dims] | None:
    """The number of a stream of elements at these indices, and the dims of its rows."""
    expressions = [ids.expr] if weight is None else [ids.expr, weight.expr]
    found = source_of(m, indices, expressions, complete)
    if found is None:
        return None
    stream = Stream(
        found[0], as_id(ids.expr), indices.keep, None if weight is None else weight.expr
    )
    return m.stream(stream, found[1]), found[1]


def dense_stream(
    m: Interpreter, ids: Elements, per_element: bool, weight: Elements | None = None
) -> tuple[int, Dims] | None:
    """The number of a stream of a dense tensor's elements, and the dims of its rows.

    Rows are the tensor's rows, or all of its elements.
    """
    expressions = [ids.expr, None if weight is None else weight.expr]
    leaves = leaves_of(expressions)
    if ids.keep is not None or ids.filled or not ids.dims or not leaves:
        return None
    if not constants_fit(expressions, NO_ROW if per_element else ids.dims[1:]):
        return None
    found: tuple[Source, Dims] | None
    if leaves[0] in m.crosses:
        alone = len(leaves) == 1 and constants_fit(expressions, NO_ROW)
        found = _whole_cross_source(m, leaves[0], ids.dims) if alone and not per_element else None
    elif not per_element:
        found = _dense_source(m, leaves, ids.dims, 1)
    else:
        shapes = [m.tensor_dims(m.leaves[leaf]) for leaf in leaves]
        shape = _shape_of(shapes, ids.dims, lambda dims: dims)
        if shape is None:
            return None
        rest = tuple(-1 if dim.const is None else dim.const for dim in shape[1:])
        found = Dense(leaves, True, rest), ids.dims
    if found is None:
        return None
    weights = None if weight is None else weight.expr
    return m.stream(Stream(found[0], as_id(ids.expr), None, weights), found[1]), found[1]


def as_id(expr: Expr) -> Expr:
    """Ids are i64; strings stay for crosses."""
    return expr if expr.dtype in ("i64", "string") else Expr("cast", "i64", (expr,))
