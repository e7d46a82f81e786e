"""Lookups in TF2 functions: tf.nn's embedding functions and Keras layers."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tests.feature_column.models import Case, fc, function_model, sparse, strings

TABLE = np.random.default_rng(0).normal(size=(10, 4)).astype(np.float32)
IDS = tf.SparseTensorSpec([None, None], tf.int64)
WEIGHTS = tf.SparseTensorSpec([None, None], tf.float32)
ROWS = [[1, 2, 2], [], [-1], [7, -3, 0], [9]]
SPLITS = {"one": [10], "three": [4, 3, 3]}


def parts(split):
    edges = np.cumsum([0, *SPLITS[split]])
    return [tf.Variable(TABLE[a:b]) for a, b in pairwise(edges)]


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("split", ["one", "three"])
def test_safe_embedding_lookup_sparse(tmp_path, combiner, weighted, split):
    tables = parts(split)
    strategy = "mod" if combiner == "sum" else "div"

    def look(ids, weights=None):
        lookup = partial(
            tf.compat.v1.nn.safe_embedding_lookup_sparse,
            tables,
            ids,
            weights,
            combiner=combiner,
            partition_strategy=strategy,
        )
        return tf.concat([lookup(), lookup(default_id=3), lookup(max_norm=1.25)], 1)

    specs = [IDS, WEIGHTS] if weighted else [IDS]
    function_model(str(tmp_path), look, *specs, tables=tables)
    case = Case.load(str(tmp_path))
    (found,) = case.found
    first, second, third = found.lookup.bags
    assert (first.empty, second.empty, third.empty) == (None, 3, None)
    assert (first.max_norm, second.max_norm, third.max_norm) == (None, None, 1.25)
    assert first.table is not None and len(first.table.parts) == len(tables)
    feeds = {"ids": sparse(ROWS)}
    if weighted:
        values = [[0.5, -1.0, 2.0], [], [1.0], [0.0, 1.0, 3.0], [1e-3]]
        feeds["weights"] = sparse(values, np.float32)
    assert case.check(feeds) == 0


def dense_features(path):
    columns = [
        fc.embedding_column(fc.categorical_column_with_hash_bucket("ids", 10), 4),
        fc.indicator_column(
            fc.categorical_column_with_vocabulary_list("b", ["x", "y"], num_oov_buckets=1)
        ),
        fc.numeric_column("c"),
    ]
    inputs = {
        "ids": tf_keras.Input((1,), dtype="string", name="ids"),
        "b": tf_keras.Input((2,), dtype="string", name="b"),
        "c": tf_keras.Input((1,), name="c"),
    }
    outputs = tf_keras.layers.DenseFeatures(columns)(inputs)
    tf_keras.Model(inputs, outputs).save(path, save_format="tf")


def test_dense_features_are_one_lookup(tmp_path):
    dense_features(str(tmp_path))
    case = Case.load(str(tmp_path))
    (found,) = case.found
    assert [part.bag is None for part in found.lookup.outputs[0].parts] == [False, True, False]
    feeds = {
        "ids": strings([[b"x"], [b""]]),
        "b": strings([[b"x", b"q"], [b"", b"y"]]),
        "c": np.array([[1.5], [2.5]], np.float32),
    }
    assert case.check(feeds) == 0


LAYERS = {
    "StringLookup": (
        "string",
        lambda: keras.layers.StringLookup(vocabulary=["a", "b"], num_oov_indices=2),
        strings([[b"a"], [b"?"], [b""]]),
    ),
    "IntegerLookup": (
        "int64",
        lambda: keras.layers.IntegerLookup(vocabulary=[5, 7]),
        np.array([[5], [7], [2**40]]),
    ),
    "Hashing": ("string", lambda: keras.layers.Hashing(10), strings([[b"a"], [b"b"], [b""]])),
    "Hashing with a salt": (
        "string",
        lambda: keras.layers.Hashing(10, salt=[3, 5]),
        strings([[b"a"], [b"b"], [b""]]),
    ),
    "Discretization": (
        "float32",
        lambda: keras.layers.Discretization([0.0, 1.0]),
        np.array([[-1.0], [0.0], [7.0]], np.float32),
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_keras_layer_and_an_embedding(tmp_path, name):
    dtype, layer, ids = LAYERS[name]
    inputs = keras.Input((1,), dtype=dtype, name="ids")
    embedded = keras.layers.Embedding(10, 4)(layer()(inputs))
    keras.Model(inputs, keras.layers.Flatten()(embedded)).export(str(tmp_path), verbose=False)
    case = Case.load(str(tmp_path))
    (found,) = case.found
    assert [str(ref) for ref in found.inputs if "frozen" not in ref.node] == ["ids:0"]
    assert case.check({"ids": ids}) == 0


def test_embeddings_of_sequences_have_rows_of_elements(tmp_path):
    first, second = tf.Variable(TABLE), tf.Variable(TABLE * 2)

    def embed(ids):
        return tf.concat([tf.gather(first, ids), tf.gather(second, ids)], -1)

    spec = tf.TensorSpec([None, None], tf.int32, name="ids")
    function_model(str(tmp_path), embed, spec, first=first, second=second)
    case = Case.load(str(tmp_path))
    (found,) = case.found
    assert found.lookup.outputs[0].tail == (8,)
    assert case.check({"ids": np.array([[1, 2, 3], [0, 9, 9]], np.int32)}) == 0
    assert case.check({"ids": np.array([[1]], np.int32)}) == 0


@pytest.mark.parametrize("mode", ["multi_hot", "count"])
def test_keras_counts_ids_in_rows(tmp_path, mode):
    inputs = keras.Input((3,), dtype="string", name="ids")
    layer = keras.layers.StringLookup(vocabulary=["a", "b"], output_mode=mode)
    dense = keras.layers.Dense(2)(layer(inputs))
    keras.Model(inputs, dense).export(str(tmp_path), verbose=False)
    case = Case.load(str(tmp_path))
    (found,) = case.found
    (bag,) = found.lookup.bags
    assert bag.binary == (mode == "multi_hot") and bag.table is None
    ids = strings([[b"a", b"a", b"?"], [b"b", b"", b"a"]])
    assert case.check({"ids": ids}) == 0


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_end_with_the_last_that_has_elements_if_they_are_not_filled(tmp_path, weighted):
    table = tf.Variable(TABLE)

    def look(ids, weights=None):
        return tf.nn.embedding_lookup_sparse(table, ids, weights, combiner="mean")

    specs = [IDS, WEIGHTS] if weighted else [IDS]
    function_model(str(tmp_path), look, *specs, table=table)
    case = Case.load(str(tmp_path))
    (found,) = case.found
    (stream,) = found.lookup.streams
    assert stream.source.complete is False
    rows = [[1, 2], [], [3], []]
    feeds = {"ids": sparse(rows)}
    if weighted:
        feeds["weights"] = sparse([[0.5, -0.5], [], [2.0], []], np.float32)
    assert case.check(feeds) == 0
    nothing = sparse([[], []], np.float32)
    feeds = {"ids": sparse([[], []]), **({"weights": nothing} if weighted else {})}
    assert case.check(feeds) == 1


def test_indicators_of_sequences(tmp_path):
    """[B, T] of a SparseTensor of a matrix, as tf_keras' SequenceFeatures makes it."""
    specs = tf.SparseTensorSpec([None, None], tf.int64)

    def look(ids):
        shape = tf.shape(ids, tf.int64)
        cube = tf.sparse.reshape(ids, tf.stack([shape[0], shape[1], tf.reduce_prod(shape[2:])]))
        return tf.reduce_sum(tf.one_hot(tf.sparse.to_dense(cube, -1), 6), -2)

    function_model(str(tmp_path), look, specs)
    case = Case.load(str(tmp_path))
    (found,) = case.found
    assert found.lookup.streams[0].source.row_dims == 2
    assert case.check({"ids": sparse([[1, 5], [], [3, 9, 0]])}) == 0


