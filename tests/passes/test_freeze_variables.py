import numpy as np
import pytest
import tensorflow as tf

from tests.passes.graphs import KnownVariable, function_graph, main_graph, ops, run, show, v1
from tf_blade.graph.constants import const_value
from tf_blade.graph.graph import Graph
from tf_blade.passes import FreezeBudget, PassContext
from tf_blade.passes.freeze_variables import freeze_variables
from tf_blade.passes.prune import prune

TABLE = np.arange(24, dtype=np.float32).reshape(4, 3, 2)


def frozen(graph: Graph, ctx: PassContext) -> Graph:
    return prune(freeze_variables(graph, ctx), ctx)


def with_variable(use, array=TABLE, **more):
    """A main graph `x` → use(variable, x) = `y`, and what is known of the variable."""

    def build():
        x = v1.placeholder(tf.int64, None, "x")
        variable = v1.get_variable("v", array.shape, array.dtype, use_resource=True)
        tf.identity(use(variable, x), name="y")

    return main_graph(build, ["y"]), {"v": KnownVariable(array, **more)}


def read_twice(variable, x):
    return variable.read_value() + variable.read_value() + tf.cast(x, tf.float32)


def test_reads_of_a_variable_become_one_constant():
    before, variables = with_variable(read_twice)
    ctx = PassContext(variables)
    after = frozen(before, ctx)
    assert not {"VarHandleOp", "ReadVariableOp"} & set(ops(after))
    (const,) = (n for n in after if n.op == "Const")
    np.testing.assert_array_equal(const_value(const), TABLE)
    assert ctx.counts["freeze_variables"] == 1 and variables["v"].reads == 1
    np.testing.assert_array_equal(run(after, x=1), [2 * TABLE + 1])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int64", "bool", "uint8"])
def test_dtype_and_shape_are_exact(dtype):
    array = (np.arange(6).reshape(2, 3) % 2).astype(tf.as_dtype(dtype).as_numpy_dtype)
    before, variables = with_variable(lambda v, _: v.read_value(), array)
    (value,) = run(frozen(before, PassContext(variables)), x=0)
    assert value.dtype == array.dtype
    np.testing.assert_array_equal(value, array)


@pytest.mark.parametrize("batch_dims", [0, 1, 2])
def test_resource_gather_becomes_gather(batch_dims):
    def gather(variable, x):
        return tf.raw_ops.ResourceGather(
            resource=variable.handle, indices=x, dtype=tf.float32, batch_dims=batch_dims
        )

    before, variables = with_variable(gather)
    after = frozen(before, PassContext(variables))
    assert "GatherV2" in ops(after) and "ResourceGather" not in ops(after)
    ids = np.random.default_rng(0).integers(0, 2, (*TABLE.shape[:batch_dims], 5))
    (found,) = run(after, x=ids)
    np.testing.assert_array_equal(found, _gathered_from_a_variable(ids, batch_dims))


def _gathered_from_a_variable(ids, batch_dims):
    variable = tf.Variable(TABLE)
    return tf.raw_ops.ResourceGather(
        resource=variable.handle, indices=ids, dtype=tf.float32, batch_dims=batch_dims
    )


def test_resource_gather_nd_and_variable_shape():
    def both(variable, x):
        rows = tf.raw_ops.ResourceGatherNd(resource=variable.handle, indices=x, dtype=tf.float32)
        shape = tf.raw_ops.VariableShape(input=variable.handle, out_type=tf.int64)
        return tf.concat([tf.reshape(rows, [-1]), tf.cast(shape, tf.float32)], 0)

    before, variables = with_variable(both)
    after = frozen(before, PassContext(variables))
    assert "VarHandleOp" not in ops(after)
    np.testing.assert_array_equal(run(after, x=[[1, 2]]), [[*TABLE[1, 2], 4, 3, 2]])


def test_a_reference_variable_is_frozen_for_all_that_take_its_value():
    def build():
        x = v1.placeholder(tf.float32, [4], "x")
        v = v1.get_variable("v", [4], use_resource=False)
        v1.assign(v, tf.zeros([4]), name="write")
        tf.add(v * 2.0, x, name="y")

    variables = {"v": KnownVariable(np.arange(4, dtype=np.float32))}
    after = freeze_variables(main_graph(build, ["y"]), PassContext(variables))
    assert after.nodes["write"].inputs[0].node == "v", "the writer keeps the variable"
    after = prune(after, PassContext())
    assert "VariableV2" not in ops(after)
    np.testing.assert_array_equal(run(after, x=np.ones(4)), [[1, 3, 5, 7]])


