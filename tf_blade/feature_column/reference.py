"""What a `Lookup` gives, in numpy: the reference for every kernel. Small and slow.

Element-wise expressions and crosses are evaluated by the TensorFlow ops they are named after, so
hashes, integer overflow and decimal texts are TensorFlow's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

import numpy as np
import tensorflow as tf

from tf_blade.feature_column.spec import (
    Bag,
    Cross,
    Dense,
    Expr,
    Lookup,
    Output,
    Part,
    Ragged,
    Sparse,
    Stream,
    Table,
    Vocabulary,
)


class Refused(ValueError):
    """The inputs are such that kernels must leave the run to the original subgraph."""


@dataclass(frozen=True)
class Elements:
    """The elements of one stream.

    Attributes:
      dims: the rows' dims; rows are numbered row-major.
      row: row of each element, i64 [n], ascending.
      ids: i64 or bytes [n].
      weight: f32 [n].
    """

    dims: tuple[int, ...]
    row: np.ndarray
    ids: np.ndarray
    weight: np.ndarray

    @property
    def rows(self) -> int:
        return _product(self.dims)


def evaluate(lookup: Lookup, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The lookup's outputs, f32.

    Args:
      lookup: what to compute.
      inputs: arrays of the lookup's input dtypes, strings as object arrays of bytes; for a
        variable's resource its value.

    Raises: Refused if the inputs break a rule of spec.py.
    """
    streams: list[Elements] = []
    read = _read_streams(lookup)
    for number, stream in enumerate(lookup.streams):
        streams.append(_elements(lookup, stream, inputs, streams) if number in read else _NOTHING)
    bags = [_bag(bag, streams[bag.stream], inputs) for bag in lookup.bags]
    dims = _common_dims(lookup, streams, inputs)
    return [_output(lookup, output, dims, bags, inputs) for output in lookup.outputs]


# -- expressions --------------------------------------------------------------------------

_DTYPES: dict[str, type] = {
    "i32": np.int32,
    "i64": np.int64,
    "f32": np.float32,
    "f64": np.float64,
    "bool": np.bool_,
    "string": np.object_,
}
_OPS: dict[str, Callable[..., tf.Tensor]] = {
    "as_string": tf.strings.as_string,
    "add": tf.add,
    "sub": tf.subtract,
    "mul": tf.multiply,
    "floor_mod": tf.math.floormod,
    "floor_div": tf.math.floordiv,
    "maximum": tf.maximum,
    "minimum": tf.minimum,
    "div": tf.divide,
    "neg": tf.negative,
    "abs": tf.abs,
    "eq": tf.equal,
    "ne": tf.not_equal,
    "lt": tf.less,
    "le": tf.less_equal,
    "gt": tf.greater,
    "ge": tf.greater_equal,
    "and": tf.logical_and,
    "or": tf.logical_or,
    "not": tf.logical_not,
    "select": tf.where,
}


def evaluate_expr(
    expr: Expr, values: Mapping[int, np.ndarray], vocabularies: Sequence[Vocabulary] = ()
) -> np.ndarray:
    """One expression on flat arrays of elements [n] of one length, by the `at` of a "value".

    Raises: Refused where TensorFlow's op fails (a division by zero).
    """
    count = len(next(iter(values.values())))
    try:
        with tf.device("CPU"):
            return np.asarray(_expr(expr, values, vocabularies, count))
    except tf.errors.InvalidArgumentError as error:
        raise Refused(error.message) from error


