import numpy as np
import tensorflow as tf

from tests.passes.graphs import function_graph, main_graph, ops, run, show, v1
from tf_blade import passes
from tf_blade.passes import PassContext
from tf_blade.passes.take_defaults import take_defaults


def switched(default):
    """exp or sin of x, as a placeholder with that default says."""

    def build():
        x = v1.placeholder(tf.float32, [None], "x")
        training = v1.placeholder_with_default(tf.constant(default), [], "training")
        y = tf.cond(training, lambda: tf.exp(x), lambda: tf.sin(x))
        tf.identity(y, name="y")

    with tf.Graph().as_default():
        v1.enable_control_flow_v2()
        try:
            return main_graph(build, ["y"])
        finally:
            v1.disable_control_flow_v2()


def test_a_placeholder_becomes_an_identity_of_its_default():
    before = switched(True)
    ctx = PassContext()
    after = take_defaults(before, ctx)
    assert after.nodes["training"].op == "Identity"
    assert ctx.counts["take_defaults"] == 1
    np.testing.assert_array_equal(run(after, x=[1.0]), run(before, x=[1.0]))
    assert show(take_defaults(after, PassContext())) == show(after)


def test_a_default_that_is_computed_is_computed():
    def model(x):
        return v1.placeholder_with_default(tf.exp(x), [None]) + 1.0

    after = passes.run(function_graph(model, tf.TensorSpec([None], tf.float32, name="x")))
    assert ops(after) == ["AddV2", "Exp"]


def test_the_branch_that_the_default_chooses_takes_the_conditionals_place():
    assert ops(passes.run(switched(True))) == ["Exp", "Identity"]
    assert ops(passes.run(switched(False))) == ["Identity", "Sin"]


def test_a_placeholder_without_default_decides_nothing():
    def build():
        x = v1.placeholder(tf.float32, [None], "x")
        v1.placeholder(tf.bool, [], "training")
        tf.exp(x, name="y")

    before = main_graph(build, ["y"])
    assert show(take_defaults(before, PassContext())) == show(before)
