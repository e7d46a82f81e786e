"""Small SavedModels of every format, each built once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tf_blade.config import Config


class TwoSignatures(tf.Module):
    """y = (x + v) * 2 on floats, and a lookup of words in a table."""

    def __init__(self) -> None:
        super().__init__()
        self.v = tf.Variable(np.arange(3, dtype=np.float32))
        keys = tf.constant(["red", "on"])
        init = tf.lookup.KeyValueTensorInitializer(keys, tf.constant([5, 7], tf.int64))
        self.table = tf.lookup.StaticHashTable(init, -1)

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, "x")])
    def double(self, x):
        return {"y": (x + self.v) * 2.0, "sum": tf.reduce_sum(x, 1)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "words")])
    def lookup(self, words):
        return {"ids": self.table.lookup(words), "words": words}


@pytest.fixture(scope="session")
def two_signatures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "two"
    module = TwoSignatures()
    signatures = {"serving_default": module.double, "lookup": module.lookup}
    tf.saved_model.save(module, str(path), signatures=signatures)
    (path / "assets.extra").mkdir()
    (path / "assets.extra" / "note.txt").write_text("kept")
    return path


class Counter(tf.Module):
    """Keeps a running sum in a variable."""

    def __init__(self) -> None:
        super().__init__()
        self.total = tf.Variable(0.0)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x")])
    def add(self, x):
        return {"total": self.total.assign_add(tf.reduce_sum(x) * 0.5)}


@pytest.fixture(scope="session")
def stateful(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "stateful"
    module = Counter()
    tf.saved_model.save(module, str(path), signatures=module.add)
    return path


class DenseAndSparse(tf.Module):
    """Two signatures: one of plain tensors, and one with a sparse output."""

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, "x")])
    def dense(self, x):
        return {"y": x * 2.0 + 1.0}

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, "x")])
    def sparse(self, x):
        return {"y": tf.sparse.from_dense(tf.nn.relu(x) * 3.0)}


@pytest.fixture(scope="session")
def dense_and_sparse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "dense_and_sparse"
    module = DenseAndSparse()
    signatures = {"serving_default": module.dense, "sparse": module.sparse}
    tf.saved_model.save(module, str(path), signatures=signatures)
    return path


@pytest.fixture(scope="session")
def random_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, "x")])
    def noisy(x):
        return {"noisy": x + tf.random.normal(tf.shape(x)), "plain": x * 3.0}

    path = tmp_path_factory.mktemp("models") / "random"
    module = tf.Module()
    module.noisy = noisy
    tf.saved_model.save(module, str(path), signatures=noisy)
    return path


@pytest.fixture(scope="session")
def tf1_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """TF1 format: z = a * w + b under two signature names, and an output of its own."""
    path = tmp_path_factory.mktemp("models") / "tf1"
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        a = v1.placeholder(tf.float32, [None, 2], "a")
        b = v1.placeholder(tf.float32, [None, 2], "b")
        w = v1.get_variable("w", initializer=np.array([2.0, 3.0], np.float32), use_resource=False)
        z = tf.add(a * w, b, "z")
        session.run(v1.global_variables_initializer())
        info = v1.saved_model.build_tensor_info
        inputs = {"a": info(a), "b": info(b)}
        build = v1.saved_model.build_signature_def
        builder = v1.saved_model.Builder(str(path))
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            {
                "serving_default": build(inputs, {"z": info(z)}, "predict"),
                "same": build(inputs, {"z": info(z)}, "predict"),
            },
        )
        builder.save()
    return path


@pytest.fixture(scope="session")
def example_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Reads serialized tf.Examples: age (one float), tags (any number of strings)."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def predict(examples):
        spec = {
            "age": tf.io.FixedLenFeature([1], tf.float32),
            "ids": tf.io.FixedLenFeature([2], tf.int64),
            "tags": tf.io.VarLenFeature(tf.string),
        }
        parsed = tf.io.parse_example(examples, spec)
        lengths = tf.strings.length(tf.sparse.to_dense(parsed["tags"], ""))
        count = tf.reduce_sum(lengths, 1, keepdims=True)
        return {"score": parsed["age"] * 2.0 + tf.cast(count, tf.float32), "ids": parsed["ids"]}

    path = tmp_path_factory.mktemp("models") / "example"
    module = tf.Module()
    module.predict = predict
    tf.saved_model.save(module, str(path), signatures=predict)
    return path


@pytest.fixture
def quick() -> Config:
    """No timing: the test's speed must not depend on the machine's."""
    return Config(timing_seconds=0)
