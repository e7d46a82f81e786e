import numpy as np
import pytest
import tensorflow as tf

import tf_blade
from tests.passes.graphs import main_graph, ops, run, show, v1
from tf_blade import passes
from tf_blade.passes import PassContext
from tf_blade.passes.merge_matmuls import merge_matmuls

RNG = np.random.default_rng(0)


def constant(*shape, dtype=np.float32):
    return tf.constant(RNG.standard_normal(shape).astype(dtype))


def dense(x, columns, *, bias=True, relu=True):
    y = tf.matmul(x, constant(x.shape[-1], columns, dtype=x.dtype.as_numpy_dtype))
    if bias:
        y = tf.nn.bias_add(y, constant(columns, dtype=x.dtype.as_numpy_dtype))
    return tf.nn.relu(y) if relu else y


def towers(*columns, shape=(None, 12), dtype=tf.float32, **how):
    def graph():
        x = v1.placeholder(dtype, shape, "x")
        parts = [tf.reduce_sum(tf.tanh(dense(x, n, **how)), -1) for n in columns]
        tf.identity(tf.stack(parts), name="y")

    return main_graph(graph, ["y"])


def merged(before):
    ctx = PassContext()
    after = passes.run(before, ctx)
    return after, ctx.counts["merge_matmuls"]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("shape,op", [((None, 12), "MatMul"), ((None, 3, 12), "BatchMatMulV2")])
@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_narrow_products_of_one_operand_become_one(bias, relu, shape, op, dtype):
    before = towers(4, 7, 5, shape=shape, dtype=dtype, bias=bias, relu=relu)
    after, count = merged(before)
    assert count == 3
    assert [ops(after).count(name) for name in (op, "BiasAdd", "Relu", "SplitV")] == [
        1,
        int(bias),
        int(relu),
        1,
    ]
    for rows in (0, 1, 5):
        x = RNG.standard_normal([rows if n is None else n for n in shape])
        x[:1, ..., 0] = np.nan
        np.testing.assert_allclose(run(after, x=x)[0], run(before, x=x)[0], rtol=1e-5, atol=1e-5)
    assert merged(after)[1] == 0


def test_a_bias_that_is_added_from_the_left_is_joined():
    def graph():
        x = v1.placeholder(tf.float32, [None, 12], "x")
        parts = [constant(n) + dense(x, n, bias=False, relu=False) for n in (4, 6)]
        tf.identity(tf.reduce_sum(tf.concat(parts, 1), 1), name="y")

    before = main_graph(graph, ["y"])
    after, count = merged(before)
    assert count == 2 and ops(after).count("AddV2") == 1
    x = RNG.standard_normal([3, 12])
    np.testing.assert_allclose(run(after, x=x)[0], run(before, x=x)[0], rtol=1e-5)


def test_layers_that_read_a_joined_layer_are_joined_too():
    def graph():
        x = v1.placeholder(tf.float32, [None, 12], "x")
        left, right = (dense(x, n) for n in (4, 6))
        parts = [dense(y, n) for y in (left, right) for n in (5, 7)]
        tf.identity(tf.reduce_sum(tf.concat(parts, 1), 1), name="y")

    before = main_graph(graph, ["y"])
    after, count = merged(before)
    assert count == 6 and ops(after).count("MatMul") == 3
    x = RNG.standard_normal([3, 12])
    np.testing.assert_allclose(run(after, x=x)[0], run(before, x=x)[0], rtol=1e-5)


def test_the_weights_are_there_once():
    def constants(graph):
        return sum(node.op == "Const" for node in graph)

    before = towers(4, 7, 5)
    after, _ = merged(before)
    # Weights, biases, where to split; what else the graph has stays.
    assert constants(after) == constants(passes.run(towers(4))) - 2 + 4


def other_operands(x):
    return [dense(x, 4), dense(x + 1, 4)]


def different_tails(x):
    return [dense(x, 4), dense(x, 5, relu=False)]


def not_constant(x):
    return [dense(x, 4), x @ tf.reshape(x[:4], [12, 4])]


def transposed(x):
    return [dense(x, 4), tf.matmul(x, constant(4, 12), transpose_b=True)]


def shared_weights(x):
    w = constant(12, 4)
    return [x @ w, x @ constant(12, 5), tf.tile(w, [2, 1])]


def read_before_relu(x):
    y = dense(x, 4, relu=False)
    return [y, tf.nn.relu(y), dense(x, 5)]


@pytest.mark.parametrize(
    "make",
    [other_operands, different_tails, not_constant, transposed, shared_weights, read_before_relu],
)
def test_stays(make):
    def graph():
        x = v1.placeholder(tf.float32, [None, 12], "x")
        tf.identity(tf.add_n([tf.reduce_sum(tf.tanh(y)) for y in make(x)]), name="y")

    before = main_graph(graph, ["y"])
    assert show(merge_matmuls(before, PassContext())) == show(before)


@pytest.mark.parametrize("columns", [(384, 384, 384), (1, 1, 1, 1), (400, 8)])
def test_stays_because_it_gains_nothing(columns):
    before = towers(*columns)
    assert show(merge_matmuls(before, PassContext())) == show(before)


def test_a_product_that_is_an_output_stays():
    def graph():
        x = v1.placeholder(tf.float32, [None, 12], "x")
        for name in ("y", "z"):
            tf.add(dense(x, 4, bias=False, relu=False), constant(4), name=name)

    before = main_graph(graph, ["y", "z"])
    assert show(merge_matmuls(before, PassContext())) == show(before)


def test_the_compiled_model_runs_one_product_with_bias_and_relu(tmp_path):
    class Experts(tf.Module):
        def __init__(self):
            self.experts = [tf.Variable(constant(16, 8)) for _ in range(4)]
            self.bias = tf.Variable(constant(8))
            self.gate = tf.Variable(constant(16, 4))

        @tf.function(input_signature=[tf.TensorSpec([None, 16])])
        def serve(self, x):
            gates = tf.nn.softmax(x @ self.gate)
            parts = [tf.nn.relu(x @ w + self.bias) for w in self.experts]
            return tf.reduce_sum(tf.stack(parts, 1) * gates[:, :, None], 1)

    model = Experts()
    tf.saved_model.save(model, str(tmp_path / "in"), signatures=model.serve)
    config = tf_blade.Config(dump_dir=str(tmp_path / "dump"), keep_slower=True)
    tf_blade.optimize(str(tmp_path / "in"), str(tmp_path / "out"), config=config)
    (ir,) = (tmp_path / "dump").glob("*/2_rewritten.ir")
    assert ir.read_text().count("dot_general(") == 2
    assert ir.read_text().count("activation=relu") == 1
    served = tf.saved_model.load(str(tmp_path / "out")).signatures["serving_default"]
    for rows in (1, 7):
        x = constant(rows, 16)
        (answer,) = served(x).values()
        np.testing.assert_allclose(answer, model.serve(x), rtol=1e-5, atol=1e-5)
