"""tf.functions: equal answers, one executable for all shapes, new traces."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

import tf_blade
from tests.jit.since import Since
from tf_blade import library

RNG = np.random.default_rng(0)


def floats(*shape: int) -> tf.Tensor:
    return tf.constant(RNG.normal(size=shape).astype(np.float32))


class Dense(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = [tf.Variable(floats(24, 16)), tf.Variable(floats(16, 10))]
        self.b = [tf.Variable(floats(16)), tf.Variable(floats(10))]

    def __call__(self, x):
        hidden = tf.nn.gelu(x @ self.w[0] + self.b[0])
        return tf.nn.softmax(hidden @ self.w[1] + self.b[1]), tf.reduce_mean(hidden, 1)


def assert_equal(got, wanted) -> None:
    for a, b in zip(tf.nest.flatten(got), tf.nest.flatten(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_a_dense_model_answers_as_before_with_one_executable_for_all_shapes(config):
    model = Dense()
    function = tf.function(model)
    since = Since()
    with tf_blade.jit(wait=True, config=config):
        for batch in (7, 32, 2, 100):
            x = floats(batch, 24)
            assert_equal(function(x), model(x))
    assert since.optimized == since.graphs == 4 and since.compiled == 1
    assert since.compiled_calls == 4 and since.fallback_calls == {}


def test_a_signature_of_unknown_shape_is_traced_and_compiled_once(config):
    function = tf.function(Dense(), input_signature=[tf.TensorSpec([None, 24], tf.float32)])
    since = Since()
    with tf_blade.jit(wait=True, config=config):
        for batch in (1, 5, 64, 0):
            assert_equal(function(x := floats(batch, 24)), function.python_function(x))
    assert since.graphs == 1 and since.compiled_calls == 4


@pytest.mark.parametrize("name", ["score\u2028it", "score\nit", "score\nkeep\tx\nit"])
def test_names_of_several_lines(config, name):
    def score(x):
        return tf.nn.softmax(tf.exp(x * 0.3) * 2.0 + 1.0) * 3.0

    score.__name__ = name
    x = floats(5, 9)
    since = Since()
    with tf_blade.jit(wait=True, config=config):
        np.testing.assert_allclose(tf.function(score)(x), score(x), rtol=1e-5)
    assert since.compiled_calls == 1


def test_a_row_of_one_broadcasts(config):
    def add(x, y):
        return tf.exp(tf.tanh(x + y) * 2.0) - x

    function = tf.function(add)
    since = Since()
    with tf_blade.jit(wait=True, config=config):
        for rows in ((4, 4), (4, 1), (1, 4), (1, 1), (9, 1)):
            x, y = floats(rows[0], 6), floats(rows[1], 6)
            assert_equal(function(x, y), add(x, y))
    assert since.compiled_calls == 5 and since.fallback_calls == {}


def test_an_inner_size_that_varies_becomes_a_size_of_any_value(config):
    def score(x):
        return tf.nn.softmax(tf.tanh(x * 0.5) * 2.0 + 1.0)

    function = tf.function(score)
    since = Since()
    with tf_blade.jit(wait=True, config=config):
        for length in (5, 8, 13, 21, 34):
            assert_equal(function(x := floats(3, length)), score(x))
    assert since.compiled == 2  # for a length of 5, then for any
    assert since.compiled_calls == 5


def test_a_function_that_ran_before_is_compiled_when_it_is_traced_anew(config):
    model = Dense()
    function = tf.function(model)
    x, longer = floats(3, 24), floats(4, 24)
    function(x)
    since = Since()
    with tf_blade.jit(wait=True, config=config):
        assert_equal(function(x), model(x))
        assert since.graphs == 0
        assert_equal(function(longer), model(longer))
        assert since.graphs == 1 and since.compiled_calls == 1


def test_disabled_functions_traced_from_then_on_are_left_alone_and_others_go_on(config):
    model = Dense()
    before = tf.function(model)
    x = floats(3, 24)
    tf_blade.enable(wait=True, config=config)
    before(x)
    tf_blade.disable()
    since = Since()
    after = tf.function(model)
    assert_equal(after(x), before(x))
    assert since.graphs == 0 and since.compiled_calls == 1


def test_blocks_of_two_threads_that_overlap_leave_it_off(config):
    first, second = (tf_blade.jit(wait=True, config=config) for _ in range(2))
    x = floats(4)
    since = Since()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    function = tf.function(lambda x: tf.exp(tf.tanh(x) * 2.0) + 1.0)
    function(x)
    assert since.graphs == 1
    second.__exit__(None, None, None)
    function(floats(4, 2))
    assert since.graphs == 1


@pytest.mark.parametrize("repeated_rows", [True, False])
def test_repeated_rows_are_looked_for_as_the_options_say(config, repeated_rows):
    w = tf.Variable(floats(128, 32))
    x = tf.repeat(floats(1, 128), 32, axis=0)

    def found() -> int:
        return sum(counts.repeated_rows for counts in library.counters().clusters.values())

    before, since = found(), Since()
    with tf_blade.jit(wait=True, config=replace(config, repeated_rows=repeated_rows)):
        tf.function(lambda x: tf.nn.softmax(tf.tanh(x @ w) * 2.0))(x)
    assert since.compiled_calls == 1
    assert found() - before == (128 if repeated_rows else 0)


def test_jit_leaves_the_options_as_they_were(config):
    def changed(x):
        return tf.exp(x * 3.0) - tf.tanh(x)

    x = floats(4)
    tf_blade.enable(wait=True, config=config)
    with tf_blade.jit(config=config):
        pass
    since = Since()
    assert_equal(tf.function(changed)(x), changed(x))
    assert since.compiled_calls == 1  # it waited, as before
    with pytest.raises(KeyError), tf_blade.jit(config=config):
        raise KeyError
    tf_blade.disable()


def test_loops_and_conditionals(config):
    @tf.function
    def loop(x):
        total = tf.zeros_like(x)
        for _ in tf.range(4):
            total = tf.tanh(total * 0.5 + x) * 2.0 + 1.0
        if tf.reduce_mean(x) > 0.0:
            return tf.exp(total) * 2.0 - tf.sin(x) * 3.0
        return tf.cos(total) * 3.0 + tf.sin(x) * 2.0

    inputs = [floats(5, 7) + 1.0, floats(5, 7) - 1.0]
    wanted = [loop.python_function(x) for x in inputs]
    since = Since()
    with tf_blade.jit(wait=True, config=config):
        for x, y in zip(inputs, wanted, strict=True):
            assert_equal(loop(x), y)
    # The loop, and a branch behind it where that is worth it.
    assert since.clusters >= 2 and since.compiled_calls in (3, 4)
    assert since.fallback_calls == {}


def test_embedding_columns_are_looked_up_in_one_launch(config):
    tables = [tf.Variable(floats(50, 8)) for _ in range(3)]

    def columns(words, ids):
        found = []
        for i, table in enumerate(tables):
            keys = tf.strings.to_hash_bucket_fast(words, 50) if i else ids
            sparse = tf.sparse.from_dense(keys)
            found.append(tf.nn.safe_embedding_lookup_sparse(table, sparse, combiner="mean"))
        return tf.concat(found, 1)

    function = tf.function(columns)
    since = Since()
    with tf_blade.jit(wait=True, config=config):
        for rows in (6, 3):
            words = tf.constant(RNG.choice(["a", "b", "c"], (rows, 4)))
            ids = tf.constant(RNG.integers(0, 50, (rows, 4)))
            assert_equal(function(words, ids), columns(words, ids))
            tables[0].assign_add(tf.ones_like(tables[0]))  # the next call sees it
            assert_equal(function(words, ids), columns(words, ids))
    assert since.lookups == 2 and since.fallback_calls == {}


def test_a_function_for_xla_stays_xlas(config):
    @tf.function(jit_compile=True)
    def inner(x):
        return tf.exp(tf.tanh(x) * 2.0) + 1.0

    @tf.function
    def outer(x):
        return tf.sin(inner(x) * 0.5) - tf.tanh(x)

    x = floats(4, 4)
    with tf_blade.jit(wait=True, config=config):
        assert_equal(outer(x), outer.python_function(x))


def test_a_data_sets_functions(config):
    numbers = tf.data.Dataset.from_tensor_slices(floats(6, 3))
    wanted = [tf.exp(tf.tanh(x) * 2.0) + 1.0 for x in numbers]
    with tf_blade.jit(wait=True, config=config):
        got = list(numbers.map(lambda x: tf.exp(tf.tanh(x) * 2.0) + 1.0))
    assert_equal(got, wanted)


def test_small_integers_wrap_around_as_tensorflows_do(config):
    def mix(a, b):
        return tf.math.floormod(tf.math.squared_difference(a, b) * 3 + a, 7) * 2 - b

    a, b = tf.constant([[-1716239814]]), tf.constant([-371201706])
    since = Since()
    with tf_blade.jit(wait=True, config=config):
        assert tf.function(mix)(a, b).numpy() == mix(a, b).numpy()
    assert since.compiled_calls == 1
