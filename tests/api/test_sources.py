"""Every kind of model that `optimize` takes, and what it says to others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.api import fakes
from tf_blade import Config, OptimizedModel, api
from tf_blade.errors import InputError, SavedModelError

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def run(quick: Config):
    def optimise(model: object) -> OptimizedModel:
        optimized = api.run(fakes.copying, model, config=quick)
        assert all(s.check.status == "passed" for s in optimized.report.signatures)
        return optimized

    return optimise


def test_a_keras_3_model_is_called_as_before(run):
    import keras

    a, b = keras.Input((3,), name="a"), keras.Input((2,), name="b")
    outputs = {"p": keras.layers.Dense(2)(a), "q": keras.layers.Dense(1)(b)}
    keras_model = keras.Model([a, b], outputs)
    optimized = run(keras_model)
    feeds = [X, X[:, :2]]
    answers = optimized(feeds)
    assert set(answers) == {"p", "q"}
    expected = keras_model(feeds)
    np.testing.assert_allclose(answers["p"], expected["p"], rtol=1e-5)
    np.testing.assert_allclose(optimized({"a": X, "b": X[:, :2]})["q"], expected["q"], rtol=1e-5)
    assert "serving_default" in optimized.signatures


def test_a_tf_keras_model_is_called_as_before(run):
    import tf_keras

    inputs = tf_keras.Input((3,), name="numbers")
    keras_model = tf_keras.Model(inputs, tf_keras.layers.Dense(2, name="scores")(inputs))
    optimized = run(keras_model)
    answer = optimized(X, training=False)
    np.testing.assert_allclose(answer, keras_model(X), rtol=1e-5)
    assert list(optimized.signatures["serving_default"].structured_outputs) == ["scores"]


def test_a_keras_model_that_was_never_built_is_refused(run):
    import keras
    import tf_keras

    for library in (keras, tf_keras):
        unbuilt = library.Sequential([library.layers.Dense(2)])
        with pytest.raises(InputError, match="Call it once"):
            run(unbuilt)


def test_a_loaded_model_keeps_changes_made_since_loading(run, two_signatures: Path):
    loaded = tf.saved_model.load(str(two_signatures))
    loaded.v.assign([10.0, 10.0, 10.0])
    optimized = run(loaded)
    answers = optimized.signatures["serving_default"](x=tf.constant(X))
    np.testing.assert_allclose(answers["y"], (X + 10) * 2)
    words = optimized.signatures["lookup"](words=tf.constant(["on", "?"]))
    assert words["ids"].numpy().tolist() == [7, -1]


def test_a_loaded_tf1_model_is_taken(run, tmp_path: Path):
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 3], "x")
        w = v1.get_variable("w", initializer=np.float32(4), use_resource=True)
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(tmp_path / "m"), {"x": x}, {"y": x * w})
    optimized = run(tf.saved_model.load(str(tmp_path / "m")))
    np.testing.assert_allclose(optimized(X)["y"], X * 4)


def test_a_loaded_model_with_reference_variables_must_come_as_a_folder(run, tf1_model: Path):
    with pytest.raises(InputError, match=r"reference variable.*Pass its SavedModel folder"):
        run(tf.saved_model.load(str(tf1_model)))


def test_a_tf1_folder_is_taken(run, tf1_model: Path):
    optimized = run(str(tf1_model))
    answers = optimized({"a": X[:, :2], "b": X[:, :2]})
    np.testing.assert_allclose(answers["z"], X[:, :2] * [2, 3] + X[:, :2])


def test_a_function_with_nested_arguments_and_results_is_called_as_before(run):
    scale = tf.Variable([1.0, 2.0, 3.0])

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, 3], tf.float32, "x"),
            {"shift": tf.TensorSpec([3], tf.float32), "gain": tf.TensorSpec([], tf.float32)},
        ]
    )
    def apply(x, options):
        return x * scale + options["shift"], [options["gain"] * x]

    optimized = run(apply)
    options = {"shift": np.ones(3, np.float32), "gain": np.float32(2)}
    first, (second,) = optimized(X, options)
    np.testing.assert_allclose(first, X * [1, 2, 3] + 1)
    np.testing.assert_allclose(second, X * 2)


def test_a_function_called_once_and_its_concrete_function_are_taken(run):
    @tf.function
    def square(x):
        return {"squared": x * x}

    with pytest.raises(InputError, match="was never called"):
        run(square)
    square(tf.constant(X))
    np.testing.assert_allclose(run(square)(X)["squared"], X * X)
    concrete = square.get_concrete_function(tf.TensorSpec([None, 3]))
    with pytest.raises(InputError, match="called with 2 signatures"):
        run(square)
    np.testing.assert_allclose(run(concrete)(X[:1])["squared"], (X * X)[:1])


def test_a_function_with_a_table_it_closes_over_is_taken(run):
    init = tf.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2])
    table = tf.lookup.StaticHashTable(init, 0)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "w")])
    def look_up(w):
        return table.lookup(w)

    assert run(look_up)(["b", "?"]).numpy().tolist() == [2, 0]


def test_a_method_of_a_module_is_taken(run):
    class Scale(tf.Module):
        def __init__(self):
            super().__init__()
            self.by = tf.Variable(3.0)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x")])
        def __call__(self, x):
            return x * self.by

    module = Scale()
    np.testing.assert_allclose(run(module.__call__)([1.0, 2.0]), [3, 6])


def frozen_graph() -> tf.compat.v1.GraphDef:
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [None, 3], "x")
        tf.compat.v1.placeholder(tf.float32, [None], "unused")
        tf.split(x * 2.0, [1, 2], axis=1, name="parts")
        tf.identity(x + 1.0, "plus")
    return graph.as_graph_def()


def test_a_frozen_graph_keeps_its_names(run, tmp_path: Path):
    optimized = run((frozen_graph(), ["plus", "parts:1"]))
    answers = optimized(X)
    np.testing.assert_allclose(answers["plus"], X + 1)
    np.testing.assert_allclose(answers["parts:1"], X[:, 1:] * 2)
    file = tmp_path / "frozen.pb"
    file.write_bytes(frozen_graph().SerializeToString())
    optimized = run({"graph_def": str(file), "inputs": ["x:0"], "outputs": ["plus:0"]})
    assert set(optimized({"x": X})) == {"plus"}


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda: (frozen_graph(), ["pluss"]), r"no node 'pluss'. Did you mean 'plus'"),
        (lambda: (frozen_graph(), ["plus:3"]), "has no output 3"),
        (lambda: (frozen_graph(), "plus"), "must be a list of names"),
        (lambda: (frozen_graph(), []), "must be a list of names"),
        (lambda: (3, ["plus"]), "must be a GraphDef"),
        (lambda: ("/no/such.pb", ["plus"]), "can't read the GraphDef"),
        (lambda: frozen_graph(), "doesn't say what its outputs are"),
        (lambda: {"graph_def": frozen_graph()}, "'graph_def', 'outputs'"),
        (lambda: 3, "can't optimise a int. Pass the path of a SavedModel folder"),
        (lambda: None, "can't optimise a NoneType"),
        (lambda: tf.Module(), "no signatures to call"),
        (lambda: lambda x: x, "can't optimise a function"),
    ],
)
def test_other_objects_are_refused_with_what_to_pass(run, model, message: str):
    with pytest.raises(InputError, match=message):
        run(model())


def test_a_graph_that_is_not_frozen_is_refused(run):
    with tf.Graph().as_default() as graph:
        v = tf.compat.v1.get_variable("v", [2], use_resource=True)
        tf.identity(v, "out")
    with pytest.raises(InputError, match="not frozen: node 'v' is a VarHandleOp"):
        run((graph.as_graph_def(), ["out"]))


def test_a_model_without_signatures_is_refused(run, tmp_path: Path):
    tf.saved_model.save(tf.Module(), str(tmp_path / "m"))
    with pytest.raises(InputError, match="has no signature to call"):
        run(tmp_path / "m")


def test_a_path_that_does_not_exist_is_refused(run):
    with pytest.raises(SavedModelError, match="does not exist"):
        run(Path("/no/such/model"))
