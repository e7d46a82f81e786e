"""Signatures of a TF1 graph that are fed with different inputs keep working on their own."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

import tf_blade

v1 = tf.compat.v1


def test_a_signature_needs_no_input_of_another(tmp_path):
    path, out = str(tmp_path / "model"), str(tmp_path / "optimised")
    with tf.Graph().as_default(), v1.Session() as session:
        words = v1.placeholder(tf.string, [None, 1], "words")
        items = v1.placeholder(tf.string, [None, 1], "items")
        column = tf.feature_column

        def embedded(name: str, tensor: tf.Tensor) -> tf.Tensor:
            hashed = column.categorical_column_with_hash_bucket(name, 50)
            return v1.feature_column.input_layer(
                {name: tensor}, [column.embedding_column(hashed, 4)]
            )

        word = embedded("words", words)
        both = tf.concat([word, embedded("items", items)], 1)
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        signature = v1.saved_model.signature_def_utils.predict_signature_def
        builder = v1.saved_model.Builder(path)
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            {
                "one": signature({"words": words}, {"y": word}),
                "two": signature({"words": words, "items": items}, {"y": both}),
            },
        )
        builder.save()
    config = tf_blade.Config(lookups="library", timing_seconds=0.0, repeated_rows=False)
    model = tf_blade.optimize(path, out, config=config)
    assert all(column.fused for region in model.report.regions for column in region.columns)
    original = tf.saved_model.load(path)
    words_fed, items_fed = tf.constant([["a"], ["b"]]), tf.constant([["x"], ["y"]])
    for name, feeds in (
        ("one", {"words": words_fed}),
        ("two", {"words": words_fed, "items": items_fed}),
    ):
        want = original.signatures[name](**feeds)["y"]
        got = tf_blade.load(out).signatures[name](**feeds)["y"]
        np.testing.assert_allclose(got, want, rtol=1e-6)
