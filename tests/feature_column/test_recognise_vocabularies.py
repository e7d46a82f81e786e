"""Contents of lookup tables, as they are found in SavedModels."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.feature_column.models import Case, fc, function_model, strings, v1, v1_model
from tests.feature_column.models import vocabulary_file as write_words
from tf_blade.feature_column import vocabularies
from tf_blade.feature_column.spec import Vocabulary

WORDS = tf.TensorSpec([None], tf.string, "words")


def contents(path):
    """What is known of each table that the model's graph finds keys in."""
    case = Case.load(str(path))
    return [case.vocabulary_of(n.inputs[0]) for n in case.graph if n.op == "LookupTableFindV2"]


def save_table(path, table):
    function_model(str(path), lambda words: table.lookup(words), WORDS, table=table)


def test_a_list_of_keys_and_values(tmp_path):
    values = tf.constant([7, 9], tf.int64)
    initialiser = tf.lookup.KeyValueTensorInitializer([b"red", b"\xff"], values)
    save_table(tmp_path, tf.lookup.StaticHashTable(initialiser, -1))
    assert contents(tmp_path) == [Vocabulary((b"red", b"\xff"), (7, 9))]


def test_an_asset_file_by_lines(tmp_path):
    asset = tf.saved_model.Asset(write_words(tmp_path, ["apple", "pear", "f\xfcr"]))
    initialiser = tf.lookup.TextFileInitializer(
        asset,
        tf.string,
        tf.lookup.TextFileIndex.WHOLE_LINE,
        tf.int64,
        tf.lookup.TextFileIndex.LINE_NUMBER,
    )
    save_table(tmp_path / "model", tf.lookup.StaticVocabularyTable(initialiser, 1))
    assert contents(tmp_path / "model") == [Vocabulary((b"apple", b"pear", "f\xfcr".encode()))]


def test_columns_of_a_file(tmp_path):
    path = tmp_path / "words.csv"
    path.write_text("5,apple\n0,pear\n")
    initialiser = tf.lookup.TextFileInitializer(
        tf.saved_model.Asset(str(path)), tf.string, 1, tf.int64, 0, delimiter=","
    )
    save_table(tmp_path / "model", tf.lookup.StaticHashTable(initialiser, -1))
    assert contents(tmp_path / "model") == [Vocabulary((b"pear", b"apple"), (0, 5))]


def test_a_table_that_can_be_written_is_unknown(tmp_path):
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    table.insert([b"red"], tf.constant([1], tf.int64))
    save_table(tmp_path, table)
    assert contents(tmp_path) == [None]


@pytest.mark.parametrize("times", [1, 2])
def test_tables_of_a_graph_that_are_filled_once_or_twice_with_the_same(tmp_path, times):
    def build(f):
        words = fc.categorical_column_with_vocabulary_file(
            "a", write_words(tmp_path, ["x", "y"]), num_oov_buckets=1
        )
        columns = [fc.indicator_column(words)]
        return tf.concat([v1.feature_column.input_layer(f, columns) for _ in range(times)], 1)

    v1_model(str(tmp_path / "model"), {"a": (tf.string, [None, 1])}, build)
    found = contents(tmp_path / "model")
    assert found and set(found) == {Vocabulary((b"x", b"y"))}


def test_keys_of_integers(tmp_path):
    keys = tf.constant([2**40, -3], tf.int64)
    initialiser = tf.lookup.KeyValueTensorInitializer(keys, tf.constant([0, 1], tf.int64))
    table = tf.lookup.StaticHashTable(initialiser, -1)
    spec = tf.TensorSpec([None], tf.int64, "ids")
    function_model(str(tmp_path), lambda ids: table.lookup(ids), spec, table=table)
    assert contents(tmp_path) == [Vocabulary((2**40, -3))]


def test_find_gives_the_values(tmp_path):
    values = tf.constant([7, 0], tf.int64)
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "b"], values), 3)
    rows = tf.Variable(np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32))

    def look(words):
        ids = table.lookup(words)
        return tf.concat([tf.gather(rows, ids), tf.one_hot(ids, 8)], 1)

    function_model(str(tmp_path), look, WORDS, table=table, rows=rows)
    case = Case.load(str(tmp_path))
    assert case.found[0].lookup.vocabularies == (Vocabulary((b"a", b"b"), (7, 0)),)
    assert case.check({"words": strings([b"a", b"b", b"c"])}) == 0


def test_a_model_s_vocabularies_are_known_up_to_so_many_bytes(tmp_path, monkeypatch):
    def table(keys):
        values = tf.range(len(keys), dtype=tf.int64)
        initialiser = tf.lookup.KeyValueTensorInitializer(keys, values)
        return tf.lookup.StaticHashTable(initialiser, -1)

    tables = [table(["12345"]), table(["1234", "56"]), table(["x" * 7]), table(["123"])]

    def look(words):
        return tf.stack([one.lookup(words) for one in tables])

    function_model(str(tmp_path), look, WORDS, tables=tables)
    monkeypatch.setattr(vocabularies, "MAX_KEY_BYTES", 6)
    monkeypatch.setattr(vocabularies, "MAX_MODEL_BYTES", 12)
    known = [None if found is None else len(found.keys) for found in contents(tmp_path)]
    assert known == [1, 2, None, None]