def _expr(
    expr: Expr, values: Mapping[int, np.ndarray], vocabularies: Sequence[Vocabulary], count: int
) -> np.ndarray:
    args = [_expr(arg, values, vocabularies, count) for arg in expr.args]
    if expr.op == "value":
        return values[expr.at]
    if expr.op == "const":
        return np.full(count, expr.scalar, _DTYPES[expr.dtype])
    if expr.op == "constants":
        _require(count % len(expr.constants) == 0, "rows have another number of elements")
        return np.resize(np.array(expr.constants, _DTYPES[expr.dtype]), count)
    if expr.op == "require":
        _require(bool(args[0].all()), "what is required of elements")
        return args[1]
    if expr.op == "find":
        return _find(vocabularies[expr.at], args[0], int(expr.scalar))
    tensors = [_tensor(value, arg.dtype) for value, arg in zip(args, expr.args, strict=True)]
    if expr.op == "cast":
        return tf.cast(tensors[0], _DTYPES[expr.dtype]).numpy()
    if expr.op == "hash_fast":
        return tf.strings.to_hash_bucket_fast(tensors[0], expr.buckets).numpy()
    if expr.op == "hash_strong":
        return tf.strings.to_hash_bucket_strong(tensors[0], expr.buckets, expr.key).numpy()
    if expr.op == "bucketize":
        boundaries = list(expr.boundaries)
        return tf.raw_ops.Bucketize(input=tensors[0], boundaries=boundaries).numpy()
    return _OPS[expr.op](*tensors).numpy()


def _tensor(value: np.ndarray, dtype: str) -> tf.Tensor:
    return tf.constant(value.tolist() if dtype == "string" else value, tf_dtype(dtype), value.shape)


def tf_dtype(dtype: str) -> tf.DType:
    """TensorFlow's dtype for one of DTYPES."""
    return tf.string if dtype == "string" else tf.as_dtype(_DTYPES[dtype])


def _find(vocabulary: Vocabulary, keys: np.ndarray, default: int) -> np.ndarray:
    values = vocabulary.values or range(len(vocabulary.keys))
    positions = dict(zip(vocabulary.keys, values, strict=True))
    return np.array([positions.get(key, default) for key in keys.tolist()], np.int64)


# -- streams ------------------------------------------------------------------------------

# Of a stream that nothing reads: what it requires is not asked for.
_NOTHING = Elements((), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32))


def _read_streams(lookup: Lookup) -> set[int]:
    read = {bag.stream for bag in lookup.bags}
    for number in sorted(read):
        source = lookup.streams[number].source
        if isinstance(source, Cross):
            read.update(source.parts)
    return read


def _elements(
    lookup: Lookup, stream: Stream, inputs: Sequence[np.ndarray], earlier: Sequence[Elements]
) -> Elements:
    source = stream.source
    if isinstance(source, Dense):
        dims, row, values = _dense(source, inputs)
    elif isinstance(source, Sparse):
        dims, row, values = _sparse(source, inputs)
    elif isinstance(source, Ragged):
        dims, row, values = _ragged(source, inputs)
    else:
        dims, row, values = _cross(source, [earlier[i] for i in source.parts])

    def run(expr: Expr) -> np.ndarray:
        return evaluate_expr(expr, dict(enumerate(values)), lookup.vocabularies)

    ids = run(stream.ids)
    weight = np.ones(len(row), np.float32) if stream.weight is None else run(stream.weight)
    if stream.keep is not None:
        keep = run(stream.keep)
        row, ids, weight = row[keep], ids[keep], weight[keep]
    return Elements(dims, row, ids, weight)


_Found = tuple[tuple[int, ...], np.ndarray, list[np.ndarray]]  # rows' dims, row, values


def _dense(source: Dense, inputs: Sequence[np.ndarray]) -> _Found:
    values = [inputs[i] for i in source.values]
    shape = values[0].shape
    _require(all(value.shape == shape for value in values), "dense values differ in shape")
    if source.dims is not None:
        wanted = (-1, *source.dims)
        _require(len(shape) == len(wanted), "the rank of a dense input")
        _require(all(w in (-1, d) for w, d in zip(wanted, shape, strict=True)), "a dense dim")
    if source.per_element:
        dims, length = shape, 1
    else:
        _require(len(shape) > 0, "a dense input is a scalar")
        dims, length = shape[:1], _product(shape[1:])
    row = np.repeat(np.arange(_product(dims)), length)
    return dims, row, [value.reshape(-1) for value in values]


