"""The wide & deep model: its feature columns, its graph, training and export.

It is written the way recommendation models in production are: a TensorFlow 1 graph, `linear_model`
for the wide part, `input_layer` in front of a small network for the deep part. Every family of
feature column occurs: numeric with a normaliser, bucketized, identity, hash bucket over strings
and over integers, vocabulary list, vocabulary file (an asset), crossed, weighted categorical,
indicator, embedding with each combiner, shared embedding, and a sequence column.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from examples.census import data

fc = tf.feature_column
v1 = tf.compat.v1

SIGNATURE = "serving_default"
WORD_BUCKETS = 64
AGE_BOUNDARIES = [18, 25, 30, 35, 40, 45, 50, 55, 60, 65]
HIDDEN_UNITS = (128, 64, 32)

_INPUTS: dict[str, tuple[Any, list[int | None]]] = {
    "age": (tf.float32, [None]),
    "capital_gain": (tf.float32, [None]),
    "capital_loss": (tf.float32, [None]),
    "education_num": (tf.int64, [None]),
    "hours_per_week": (tf.int64, [None]),
    "workclass": (tf.string, [None]),
    "education": (tf.string, [None]),
    "marital_status": (tf.string, [None]),
    "occupation": (tf.string, [None]),
    "relationship": (tf.string, [None]),
    "native_country": (tf.string, [None]),
    "job_words": (tf.string, [None, None]),
    "home_words": (tf.string, [None, None]),
}


@dataclass(frozen=True)
class Vocabularies:
    """What is learned from the training rows before the graph is built."""

    workclass: list[str]
    marital_status: list[str]
    relationship: list[str]
    occupation_file: str


@dataclass(frozen=True)
class Columns:
    """The feature columns of the three parts of the model."""

    wide: list[Any]
    deep: list[Any]
    sequence: list[Any]


@dataclass(frozen=True)
class Trained:
    """What `build` leaves behind: the SavedModel folder and how well the model does."""

    directory: Path
    steps: int
    train_loss: float
    test_accuracy: float
    test_rows: data.Features
    test_labels: np.ndarray


def _scaled(mean: float, deviation: float) -> Any:
    return lambda value: (tf.cast(value, tf.float32) - mean) / deviation


def _log1p(value: Any) -> Any:
    return tf.math.log1p(value) * 0.2


def make_columns(words: Vocabularies) -> Columns:
    """The feature columns, grouped by the part of the model that reads them."""
    age = fc.numeric_column("age", normalizer_fn=_scaled(38.6, 13.6))
    gain = fc.numeric_column("capital_gain", normalizer_fn=_log1p)
    loss = fc.numeric_column("capital_loss", normalizer_fn=_log1p)
    hours = fc.numeric_column("hours_per_week", dtype=tf.int64, normalizer_fn=_scaled(40.4, 12.3))
    age_buckets = fc.bucketized_column(fc.numeric_column("age"), AGE_BOUNDARIES)
    education_years = fc.categorical_column_with_identity(
        "education_num", num_buckets=17, default_value=0
    )
    education = fc.categorical_column_with_hash_bucket("education", 32)
    country = fc.categorical_column_with_hash_bucket("native_country", 100)
    hours_id = fc.categorical_column_with_hash_bucket("hours_per_week", 50, dtype=tf.int64)
    workclass = fc.categorical_column_with_vocabulary_list(
        "workclass", words.workclass, num_oov_buckets=1
    )
    marital = fc.categorical_column_with_vocabulary_list("marital_status", words.marital_status)
    relationship = fc.categorical_column_with_vocabulary_list(
        "relationship", words.relationship, default_value=0
    )
    occupation = fc.categorical_column_with_vocabulary_file(
        "occupation", words.occupation_file, num_oov_buckets=2
    )
    weighted_occupation = fc.weighted_categorical_column(occupation, "occupation_weight")
    job_words = fc.categorical_column_with_hash_bucket("job_words", WORD_BUCKETS)
    home_words = fc.categorical_column_with_hash_bucket("home_words", WORD_BUCKETS)
    sequence = fc.sequence_categorical_column_with_hash_bucket("job_words", WORD_BUCKETS)

    return Columns(
        wide=[
            age_buckets,
            education_years,
            workclass,
            marital,
            weighted_occupation,
            fc.crossed_column(["education", occupation], 1000),
            fc.crossed_column([age_buckets, "education", "relationship"], 2000),
            fc.crossed_column(["native_country", "job_words"], 2000),
        ],
        deep=[
            age,
            gain,
            loss,
            hours,
            fc.indicator_column(age_buckets),
            fc.indicator_column(education_years),
            fc.indicator_column(workclass),
            fc.indicator_column(marital),
            fc.indicator_column(relationship),
            fc.indicator_column(weighted_occupation),
            fc.embedding_column(education, 8),
            fc.embedding_column(country, 8, combiner="sqrtn"),
            fc.embedding_column(hours_id, 8, combiner="sum"),
            fc.embedding_column(weighted_occupation, 8, combiner="sum"),
            fc.embedding_column(job_words, 8, combiner="sqrtn", max_norm=2.0),
            *v1.feature_column.shared_embedding_columns([job_words, home_words], 8),
        ],
        sequence=[fc.embedding_column(sequence, 8)],
    )


def placeholders() -> dict[str, Any]:
    """One placeholder for each raw input, in the current graph."""
    return {
        name: v1.placeholder(dtype, shape, name=name) for name, (dtype, shape) in _INPUTS.items()
    }


def logits(inputs: dict[str, Any], columns: Columns) -> Any:
    """The model itself: float32 [batch, 1] in the current graph."""
    features = dict(inputs)
    # A column drops empty ids and zero weights each by itself: they must be in the same places.
    hours = tf.maximum(tf.cast(inputs["hours_per_week"], tf.float32), 1.0)
    known = tf.cast(tf.not_equal(inputs["occupation"], ""), tf.float32)
    features["occupation_weight"] = hours / 40.0 * known
    # `linear_model` and `input_layer` take over the dict they are given: hand each its own.
    with v1.variable_scope("wide"):
        wide = v1.feature_column.linear_model(dict(features), columns.wide)
    with v1.variable_scope("deep"):
        hidden = v1.feature_column.input_layer(dict(features), columns.deep)
        # A sequence layer is trained and served in the same way: no learning-phase input.
        steps, lengths = tf_keras.experimental.SequenceFeatures(columns.sequence)(
            dict(features), training=False
        )
        mask = tf.sequence_mask(lengths, tf.shape(steps)[1], dtype=tf.float32)[:, :, tf.newaxis]
        count = tf.maximum(tf.reduce_sum(mask, axis=1), 1.0)
        mean = tf.reduce_sum(steps * mask, axis=1) / count
        # Never below zero, and zero (not -inf) when every list of the batch is empty.
        peak = tf.maximum(tf.reduce_max(steps * mask, axis=1), 0.0)
        hidden = tf.concat([hidden, mean, peak], axis=1)
        for index, units in enumerate(HIDDEN_UNITS):
            hidden = tf.nn.relu(_dense(hidden, units, f"hidden_{index}"))
        deep = _dense(hidden, 1, "logits")
    return wide + deep


def build(
    directory: Path | str,
    *,
    rows: int | None = None,
    steps: int = 120,
    batch_size: int = 256,
    seed: int = 7,
) -> Trained:
    """Trains the model on the census rows and exports it to `directory`.

    Five sixths of the first `rows` rows (all by default) are trained on, the rest is held out.
    `directory` must not exist. Raises `tf.errors.InvalidArgumentError` and the like from
    TensorFlow; needs no network.
    """
    all_rows = data.read_rows(rows)
    split = len(all_rows) * 5 // 6
    train_rows, test_rows = all_rows[:split], all_rows[split:]
    with tempfile.TemporaryDirectory() as scratch:
        words = _learn_vocabularies(train_rows, scratch)
        checkpoint = os.path.join(scratch, "model")
        loss = _train(words, train_rows, checkpoint, steps, batch_size, seed)
        features, labels = data.features_of(test_rows), data.labels_of(test_rows)
        accuracy = _export(words, checkpoint, Path(directory), features, labels)
    return Trained(Path(directory), steps, loss, accuracy, features, labels)


def _dense(value: Any, units: int, name: str) -> Any:
    with v1.variable_scope(name):
        kernel = v1.get_variable(
            "kernel", [value.shape[-1], units], initializer=v1.glorot_uniform_initializer()
        )
        bias = v1.get_variable("bias", [units], initializer=v1.zeros_initializer())
        return tf.nn.bias_add(tf.matmul(value, kernel), bias)


def _learn_vocabularies(rows: Sequence[dict[str, str]], directory: str) -> Vocabularies:
    path = os.path.join(directory, "occupations.txt")
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{value}\n" for value in data.vocabulary(rows, "occupation"))
    return Vocabularies(
        workclass=data.vocabulary(rows, "workclass"),
        marital_status=data.vocabulary(rows, "marital_status"),
        relationship=data.vocabulary(rows, "relationship"),
        occupation_file=path,
    )


def _train(
    words: Vocabularies,
    rows: Sequence[dict[str, str]],
    checkpoint: str,
    steps: int,
    batch_size: int,
    seed: int,
) -> float:
    """Trains, saves a checkpoint, returns the mean loss of the last tenth of the steps."""
    features, labels = data.features_of(rows), data.labels_of(rows)
    random = np.random.default_rng(seed)
    with tf.Graph().as_default():
        v1.set_random_seed(seed)
        inputs = placeholders()
        label = v1.placeholder(tf.float32, [None], name="label")
        output = logits(inputs, make_columns(words))
        loss = tf.reduce_mean(
            tf.nn.sigmoid_cross_entropy_with_logits(labels=label, logits=output[:, 0])
        )
        wide = v1.trainable_variables("wide")
        deep = [v for v in v1.trainable_variables() if not v.name.startswith("wide/")]
        update = tf.group(
            v1.train.FtrlOptimizer(0.02, l2_regularization_strength=0.01).minimize(
                loss, var_list=wide
            ),
            v1.train.AdamOptimizer(1e-3).minimize(loss, var_list=deep),
        )
        saver = v1.train.Saver([*wide, *deep])
        losses = []
        with v1.Session() as session:
            session.run([v1.global_variables_initializer(), v1.tables_initializer()])
            for _ in range(steps):
                chosen = random.integers(0, len(rows), batch_size)
                feed = {inputs[name]: value for name, value in data.take(features, chosen).items()}
                feed[label] = labels[chosen]
                losses.append(session.run([loss, update], feed)[0])
            saver.save(session, checkpoint, write_meta_graph=False)
    return float(np.mean(losses[-max(1, steps // 10) :]))


def _export(
    words: Vocabularies,
    checkpoint: str,
    directory: Path,
    features: data.Features,
    labels: np.ndarray,
) -> float:
    """Writes the SavedModel from a graph without training ops; returns its accuracy."""
    with tf.Graph().as_default():
        inputs = placeholders()
        output = logits(inputs, make_columns(words))
        outputs = {
            "logits": tf.identity(output, name="output_logits"),
            "probabilities": tf.sigmoid(output, name="output_probabilities"),
            "classes": tf.cast(output[:, 0] > 0.0, tf.int64, name="output_classes"),
        }
        with v1.Session() as session:
            session.run(v1.tables_initializer())
            v1.train.Saver().restore(session, checkpoint)
            feed = {inputs[name]: value for name, value in features.items()}
            classes = session.run(outputs["classes"], feed)
            builder = v1.saved_model.Builder(str(directory))
            builder.add_meta_graph_and_variables(
                session,
                [tf.saved_model.SERVING],
                signature_def_map={
                    SIGNATURE: v1.saved_model.predict_signature_def(inputs, outputs)
                },
                assets_collection=v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS),
                main_op=v1.tables_initializer(),
                strip_default_attrs=True,
            )
            try:
                builder.save()
            except BaseException:
                shutil.rmtree(directory, ignore_errors=True)
                raise
    return float(np.mean(classes == labels))
