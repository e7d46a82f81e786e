"""Small SavedModels of every kind, built on the spot. Each builder returns what to ask the model.

A builder takes the folder to write and returns its questions: tags, signature, feeds by input
name.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

Question = tuple[list[str], str, dict[str, Any]]
Builder = Callable[[str], list[Question]]

v1 = tf.compat.v1
SERVE = ["serve"]
ROWS = np.linspace(-1.0, 1.0, 12, dtype=np.float32).reshape(3, 4)


def keras3_export(path: str) -> list[Question]:
    import keras

    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(2)]
    )
    model.export(path, verbose=False)
    return [
        (SERVE, "serving_default", _only_input(path, ROWS)),
        (SERVE, "serve", _only_input(path, ROWS)),
    ]


def tf_keras_save(path: str) -> list[Question]:
    """BatchNormalization is written in training mode only; the LSTM runs a While."""
    import tf_keras

    tf_keras.utils.set_random_seed(1)
    inputs = tf_keras.Input((5, 4), name="steps")
    x = tf_keras.layers.LSTM(6)(inputs)
    x = tf_keras.layers.BatchNormalization()(x)
    outputs = tf_keras.layers.Dense(2, name="scores")(x)
    model = tf_keras.Model(inputs, outputs)
    model.compile(loss="mse")
    rng = np.random.default_rng(0)
    model.fit(rng.normal(size=(8, 5, 4)), rng.normal(size=(8, 2)), verbose=0)
    model.save(path, save_format="tf")
    steps = rng.normal(size=(3, 5, 4)).astype(np.float32)
    return [(SERVE, "serving_default", {"steps": steps})]


class _Tables(tf.Module):
    def __init__(self, vocabulary: str) -> None:
        super().__init__()
        self.vocabulary = tf.saved_model.Asset(vocabulary)
        file = tf.lookup.TextFileInitializer(
            self.vocabulary,
            tf.string,
            tf.lookup.TextFileIndex.WHOLE_LINE,
            tf.int64,
            tf.lookup.TextFileIndex.LINE_NUMBER,
        )
        listed = tf.lookup.KeyValueTensorInitializer(["red", "blue"], tf.constant([7, 9], tf.int64))
        self.from_file = tf.lookup.StaticVocabularyTable(file, num_oov_buckets=1)
        self.from_list = tf.lookup.StaticHashTable(listed, -1)
        self.weights = tf.Variable(np.arange(8, dtype=np.float32).reshape(4, 2))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def predict(self, words):
        ids = self.from_file.lookup(words)
        return {"rows": tf.gather(self.weights, ids), "listed": self.from_list.lookup(words)}


def module_with_tables(path: str) -> list[Question]:
    vocabulary = f"{path}.vocabulary.txt"
    with open(vocabulary, "w") as file:
        file.write("apple\nblue\npear\n")
    module = _Tables(vocabulary)
    tf.saved_model.save(module, path, signatures={"predict": module.predict})
    os.remove(vocabulary)
    return [(SERVE, "predict", {"words": np.array([b"pear", b"blue", b"nobody", b"red"])})]


class _Branches(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = tf.Variable(np.full([4], 1.5, np.float32), name="scale")
        self.bias = tf.Variable(np.full([4], 0.25, np.float32), name="bias")

    @tf.function(input_signature=[tf.TensorSpec([None, 4])])
    def predict(self, x):
        big = tf.reduce_sum(x) > 0.0
        x = tf.cond(big, lambda: x * self.scale, lambda: x - self.bias)
        _, x = tf.while_loop(
            lambda i, _: i < 3, lambda i, y: (i + 1, tf.tanh(y * self.scale + self.bias)), [0, x]
        )
        return {
            "y": tf.switch_case(
                tf.cast(big, tf.int32), [lambda: x + 1.0, lambda: x @ tf.linalg.diag(self.bias)]
            )
        }


def control_flow_v2(path: str) -> list[Question]:
    module = _Branches()
    tf.saved_model.save(module, path, signatures=module.predict)
    return [
        (SERVE, "serving_default", {"x": ROWS}),
        (SERVE, "serving_default", {"x": ROWS + 2.0}),
    ]


class _Written(tf.Module):
    """`total` changes in one signature, `count` in a branch of another, `fixed` never."""

    def __init__(self) -> None:
        super().__init__()
        self.total = tf.Variable(np.zeros([4], np.float32), name="total")
        self.count = tf.Variable(0.0, name="count")
        self.fixed = tf.Variable(np.full([4], 3.0, np.float32), name="fixed")

    @tf.function(input_signature=[tf.TensorSpec([None, 4])])
    def predict(self, x):
        return {"y": x * self.fixed + self.total + self.count}

    @tf.function(input_signature=[tf.TensorSpec([None, 4])])
    def update(self, x):
        self.total.assign_add(tf.reduce_sum(x, 0))
        return {"total": self.total.read_value()}

    @tf.function(input_signature=[tf.TensorSpec([])])
    def count_if_positive(self, x):
        counted = tf.cond(
            x > 0.0, lambda: self.count.assign_add(1.0), lambda: self.count.read_value()
        )
        return {"count": tf.identity(counted)}


def written_elsewhere(path: str) -> list[Question]:
    module = _Written()
    signatures = {
        "predict": module.predict,
        "update": module.update,
        "count": module.count_if_positive,
    }
    tf.saved_model.save(module, path, signatures=signatures)
    return [
        (SERVE, "predict", {"x": ROWS}),
        (SERVE, "update", {"x": ROWS + 1.0}),
        (SERVE, "count", {"x": np.float32(1.0)}),
        (SERVE, "predict", {"x": ROWS}),
    ]


class _Shared(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = tf.Variable(np.linspace(0, 1, 16, dtype=np.float32).reshape(4, 4), name="w")
        self.offset = tf.constant(np.arange(800, dtype=np.float32).reshape(200, 4))

    @tf.function
    def _body(self, x):
        return tf.nn.relu(x @ self.w) + tf.reduce_mean(self.offset, 0)

    @tf.function(experimental_attributes={"_noinline": True})
    def _kept_apart(self, x):
        return tf.identity(x) @ self.w

    @tf.function(input_signature=[tf.TensorSpec([None, 4])])
    def first(self, x):
        return {"y": self._body(x) + self._kept_apart(x)}

    @tf.function(input_signature=[tf.TensorSpec([None, 4])])
    def second(self, x):
        return {"y": self._body(x) * 2.0, "z": self._kept_apart(x)}


def shared_functions(path: str) -> list[Question]:
    module = _Shared()
    signatures = {"first": module.first, "second": module.second}
    tf.saved_model.save(module, path, signatures=signatures)
    return [(SERVE, "first", {"x": ROWS}), (SERVE, "second", {"x": ROWS})]


@contextlib.contextmanager
def _v1_session(*, control_flow_v2: bool = True) -> Iterator[tf.compat.v1.Session]:
    on = v1.control_flow_v2_enabled()
    toggle = {True: v1.enable_control_flow_v2, False: v1.disable_control_flow_v2}
    toggle[control_flow_v2]()
    try:
        with tf.Graph().as_default(), v1.Session() as session:
            yield session
    finally:
        toggle[on]()


def _v1_save(
    session: tf.compat.v1.Session, path: str, inputs: dict, outputs: dict, **more: Any
) -> None:
    session.run(v1.global_variables_initializer())
    signature = v1.saved_model.predict_signature_def(inputs, outputs)
    builder = v1.saved_model.Builder(path)
    builder.add_meta_graph_and_variables(
        session, SERVE, {"serving_default": signature}, strip_default_attrs=True, **more
    )
    builder.save()


def v1_tables_and_assets(path: str) -> list[Question]:
    vocabulary = f"{path}.words.txt"
    with open(vocabulary, "w") as file:
        file.write("one\ntwo\nthree\n")
    with _v1_session() as session:
        words = v1.placeholder(tf.string, [None], "words")
        name = tf.constant(vocabulary)
        initializer = tf.lookup.TextFileInitializer(
            name,
            tf.string,
            tf.lookup.TextFileIndex.WHOLE_LINE,
            tf.int64,
            tf.lookup.TextFileIndex.LINE_NUMBER,
        )
        table = tf.lookup.StaticVocabularyTable(initializer, 2)
        rows = v1.get_variable(
            "rows", [5, 3], initializer=v1.random_normal_initializer(seed=1), use_resource=True
        )
        hidden = tf.nn.relu(tf.nn.embedding_lookup(rows, table.lookup(words)), name="hidden")
        v1.summary.histogram("hidden_values", hidden)
        logits = tf.identity(tf.reduce_sum(hidden, 1), name="logits")
        session.run(v1.tables_initializer())
        _v1_save(
            session,
            path,
            {"words": words},
            {"logits": logits, "hidden": hidden},
            assets_collection=v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS),
            main_op=v1.tables_initializer(),
        )
    os.remove(vocabulary)
    os.makedirs(os.path.join(path, "assets.extra"))
    with open(os.path.join(path, "assets.extra", "note.txt"), "w") as file:
        file.write("carried")
    return [(SERVE, "serving_default", {"words": np.array([b"two", b"four", b"one"])})]


def v1_reference_variables(path: str) -> list[Question]:
    """One variable is written by a training op that no signature reaches, one by the signature."""
    with _v1_session() as session:
        x = v1.placeholder(tf.float32, [None, 4], "x")
        w = v1.get_variable("w", initializer=ROWS.T.copy(), use_resource=False)
        calls = v1.get_variable("calls", initializer=0.0, use_resource=False)
        counted = v1.assign_add(calls, 1.0)
        with tf.control_dependencies([counted]):
            y = tf.add(tf.matmul(x, w), tf.identity(calls), name="y")
        v1.add_to_collection("update_ops", v1.assign(w, w * 0.5, name="halve"))
        _v1_save(session, path, {"x": x}, {"y": y})
    return [(SERVE, "serving_default", {"x": ROWS}), (SERVE, "serving_default", {"x": ROWS})]


def v1_control_flow(path: str) -> list[Question]:
    with _v1_session(control_flow_v2=False) as session:
        x = v1.placeholder(tf.float32, [None, 4], "x")
        w = v1.get_variable("w", initializer=np.full([4], 0.5, np.float32), use_resource=True)
        y = v1.cond(tf.reduce_sum(x) > 0, lambda: x * w + 1.0, lambda: x - tf.constant(2.0))
        _, y = v1.while_loop(
            lambda i, _: i < 4, lambda i, v: (i + 1, tf.sin(v * w) + tf.constant(0.5)), [0, y]
        )
        y = tf.identity(y * 2.0 * tf.constant([1.0, 2.0, 3.0, 4.0]), name="y")
        _v1_save(session, path, {"x": x}, {"y": y})
    return [
        (SERVE, "serving_default", {"x": ROWS}),
        (SERVE, "serving_default", {"x": ROWS + 1.0}),
    ]


def v1_several_meta_graphs(path: str) -> list[Question]:
    builder = v1.saved_model.Builder(path)
    for tags, factor in ((["serve"], 2.0), (["serve", "tripled"], 3.0)):
        with _v1_session() as session:
            x = v1.placeholder(tf.float32, [None, 4], "x")
            w = v1.get_variable("w", initializer=np.full([4], 1.25, np.float32), use_resource=True)
            y = tf.multiply(x * w, factor, name="y")
            signature = v1.saved_model.predict_signature_def({"x": x}, {"y": y})
            session.run(v1.global_variables_initializer())
            if factor == 2.0:
                builder.add_meta_graph_and_variables(session, tags, {"answer": signature})
            else:
                builder.add_meta_graph(tags, {"answer": signature})
    builder.save()
    return [(["serve"], "answer", {"x": ROWS}), (["serve", "tripled"], "answer", {"x": ROWS})]


def v1_partitioned_variable(path: str) -> list[Question]:
    with _v1_session() as session:
        ids = v1.placeholder(tf.int64, [None], "ids")
        table = v1.get_variable(
            "table",
            [10, 3],
            initializer=v1.random_normal_initializer(seed=2),
            partitioner=v1.fixed_size_partitioner(3),
            use_resource=True,
        )
        y = tf.identity(v1.nn.embedding_lookup(table, ids, partition_strategy="div"), name="y")
        _v1_save(session, path, {"ids": ids}, {"y": y})
    return [(SERVE, "serving_default", {"ids": np.array([0, 9, 4, 3], np.int64)})]


def v1_fed_in_the_middle(path: str) -> list[Question]:
    """One signature is fed what another one computes, and an output is used further on."""
    with _v1_session() as session:
        text = v1.placeholder(tf.string, [None], "text")
        numbers = tf.strings.to_number(text, name="numbers")
        tripled = tf.multiply(tf.identity(numbers, name="features"), tf.constant(3.0) * 1.0)
        tripled = tf.identity(tripled, name="tripled")
        out = tf.add(tripled, 1.0, name="out")
        predict = v1.saved_model.predict_signature_def
        signatures = {
            "text": predict({"text": text}, {"out": out, "tripled": tripled}),
            "raw": predict({"numbers": numbers}, {"out": out}),
        }
        builder = v1.saved_model.Builder(path)
        session.run(v1.global_variables_initializer())
        builder.add_meta_graph_and_variables(session, SERVE, signatures)
        builder.save()
    return [
        (SERVE, "text", {"text": np.array([b"1.5", b"-2"])}),
        (SERVE, "raw", {"numbers": np.array([4.0, 0.5], np.float32)}),
    ]


BUILDERS: dict[str, Builder] = {
    builder.__name__: builder
    for builder in (
        keras3_export,
        tf_keras_save,
        module_with_tables,
        control_flow_v2,
        written_elsewhere,
        shared_functions,
        v1_tables_and_assets,
        v1_reference_variables,
        v1_control_flow,
        v1_several_meta_graphs,
        v1_partitioned_variable,
        v1_fed_in_the_middle,
    )
}


def _only_input(path: str, value: np.ndarray) -> dict[str, np.ndarray]:
    from tf_blade import saved_model

    signature = saved_model.read(path).meta_graphs[0].signatures["serving_default"]
    return dict.fromkeys(signature.inputs, value)
