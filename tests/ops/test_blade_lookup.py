"""The op BladeLookup: a lookup's answer, or the original's."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import tensorflow as tf

from tests.ops.calls import counts
from tf_blade import library
from tf_blade.feature_column.spec import (
    Bag,
    Dense,
    Expr,
    Lookup,
    Output,
    Part,
    Ragged,
    Stream,
    Table,
)
from tf_blade.feature_column.text import encode

DIM = 4


def columns() -> Lookup:
    """Strings hashed into table input 2, ragged ids of table input 3, in one concat."""
    hashed = Expr("hash_fast", "i64", (Expr("value", "string"),), buckets=5)
    given = Expr("ne", "bool", (Expr("value", "string"), Expr("const", "string", scalar=b"")))
    streams = (Stream(Dense((0,)), hashed, given), Stream(Ragged((1,), 2), Expr("value", "i64")))
    bags = (
        Bag(0, DIM, Table((3,)), "mean", column="word"),
        Bag(1, DIM, Table((4,)), "sum", column="age"),
    )
    output = Output((Part(0, DIM, bag=0), Part(DIM, DIM, bag=1)), (2 * DIM,))
    return Lookup(("string", "i64", "i64", "f32", "f32"), streams, bags, (output,))


def original(words, ids, splits, first, second, *_):
    """The same in TensorFlow's ops, from the tables' values."""
    keep = tf.cast(tf.not_equal(words, ""), tf.float32)[..., None]
    rows = tf.gather(first, tf.strings.to_hash_bucket_fast(words, 5)) * keep
    mean = tf.math.divide_no_nan(tf.reduce_sum(rows, 1), tf.reduce_sum(keep, 1))
    parts = tf.RaggedTensor.from_row_splits(tf.gather(second, ids), splits)
    return tf.concat([mean, tf.reduce_sum(parts, 1)], 1)


class Columns:
    """Calls of the op with two variables."""

    def __init__(self, name: str, text: str | None = None, rows: int = 7) -> None:
        rng = np.random.default_rng(0)
        self.first = tf.Variable(rng.normal(size=(5, DIM)).astype(np.float32))
        self.second = tf.Variable(rng.normal(size=(rows, DIM)).astype(np.float32))

        @tf.function(
            input_signature=[
                tf.TensorSpec(None, tf.string),
                tf.TensorSpec(None, tf.int64),
                tf.TensorSpec(None, tf.int64),
                tf.TensorSpec([], tf.resource),
                tf.TensorSpec([], tf.resource),
            ]
        )
        def fallback(words, ids, splits, first, second):
            read = [
                tf.raw_ops.ReadVariableOp(resource=table, dtype=tf.float32)
                for table in (first, second)
            ]
            return original(words, ids, splits, *read)

        ops = library.load_ops()
        self.fallback = fallback.get_concrete_function()
        lookup = encode(columns()) if text is None else text

        @tf.function
        def call(words, ids, splits):
            (out,) = ops.blade_lookup(
                inputs=[words, ids, splits, self.first.handle, self.second.handle],
                Tout=[tf.float32],
                fallback=self.fallback,
                lookup=lookup,
                output_shapes=[[None, 2 * DIM]],
                columns=name,
            )
            return out

        self.call = call

    def expected(self, *inputs):
        return original(*inputs, self.first, self.second)


def inputs(batch: int, seed: int = 0, rows: int = 7) -> list[tf.Tensor]:
    rng = np.random.default_rng(seed)
    words = rng.choice(np.array([b"", b"a", b"\xff\x00", b"b" * 60], object), (batch, 2))
    lengths = rng.integers(0, 4, batch)
    ids = rng.integers(0, rows, lengths.sum())
    splits = np.concatenate([[0], np.cumsum(lengths)])
    return [tf.constant(words.tolist()), tf.constant(ids, tf.int64), tf.constant(splits, tf.int64)]


@pytest.mark.parametrize("batch", [1, 3, 500])
def test_a_lookup_is_launched_on_strings_and_variables(cluster, batch):
    model = Columns(cluster)
    given = inputs(batch)
    np.testing.assert_allclose(model.call(*given), model.expected(*given), rtol=1e-6, atol=1e-6)
    assert counts(cluster).launches == 1
    assert counts(cluster).fallbacks == {}


def test_an_assigned_variable_is_seen(cluster):
    model = Columns(cluster)
    given = inputs(5)
    model.call(*given)
    model.first.assign_add(tf.ones_like(model.first))
    model.second.scatter_update(tf.IndexedSlices([[9.0] * DIM], [3]))
    np.testing.assert_allclose(model.call(*given), model.expected(*given), rtol=1e-6, atol=1e-6)
    assert counts(cluster).launches == 2


def test_a_large_table_is_read_and_assigned_while_it_moves_to_huge_pages(cluster):
    rows = 2_000_000
    model = Columns(cluster, rows=rows)
    for seed in range(20):
        given = inputs(300, seed, rows)
        expected = model.expected(*given)
        np.testing.assert_allclose(model.call(*given), expected, rtol=1e-6, atol=1e-6)
        if seed % 4 == 0:
            model.second.scatter_update(tf.IndexedSlices([[float(seed)] * DIM], [seed]))
        elif seed == 10:
            model.second.assign(-model.second)
    assert counts(cluster).launches == 20


def test_an_error_is_tensorflow_s_own_with_the_column_s_name(cluster):
    model = Columns(cluster)
    words, _, _ = inputs(1)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"(?s)not in \[0, 7\).*column 'age': an id is outside"
    ):
        model.call(words, tf.constant([7], tf.int64), tf.constant([0, 1], tf.int64))
    assert counts(cluster).fallbacks == {"column 'age': an id is outside its table": 1}


def test_an_empty_batch_is_tensorflow_s(cluster):
    model = Columns(cluster)
    given = [tf.zeros([0, 2], tf.string), tf.zeros([0], tf.int64), tf.zeros([1], tf.int64)]
    assert model.call(*given).shape == (0, 2 * DIM)
    assert counts(cluster).fallbacks == {"there are no rows": 1}


@pytest.mark.parametrize("text", ["", "lookup 1 inputs 0", "\0"])
def test_a_lookup_that_can_not_be_read_is_tensorflow_s(cluster, text):
    model = Columns(cluster, text)
    given = inputs(3)
    np.testing.assert_allclose(model.call(*given), model.expected(*given), rtol=1e-6, atol=1e-6)
    ((cause, count),) = counts(cluster).fallbacks.items()
    assert "the lookup can't be read" in cause
    assert count == 1


def test_other_numbers_of_inputs_are_tensorflow_s(cluster):
    text = encode(columns()).replace("inputs 5 ", "inputs 6 i64 ", 1)
    model = Columns(cluster, text)
    given = inputs(3)
    np.testing.assert_allclose(model.call(*given), model.expected(*given), rtol=1e-6, atol=1e-6)
    assert counts(cluster).launches == 0


def test_repeated_rows_are_counted(cluster):
    model = Columns(cluster)
    words, ids, splits = inputs(1)
    given = [tf.repeat(words, 30, 0), tf.tile(ids, [30]), tf.range(31, dtype=tf.int64) * splits[1]]
    np.testing.assert_allclose(model.call(*given), model.expected(*given), rtol=1e-6, atol=1e-6)
    assert counts(cluster).repeated_rows > 0


def test_the_shape_is_declared():
    model = Columns("shape")
    assert model.call.get_concrete_function(*inputs(2)).output_shapes == [None, 2 * DIM]


def test_threads_share_one_kernel(cluster):
    model = Columns(cluster)
    given = {batch: inputs(batch, batch) for batch in (1, 7, 300)}
    wanted = {batch: model.expected(*given[batch]).numpy() for batch in given}
    errors = []

    def work() -> None:
        try:
            for batch in [*given] * 10:
                out = model.call(*given[batch]).numpy()
                np.testing.assert_allclose(out, wanted[batch], rtol=1e-6, atol=1e-6)
        except AssertionError as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert counts(cluster).launches == 4 * 30
