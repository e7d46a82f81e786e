"""The reference of lookups against TensorFlow's own embedding functions."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tf_blade.feature_column.reference import Refused, evaluate
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

TABLE = np.linspace(-2, 2, 40, dtype=np.float32).reshape(10, 4)
IDS = Expr("value", "i64")
NOT_NEGATIVE = Expr("ge", "bool", (IDS, Expr("const", "i64")))
SPARSE = Sparse(indices=0, values=(1,), shape=2)


def objects(values):
    return np.array(values, object)


def sparse(rows):
    """indices, values and shape of a ragged list."""
    indices = [(i, j) for i, row in enumerate(rows) for j in range(len(row))]
    width = max(map(len, rows), default=0)
    return [
        np.array(indices, np.int64).reshape(-1, 2),
        np.array([v for row in rows for v in row], np.int64),
        np.array([len(rows), width], np.int64),
    ]


def one_bag(stream, bag, inputs=("i64", "i64", "i64", "f32")):
    parts = (Part(0, bag.dim, bag=0),)
    return Lookup(inputs, (stream,), (bag,), (Output(parts, (bag.dim,)),))


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
@pytest.mark.parametrize("default", [None, 3])
@pytest.mark.parametrize("max_norm", [None, 1.5])
def test_bags_are_safe_embedding_lookup_sparse(combiner, default, max_norm):
    rows = [[1, 2, 2], [], [-1], [9, -5, 0]]
    lookup = one_bag(
        Stream(SPARSE, IDS, keep=NOT_NEGATIVE),
        Bag(0, 4, Table((3,)), combiner, empty=default, max_norm=max_norm),
    )
    expected = tf.nn.safe_embedding_lookup_sparse(
        TABLE, tf.SparseTensor(*sparse(rows)), None, combiner, default, max_norm
    )
    found = evaluate(lookup, [*sparse(rows), TABLE])
    np.testing.assert_allclose(found[0], expected, rtol=1e-6)


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
@pytest.mark.parametrize("strategy", ["mod", "div"])
def test_weighted_bags_without_filling_end_with_the_last_row_that_has_elements(combiner, strategy):
    rows = [[1, 2], [], [9, 3], [4], []]
    weights = np.array([0.5, -2, 1, 0.25, 0], np.float32)
    stream = Stream(
        Sparse(indices=0, values=(1, 3), shape=2, complete=False),
        IDS,
        weight=Expr("value", "f32", at=1),
    )
    bag = Bag(0, 4, Table((4, 5, 6), strategy), combiner)
    lookup = one_bag(stream, bag, ("i64", "i64", "i64", "f32", "f32", "f32", "f32"))
    parts = [TABLE[:4], TABLE[4:7], TABLE[7:]]
    indices, values, shape = sparse(rows)
    expected = tf.compat.v1.nn.embedding_lookup_sparse(
        parts,
        tf.SparseTensor(indices, values, shape),
        tf.SparseTensor(indices, weights, shape),
        partition_strategy=strategy,
        combiner=combiner,
    )
    found = evaluate(lookup, [indices, values, shape, weights, *parts])
    np.testing.assert_allclose(found[0], expected, rtol=1e-6)


def test_strings_are_hashed_and_found_as_by_tensorflow():
    words = objects([[b"red", b""], [b"\xff\x00", b"green"], [b"", b"red"]])
    word = Expr("value", "string")
    given = Expr("ne", "bool", (word, Expr("const", "string", scalar=b"")))
    find = Expr("find", "i64", (word,), scalar=-1)
    out_of_vocabulary = Expr(
        "add", "i64", (Expr("hash_fast", "i64", (word,), buckets=7), Expr("const", "i64", scalar=2))
    )
    known = Expr("ne", "bool", (find, Expr("const", "i64", scalar=-1)))
    ids = Expr("select", "i64", (known, find, out_of_vocabulary))
    lookup = Lookup(
        ("string",),
        (Stream(Dense((0,)), ids, keep=given),),
        (Bag(0, 9),),
        (Output((Part(0, 9, bag=0),), (9,)),),
        (Vocabulary((b"red", b"green")),),
    )
    table = tf.lookup.StaticVocabularyTable(
        tf.lookup.KeyValueTensorInitializer(["red", "green"], tf.constant([0, 1], tf.int64)), 7
    )
    found = table.lookup(tf.constant(words))
    hot = tf.one_hot(tf.where(words == b"", tf.constant(-1, tf.int64), found), 9)
    np.testing.assert_array_equal(evaluate(lookup, [words])[0], tf.reduce_sum(hot, 1))


def test_crosses_are_those_of_sparse_cross():
    words = tf.ragged.constant([["a", "b"], [], ["c"]]).to_sparse()
    numbers = tf.sparse.from_dense(tf.constant([[5, 7], [9, 0], [2, 3]], tf.int64))
    lookup = Lookup(
        ("i64", "string", "i64", "i64", "i64", "i64", "f32"),
        (
            Stream(Sparse(0, (1,), 2), Expr("value", "string")),
            Stream(Sparse(3, (4,), 5), IDS),
            Stream(Cross((0, 1), 10, 77), IDS),
        ),
        (Bag(2, 4, Table((6,)), "sum"),),
        (Output((Part(0, 4, bag=0),), (4,)),),
    )
    crossed = tf.raw_ops.SparseCross(
        indices=[words.indices, numbers.indices],
        values=[words.values, numbers.values],
        shapes=[words.dense_shape, numbers.dense_shape],
        dense_inputs=[],
        hashed_output=True,
        num_buckets=10,
        hash_key=77,
        out_type=tf.int64,
        internal_type=tf.int64,
    )
    ids = tf.SparseTensor(*crossed)
    expected = tf.nn.safe_embedding_lookup_sparse(TABLE, ids, combiner="sum")
    inputs = [
        words.indices.numpy(),
        words.values.numpy(),
        words.dense_shape.numpy(),
        numbers.indices.numpy(),
        numbers.values.numpy(),
        numbers.dense_shape.numpy(),
        TABLE,
    ]
    np.testing.assert_allclose(evaluate(lookup, inputs)[0], expected, rtol=1e-6)


def test_ragged_rows_and_dense_parts_lie_side_by_side():
    ids = Expr("cast", "i64", (Expr("value", "i32"),))
    twice = Expr("add", "f32", (Expr("value", "f32", at=3), Expr("value", "f32", at=3)))
    lookup = Lookup(
        ("i32", "i64", "f32", "f32"),
        (Stream(Ragged((0,), 1), ids),),
        (Bag(0, 4, Table((2,)), "mean"),),
        (Output((Part(0, 4, bag=0), Part(4, 2, dense=twice)), (2, 3)),),
    )
    inputs = [np.array([1, 3], np.int32), np.array([0, 2, 2]), TABLE, np.ones((2, 2), np.float32)]
    expected = np.stack([[*(TABLE[1] + TABLE[3]) / 2, 2, 2], [0, 0, 0, 0, 2, 2]])
    np.testing.assert_allclose(evaluate(lookup, inputs)[0], expected.reshape(2, 2, 3), rtol=1e-6)


def test_each_element_is_a_row_and_outputs_add_up():
    stream = Stream(Dense((0,), per_element=True), IDS)
    bags = (Bag(0, 4, Table((1,))), Bag(0, 4, Table((2,))))
    parts = (Part(0, 4, bag=0), Part(0, 4, bag=1))
    lookup = Lookup(("i64", "f32", "f32"), (stream,), bags, (Output(parts, (4,), add=True),))
    ids = np.array([[1, 2, 3], [4, 5, 6]])
    found = evaluate(lookup, [ids, TABLE, 2 * TABLE])
    np.testing.assert_allclose(found[0], 3 * TABLE[ids], rtol=1e-6)


@pytest.mark.parametrize(
    "change",
    [
        lambda i, v, s: (i[::-1], v, s),  # not sorted
        lambda i, v, s: (np.add(i, [0, 3]), v, s),  # outside the shape
        lambda i, v, s: (i, v[1:], s),
        lambda i, v, s: (i, v + 10, s),  # outside the table
        lambda i, v, s: (i, v, -s),
    ],
)
def test_odd_inputs_are_refused(change):
    lookup = one_bag(Stream(SPARSE, IDS), Bag(0, 4, Table((3,))))
    with pytest.raises(Refused):
        evaluate(lookup, [*change(*sparse([[1, 2], [3]])), TABLE])


def test_the_rows_of_streams_must_agree():
    streams = (Stream(Dense((0,)), IDS), Stream(Dense((1,)), IDS))
    parts = (Part(0, 4, bag=0), Part(4, 4, bag=1))
    bags = (Bag(0, 4), Bag(1, 4))
    lookup = Lookup(("i64", "i64"), streams, bags, (Output(parts, (8,)),))
    with pytest.raises(Refused, match="rows differ"):
        evaluate(lookup, [np.zeros((2, 1), np.int64), np.zeros((3, 1), np.int64)])


def test_dims_ranks_and_empty_batches_are_checked():
    def dense(dims):
        return one_bag(Stream(Dense((0,), dims=dims), IDS), Bag(0, 4), ("i64",))

    ids = np.zeros((2, 1), np.int64)
    assert evaluate(dense((1,)), [ids])[0].shape == (2, 4)
    assert evaluate(dense((-1,)), [ids])[0].shape == (2, 4)
    ranked = one_bag(Stream(Sparse(0, (1,), 2, rank=3), IDS), Bag(0, 4, Table((3,))))
    for lookup, inputs in [
        (dense(()), [ids]),
        (dense((2,)), [ids]),
        (dense(None), [ids[:0]]),
        (ranked, [*sparse([[1]]), TABLE]),
    ]:
        with pytest.raises(Refused):
            evaluate(lookup, inputs)
