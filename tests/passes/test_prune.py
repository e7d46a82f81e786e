import numpy as np
import tensorflow as tf

from tests.passes.graphs import KnownVariable, function_graph, main_graph, ops, show, v1
from tf_blade.passes import PassContext
from tf_blade.passes.drop_controls import drop_controls
from tf_blade.passes.prune import prune

X = tf.TensorSpec([2], tf.float32, name="x")


def test_a_function_keeps_arguments_effects_and_what_outputs_need():
    variable = tf.Variable([1.0, 2.0])

    def body(x, unused):
        tf.exp(x)
        tf.print(x)
        tf.debugging.Assert(tf.reduce_all(x > 0), ["bad"])
        variable.read_value()
        return x * 2.0

    before = function_graph(body, X, tf.TensorSpec([], tf.int32, name="unused"))
    ctx = PassContext()
    after = prune(drop_controls(before, ctx), ctx)  # the result waited for the unused read
    assert [n.name for n in after.args] == [n.name for n in before.args]
    assert {"PrintV2", "Assert", "Mul"} <= set(ops(after))
    assert not {"Exp", "ReadVariableOp"} & set(ops(after))
    assert show(prune(after, PassContext())) == show(after)


def test_a_main_graph_keeps_only_what_is_fetched():
    def build():
        x = v1.placeholder(tf.float32, [], "x")
        v1.Assert(x > 0, ["bad"])
        with tf.control_dependencies([v1.Assert(x < 9, ["big"], name="needed")]):
            tf.exp(x, name="y")
        tf.sin(x)

    after = prune(main_graph(build, ["y"]), PassContext())
    assert ops(after) == ["Assert", "Exp", "Less"]


def test_a_caller_still_waits_for_reads_of_what_may_be_written():
    variable = tf.Variable([1.0, 2.0])
    before = function_graph(lambda x: x + variable, X)
    handle = before.args[1].name
    assert [node for _, node in before.control_outputs] == ["add/ReadVariableOp"]

    def control_outputs(**more):
        known = {handle: KnownVariable(np.ones(2, np.float32), **more)} if more else {}
        return [node for _, node in prune(before, PassContext(known)).control_outputs]

    assert control_outputs() == ["add/ReadVariableOp"]
    assert control_outputs(written_by="AssignVariableOp") == ["add/ReadVariableOp"]
    assert control_outputs(written_by="") == []


def test_the_written_function_declares_exactly_its_control_outputs():
    def body(x):
        tf.print(x)
        return x + 1.0

    before = function_graph(body, X)
    fdef = prune(before, PassContext()).to_function_def()
    assert list(fdef.signature.control_output) == list(fdef.control_ret) != []
