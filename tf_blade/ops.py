"""Fused embedding lookups as plain ops, for graphs that are written by hand.

    pooled = tf_blade.ops.fused_embedding_lookup_sparse(table, ids, combiner="mean")

They take what tf.nn.embedding_lookup_sparse and its safe variant take and give what those give, in
one launch. What the kernels don't cover, TensorFlow's own ops answer, errors included. There are no
gradients. A model that is saved with them needs the op library to be loaded (`tf_blade.library`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tf_blade import library
from tf_blade.feature_column.spec import (
    Bag,
    Combiner,
    Expr,
    Lookup,
    Output,
    Part,
    Sparse,
    Stream,
    Table,
)
from tf_blade.feature_column.text import encode

_COMBINERS: tuple[Combiner, ...] = ("sum", "mean", "sqrtn")
# Inputs of the op before the tables; weights come last of them, where there are any.
_INDICES, _IDS, _SHAPE, _WEIGHTS = range(4)


def fused_embedding_lookup_sparse(
    params: Any,
    sp_ids: tf.SparseTensor,
    sp_weights: tf.SparseTensor | None = None,
    combiner: Combiner = "mean",
    max_norm: float | None = None,
    name: str = "fused_embedding_lookup_sparse",
) -> tf.Tensor:
    """What tf.nn.embedding_lookup_sparse gives.

    Args:
      params: the table, f32 [n, dim] with a static dim: a variable, a tensor, or a list of
        partitions (strategy "div").
      sp_ids: int32 or int64 ids [rows, any], in row-major order.
      sp_weights: f32, with the indices of `sp_ids`; None where every id weighs 1.
      combiner: "sum", "mean" or "sqrtn".
      max_norm: table rows of a larger L2 norm are scaled down to it.
      name: of the op, for messages.

    Returns: f32 [rows, dim]; rows end with the last one that has an id.

    Raises: TypeError, ValueError for arguments that don't fit; TensorFlow's errors for ids.
    """

    def original(tables: Any, ids: tf.SparseTensor, weights: tf.SparseTensor | None) -> tf.Tensor:
        return tf.nn.embedding_lookup_sparse(tables, ids, weights, combiner, max_norm)

    return _lookup(params, sp_ids, sp_weights, combiner, max_norm, None, False, original, name)


def fused_safe_embedding_lookup_sparse(
    params: Any,
    sp_ids: tf.SparseTensor,
    sp_weights: tf.SparseTensor | None = None,
    combiner: Combiner = "mean",
    default_id: int | None = None,
    max_norm: float | None = None,
    name: str = "fused_safe_embedding_lookup_sparse",
) -> tf.Tensor:
    """What tf.nn.safe_embedding_lookup_sparse gives for ids [rows, any].

    Negative ids and, with weights, those that weigh nothing or less, are left out. Rows without ids
    give the row of `default_id`, zeros if that is None.

    Args, raises: as fused_embedding_lookup_sparse.

    Returns: f32 [rows, dim] for the rows of the dense shape of `sp_ids`.
    """

    def original(tables: Any, ids: tf.SparseTensor, weights: tf.SparseTensor | None) -> tf.Tensor:
        return tf.nn.safe_embedding_lookup_sparse(
            tables, ids, weights, combiner, default_id, max_norm
        )

    return _lookup(params, sp_ids, sp_weights, combiner, max_norm, default_id, True, original, name)


def _lookup(
    params: Any,
    sp_ids: tf.SparseTensor,
    sp_weights: tf.SparseTensor | None,
    combiner: Combiner,
    max_norm: float | None,
    default_id: int | None,
    safe: bool,
    original: Callable[..., tf.Tensor],
    name: str,
) -> tf.Tensor:
    tables = list(params) if isinstance(params, list | tuple) else [params]
    dim = _check(tables, sp_ids, sp_weights, combiner)
    inputs = [sp_ids.indices, sp_ids.values, sp_ids.dense_shape]
    if sp_weights is not None:
        inputs.append(sp_weights.values)
    first = len(inputs)
    handles = [table.handle if hasattr(table, "handle") else table for table in tables]
    lookup = _describe(
        sp_ids.dtype, sp_weights is not None, len(tables), first, dim, combiner, max_norm,
        default_id, safe, name,
    )  # fmt: skip

    @tf.function(autograph=False)
    def fallback(*args: tf.Tensor) -> tf.Tensor:
        values = [
            tf.raw_ops.ReadVariableOp(resource=arg, dtype=tf.float32)
            if arg.dtype == tf.resource
            else arg
            for arg in args[first:]
        ]
        for value, table in zip(values, tables, strict=True):
            value.set_shape(table.shape)
        ids = tf.SparseTensor(args[_INDICES], args[_IDS], args[_SHAPE])
        weights = None
        if sp_weights is not None:
            weights = tf.SparseTensor(args[_INDICES], args[_WEIGHTS], args[_SHAPE])
        result = original(values if len(values) > 1 else values[0], ids, weights)
        return tf.reshape(result, [-1, dim])

    arguments = [*inputs, *map(tf.convert_to_tensor, handles)]
    specs = [tf.TensorSpec(a.shape, a.dtype) for a in arguments]
    (result,) = library.load_ops().blade_lookup(
        inputs=arguments,
        Tout=[tf.float32],
        fallback=fallback.get_concrete_function(*specs),
        lookup=encode(lookup),
        columns=name,
        name=name,
    )
    rows = sp_ids.shape[0] if safe else None
    result.set_shape([rows, dim])
    return result


def _check(
    tables: Sequence[Any],
    sp_ids: tf.SparseTensor,
    sp_weights: tf.SparseTensor | None,
    combiner: str,
) -> int:
    """The tables' dim. Raises TypeError and ValueError."""
    if not isinstance(sp_ids, tf.SparseTensor):
        raise TypeError(f"sp_ids must be a SparseTensor, not {type(sp_ids).__name__}")
    if sp_ids.dtype not in (tf.int32, tf.int64):
        raise TypeError(f"sp_ids must be int32 or int64, not {sp_ids.dtype.name}")
    if sp_weights is not None and sp_weights.dtype != tf.float32:
        raise TypeError(f"sp_weights must be float32, not {sp_weights.dtype.name}")
    if combiner not in _COMBINERS:
        raise ValueError(f"combiner is {combiner!r}; it must be one of {', '.join(_COMBINERS)}")
    if not tables:
        raise ValueError("params is an empty list: there is no table")
    dims = {tuple(table.shape[1:]) for table in tables}
    dim = next(iter(dims))
    if len(dims) != 1 or len(dim) != 1 or dim[0] is None:
        raise ValueError(f"tables must be [n, dim] with one static dim; theirs are {sorted(dims)}")
    if any(table.dtype != tf.float32 for table in tables):
        raise TypeError("tables must be float32")
    return int(dim[0])


