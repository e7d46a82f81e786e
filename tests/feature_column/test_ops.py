"""The fused lookups that people write by hand, against the ops they stand for."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tf_blade import library, ops

DIM = 5
TABLE = np.random.default_rng(0).normal(size=(20, DIM)).astype(np.float32)


def sparse(rows: list[list[int]], dtype=tf.int64, dense_rows: int | None = None) -> tf.SparseTensor:
    indices = [(r, c) for r, row in enumerate(rows) for c in range(len(row))]
    return tf.SparseTensor(
        np.array(indices, np.int64).reshape(-1, 2),
        tf.constant([i for row in rows for i in row], dtype),
        [dense_rows or len(rows), max(map(len, rows))],
    )


IDS = [[3, 7, 3], [0], [19, 1]]


def fallbacks(name: str) -> int:
    return sum(library.counters().clusters[name].fallbacks.values())


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("max_norm", [None, 1.0])
def test_it_gives_what_embedding_lookup_sparse_gives(combiner, dtype, weighted, max_norm):
    ids = sparse(IDS, dtype)
    weights = tf.SparseTensor(ids.indices, tf.range(6.0) - 1, ids.dense_shape) if weighted else None
    variable = tf.Variable(TABLE)
    want = tf.nn.embedding_lookup_sparse(variable, ids, weights, combiner, max_norm)
    for table in (variable, tf.constant(TABLE), [TABLE[:10], TABLE[10:]]):
        tables = [tf.constant(t) for t in table] if isinstance(table, list) else table
        got = ops.fused_embedding_lookup_sparse(
            tables, ids, weights, combiner, max_norm, name="lookup"
        )
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    assert fallbacks("lookup") == 0


@pytest.mark.parametrize("default_id", [None, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_it_gives_what_the_safe_variant_gives(default_id, weighted):
    ids = sparse([[3, -1], [], [-5], [2, 2]], dense_rows=6)
    weights = tf.SparseTensor(ids.indices, [0.0, 1.0, 2.0, -1.0, 3.0], ids.dense_shape)
    arguments = (ids, weights if weighted else None, "mean", default_id)
    got = ops.fused_safe_embedding_lookup_sparse(tf.constant(TABLE), *arguments, name="safe")
    want = tf.nn.safe_embedding_lookup_sparse(tf.constant(TABLE), *arguments)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    assert fallbacks("safe") == 0


def test_it_works_in_a_function_that_is_saved_and_reads_the_variable_as_it_is(tmp_path):
    module = tf.Module()
    module.table = tf.Variable(TABLE)

    @tf.function(input_signature=[tf.SparseTensorSpec([None, None], tf.int64)])
    def serve(ids):
        return ops.fused_embedding_lookup_sparse(module.table, ids, combiner="sum")

    module.serve = serve
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    want = np.stack([TABLE[row].sum(0) for row in IDS])
    np.testing.assert_allclose(loaded.serve(sparse(IDS)), want, rtol=1e-5)
    loaded.table.assign(TABLE * 2)
    np.testing.assert_allclose(loaded.serve(sparse(IDS)), want * 2, rtol=1e-5)


def test_an_id_outside_the_table_is_tensorflow_s_error_with_the_op_s_name():
    with pytest.raises(tf.errors.InvalidArgumentError, match="my_column"):
        ops.fused_embedding_lookup_sparse(tf.constant(TABLE), sparse([[20]]), name="my_column")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((TABLE, [1, 2]), TypeError, "SparseTensor, not list"),
        ((TABLE, sparse(IDS, tf.float32)), TypeError, "int32 or int64, not float32"),
        ((TABLE, sparse(IDS), None, "max"), ValueError, "combiner is 'max'"),
        (([], sparse(IDS)), ValueError, "no table"),
        ((TABLE.astype(np.float64), sparse(IDS)), TypeError, "must be float32"),
        ((TABLE[0], sparse(IDS)), ValueError, "one static dim"),
    ],
)
def test_arguments_that_do_not_fit_are_named(arguments, error, message):
    table, *others = arguments
    table = tf.constant(table) if isinstance(table, np.ndarray) else table
    with pytest.raises(error, match=message):
        ops.fused_embedding_lookup_sparse(table, *others)