def test_a_captured_constant_replaces_the_argument():
    offset = tf.constant([1.0, 2.0])
    before = function_graph(lambda x: x + offset, tf.TensorSpec([2], tf.float32, name="x"))
    captured = before.args[1].name
    ctx = PassContext({captured: KnownVariable(offset.numpy(), handle=False)})
    after = freeze_variables(before, ctx)
    (add,) = (n for n in after if n.op == "AddV2")
    assert after.nodes[add.inputs[1].node].op == "Const"
    assert [n.name for n in after.args] == [n.name for n in before.args], "the signature stays"


def test_what_a_read_waited_for_is_still_waited_for():
    def guarded(variable, x):
        with tf.control_dependencies([v1.Assert(tf.equal(x, 1), ["x is not 1"])]):
            return variable.read_value()

    before, variables = with_variable(guarded)
    after = frozen(before, PassContext(variables))
    assert "ReadVariableOp" not in ops(after)
    np.testing.assert_array_equal(run(after, x=1), [TABLE])
    with pytest.raises(tf.errors.InvalidArgumentError, match="x is not 1"):
        run(after, x=2)


@pytest.mark.parametrize(
    ("more", "budget"),
    [
        ({"written_by": "AssignVariableOp 'a'"}, FreezeBudget()),
        ({}, FreezeBudget(per_variable=TABLE.nbytes - 1)),
        ({}, FreezeBudget(left=TABLE.nbytes - 1)),
    ],
    ids=["written", "above the size of one", "budget used up"],
)
def test_declines(more, budget):
    before, variables = with_variable(read_twice, **more)
    assert show(freeze_variables(before, PassContext(variables, budget=budget))) == show(before)


def test_declines_a_variable_it_knows_nothing_of():
    before, _ = with_variable(read_twice)
    assert show(freeze_variables(before, PassContext())) == show(before)


def test_the_budget_goes_to_small_variables_first():
    def build():
        big = v1.get_variable("big", [100], use_resource=True)
        small = [v1.get_variable(f"small{i}", [10], use_resource=True) for i in range(3)]
        tf.add_n([tf.reduce_sum(v) for v in [big, *small]], name="y")

    variables = {"big": KnownVariable(np.zeros(100, np.float32))}
    variables |= {f"small{i}": KnownVariable(np.zeros(10, np.float32)) for i in range(3)}
    budget = FreezeBudget(left=450)
    after = frozen(main_graph(build, ["y"]), PassContext(variables, budget=budget))
    assert [n.name for n in after if n.op == "VarHandleOp"] == ["big"]
    assert budget.left == 450 - 3 * 40


def test_declines_inside_a_v1_loop_and_a_second_run_changes_nothing():
    def build():
        x = v1.placeholder(tf.float32, [4], "x")
        v = v1.get_variable("v", [4], use_resource=True)
        _, y = v1.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, y + v), [0, x + v])
        tf.identity(y, name="y")

    v1.disable_control_flow_v2()
    try:
        before = main_graph(build, ["y"])
    finally:
        v1.enable_control_flow_v2()
    variables = {"v": KnownVariable(np.ones(4, np.float32))}
    after = frozen(before, PassContext(variables))
    assert ops(after).count("ReadVariableOp") == 1, "the read in the loop stays, the other one goes"
    again = PassContext(variables)
    assert show(frozen(after, again)) == show(after) and not again.counts["freeze_variables"]


@pytest.mark.parametrize(("hold_tables", "held"), [(None, False), (96, True), (97, False)])
def test_a_large_table_that_is_only_gathered_from_may_be_held_for_a_lookup(hold_tables, held):
    before, variables = with_variable(lambda v, x: v.sparse_read(x))
    ctx = PassContext(variables, hold_tables=hold_tables)
    after = frozen(before, ctx)
    assert ("ResourceGather" in ops(after)) == held and ("GatherV2" in ops(after)) != held
    assert ctx.held == ({"v"} if held else set())


def test_a_table_that_is_read_as_a_whole_too_is_not_held():
    before, variables = with_variable(lambda v, x: v.sparse_read(x) + tf.reduce_sum(v.read_value()))
    ctx = PassContext(variables, hold_tables=0)
    assert not {"ResourceGather", "ReadVariableOp"} & set(ops(frozen(before, ctx)))
    assert not ctx.held
