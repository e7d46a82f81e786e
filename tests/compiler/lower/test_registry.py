"""The table of lowerings: complete in itself, and clear about what it doesn't cover."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from tests.compiler.cases import CASES
from tests.compiler.harness import graph_of, lower_concrete, prepare, trace
from tests.compiler.values import Arg, finite
from tf_blade.compiler.ir.interpreter import Refused, run
from tf_blade.compiler.lower import LOWERINGS, lower, lower_graph, supports
from tf_blade.compiler.lower.table import markdown
from tf_blade.errors import UnsupportedError
from tf_blade.graph.shapes import infer_types

MATRIX = Arg("f32", ("n", "m"), finite)


def traced(function, *specs: tf.TensorSpec):
    return tf.function(function, input_signature=specs, autograph=False).get_concrete_function()


def reason_for(function, *specs: tf.TensorSpec, op: str) -> str | None:
    """What `supports` says of the first node of the given op."""
    graph = graph_of(traced(function, *specs))
    shapes = {
        arg.name: tuple(spec.shape) if spec.shape.rank is not None else None
        for arg, spec in zip(graph.args, specs, strict=True)
    }
    types = infer_types(graph, shapes)
    return supports(next(n for n in graph if n.op == op), graph, types)


def test_every_lowering_is_of_a_tensorflow_op_and_has_a_case():
    unknown = [op for op in LOWERINGS if op_def_registry.get(op) is None]
    assert not unknown
    covered = {node.op for c in CASES.values() for node in graph_of(prepare(c).concrete)}
    assert set(LOWERINGS) <= covered


@pytest.mark.parametrize("op", LOWERINGS)
def test_every_attribute_is_read_or_declared_to_have_no_influence(op: str):
    definition = op_def_registry.get(op)
    counts = {a.number_attr or a.type_list_attr for a in definition.input_arg}
    known = {*LOWERINGS[op].attributes, *LOWERINGS[op].ignores, *counts}
    names = [a.name for a in definition.attr if a.type not in ("type", "list(type)")]
    assert [name for name in names if name not in known] == []


def test_every_lowering_says_what_it_computes():
    assert [op for op, lowering in LOWERINGS.items() if not lowering.summary] == []


def test_an_op_has_one_lowering():
    with pytest.raises(ValueError, match="AddV2 already has a lowering"):
        lower("AddV2")(lambda b, x, y: b.add(x, y))


FLOAT = tf.TensorSpec([None, None], tf.float32)
REASONS = {
    "an op without lowering": (
        lambda x: tf.raw_ops.ListDiff(x=x[:, 0], y=x[0])[0],
        [FLOAT],
        "ListDiff",
        "op ListDiff has no lowering",
    ),
    "a dtype the IR doesn't have": (
        lambda x: x + x,
        [tf.TensorSpec([None], tf.complex64)],
        "AddV2",
        "input 0 has dtype complex64, which the compiler doesn't have",
    ),
    "a product of halves": (
        lambda x: tf.matmul(x, x),
        [tf.TensorSpec([None, None], tf.bfloat16)],
        "MatMul",
        "products of half precision are TensorFlow's",
    ),
    "a string": (
        lambda x: tf.reshape(x, [-1]),
        [tf.TensorSpec([None], tf.string)],
        "Reshape",
        "input 0 has dtype string, which the compiler doesn't have",
    ),
    "a dtype this op doesn't take": (
        lambda x: tf.matmul(x, x),
        [tf.TensorSpec([None, None], tf.int32)],
        "MatMul",
        "MatMul is not supported for int32",
    ),
    "an unknown rank": (
        lambda x: x + x,
        [tf.TensorSpec(None, tf.float32)],
        "AddV2",
        "input 0 has an unknown rank",
    ),
    "axes fed at run time": (
        lambda x, a: tf.reduce_sum(x, a, keepdims=True),
        [FLOAT, tf.TensorSpec([1], tf.int32)],
        "Sum",
        "input 1 is not a constant",
    ),
    "a rank decided at run time": (
        lambda x, s: tf.reshape(x, s),
        [FLOAT, tf.TensorSpec([None], tf.int32)],
        "Reshape",
        "output 0 has an unknown rank",
    ),
    "more elements than a shape has": (
        lambda x, p: tf.raw_ops.Pad(input=tf.reshape(x, [1] * 40), paddings=p),
        [tf.TensorSpec([], tf.float32), tf.TensorSpec([40, 2], tf.int32)],
        "Pad",
        "input 1 describes a shape and has 80 elements",
    ),
}


@pytest.mark.parametrize("why", REASONS)
def test_supports_gives_the_reason(why: str):
    function, specs, op, reason = REASONS[why]
    assert reason_for(function, *specs, op=op) == reason


def image(x: tf.Tensor) -> tf.Tensor:
    return tf.reshape(x, [-1, 8, 8, 3])


NCHW = "data format NCHW, which TensorFlow's own CPU kernels don't take"
REFUSALS = {
    "convolutions of the other format": (
        lambda x: tf.nn.conv2d(image(x), tf.ones([3, 3, 8, 2]), 1, "SAME", data_format="NCHW"),
        NCHW,
    ),
    "windows of the other format": (
        lambda x: tf.nn.max_pool2d(image(x), 2, 1, "VALID", data_format="NCHW"),
        NCHW,
    ),
    "blocks of the other format": (
        lambda x: tf.nn.depth_to_space(image(x), 2, data_format="NCHW"),
        NCHW,
    ),
    "transposed convolutions of the other format": (
        lambda x: tf.nn.conv2d_transpose(
            image(x), tf.ones([3, 3, 2, 8]), [tf.shape(x)[0], 2, 8, 3], 1, data_format="NCHW"
        ),
        NCHW,
    ),
    "a large window": (
        lambda x: tf.nn.max_pool2d(image(x), 5, 1, "VALID"),
        "a window of 25 elements: beyond 9, TensorFlow's kernel is faster",
    ),
    "a border and skipped elements": (
        lambda x: tf.nn.max_pool2d(image(x), 3, 2, "SAME"),
        "a border and windows that skip elements: TensorFlow's kernel is faster",
    ),
    "means beside a border": (
        lambda x: tf.nn.avg_pool2d(image(x), 2, 1, "SAME"),
        "means beside a border: TensorFlow's kernel is faster",
    ),
    "images of unknown size": (
        lambda x: tf.image.resize(x[None, :, :, None], [4, 4]),
        "the image's old and new size must be known",
    ),
    "a band of diagonals": (
        lambda x: tf.linalg.diag_part(x, k=(-1, 1)),
        "a band of several diagonals is not supported",
    ),
    "a shape computed from data": (
        lambda x: tf.zeros([tf.cast(tf.reduce_max(x), tf.int32)]),
        "the shape depends on data in a way that shape arithmetic can't follow",
    ),
    "training-mode batch norm": (
        lambda x: (
            tf.raw_ops.FusedBatchNormV3(
                x=tf.reshape(x, [1, 1, -1, 1]),
                scale=[1.0],
                offset=[0.0],
                mean=[0.0],
                variance=[1.0],
            ).y
        ),
        "batch statistics of training mode are not computed",
    ),
    "a hole beside a zero": (
        lambda x: tf.reshape(x, [0, -1]),
        "the dims beside a -1 are not 0",
    ),
    "dropped bits": (
        lambda x: tf.raw_ops.Cast(x=tf.cast(x, tf.float64), DstT=tf.float32, Truncate=True),
        "drops bits instead of rounding",
    ),
    "a step of floats": (
        lambda x: tf.range(x[0, 0], 5.0, 1.0),
        "a range of floats needs constant ends",
    ),
}


@pytest.mark.parametrize("why", REFUSALS)
def test_what_cannot_be_lowered_is_refused_with_the_node_and_the_reason(why: str):
    function, reason = REFUSALS[why]
    concrete = trace(function, [MATRIX])
    with pytest.raises(UnsupportedError, match=re.escape(reason)) as caught:
        lower_concrete(concrete, "refused")
    assert caught.value.node in graph_of(concrete).nodes


def test_nodes_that_no_output_needs_are_not_lowered():
    def function(x):
        tf.unique(x[:, 0])
        return x * 2.0

    assert [op.kind for op in lower_concrete(trace(function, [MATRIX]), "p").ops] == [
        "constant",
        "broadcast_in_dim",
        "mul",
    ]


def test_arguments_that_never_change_are_marked():
    graph = graph_of(trace(lambda x, w: tf.matmul(x, w), [MATRIX, Arg("f32", ("m", 4), finite)]))
    types = infer_types(graph, {"x": (None, None), "w": (None, 4)})
    assert lower_graph(graph, types, "p", constant_inputs=[1]).constant_params == {1}


def test_dims_that_tensorflow_knows_become_static_and_are_checked():
    graph = graph_of(trace(lambda x: x * 2.0, [MATRIX]))
    types = infer_types(graph, {"x": (None, None)})
    product = next(ref for ref in types if graph.nodes[ref.node].op == "Mul")
    types[product] = type(types[product])(tf.float32, (None, 3))
    program = lower_graph(graph, types, "p")
    assert program.results[0].type.shape[1] == 3
    assert run(program, [np.ones((2, 3), np.float32)])[0].shape == (2, 3)
    with pytest.raises(Refused, match="compiled for"):
        run(program, [np.ones((2, 4), np.float32)])


def test_shape_arithmetic_leaves_no_ops_behind():
    def function(x):
        rows, columns = tf.shape(x)[0], tf.shape(x)[1]
        return tf.reshape(x, tf.stack([columns * 2 // 2, rows]))

    assert [op.kind for op in lower_concrete(trace(function, [MATRIX]), "p").ops] == ["reshape"]


def test_the_table_has_one_row_an_op():
    rows = markdown().splitlines()
    assert len(rows) == len(LOWERINGS) + 2
    assert "| MatMul | floats | The product of two matrices, each transposed on request. |" in rows
