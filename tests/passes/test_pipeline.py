"""All passes together."""

import numpy as np
import tensorflow as tf

from tests.passes.graphs import KnownVariable, function_graph, ops, show
from tf_blade import passes
from tf_blade.passes import PassContext


def test_a_layered_model_becomes_one_straight_graph_and_stays_so():
    kernel, bias = tf.Variable(tf.ones([3, 2])), tf.Variable([1.0, 2.0])

    @tf.function
    def dense(x):
        return tf.nn.relu(tf.identity(x) @ kernel + bias)

    def model(x):
        return dense(x) * tf.cast(tf.shape(x)[1], tf.float32) + dense(x)

    before = function_graph(model, tf.TensorSpec([None, 3], tf.float32, name="x"))
    _, first, second = before.args
    ctx = PassContext(
        {
            first.name: KnownVariable(kernel.numpy()),
            second.name: KnownVariable(bias.numpy()),
        }
    )
    after = passes.run(before, ctx)
    assert {"MatMul", "Relu"} <= set(ops(after))
    assert ops(after).count("MatMul") == 1, "both calls compute the same"
    assert not {"StatefulPartitionedCall", "ReadVariableOp", "NoOp"} & set(ops(after))
    assert ctx.counts["inline_calls"] == 2 and ctx.counts["freeze_variables"] == 2
    again = PassContext(ctx.variables)
    assert show(passes.run(after, again)) == show(after)
    assert not +again.counts


def test_the_graph_given_is_not_changed():
    before = function_graph(
        lambda x: tf.identity(x) + tf.constant(1.0) * 2.0, tf.TensorSpec([], np.float32)
    )
    text = show(before)
    passes.run(before)
    assert show(before) == text
