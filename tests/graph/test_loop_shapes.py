"""What is known of shapes inside v1 loops: all that stays true from one iteration to the next."""

import tensorflow as tf

from tests.passes.graphs import main_graph, v1
from tf_blade.graph.graph import Graph, TensorRef
from tf_blade.graph.shapes import infer_types


def looped(build) -> Graph:
    v1.disable_control_flow_v2()
    try:
        return main_graph(build, ["after"])
    finally:
        v1.enable_control_flow_v2()


def shape(graph: Graph, name: str):
    return infer_types(graph)[TensorRef(name)].shape


def test_a_shape_that_stays_is_known_inside_and_behind():
    def build():
        x = v1.placeholder(tf.float32, [None, 3], "x")
        y = v1.while_loop(
            lambda i, _: i < 3, lambda i, y: (i + 1, tf.exp(y, name="inner")), [0, x]
        )[1]
        tf.exp(y, name="after")

    graph = looped(build)
    assert shape(graph, "while/inner") == shape(graph, "after") == (None, 3)


def test_a_dim_that_grows_is_unknown():
    def build():
        x = v1.placeholder(tf.float32, [4, 3], "x")
        y = v1.while_loop(
            lambda i, _: i < 3,
            lambda i, y: (i + 1, tf.concat([y, x], 0, name="inner")),
            [0, x],
            shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, 3])],
        )[1]
        tf.exp(y, name="after")

    graph = looped(build)
    assert shape(graph, "while/inner") == shape(graph, "after") == (None, 3)


def test_a_rank_that_grows_is_unknown():
    def build():
        x = v1.placeholder(tf.float32, [4], "x")
        y = v1.while_loop(
            lambda i, _: i < 3,
            lambda i, y: (i + 1, tf.expand_dims(y, 0)),
            [0, x],
            shape_invariants=[tf.TensorShape([]), tf.TensorShape(None)],
        )[1]
        tf.exp(y, name="after")

    assert shape(looped(build), "after") is None


def test_what_swaps_places_is_known_as_far_as_both_are_alike():
    def build():
        a = v1.placeholder(tf.float32, [2, 3], "a")
        b = v1.placeholder(tf.float32, [5, 3], "b")
        some = tf.TensorShape([None, 3])
        y = v1.while_loop(
            lambda i, a, b: i < 3,
            lambda i, a, b: (i + 1, tf.identity(b), tf.identity(a)),
            [0, a, b],
            shape_invariants=[tf.TensorShape([]), some, some],
        )[1]
        tf.exp(y, name="after")

    assert shape(looped(build), "after") == (None, 3)


def test_sizes_computed_from_the_counter_are_unknown():
    def build():
        x = v1.placeholder(tf.float32, [1], "x")
        y = v1.while_loop(
            lambda i, _: i < 3,
            lambda i, y: (i + 1, tf.zeros([i + 1], name="inner")),
            [0, x],
            shape_invariants=[tf.TensorShape([]), tf.TensorShape([None])],
        )[1]
        tf.exp(y, name="after")

    assert shape(looped(build), "after") == (None,)


def test_a_loop_in_a_loop():
    def build():
        x = v1.placeholder(tf.float32, [None, 3], "x")

        def body(i, y):
            z = v1.while_loop(
                lambda j, _: j < 2, lambda j, z: (j + 1, tf.sin(z, name="inner")), [0, y]
            )[1]
            return i + 1, tf.add(z, y, name="sum")

        y = v1.while_loop(lambda i, _: i < 3, body, [0, x])[1]
        tf.exp(y, name="after")

    graph = looped(build)
    assert shape(graph, "while/while/inner") == (None, 3)
    assert shape(graph, "while/sum") == shape(graph, "after") == (None, 3)
