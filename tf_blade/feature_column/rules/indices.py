"""Sparse tensors: reshaping them, filling their empty rows, crossing them, making them dense."""

from __future__ import annotations

from dataclasses import replace

from tf_blade.feature_column.interpret import (
    Interpreter,
    IntsResult,
    Result,
    count,
    ints_rule,
    rule,
)
from tf_blade.feature_column.rules.shapes import resolve
from tf_blade.feature_column.sources import dense_stream, source_of, sparse_stream
from tf_blade.feature_column.spec import Cross, Dense, Expr
from tf_blade.feature_column.values import (
    CrossBase,
    DenseIds,
    Dims,
    Elements,
    EmptyRows,
    Indices,
    Ints,
    Num,
    OpenInts,
    RowIds,
    SparseBase,
    product,
)
from tf_blade.graph.graph import Node, TensorRef


@ints_rule("SparseReshape")
def reshaped_dims(m: Interpreter, node: Node) -> IntsResult:
    """Output 1 of SparseReshape: the new shape."""
    found = _reshaped(m, node)
    return None if found is None else (None, Ints(found.dims))


@rule("SparseReshape")
def sparse_reshape(m: Interpreter, node: Node) -> Result:
    """Leading dims are merged, or the last ones: elements stay in their rows' order."""
    return _reshaped(m, node)


def _reshaped(m: Interpreter, node: Node) -> Indices | None:
    ref, shape, new = node.inputs
    indices, target = m.indices(ref, shape), m.vector(new)
    if indices is None:
        indices = m.own_indices(ref, shape)
    if indices is None or indices.filled or target is None:
        return None
    if not indices.dims:
        return _reshaped_open(m, indices, target)
    dims = resolve(target, product(indices.dims))
    groups = None if dims is None else _grouped(indices.dims, indices.groups, dims)
    return None if dims is None or groups is None else replace(indices, dims=dims, groups=groups)


def _reshaped_open(m: Interpreter, indices: Indices, target: Dims) -> Indices | None:
    """A reshape to two dims, where only the target says what the rank is."""
    assert isinstance(indices.base, SparseBase)
    shape = m.ints(m.leaves[indices.base.shape])
    if not isinstance(shape, OpenInts) or len(target) != 2:
        return None
    if target == (shape.at(0), Num(-1)):
        rest = Num(1, (("rest of", indices),))
        return replace(indices, dims=(shape.at(0), rest), groups=(1, -1))
    for leading in (1, 2):
        rows = product(tuple(shape.at(i) for i in range(leading)))
        if target == (rows, shape.at(leading)):  # TensorFlow checks the number of elements
            base = replace(indices.base, rank=leading + 1)
            return replace(indices, base=base, dims=target, groups=(leading, 1))
    return None


def _grouped(old: Dims, groups: tuple[int, ...], new: Dims) -> tuple[int, ...] | None:
    """How many of the base's dims each new dim spans; None if one splits an old dim."""
    result, at = [], 0
    for i, dim in enumerate(new):
        # As few old dims as will do; none at all only for a new dim of 1.
        ends = [*range(at + 1, len(old) + 1), at] if i < len(new) - 1 else [len(old)]
        end = next((e for e in ends if product(old[at:e]) == dim), None)
        if end is None:
            return None
        spans = groups[at:end]
        result.append(-1 if -1 in spans else sum(spans))
        at = end
    return tuple(result)


@rule("SparseFillEmptyRows")
def fill_empty_rows(m: Interpreter, node: Node) -> Result:
    """Rows without elements get one that holds the default; elements are ordered by row."""
    ref, values, shape, default_ref = node.inputs
    indices, x = m.indices(ref, shape), m.elements(values)
    if indices is None or x is None or not _together(m, indices, x):
        m.wanted_plain.add(ref)
        indices, x = m.own_indices(ref, shape), m.own_vector(values)
    default = m.scalar(default_ref)
    if indices is None or x is None or not _together(m, indices, x):
        return None
    if not isinstance(default, (int, float)):
        return None
    filled = Elements(
        x.expr,
        (count(indices.keep, indices),),
        x.keep,
        indices,
        Expr("const", x.expr.dtype, scalar=default),
    )
    return (replace(indices, filled=True), filled, EmptyRows(indices), None)


def _together(m: Interpreter, indices: Indices, x: Elements) -> bool:
    """Whether these are a SparseTensor's indices and values, as far as a kernel can check it."""
    if x.filled or indices.filled or x.keep != indices.keep or len(x.dims) != 1:
        return False
    return source_of(m, indices, [x.expr], complete=True) is not None


@rule("StridedSlice")
def row_ids(m: Interpreter, node: Node) -> Result:
    """indices[:, 0]."""
    ref = node.inputs[0]
    indices = m.known_indices(ref)
    if indices is None and ref in m.bounds:
        indices = m.own_indices(ref, m.bounds[ref])
    begin, end, step = (m.constant(ref) for ref in node.inputs[1:])
    if indices is None or begin is None or end is None or step is None:
        return None
    masks = [m.attr_int(node, f"{n}_mask") for n in ("begin", "end", "shrink_axis")]
    rest = m.attr_int(node, "ellipsis_mask") + m.attr_int(node, "new_axis_mask")
    all_rows = masks[0] & 1 and masks[1] & 1 and masks[2] == 2 and not rest
    if not all_rows or begin.shape != (2,) or begin[1] != 0 or (step != 1).any():
        return None
    return RowIds(indices)


