"""What recognition finds in columns, evaluated by the reference, against TensorFlow's answers."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tests.feature_column.models import Case, fc, input_layer, sparse, strings, v1, v1_model

WORDS = ["red", "green", "blue", "caf\xe9"]
STRING_1 = {"a": (tf.string, [None, 1])}
STRING_N = {"a": (tf.string, [None, None])}
STRING_0 = {"a": (tf.string, [None])}
SPARSE_STRING = {"a": (tf.string, "sparse")}
SPARSE_INT = {"a": (tf.int64, "sparse")}
INT_1 = {"a": (tf.int64, [None, 1])}

TEXT = [b"red", b"", b"green", b"\xff\xfe\x00", b"purple", b"red", b"a" * 50, b"blue"]
FEEDS = {
    "dense strings": {"a": strings([[w] for w in TEXT])},
    "rows": {"a": strings([[b"red", b"", b"x"], [b"", b"", b""], [b"z", b"blue", b"blue"]])},
    "vector": {"a": strings(TEXT)},
    "sparse strings": {
        "a": sparse([[b"red", b"green"], [], [b"x", b"x", b"caf\xc3\xa9"], [b""]], object)
    },
    "sparse ints": {"a": sparse([[1, 2, 2], [], [-1], [7, -3, 0], [3]])},
    "dense ints": {"a": np.array([[3], [-1], [0], [9], [-1], [4]])},
}


def hashed(**keywords):
    return fc.categorical_column_with_hash_bucket("a", 11, **keywords)


def listed(**keywords):
    return fc.categorical_column_with_vocabulary_list("a", WORDS, **keywords)


def identity(**keywords):
    return fc.categorical_column_with_identity("a", 10, **keywords)


CASES = {
    "hash, [B, 1]": (STRING_1, hashed, "dense strings"),
    "hash, [B, k]": (STRING_N, hashed, "rows"),
    "hash, [B]": (STRING_0, hashed, "vector"),
    "hash, sparse": (SPARSE_STRING, hashed, "sparse strings"),
    "hash of integers": (INT_1, lambda: hashed(dtype=tf.int64), "dense ints"),
    "list": (STRING_1, listed, "dense strings"),
    "list, with buckets": (STRING_1, lambda: listed(num_oov_buckets=3), "dense strings"),
    "list, sparse, with a default": (
        SPARSE_STRING,
        lambda: listed(default_value=1),
        "sparse strings",
    ),
    "identity, sparse": (SPARSE_INT, identity, "sparse ints"),
    "identity with a default": (INT_1, lambda: identity(default_value=2), "dense ints"),
}


@pytest.mark.parametrize("name", CASES)
def test_an_embedding_and_an_indicator_are_one_lookup(tmp_path, name):
    features, column, feeds = CASES[name]

    def columns():
        return [
            fc.embedding_column(column(), 4),
            fc.embedding_column(column(), 8, combiner="sum"),
            fc.embedding_column(column(), 3, combiner="sqrtn", max_norm=0.7),
            fc.indicator_column(column()),
        ]

    def build(f):
        # A column may stand in a layer once, so each gets a layer of its own.
        return tf.concat([v1.feature_column.input_layer(f, [c]) for c in columns()], 1)

    v1_model(str(tmp_path), features, build)
    case = Case.load(str(tmp_path))
    (found,) = case.found
    assert len(found.lookup.bags) == 4 and len(found.lookup.outputs) == 1
    assert set(str(ref) for ref in found.inputs if "frozen" not in ref.node) <= {
        "a:0",
        "a/values:0",
        "a/indices:0",
        "a/shape/fed:0",
    }
    refused = case.check(FEEDS[feeds])
    assert refused == 0


def test_numbers_and_bucketized_columns_are_parts_of_the_concat(tmp_path):
    def columns():
        age = fc.numeric_column("age")
        return [
            age,
            fc.numeric_column("size", shape=[3], normalizer_fn=lambda x: x * 2.0 + 1.0),
            fc.embedding_column(fc.bucketized_column(age, [18.0, 30.5, 60.0]), 4),
            fc.indicator_column(fc.bucketized_column(age, [18.0, 30.5])),
        ]

    features = {"age": (tf.float32, [None, 1]), "size": (tf.float32, [None, 3])}
    input_layer(str(tmp_path), features, columns)
    case = Case.load(str(tmp_path))
    (found,) = case.found
    parts = found.lookup.outputs[0].parts
    assert [part.bag is None for part in parts] == [True, False, False, True]
    ages = np.array([[17.9], [18.0], [np.inf], [-np.inf], [30.5]], np.float32)
    sizes = np.arange(15, dtype=np.float32).reshape(5, 3)
    assert case.check({"age": ages, "size": sizes}) == 0


def test_shared_embeddings_read_one_table(tmp_path):
    def columns():
        a = fc.categorical_column_with_hash_bucket("a", 10)
        b = fc.categorical_column_with_hash_bucket("b", 10)
        return v1.feature_column.shared_embedding_columns([a, b], 4)

    features = {"a": (tf.string, [None, 1]), "b": (tf.string, [None, 1])}
    input_layer(str(tmp_path), features, columns)
    case = Case.load(str(tmp_path))
    (found,) = case.found
    assert len({bag.table for bag in found.lookup.bags}) == 1
    assert case.check({"a": strings([[b"x"], [b""]]), "b": strings([[b"y"], [b"x"]])}) == 0


def test_crossed_columns_are_streams_of_crosses(tmp_path):
    def columns():
        age = fc.bucketized_column(fc.numeric_column("age"), [1.0, 2.0])
        cross = fc.crossed_column([age, "a", listed_b()], 50)
        return [fc.embedding_column(cross, 4), fc.indicator_column(cross)]

    def listed_b():
        return fc.categorical_column_with_vocabulary_list("b", WORDS)

    features = {
        "age": (tf.float32, [None, 1]),
        "a": (tf.string, [None, None]),
        "b": (tf.string, "sparse"),
    }
    input_layer(str(tmp_path), features, columns)
    case = Case.load(str(tmp_path))
    (found,) = case.found
    assert len(found.lookup.streams) == 4 + 1  # the indicator doesn't drop negative ids
    feeds = {
        "age": np.array([[0.5], [1.5], [9]], np.float32),
        "a": strings([[b"x", b"y"], [b"", b"z"], [b"q", b"q"]]),
        "b": sparse([[b"red", b"nothing", b"blue"], [], [b"green"]], object),
    }
    assert case.check(feeds) == 0


def test_weighted_columns_carry_weights(tmp_path):
    def build(f):
        column = fc.weighted_categorical_column(hashed(), "w")
        combiners = ("sum", "mean", "sqrtn")
        layers = [
            v1.feature_column.input_layer(f, [fc.embedding_column(column, 4, combiner=c)])
            for c in combiners
        ]
        return tf.concat(layers, 1)

    v1_model(str(tmp_path), {**SPARSE_STRING, "w": (tf.float32, "sparse")}, build)
    case = Case.load(str(tmp_path))
    (found,) = case.found
    assert [bag.combiner for bag in found.lookup.bags] == ["sum", "mean", "sqrtn"]
    rows = [[b"x", b"y"], [], [b"z", b"z"], [b"x"]]
    weights = [[1.0, -2.0], [], [0.0, 0.5], [0.0]]
    feeds = {"a": sparse(rows, object), "w": sparse(weights, np.float32)}
    assert case.check(feeds) == 0


def test_a_linear_model_is_added_up(tmp_path):
    def build(f):
        age = fc.numeric_column("age")
        columns = [
            hashed(),
            listed_b(),
            fc.bucketized_column(age, [1.0, 2.0]),
            fc.crossed_column(["a", "b"], 20),
            age,
        ]
        return v1.feature_column.linear_model(f, columns)

    def listed_b():
        return fc.categorical_column_with_vocabulary_list("b", WORDS, num_oov_buckets=2)

    features = {
        **STRING_1,
        "b": (tf.string, [None, 1]),
        "age": (tf.float32, [None, 1]),
    }

    v1_model(str(tmp_path), features, build)
    case = Case.load(str(tmp_path))
    (found,) = case.found
    (output,) = found.lookup.outputs
    assert output.add and output.tail == (1,) and len(output.parts) == 5
    feeds = {
        "a": strings([[b"x"], [b""], [b"y"]]),
        "b": strings([[b"red"], [b"?"], [b""]]),
        "age": np.array([[0], [1], [7]], np.float32),
    }
    assert case.check(feeds) == 0


def test_sequences_have_two_dims_of_rows(tmp_path):
    def build(f):
        column = fc.sequence_categorical_column_with_hash_bucket("a", 10)
        embedding = fc.embedding_column(column, 4)
        layer, _ = tf_keras.experimental.SequenceFeatures([embedding])(f)
        return layer

    v1_model(str(tmp_path), STRING_N, build)
    case = Case.load(str(tmp_path))
    (found,) = case.found
    assert found.lookup.outputs[0].tail == (4,)
    assert case.check({"a": strings([[b"x", b"y"], [b"z", b""]])}) == 0


def test_unknown_vocabularies_leave_the_find_to_tensorflow(tmp_path):
    def build(f):
        return tf.concat(
            [
                v1.feature_column.input_layer(f, [fc.embedding_column(listed(), 4)]),
                v1.feature_column.input_layer(f, [fc.indicator_column(listed())]),
            ],
            1,
        )

    v1_model(str(tmp_path), STRING_1, build)
    case = Case.load(str(tmp_path), vocabularies=False)
    (found,) = case.found
    assert len(found.lookup.bags) == 2 and not found.lookup.vocabularies