def _sparse(source: Sparse, inputs: Sequence[np.ndarray]) -> _Found:
    indices, shape = inputs[source.indices], inputs[source.shape]
    values = [inputs[i] for i in source.values]
    _require(shape.ndim == 1 and len(shape) >= source.row_dims, "a sparse shape's rank")
    _require(source.rank in (None, len(shape)), "a sparse shape's rank")
    _require(indices.ndim == 2 and indices.shape[1] == len(shape), "the shape of sparse indices")
    _require(all(v.shape == (len(indices),) for v in values), "the number of sparse values")
    _require(bool((shape >= 0).all()), "a negative dim")
    _require(bool(((indices >= 0) & (indices < shape)).all()), "a sparse index is out of range")
    listed = indices.tolist()
    _require(all(a < b for a, b in pairwise(listed)), "unsorted indices")
    dims = tuple(int(d) for d in shape[: source.row_dims])
    row = np.zeros(len(indices), np.int64)
    for axis, dim in enumerate(dims):
        row = row * dim + indices[:, axis]
    if not source.complete:
        dims = (int(row[-1]) + 1 if len(row) else 0,)
    return dims, row, values


def _ragged(source: Ragged, inputs: Sequence[np.ndarray]) -> _Found:
    splits = inputs[source.splits].astype(np.int64)
    values = [inputs[i] for i in source.values]
    _require(splits.ndim == 1 and len(splits) > 0 and splits[0] == 0, "row splits start at 0")
    lengths = np.diff(splits)
    _require(bool((lengths >= 0).all()), "row splits descend")
    _require(all(v.shape == (splits[-1],) for v in values), "row splits end at the last value")
    return (len(lengths),), np.repeat(np.arange(len(lengths)), lengths), values


def _cross(source: Cross, parts: Sequence[Elements]) -> _Found:
    _require(all(part.dims == parts[0].dims for part in parts), "rows of a cross differ")
    tensors = [_as_sparse(part) for part in parts]
    crossed = tf.raw_ops.SparseCross(
        indices=[t.indices for t in tensors],
        values=[t.values for t in tensors],
        shapes=[t.dense_shape for t in tensors],
        dense_inputs=[],
        hashed_output=True,
        num_buckets=source.buckets,
        hash_key=source.key,
        out_type=tf.int64,
        internal_type=tf.int64,
    )
    return parts[0].dims, crossed.output_indices.numpy()[:, 0], [crossed.output_values.numpy()]


def _as_sparse(part: Elements) -> tf.SparseTensor:
    first = np.searchsorted(part.row, part.row)
    column = np.arange(len(part.row)) - first
    width = int(column.max()) + 1 if len(column) else 0
    strings = part.ids.dtype == object
    values = tf.constant(part.ids.tolist(), tf.string if strings else tf.int64, part.ids.shape)
    return tf.SparseTensor(np.stack([part.row, column], 1), values, [part.rows, width])


# -- bags ---------------------------------------------------------------------------------


def _bag(bag: Bag, stream: Elements, inputs: Sequence[np.ndarray]) -> np.ndarray:
    """f32 [rows, dim]."""
    row, ids, weight = stream.row, stream.ids, stream.weight
    if bag.empty is not None:
        empty = np.setdiff1d(np.arange(stream.rows), row)
        row = np.concatenate([row, empty])
        ids = np.concatenate([ids, np.full(len(empty), bag.empty, np.int64)])
        weight = np.concatenate([weight, np.ones(len(empty), np.float32)])
    result = np.zeros((stream.rows, bag.dim), np.float32)
    if bag.table is None:
        known = (ids >= 0) & (ids < bag.dim)
        np.add.at(result, (row[known], ids[known]), weight[known])
        return (result != 0).astype(np.float32) if bag.binary else result
    vectors = _rows(bag.table, bag.dim, ids, inputs)
    if bag.max_norm is not None:
        vectors = _clip(vectors, np.float32(bag.max_norm))
    np.add.at(result, row, weight[:, None] * vectors)
    total = np.zeros(stream.rows, np.float32)
    if bag.combiner == "mean":
        np.add.at(total, row, weight)
        return _div_no_nan(result, total)
    if bag.combiner == "sqrtn":
        np.add.at(total, row, weight * weight)
        return _div_no_nan(result, np.sqrt(total))
    return result


