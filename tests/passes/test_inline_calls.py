import numpy as np
import pytest
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


def chosen(predicate):
    """A function graph of x that chooses by the constant between exp(x), sin(x) and -x."""

    def graph(x):
        branches = [lambda: tf.exp(x), lambda: tf.sin(x), lambda: -x]
        if isinstance(predicate, bool):
            return tf.cond(tf.constant(predicate), branches[0], branches[1])
        return tf.switch_case(tf.constant(predicate), branches)

    return function_graph(graph, X)


@pytest.mark.parametrize(
    "predicate,op",
    [(True, "Exp"), (False, "Sin"), (0, "Exp"), (1, "Sin"), (2, "Neg"), (-1, "Neg"), (7, "Neg")],
)
def test_the_branch_of_a_known_predicate_takes_the_conditionals_place(predicate, op):
    before = chosen(predicate)
    ctx = PassContext()
    after = inline_calls(before, ctx)
    assert {"Exp", "Sin", "Neg"} & set(ops(after)) == {op}
    assert len(ctx.set_free) == (2 if isinstance(predicate, bool) else 3)
    np.testing.assert_array_equal(call(after, NUMBERS), call(before, NUMBERS))


def test_a_conditional_inside_the_chosen_branch_is_decided_too():
    def graph(x):
        inner = lambda: tf.cond(tf.constant(False), lambda: tf.exp(x), lambda: tf.sin(x))  # noqa: E731
        return tf.cond(tf.constant(True), inner, lambda: -x)

    after = inline_calls(function_graph(graph, X), PassContext())
    assert {"Exp", "Sin", "Neg", "If", "StatelessIf"} & set(ops(after)) == {"Sin"}


def test_a_chosen_branch_keeps_its_effect():
    variable = tf.Variable(1.0)

    def graph(x):
        def counted():
            variable.assign_add(1.0)
            return tf.exp(x)

        return tf.cond(tf.constant(True), counted, lambda: x)

    after = inline_calls(function_graph(graph, X), PassContext())
    (assign,) = (n for n in after if n.op == "AssignAddVariableOp")
    waited_for = {name for node in after for name in node.controls}
    assert assign.name in waited_for | {name for _, name in after.control_outputs}


@pytest.mark.parametrize(
    "predicate", [lambda x: x[0] > 0.0, lambda x: tf.constant("text"), lambda x: tf.constant([1])]
)
def test_a_conditional_stays_whose_predicate_is_unknown_or_no_number(predicate):
    def graph(x):
        return raw_if(predicate(x), x)

    before = function_graph(graph, X)
    ctx = PassContext()
    assert show(inline_calls(before, ctx)) == show(before) and not ctx.set_free


def raw_if(predicate, x):
    then = tf.function(lambda x: tf.exp(x)).get_concrete_function(X)
    other = tf.function(lambda x: tf.sin(x)).get_concrete_function(X)
    (y,) = tf.raw_ops.StatelessIf(
        cond=predicate, input=[x], Tout=[tf.float32], then_branch=then, else_branch=other
    )
    return y