@rule("Cast")
def cast_row_ids(m: Interpreter, node: Node) -> Result:
    """Row numbers as i32."""
    x = m.value(node.inputs[0])
    return x if isinstance(x, RowIds) else None


@rule("Reshape")
def empty_rows_column(m: Interpreter, node: Node) -> Result:
    """[B] -> [B, 1]."""
    x, target = m.value(node.inputs[0]), m.constant(node.inputs[1])
    if not isinstance(x, EmptyRows) or x.columns or target is None or target.tolist() != [-1, 1]:
        return None
    return replace(x, columns=1)


@rule("ExpandDims")
def empty_rows_expanded(m: Interpreter, node: Node) -> Result:
    """[B] -> [B, 1]."""
    x = m.value(node.inputs[0])
    if not isinstance(x, EmptyRows) or x.columns or m.scalar(node.inputs[1]) not in (1, -1):
        return None
    return replace(x, columns=1)


@rule("Tile")
def empty_rows_tiled(m: Interpreter, node: Node) -> Result:
    """[B, 1] -> [B, n]."""
    x, times = m.value(node.inputs[0]), m.vector(node.inputs[1])
    if not isinstance(x, EmptyRows) or x.columns != 1 or times is None or len(times) != 2:
        return None
    if times[0].const != 1 or times[1].const is None:
        return None
    return replace(x, columns=times[1].const)


@rule("SparseToDense")
def sparse_to_dense(m: Interpreter, node: Node) -> Result:
    """Integer elements at their places in a dense tensor."""
    ref, shape, values, default_ref = node.inputs
    indices, x, default = m.indices(ref, shape), m.elements(values), m.scalar(default_ref)
    if indices is None or x is None or not _together(m, indices, x):
        indices, x = m.own_indices(ref, shape), m.own_vector(values)
    if indices is None or x is None or not _together(m, indices, x):
        return None
    if x.expr.dtype not in ("i32", "i64") or not isinstance(default, int):
        return None
    if not indices.dims:
        indices = _of_rank_2(m, indices)
    if indices is None or indices.filled or any(g not in (0, 1) for g in indices.groups):
        return None
    if isinstance(indices.base, CrossBase) and indices.keep is None:
        whole = _whole_cross(m, indices.base)
        if whole is not None:
            return replace(x, dims=whole)
    return DenseIds(indices, x, default)


def _whole_cross(m: Interpreter, base: CrossBase) -> Dims | None:
    """The dims of a cross of dense tensors: each row has as many elements."""
    width = Num()
    parts = m.crosses[base.values].parts
    for number in parts:
        stream = m.streams[number]
        if not isinstance(stream.source, Dense) or stream.keep is not None:
            return None
        dims = stream.source.dims
        if dims is None or any(dim <= 0 for dim in dims):
            return None
        width *= product(tuple(map(Num, dims)))
    return (*m.rows[parts[0]], width)


def _of_rank_2(m: Interpreter, indices: Indices) -> Indices | None:
    """Indices of unknown rank, taken to be those of a matrix: kernels check it."""
    assert isinstance(indices.base, SparseBase)
    shape = m.ints(m.leaves[indices.base.shape])
    if not isinstance(shape, OpenInts):
        return None
    base = replace(indices.base, rank=2)
    return replace(indices, base=base, dims=(shape.at(0), shape.at(1)), groups=(1, 1))


@rule("SparseCross")
def sparse_cross(m: Interpreter, node: Node) -> Result:
    """Hashed crosses: each row's cartesian product of the inputs' elements."""
    if not node.attrs["hashed_output"].b:
        return None
    n = node.attrs["N"].i
    parts: list[int] = []
    for i in range(n):
        ref, values, shape = (node.inputs[i + k * n] for k in range(3))
        indices, x = m.indices(ref, shape), m.elements(values)
        if indices is None or x is None or not _together(m, indices, x):
            indices, x = m.own_indices(ref, shape), m.own_vector(values)
        if indices is None or x is None or not _together(m, indices, x):
            return None
        found = sparse_stream(m, indices, x, None, complete=True)
        if found is None:
            return None
        parts.append(found[0])
    for ref in node.inputs[3 * n :]:
        x = m.elements(ref)
        found = None if x is None else dense_stream(m, x, per_element=False)
        if found is None:
            return None
        parts.append(found[0])
    values_ref = TensorRef(node.name, 1)
    leaf = m.leaf(values_ref)
    m.crosses[leaf] = Cross(tuple(parts), node.attrs["num_buckets"].i, node.attrs["hash_key"].i)
    dims = m.vector(TensorRef(node.name, 2))
    own = m.own(values_ref)
    if dims is None or own is None:
        return None
    return (Indices(CrossBase(leaf), None, dims, (1, 1)), own, None)
