import numpy as np
import pytest
import tensorflow as tf

from tests.passes.graphs import function_graph, main_graph, ops, run, show, v1
from tf_blade.passes import PassContext
from tf_blade.passes.remove_noops import remove_noops


def graph_of(function, shape=(2, 3)):
    def build():
        tf.exp(function(v1.placeholder(tf.float32, shape, "x")), name="y")

    return main_graph(build, ["y"])


@pytest.mark.parametrize(
    "function",
    [
        tf.identity,
        tf.stop_gradient,
        lambda x: tf.raw_ops.PreventGradient(input=x),
        lambda x: tf.raw_ops.Snapshot(input=x),
        lambda x: tf.raw_ops.Cast(x=x, DstT=tf.float32),
        lambda x: tf.reshape(x, [2, -1]),
        lambda x: tf.transpose(x, [0, 1]),
        lambda x: tf.identity(tf.stop_gradient(tf.identity(x))),
    ],
)
def test_bypasses(function):
    before = graph_of(function)
    after = remove_noops(before, PassContext())
    assert ops(after) == ["Exp"]
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(run(after, x=x), run(before, x=x))
    assert show(remove_noops(after, PassContext())) == show(after)


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x: tf.cast(tf.cast(x, tf.float64), tf.float32), (2, 3)),
        (lambda x: tf.reshape(x, [3, 2]), (2, 3)),
        (lambda x: tf.reshape(x, [2, 3]), (None, 3)),
        (lambda x: tf.transpose(x, [1, 0]), (2, 2)),
        (lambda x: v1.placeholder_with_default(x, [2, 3]), (2, 3)),
        (lambda x: tf.debugging.check_numerics(x, "bad"), (2, 3)),
    ],
    ids=["other dtype", "other shape", "checks the shape", "transposes", "may be fed", "checks"],
)
def test_declines(function, shape):
    before = graph_of(function, shape)
    assert ops(remove_noops(before, PassContext())) == ops(before)


def test_declines_what_waits_and_what_is_waited_for():
    def waits(x):
        with tf.control_dependencies([v1.Assert(x[0, 0] > 0, ["bad"])]):
            return tf.identity(x)

    def is_waited_for(x):
        with tf.control_dependencies([tf.identity(x, name="first")]):
            return x + 1.0

    for function in (waits, is_waited_for):
        before = graph_of(function)
        assert ops(remove_noops(before, PassContext())) == ops(before)


def test_declines_the_named_output_of_a_main_graph():
    def build():
        tf.identity(tf.exp(v1.placeholder(tf.float32, [], "x")), name="y")

    before = main_graph(build, ["y"])
    assert show(remove_noops(before, PassContext())) == show(before)


def test_a_functions_output_needs_no_identity_unless_it_is_an_argument():
    spec = tf.TensorSpec([], tf.float32, name="x")
    assert ops(remove_noops(function_graph(lambda x: tf.exp(x), spec), PassContext())) == ["Exp"]
    passed_on = function_graph(lambda x: tf.identity(x), spec)
    assert ops(remove_noops(passed_on, PassContext())) == ["Identity"]


def test_declines_the_read_of_a_reference_variable_and_v1_branches():
    def build():
        x = v1.placeholder(tf.float32, [], "x")
        v = v1.get_variable("v", initializer=1.0, use_resource=False)
        y = v1.cond(x > 0, lambda: tf.identity(x, name="one"), lambda: tf.identity(x, name="two"))
        tf.add(tf.identity(v), y, name="y")

    v1.disable_control_flow_v2()
    try:
        before = main_graph(build, ["y"])
    finally:
        v1.enable_control_flow_v2()
    after = remove_noops(before, PassContext())
    assert {"v/read", "cond/one", "cond/two", "cond/switch_t"} <= set(after.nodes)
