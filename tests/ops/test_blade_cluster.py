"""The op in the ways TensorFlow runs ops: eagerly, in functions, sessions, threads, datasets."""

from __future__ import annotations

import threading

import numpy as np
import tensorflow as tf

from tests.cc.programs import ADD, executable
from tests.ops.calls import add, add_fallback, counts, dense


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def address(tensor: tf.Tensor) -> int:
    return np.asarray(memoryview(tensor)).__array_interface__["data"][0]


def test_it_runs_eagerly_and_counts_launches(cluster):
    a, b = floats(2, 3), floats(2, 3, seed=1)
    for _ in range(3):
        y, row = add(tf.constant(a), tf.constant(b), cluster=cluster)
    np.testing.assert_array_equal(y, a + b)
    np.testing.assert_array_equal(row, a.reshape(-1))
    assert counts(cluster).launches == 3
    assert counts(cluster).fallbacks == {}


def test_it_runs_in_a_function_at_any_shape(cluster):
    @tf.function(input_signature=[tf.TensorSpec(None, tf.float32)] * 2)
    def function(a, b):
        return add(a, b, cluster=cluster)

    for shape in [(), (1,), (5,), (2, 3), (4, 1, 7), (100, 1000)]:
        a, b = floats(*shape), floats(*shape, seed=1)
        y, row = function(a, b)
        np.testing.assert_array_equal(y, a + b)
        np.testing.assert_array_equal(row, a.reshape(-1))
    assert counts(cluster).launches == 6


def test_it_runs_in_a_session(cluster):
    with tf.Graph().as_default() as graph:
        a = tf.compat.v1.placeholder(tf.float32, [None])
        b = tf.compat.v1.placeholder(tf.float32, [None])
        add_fallback().add_to_graph(graph)
        y, _ = add(a, b, cluster=cluster)
        with tf.compat.v1.Session() as session:
            np.testing.assert_array_equal(session.run(y, {a: [1, 2], b: [3, 4]}), [4, 6])
            np.testing.assert_array_equal(session.run(y, {a: [1, 2], b: [3]}), [4, 5])  # fallback
    assert counts(cluster).launches == 1
    assert counts(cluster).fallbacks == {"Add (head/add): input dims differ": 1}


def test_many_threads_share_a_function(cluster):
    function = tf.function(lambda a, b: add(a, b, cluster=cluster))
    function = function.get_concrete_function(*[tf.TensorSpec([None], tf.float32)] * 2)
    wrong: list[int] = []

    def work(seed: int) -> None:
        for i in range(20):
            n = 1 + 997 * ((seed + i) % 5)
            a, b = floats(n, seed=seed), floats(n if i % 4 else 1, seed=seed + 1)
            if not np.array_equal(function(tf.constant(a), tf.constant(b))[0], a + b):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert counts(cluster).launches + sum(counts(cluster).fallbacks.values()) == 160
    assert counts(cluster).fallbacks


def test_large_work_is_split_over_the_pool_and_is_right(cluster):
    a, b = floats(1_000_003), floats(1_000_003, seed=1)
    container = executable(ADD, cost="50.0")
    y, _ = add(tf.constant(a), tf.constant(b), cluster=cluster, container=container)
    np.testing.assert_array_equal(y, a + b)


def test_it_runs_inside_a_dataset_with_its_own_threads(cluster):
    container = executable(ADD, cost="50.0")

    def element(i):
        a = tf.ones([10_000 + tf.cast(i, tf.int32)])
        b = tf.ones([tf.where(i % 2 == 0, tf.shape(a)[0], 1)])  # odd: the fallback
        return tf.reduce_sum(add(a, b, cluster=cluster, container=container)[0])

    dataset = tf.data.Dataset.range(20).map(element, num_parallel_calls=4)
    assert [int(x) for x in dataset] == [2 * (10_000 + i) for i in range(20)]
    assert counts(cluster).launches == 10


def test_a_forwarded_output_shares_its_input_s_memory(cluster):
    a = tf.constant(floats(64, 3))
    _, row = add(a, a, cluster=cluster)
    assert address(row) == address(a)
    assert row.shape == [192]


def test_empty_tensors_run(cluster):
    for shape in [(0,), (0, 3), (2, 0, 5)]:
        a = tf.zeros(shape)
        y, row = add(a, a, cluster=cluster)
        assert y.shape == shape
        assert row.shape == [0]
    assert counts(cluster).launches == 3


def test_an_input_that_is_not_aligned_is_copied(cluster):
    floats_from_1 = np.arange(65, dtype=np.float32)[1:].reshape(8, 8)
    a = tf.experimental.dlpack.from_dlpack(floats_from_1.__dlpack__())
    assert address(a) % 16 != 0
    y, row = add(a, a, cluster=cluster)
    np.testing.assert_array_equal(y, a.numpy() * 2)
    np.testing.assert_array_equal(row, a.numpy().reshape(-1))
    assert counts(cluster).launches == 1


def test_output_shapes_are_what_shape_inference_knows(cluster):
    @tf.function
    def function(a):
        known, row = add(a, a, cluster=cluster, output_shapes=[[None, 3], [None]])
        unknown, _ = add(a, a, cluster=cluster)
        assert known.shape.as_list() == [None, 3]
        assert row.shape.as_list() == [None]
        assert unknown.shape.rank is None
        return known

    function(tf.zeros([2, 3]))


def test_a_constant_weight_gives_the_same_answer_packed_or_not(cluster):
    x, w, bias = floats(5, 70), floats(70, 33, seed=1), floats(33, seed=2)

    @tf.function(input_signature=[tf.TensorSpec([None, 70], tf.float32)])
    def function(x):
        return dense(x, tf.constant(w), tf.constant(bias), cluster=cluster)

    expected = np.maximum(x @ w + bias, 0)
    for _ in range(3):
        np.testing.assert_allclose(function(x), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(function(x[:1]), expected[:1], rtol=1e-5, atol=1e-5)
    assert counts(cluster).launches == 4


def test_a_weight_that_changes_after_all_is_noticed(cluster):
    """Eager kernels are shared by calls with equal attributes, whatever their inputs are."""
    x, bias = floats(3, 20), np.zeros(30, np.float32)
    for seed in range(20):
        w = floats(20, 30, seed=seed)
        y = dense(tf.constant(x), tf.constant(w), tf.constant(bias), cluster=cluster)
        np.testing.assert_allclose(y, np.maximum(x @ w, 0), rtol=1e-5, atol=1e-5)
    assert counts(cluster).launches == 20


def test_columns_that_repeat_in_a_product_are_counted_and_change_nothing(cluster):
    x = floats(40, 96)
    x[:, 8:72] = x[:1, 8:72]  # one user, 40 items
    w, bias = floats(96, 48, seed=1), floats(48, seed=2)
    want = np.maximum(x.astype(np.float64) @ w + bias, 0)
    for find_repeats, count in ((False, 0), (True, 64)):
        got = dense(
            tf.constant(x), tf.constant(w), bias, cluster=cluster, find_repeats=find_repeats
        )
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
        assert counts(cluster).repeated_rows == count
    other = dense(tf.constant(floats(40, 96)), tf.constant(w), bias, cluster=cluster)
    assert other.shape == (40, 48)
    assert counts(cluster).repeated_rows == 64
