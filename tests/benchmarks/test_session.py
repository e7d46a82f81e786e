"""The C++ session against TensorFlow's own Python functions."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.session import Session


class Model(tf.Module):
    def __init__(self):
        super().__init__()
        self.weight = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
        self.calls = tf.Variable(0, dtype=tf.int64)

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, 2], tf.float32, "x"),
            tf.TensorSpec([None], tf.string, "word"),
            tf.TensorSpec([], tf.int64, "shift"),
        ]
    )
    def __call__(self, x, word, shift):
        self.calls.assign_add(1)
        return {
            "y": tf.matmul(x, self.weight),
            "word": tf.strings.join([word, word]),
            "length": tf.cast(tf.strings.length(word), tf.int64) + shift,
            "even": shift % 2 == 0,
            "calls": self.calls.read_value(),
        }


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("session") / "model"
    model = Model()
    tf.saved_model.save(model, str(path), signatures=model.__call__.get_concrete_function())
    return path


def feeds(batch):
    return {
        "x": np.arange(2 * batch, dtype=np.float32).reshape(batch, 2),
        # Longer and shorter than what TensorFlow keeps inside a tstring, empty, and with a zero.
        "word": np.array([b"", b"a\0b", b"w" * 23, b"long " * 40] * batch, object)[:batch],
        "shift": np.array(2**40, np.int64),
    }


@pytest.mark.parametrize("batch", [0, 1, 4])
def test_outputs_equal_those_of_the_concrete_function(directory, batch):
    given = feeds(batch)
    with Session(directory) as session:
        outputs = session.bind("serving_default", given).outputs()
    function = tf.saved_model.load(str(directory)).signatures["serving_default"]
    expected = function(**{name: tf.constant(value) for name, value in given.items()})
    assert set(outputs) == set(expected)
    for name, value in expected.items():
        assert outputs[name].dtype == value.numpy().dtype or value.dtype == tf.string
        np.testing.assert_array_equal(outputs[name], value.numpy())


def test_every_run_runs_the_model(directory):
    with Session(directory) as session:
        call = session.bind("serving_default", feeds(2))
        for _ in range(3):
            call.run()
        assert call.outputs()["calls"] == 4


def test_sessions_keep_their_own_variables(directory):
    with Session(directory) as first, Session(directory) as second:
        first.bind("serving_default", feeds(1)).run()
        assert second.bind("serving_default", feeds(1)).outputs()["calls"] == 1


def test_text_feeds_may_be_str(directory):
    given = feeds(1) | {"word": np.array(["ü"], object)}
    with Session(directory) as session:
        outputs = session.bind("serving_default", given).outputs()
    assert outputs["word"].tolist() == ["üü".encode()]


def test_missing_feed_is_named(directory):
    given = feeds(1)
    del given["shift"]
    with Session(directory) as session, pytest.raises(KeyError, match="shift"):
        session.bind("serving_default", given)


def test_feed_of_another_dtype_is_refused(directory):
    given = feeds(1) | {"x": np.ones((1, 2), np.float64)}
    with Session(directory) as session, pytest.raises(TypeError, match="float64"):
        session.bind("serving_default", given)


def test_error_of_the_model_is_raised(directory):
    given = feeds(1) | {"x": np.ones((1, 3), np.float32)}
    with Session(directory) as session:
        call = session.bind("serving_default", given)
        with pytest.raises(RuntimeError, match="Matrix size-incompatible"):
            call.run()


def test_folder_that_is_no_saved_model_is_refused(tmp_path):
    with pytest.raises(RuntimeError, match="Could not find SavedModel"):
        Session(tmp_path)
