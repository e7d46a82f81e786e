"""v1 loops become While nodes that give the same answers, or stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.clustering.graphs import run
from tests.passes.graphs import v1
from tf_blade.graph.graph import Graph, TensorRef
from tf_blade.graph.raise_loops import raise_loops

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def lowered(build: Callable[[Any], Any]) -> Graph:
    """The graph of what `build` makes of x, with loops of Enter, Merge and so on."""
    v1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default() as graph:
            results = tf.nest.flatten(build(v1.placeholder(tf.float32, [None, 3], "x")))
            fetches = [TensorRef(tf.identity(r, f"y{i}").op.name) for i, r in enumerate(results)]
    finally:
        v1.enable_control_flow_v2()
    return Graph.from_graph_def(graph.as_graph_def(), fetches)


def counted(x: Any) -> Any:
    return tf.while_loop(lambda i, h: i < 5, lambda i, h: (i + 1, tf.sin(h) * x + 0.5), [0, x])


def swapped(x: Any) -> Any:
    """What is carried changes places, and one is not used after the loop."""
    a, _, i = tf.while_loop(
        lambda a, b, i: i > 0, lambda a, b, i: (b, a * 2.0, i - 1), [x, x + 1.0, 3]
    )
    return a, i


def no_trips(x: Any) -> Any:
    return tf.while_loop(lambda h: tf.reduce_sum(h) < -100.0, lambda h: (h + x,), [x * 2.0])


def unchanged(x: Any) -> Any:
    """One is handed on as it is; the condition depends on data."""
    return tf.while_loop(
        lambda h, w: tf.reduce_max(h) < 20.0, lambda h, w: (h * 1.5 + w, w), [x, tf.abs(x) + 1.0]
    )


def lists(x: Any) -> Any:
    raw, shape = tf.raw_ops, tf.constant([3])
    rows = raw.TensorListFromTensor(tensor=x, element_shape=shape)
    made = raw.TensorListReserve(element_shape=shape, num_elements=2, element_dtype=tf.float32)

    def body(i: Any, made: Any) -> Any:
        row = raw.TensorListGetItem(
            input_handle=rows, index=i, element_shape=shape, element_dtype=tf.float32
        )
        return i + 1, raw.TensorListSetItem(input_handle=made, index=i, item=tf.nn.softmax(row))

    _, made = tf.while_loop(lambda i, _: i < 2, body, [0, made])
    return raw.TensorListStack(input_handle=made, element_shape=shape, element_dtype=tf.float32)


def nested(x: Any) -> Any:
    def outer(i: Any, h: Any) -> Any:
        inner = tf.while_loop(lambda k, g: k < i, lambda k, g: (k + 1, g + x), [0, h])
        return i + 1, inner[1] * 0.5

    return tf.while_loop(lambda i, h: i < 4, outer, [0, x])


def two(x: Any) -> Any:
    """The second reads what the first gives."""
    return counted(counted(x)[1])


@pytest.mark.parametrize("build", [counted, swapped, no_trips, unchanged, lists, nested, two])
def test_loops_become_nodes_with_the_same_answers(build: Callable[[Any], Any]):
    graph = lowered(build)
    before = run(graph, {"x": X})
    raised = raise_loops(graph)
    assert len(raised) == (2 if build is two else 1)
    assert set(raised) == {node.name for node in graph if node.op == "StatelessWhile"}
    left = {"Enter", "Merge", "Switch", "Exit", "NextIteration", "LoopCond"}
    assert not left & {node.op for node in graph}
    for a, b in zip(before, run(graph, {"x": X}), strict=True):
        np.testing.assert_array_equal(a, b)


def test_what_waited_for_the_loop_or_was_waited_for_still_does():
    def build(x: Any) -> Any:
        with tf.control_dependencies([tf.identity(x, "before")]):
            start = tf.identity(x * 2.0, "start")
        h = tf.while_loop(lambda h: tf.reduce_max(h) < 9.0, lambda h: (h + 1.0,), [start])[0]
        with tf.control_dependencies([h]):
            return tf.identity(x, "after")

    graph = lowered(build)
    for enter in [node for node in graph if node.op == "Enter"]:
        enter.controls.append("before")
    ((name, _),) = raise_loops(graph).items()
    assert graph.nodes[name].controls == ["before"]
    assert graph.nodes["after"].controls == [name]


def test_a_variable_that_is_read_in_a_loop_is_read_before_it():
    def build(x: Any) -> Any:
        w = v1.get_variable("w", [3], use_resource=True, initializer=v1.ones_initializer())
        handle = w.handle
        return tf.while_loop(
            lambda i, h: i < 3,
            lambda i, h: (
                i + 1,
                h * tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32) + 1.0,
            ),
            [0, x],
        )

    graph = lowered(build)
    ((name, _),) = raise_loops(graph).items()
    reads = [node for node in graph if node.op == "ReadVariableOp" and "before" in node.name]
    assert [ref.node for ref in graph.nodes[name].inputs][-1] == reads[0].name
    assert graph.nodes[reads[0].inputs[0].node].op == "VarHandleOp"
    body = graph.library[graph.nodes[name].attrs["body"].func.name]
    assert "ReadVariableOp" not in {node.op for node in body.node_def}


def with_effect(x: Any) -> Any:
    def body(i: Any, h: Any) -> Any:
        with tf.control_dependencies([v1.Print(i, [i])]):
            return i + 1, h + 1.0

    return tf.while_loop(lambda i, h: i < 3, body, [0, x])


def with_random(x: Any) -> Any:
    return tf.while_loop(
        lambda i, h: i < 3, lambda i, h: (i + 1, h + v1.random_uniform([3])), [0, x]
    )


def with_branches(x: Any) -> Any:
    def body(i: Any, h: Any) -> Any:
        return i + 1, tf.cond(tf.reduce_sum(h) > 0.0, lambda: h + 1.0, lambda: h - 1.0)

    return tf.while_loop(lambda i, h: i < 3, body, [0, x])


@pytest.mark.parametrize("build", [with_effect, with_random, with_branches])
def test_loops_with_effects_or_branches_stay(build: Callable[[Any], Any]):
    graph = lowered(build)
    before = graph.to_graph_def()
    assert raise_loops(graph) == {}
    assert graph.to_graph_def() == before and not graph.library


def test_a_loop_around_one_that_stays_stays():
    def build(x: Any) -> Any:
        return tf.while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, with_branches(h)[1]), [0, x])

    assert raise_loops(lowered(build)) == {}


def test_frames_can_be_left_out():
    graph = lowered(two)
    frames = sorted({n.attrs["frame_name"].s.decode() for n in graph if n.op == "Enter"})
    assert set(raise_loops(graph, frames[:1]).values()) == set(frames[1:])


def test_a_tensor_inside_that_is_fetched_keeps_the_loop():
    graph = lowered(counted)
    inner = next(node for node in graph if node.op == "Sin")
    graph.outputs.append((inner.name, TensorRef(inner.name)))
    assert raise_loops(graph) == {}
