"""Models of both formats, loaded and asked."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tf_blade.errors import SavedModelError, SignatureError
from tf_blade.runner import Recorded, Runner

v1 = tf.compat.v1


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A TF1 model."""
    path = tmp_path_factory.mktemp("runner") / "model"
    with tf.Graph().as_default(), v1.Session() as session:
        x, y = v1.placeholder(tf.float32, [None], "x"), v1.placeholder(tf.string, [None], "y")
        weight = v1.get_variable("weight", initializer=3.0, use_resource=True)
        product = tf.multiply(x, weight)
        both = tf.strings.join([y, tf.strings.as_string(product, precision=1)])
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(path), {"x": x, "y": y}, {"p": product, "b": both})
    return path


@pytest.fixture(scope="module")
def feeds() -> dict[str, np.ndarray]:
    return {"x": np.array([1, 2], np.float32), "y": np.array([b"a", b"\0b"], object)}


def test_a_tf1_model_answers_as_with_tensorflows_own_loader(folder, feeds):
    expected = tf.saved_model.load(str(folder)).signatures["serving_default"](
        **{name: tf.constant(value) for name, value in feeds.items()}
    )
    for grappler in (True, False):
        answers = Runner(folder, ("serve",), grappler).run("serving_default", feeds)
        assert list(answers) == ["b", "p"]
        for name, value in answers.items():
            np.testing.assert_array_equal(value, expected[name].numpy())


def test_without_grappler_a_function_runs_as_it_is_written(tmp_path):
    class ShapeOfWhatFails(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([3], tf.float32, "x")])
        def serve(self, x):
            # Grappler knows the shape, and drops the op that fails.
            return {"shape": tf.raw_ops.Shape(input=tf.gather(x, [7]))}

    module, feeds = ShapeOfWhatFails(), {"x": np.zeros(3, np.float32)}
    tf.saved_model.save(module, str(tmp_path / "model"), signatures=module.serve)
    with_grappler = Runner(tmp_path / "model", ("serve",))
    assert with_grappler.run("serving_default", feeds)["shape"] == [1]
    with pytest.raises(tf.errors.InvalidArgumentError, match="7 is not in"):
        Runner(tmp_path / "model", ("serve",), grappler=False).run("serving_default", feeds)
    again = Runner(tmp_path / "model", ("serve",))
    assert again.run("serving_default", feeds)["shape"] == [1]


def test_an_unknown_signature_is_named(folder, feeds):
    with pytest.raises(SignatureError, match=r"no signature 'nope' \(has: serving_default\)"):
        Runner(folder, ("serve",)).run("nope", feeds)


def test_a_damaged_checkpoint_is_an_error_of_the_model(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "model")
    (data,) = (tmp_path / "model" / "variables").glob("variables.data*")
    data.write_bytes(b"")
    with pytest.raises(SavedModelError, match="TensorFlow can't load"):
        Runner(tmp_path / "model", ("serve",))


def test_a_signature_that_lacks_an_input_is_refused_at_loading(tmp_path):
    path = tmp_path / "model"
    with tf.Graph().as_default(), v1.Session() as session:
        x, y = v1.placeholder(tf.float32, [], "x"), v1.placeholder(tf.float32, [], "y")
        v1.saved_model.simple_save(session, str(path), {"x": x}, {"sum": x + y})
    with pytest.raises(SavedModelError, match="placeholder"):
        Runner(path, ("serve",))


def test_recorded_answers_need_no_model(folder, feeds):
    asked = []

    def runner() -> Runner:
        asked.append(Runner(folder, ("serve",)))
        return asked[-1]

    recorded = Recorded(runner)
    first = recorded.run("serving_default", feeds)
    again = recorded.run("serving_default", feeds)
    assert len(asked) == 1
    np.testing.assert_array_equal(first["p"], again["p"])
    other = recorded.run("serving_default", dict(feeds, x=np.array([5, 6], np.float32)))
    assert len(asked) == 2
    np.testing.assert_array_equal(other["p"], [15, 18])