def _describe(
    ids_dtype: tf.DType,
    weighted: bool,
    n_tables: int,
    first_table: int,
    dim: int,
    combiner: Combiner,
    max_norm: float | None,
    default_id: int | None,
    safe: bool,
    name: str,
) -> Lookup:
    narrow = ids_dtype == tf.int32
    ids = Expr("value", "i32" if narrow else "i64")
    if narrow:
        ids = Expr("cast", "i64", (ids,))
    weight = Expr("value", "f32", at=1) if weighted else None
    keep = None
    if safe:
        keep = Expr("ge", "bool", (ids, Expr("const", "i64", scalar=0)))
        if weight is not None:
            heavy = Expr("gt", "bool", (weight, Expr("const", "f32", scalar=0.0)))
            keep = Expr("and", "bool", (keep, heavy))
    source = Sparse(
        _INDICES, (_IDS, _WEIGHTS) if weighted else (_IDS,), _SHAPE, complete=safe, rank=2
    )
    table = Table(tuple(range(first_table, first_table + n_tables)), "div")
    bag = Bag(0, dim, table, combiner, default_id, max_norm, column=name)
    dtypes = ("i64", "i32" if narrow else "i64", "i64", *(("f32",) if weighted else ()))
    return Lookup(
        (*dtypes, *("f32",) * n_tables),
        (Stream(source, ids, keep, weight),),
        (bag,),
        (Output((Part(0, dim, bag=0),), (dim,)),),
    )