@pytest.mark.parametrize("reduce", [tf.reduce_sum, tf.reduce_mean])
def test_pooled_sequences_of_fixed_length_are_bags(tmp_path, reduce):
    table = tf.Variable(TABLE)

    def look(ids):
        mask = tf.expand_dims(tf.cast(ids != 0, tf.float32), 2)
        masked = tf.reduce_sum(tf.gather(table, ids) * tf.tile(mask, [1, 1, 4]), 1)
        return tf.concat([reduce(tf.gather(table, ids), 1), masked], 1)

    function_model(str(tmp_path), look, tf.TensorSpec([None, 3], tf.int32, "ids"), table=table)
    case = Case.load(str(tmp_path))
    (found,) = case.found
    plain, masked = found.lookup.bags
    assert plain.combiner == reduce.__name__.removeprefix("reduce_")
    assert found.lookup.streams[masked.stream].weight is not None
    assert case.check({"ids": np.array([[1, 2, 2], [0, 0, 9]], np.int32)}) == 0


def test_expressions_that_double_stay_in_tensorflow(tmp_path):
    table = tf.Variable(TABLE)

    def look(ids):
        for _ in range(40):
            ids = ids * ids % 10
        return tf.concat([tf.gather(table, ids), tf.gather(table, ids) * 2.0], 1)

    function_model(str(tmp_path), look, tf.TensorSpec([None], tf.int64, "ids"), table=table)
    case = Case.load(str(tmp_path))
    assert case.check({"ids": np.array([1, 2, 3, 7])}) == 0