def _div_no_nan(result: np.ndarray, total: np.ndarray) -> np.ndarray:
    nonzero = total != 0
    result[nonzero] /= total[nonzero, None]
    result[~nonzero] = 0
    return result


def _rows(table: Table, dim: int, ids: np.ndarray, inputs: Sequence[np.ndarray]) -> np.ndarray:
    """Rows of the table, f32 [n, dim]."""
    parts = [inputs[i] for i in table.parts]
    for part in parts:
        _require(part.ndim > 0 and _product(part.shape[1:]) == dim, "the shape of a table")
    sizes = [len(part) for part in parts]
    whole, count = sum(sizes), len(parts)
    if table.strategy == "div":
        expected = [whole // count + (i < whole % count) for i in range(count)]
        _require(sizes == expected, "the sizes of a table's partitions")
        starts = np.cumsum([0, *sizes])
    out = np.zeros((len(ids), dim), np.float32)
    for n, i in enumerate(map(int, ids)):
        if table.strategy == "div":
            _require(0 <= i < whole, "an id is outside its table")
            number = int(np.searchsorted(starts, i, side="right")) - 1
            at = i - int(starts[number])
        else:
            number, at = i % count, i // count
            _require(0 <= at < sizes[number], "an id is outside its table")
        out[n] = parts[number][at].reshape(dim)
    return out


def _clip(vectors: np.ndarray, limit: np.float32) -> np.ndarray:
    """As tf.clip_by_norm on each row."""
    squares = (vectors * vectors).sum(axis=1, dtype=np.float32)
    norms = np.sqrt(squares)
    return vectors * limit / np.maximum(norms, limit)[:, None]


# -- outputs ------------------------------------------------------------------------------


def _common_dims(
    lookup: Lookup, streams: Sequence[Elements], inputs: Sequence[np.ndarray]
) -> tuple[int, ...]:
    """Dims of the rows of all streams, and of all dense parts where there is no stream."""
    used = {bag.stream for bag in lookup.bags}
    found = [streams[i].dims for i in sorted(used)]
    if not found:
        dense = [part for output in lookup.outputs for part in output.parts]
        found = [inputs[_sources(part)[0]].shape[:1] for part in dense]
    _require(all(dims == found[0] for dims in found), "rows differ")
    _require(_product(found[0]) > 0, "there are no rows")
    return found[0]


def _output(
    lookup: Lookup,
    output: Output,
    dims: tuple[int, ...],
    bags: Sequence[np.ndarray],
    inputs: Sequence[np.ndarray],
) -> np.ndarray:
    result = np.zeros((_product(dims), output.width), np.float32)
    for part in output.parts:
        columns = slice(part.offset, part.offset + part.width)
        bag = part.bag
        piece = _dense_part(lookup, part, dims, inputs) if bag is None else bags[bag]
        if output.add:
            result[:, columns] += piece
        else:
            result[:, columns] = piece
    return result.reshape(dims + output.tail)


def _dense_part(
    lookup: Lookup, part: Part, dims: tuple[int, ...], inputs: Sequence[np.ndarray]
) -> np.ndarray:
    assert part.dense is not None
    used = _sources(part)
    for i in used:
        shape = inputs[i].shape
        _require(shape[: len(dims)] == dims, "rows of a dense part differ")
        _require(_product(shape[len(dims) :]) == part.width, "the width of a dense part")
    values = {i: inputs[i].reshape(-1) for i in used}
    return evaluate_expr(part.dense, values, lookup.vocabularies).reshape(-1, part.width)


def _sources(part: Part) -> list[int]:
    assert part.dense is not None
    return sorted({expr.at for expr in part.dense.walk() if expr.op == "value"})


def _product(dims: Sequence[int]) -> int:
    return reduce(lambda a, b: a * int(b), dims, 1)


def _require(condition: bool, reason: str) -> None:
    if not condition:
        raise Refused(reason)
