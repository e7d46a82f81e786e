import pytest
import tensorflow as tf

from tests.passes.graphs import function_graph, main_graph, ops, run, show, v1
from tf_blade import passes
from tf_blade.passes import PassContext
from tf_blade.passes.remove_true_asserts import remove_true_asserts


def _assert(condition):
    return tf.raw_ops.Assert(condition=condition, data=[["does not hold"]], name="check")


def guarded(condition):
    def build():
        x = v1.placeholder(tf.float32, [], "x")
        with tf.control_dependencies([_assert(condition(x))]):
            tf.exp(x, name="y")

    return main_graph(build, ["y"])


def test_a_true_assertion_goes():
    ctx = PassContext()
    after = remove_true_asserts(guarded(lambda x: tf.constant(True)), ctx)
    assert after.nodes["check"].op == "NoOp" and ctx.counts["remove_true_asserts"] == 1
    assert run(after, x=0.0) == [1.0]
    assert show(remove_true_asserts(after, PassContext())) == show(after)


@pytest.mark.parametrize("condition", [lambda x: x > 0.0, lambda x: tf.constant(False)])
def test_declines(condition):
    before = guarded(condition)
    after = remove_true_asserts(before, PassContext())
    assert show(after) == show(before)
    with pytest.raises(tf.errors.InvalidArgumentError, match="does not hold"):
        run(after, x=-1.0)


def test_a_check_of_known_shapes_no_longer_stands_in_the_middle_of_a_model():
    def model(x):
        x = tf.exp(x)
        check = tf.debugging.Assert(tf.equal(tf.shape(x)[0], 3), ["3 expected"])
        with tf.control_dependencies([check]):
            x = tf.identity(x)
        return tf.sin(x)

    after = passes.run(function_graph(model, tf.TensorSpec([3], tf.float32, name="x")))
    assert ops(after) == ["Exp", "Sin"]
