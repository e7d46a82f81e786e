"""The census example: its data, its model, its SavedModel."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from examples.census import data, model

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return model.build(tmp_path_factory.mktemp("census") / "model", rows=300, steps=3)


@pytest.fixture(scope="module")
def signature(trained):
    loaded = tf.saved_model.load(str(trained.directory))
    function = loaded.signatures[model.SIGNATURE]
    function.keep_alive = loaded
    return function


@pytest.fixture(scope="module")
def graph(trained):
    content = (trained.directory / "saved_model.pb").read_bytes()
    return saved_model_pb2.SavedModel.FromString(content).meta_graphs[0].graph_def


def call(function, features):
    outputs = function(**{name: tf.constant(value) for name, value in features.items()})
    return {name: value.numpy() for name, value in outputs.items()}


def test_data_file_holds_the_rows_its_readme_promises():
    rows = data.read_rows()
    assert len(rows) == 6000
    assert set(rows[0]) >= {"age", "education", "occupation", "income", "race", "sex", "fnlwgt"}
    assert {row["income"] for row in rows} == {"<=50K", ">50K"}
    assert 0.2 < data.labels_of(rows).mean() < 0.3
    assert min(int(row["age"]) for row in rows) >= 17


def test_word_lists_are_padded_to_the_longest_of_the_batch():
    rows = data.read_rows(50)
    words = data.features_of(rows)["job_words"]
    longest = max(len(f"{row['workclass']}-{row['occupation']}".split("-")) for row in rows)
    assert words.shape == (50, longest)
    assert words[0].tolist()[:4] == [b"State", b"gov", b"Adm", b"clerical"]
    assert set(words[0].tolist()[4:]) <= {b""}
    assert data.features_of(rows[:1])["job_words"].shape == (1, 4)


def test_vocabulary_is_ordered_by_frequency_and_leaves_missing_values_out():
    rows = [{"x": value} for value in ["b", "a", "b", "?", "c", "a", "b"]]
    assert data.vocabulary(rows, "x") == ["b", "a", "c"]


@pytest.mark.parametrize("batch", [1, 7, 50])
def test_signature_answers_any_batch_size(trained, signature, batch):
    features = data.take(trained.test_rows, np.arange(batch))
    outputs = call(signature, features)
    assert outputs["probabilities"].shape == (batch, 1)
    assert outputs["classes"].shape == (batch,)
    np.testing.assert_allclose(
        outputs["probabilities"], 1 / (1 + np.exp(-outputs["logits"])), rtol=1e-5
    )
    np.testing.assert_array_equal(outputs["classes"], outputs["logits"][:, 0] > 0)


def test_a_row_gets_the_same_prediction_alone_and_in_a_batch(trained, signature):
    together = call(signature, trained.test_rows)["logits"]
    for row in (0, 11):
        alone = call(signature, data.take(trained.test_rows, np.array([row])))["logits"]
        np.testing.assert_allclose(alone[0], together[row], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["job_words", "home_words"])
def test_empty_word_lists_give_finite_predictions(trained, signature, name):
    features = data.take(trained.test_rows, np.arange(4))
    features[name] = np.full((4, 3), b"", object)
    assert np.isfinite(call(signature, features)["logits"]).all()


@pytest.mark.parametrize("name", ["occupation", "workclass", "marital_status", "relationship"])
def test_values_outside_the_vocabulary_are_accepted(trained, signature, name):
    features = data.take(trained.test_rows, np.arange(4))
    features[name] = np.array([b"astronaut", b"", b"?", b"\xff\x00"], object)
    assert np.isfinite(call(signature, features)["logits"]).all()


def test_zero_hours_and_unknown_occupations_are_accepted(trained, signature):
    features = data.take(trained.test_rows, np.arange(4))
    features["hours_per_week"] = np.array([0, 40, 0, -3])
    features["occupation"] = np.array([b"Sales", b"", b"", b"Sales"], object)
    assert np.isfinite(call(signature, features)["logits"]).all()


def test_wide_and_deep_part_both_read_every_family_of_feature_column(graph):
    ops = Counter(node.op for node in graph.node)
    names = [node.name for node in graph.node]

    def has(part):
        return any(part in name for name in names)

    assert ops["Bucketize"] == 2 and has("age_bucketized")  # bucketized, wide and deep
    assert ops["Log1p"] == 2  # numeric with a normaliser
    assert has("education_num_indicator")  # identity, indicator
    assert ops["StringToHashBucketFast"] >= 5  # hash bucket
    assert ops["AsString"] >= 1  # ... over integers
    assert ops["LookupTableImportV2"] >= 3  # vocabulary list
    assert ops["InitializeTableFromTextFileV2"] >= 1  # vocabulary file
    assert ops["SparseCross"] == 3  # crossed
    assert has("occupation_weighted_by_occupation_weight")  # weighted categorical
    for combiner in ("SparseSegmentMean", "SparseSegmentSum", "SparseSegmentSqrtN"):
        assert ops[combiner] >= 1  # embedding with each combiner
    assert ops["SegmentSum"] >= 1  # ... and with weights
    assert has("sequence_features")  # sequence


def test_shared_embedding_is_one_variable_with_two_readers(graph):
    shared = [n.name for n in graph.node if n.op == "VarHandleOp" and "shared_embedding" in n.name]
    assert len(shared) == 1
    readers = [n for n in graph.node if n.op == "ResourceGather" and n.input[0] in shared]
    assert len(readers) == 2


def test_serving_graph_holds_no_training_ops(graph):
    assert not [n.name for n in graph.node if "Ftrl" in n.op or "Adam" in n.op or "Grad" in n.op]


def test_training_lowers_the_loss_and_is_repeatable(trained, tmp_path):
    again = model.build(tmp_path / "again", rows=300, steps=3)
    more = model.build(tmp_path / "more", rows=300, steps=60)
    assert again.train_loss == pytest.approx(trained.train_loss, rel=1e-4)
    assert more.train_loss < trained.train_loss - 0.1


def test_moved_model_loads_in_a_fresh_process(trained, tmp_path):
    moved = tmp_path / "moved"
    shutil.copytree(trained.directory, moved)
    program = (
        "import sys, tensorflow as tf\n"
        "function = tf.saved_model.load(sys.argv[1]).signatures['serving_default']\n"
        "print(sorted(function.structured_input_signature[1]))\n"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program, str(moved)], capture_output=True, text=True, check=True
    ).stdout
    assert printed.strip() == str(sorted(data.features_of(data.read_rows(1))))


def test_demo_runs_from_training_to_the_speed_up_table(tmp_path):
    command = [sys.executable, "-m", "examples.census.demo", "--output", str(tmp_path / "out")]
    options = ["--rows", "300", "--steps", "3", "--seconds", "0.05", "--optimize-seconds", "0.2"]
    finished = subprocess.run(
        command + options, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "Held-out rows: 50" in finished.stdout
    for batch in ("1", "16", "128", "512"):
        assert f"Timing batch {batch}:" in finished.stdout
    assert (tmp_path / "out" / "optimized" / "saved_model.pb").is_file()
