import numpy as np
import tensorflow as tf

from tests.passes.graphs import call, function_graph, main_graph, ops, run, show, v1
from tf_blade.passes import PassContext
from tf_blade.passes.inline_calls import inline_calls

X = tf.TensorSpec([None], tf.float32, name="x")
NUMBERS = np.array([1.0, -2.0, 3.0], np.float32)


@tf.function
def doubled_relu(x):
    return tf.nn.relu(x) * 2.0


def test_a_call_becomes_the_callees_body():
    before = function_graph(lambda x: doubled_relu(x) + 1.0, X)
    ctx = PassContext()
    after = inline_calls(before, ctx)
    assert show(after) == "\n".join(
        [
            "x = _Arg()",
            "add/y = Const()",
            "PartitionedCall/mul/y = Const()",
            "PartitionedCall/Relu = Relu(x)",
            "PartitionedCall/mul = Mul(PartitionedCall/Relu, PartitionedCall/mul/y)",
            "PartitionedCall/Identity = Identity(PartitionedCall/mul)",
            "add = AddV2(PartitionedCall/Identity, add/y)",
            "Identity = Identity(add)",
            "-> Identity",
        ]
    )
    assert ctx.counts["inline_calls"] == 1
    np.testing.assert_array_equal(call(after, NUMBERS), call(before, NUMBERS))


def test_calls_in_calls_are_inlined_and_a_second_run_changes_nothing():
    nested = tf.function(lambda x: doubled_relu(doubled_relu(x)) - 1.0)
    before = function_graph(lambda x: nested(x) * nested(x + 1.0), X)
    after = inline_calls(before, PassContext())
    assert not [op for op in ops(after) if "PartitionedCall" in op]
    assert ops(after).count("Relu") == 4
    assert show(inline_calls(after, PassContext())) == show(after)
    np.testing.assert_array_equal(call(after, NUMBERS), call(before, NUMBERS))


def test_an_effect_of_the_callee_still_runs_and_keeps_its_place():
    variable = tf.Variable(1.0)

    @tf.function
    def add_to_variable(x):
        variable.assign_add(tf.reduce_sum(x))
        return x + variable

    def caller(x):
        before = variable.read_value()
        y = add_to_variable(x)
        return y + before + variable.read_value()

    after = inline_calls(function_graph(caller, X), PassContext())
    assert "AssignAddVariableOp" in ops(after)
    first, second = (
        n.name for n in after if n.op == "ReadVariableOp" and n.name.startswith("Read")
    )
    (assign,) = (n for n in after if n.op == "AssignAddVariableOp")
    done = after.nodes["StatefulPartitionedCall/done"]
    assert first in assign.controls, "the first read comes before the write"
    assert done.name in after.nodes[second].controls, "the second read comes after the call"
    assert assign.name in done.controls
    assert done.name in [name for _, name in after.control_outputs]


def test_in_a_main_graph_results_wait_for_the_callees_effects():
    @tf.function
    def checked(x):
        tf.debugging.Assert(tf.reduce_all(x < 10.0), ["too big"])
        return x * 2.0

    def build():
        tf.identity(checked(v1.placeholder(tf.float32, [None], "x")), name="y")

    after = inline_calls(main_graph(build, ["y"]), PassContext())
    assert "StatefulPartitionedCall" not in ops(after)
    np.testing.assert_array_equal(run(after, x=NUMBERS), [NUMBERS * 2])
    try:
        run(after, x=NUMBERS + 10.0)
    except tf.errors.InvalidArgumentError as error:
        assert "too big" in str(error)
    else:
        raise AssertionError("the assertion was lost")


def test_declines_noinline_and_xla():
    apart = tf.function(lambda x: x + 1.0, experimental_attributes={"_noinline": True})
    compiled = tf.function(lambda x: x + 2.0, jit_compile=True)
    before = function_graph(lambda x: apart(x) * compiled(x), X)
    assert show(inline_calls(before, PassContext())) == show(before)


def test_declines_a_recursive_function():
    before = function_graph(lambda x: doubled_relu(x), X)
    (name,) = before.library
    node = before.library[name].node_def.add(name="again", op="PartitionedCall")
    node.input.append("x")
    for key in ("Tin", "Tout"):
        node.attr[key].list.type.append(tf.float32.as_datatype_enum)
    node.attr["f"].func.name = name
    assert show(inline_calls(before, PassContext())) == show(before)


def test_declines_inside_v1_control_flow():
    def build():
        x = v1.placeholder(tf.float32, [None], "x")
        tf.identity(v1.cond(tf.reduce_sum(x) > 0, lambda: doubled_relu(x), lambda: x), name="y")

    v1.disable_control_flow_v2()
    try:
        before = main_graph(build, ["y"])
    finally:
        v1.enable_control_flow_v2()
    assert "Switch" in ops(before)
    assert show(inline_calls(before, PassContext())) == show(before)
