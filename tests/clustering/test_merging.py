"""What may and may not share a cluster."""

import numpy as np
import pytest
import tensorflow as tf

from tests.clustering.graphs import (
    ANY_GAIN,
    assert_same_answers,
    cluster,
    main_graph,
    members,
    replace_with_calls,
    support,
    vector,
)
from tf_blade.clustering import CostModel, find_clusters, outline, split_out
from tf_blade.graph.graph import GraphError
from tf_blade.graph.shapes import infer_types

FOUR = np.array([0.5, -1.0, 2.0, 0.25], np.float32)


def test_connected_nodes_become_one_cluster():
    def build():
        x = vector("x")
        return [tf.add(tf.nn.relu(x, name="a"), tf.negative(x, name="b"), name="y")]

    clusters, left_out, _ = cluster(main_graph(build))
    assert members(clusters) == [{"a", "b", "y"}]
    assert left_out == {"x": "a placeholder: its value is fed from outside"}


def test_a_diamond_through_an_unsupported_op_is_not_closed():
    def build():
        x = vector("x")
        a = tf.nn.relu(x, name="a")
        b = tf.negative(a, name="b")
        slow = tf.sinh(b, name="slow")
        c = tf.add(slow, b, name="c")
        return [tf.square(c, name="d")]

    graph = main_graph(build)
    before = graph.copy()
    clusters, left_out, types = cluster(graph)
    assert members(clusters) == [{"a", "b"}, {"c", "d"}]
    assert left_out["slow"] == "no lowering for op Sinh"
    replace_with_calls(graph, types, clusters)
    assert_same_answers(before, graph, {"x": FOUR})


def test_a_lone_node_says_which_cycle_keeps_it_alone():
    def build():
        x = vector("x")
        a = tf.nn.relu(x, name="a")
        slow = tf.sinh(a, name="slow")
        return [tf.add(slow, a, name="b")]

    clusters, left_out, _ = cluster(main_graph(build))
    assert clusters == []
    assert left_out["a"].startswith("alone: a cluster of one Relu can't win")
    assert "merging with 'b' would make a cycle through 'slow'" in left_out["a"]


def test_a_cycle_through_control_edges_alone_is_seen():
    def build():
        x = vector("x")
        a = tf.negative(tf.nn.relu(x, name="a0"), name="a")
        with tf.control_dependencies([a]):
            barrier = tf.no_op(name="barrier")
        with tf.control_dependencies([barrier]):
            b = tf.square(tf.abs(x, name="b0"), name="b")
        return [tf.add(a, b, name="y")]

    graph = main_graph(build)
    before = graph.copy()
    clusters, left_out, types = cluster(graph)
    assert not any({"a", "b"} <= found for found in members(clusters))
    assert left_out["barrier"] == "NoOp only orders other nodes"
    replace_with_calls(graph, types, clusters)
    assert_same_answers(before, graph, {"x": FOUR})


def test_a_producer_ready_early_joins_a_late_reader_if_nobody_else_waits():
    def build():
        x, y = vector("x"), vector("y")
        early = tf.negative(tf.nn.relu(x, name="early0"), name="early")
        late = tf.sinh(y, name="slow")
        return [tf.add(early, late, name="sum")]

    clusters, _, _ = cluster(main_graph(build))
    assert members(clusters) == [{"early0", "early", "sum"}]


def test_a_producer_ready_early_does_not_make_its_other_readers_wait():
    def build():
        x, y = vector("x"), vector("y")
        early = tf.negative(tf.nn.relu(x, name="early0"), name="early")
        late = tf.square(tf.add(early, tf.sinh(y, name="slow"), name="sum"), name="late")
        return [late, tf.cosh(early, name="other")]

    clusters, _, _ = cluster(main_graph(build))
    assert members(clusters) == [{"early0", "early"}, {"sum", "late"}]


def test_stateful_ops_string_and_resource_tensors_stay_outside():
    def build():
        x = vector("x")
        noise = tf.random.uniform([4], name="noise")
        text = tf.strings.as_string(x, name="text")
        table = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[4], name="table")
        row = tf.raw_ops.ReadVariableOp(resource=table, dtype=tf.float32, name="row")
        return [tf.add(tf.add(x, noise, name="a"), row, name="b"), text]

    clusters, left_out, _ = cluster(main_graph(build))
    assert members(clusters)[0] >= {"a", "b"}
    assert left_out["noise/RandomUniform"] == "op RandomUniform is stateful"
    assert left_out["text"] == "output 0 is a string tensor"
    assert left_out["table"] == "op VarHandleOp is stateful"


def test_reading_a_reference_variable_stays_outside():
    def build():
        x = vector("x")
        weight = tf.raw_ops.VariableV2(shape=[4], dtype=tf.float32, name="weight")
        read = tf.identity(weight, name="read")
        return [tf.add(tf.nn.relu(x, name="a"), read, name="b")]

    clusters, left_out, _ = cluster(main_graph(build))
    assert members(clusters) == [{"a", "b"}]
    assert left_out["read"] == "input 0 is a reference variable, which others may assign"


def test_function_calls_and_functional_control_flow_stay_outside():
    def build():
        x = vector("x")
        called = tf.function(lambda v: tf.nn.relu(v))(x)
        return [tf.square(tf.negative(called, name="a"), name="b")]

    graph = main_graph(build)
    clusters, left_out, _ = cluster(graph)
    assert members(clusters) and {"a", "b"} <= members(clusters)[0]
    assert any(reason.startswith("calls function '") for reason in left_out.values())


def test_explicit_devices_are_respected():
    def build():
        x = vector("x")
        with tf.device("/cpu:0"):
            a = tf.negative(tf.nn.relu(x, name="a0"), name="a")
        with tf.device("/cpu:1"):
            b = tf.negative(tf.nn.relu(a, name="b0"), name="b")
        with tf.device("/gpu:0"):
            c = tf.negative(b, name="c")
        d = tf.abs(a, name="d")
        return [c, d]

    graph = main_graph(build)
    types = infer_types(graph)
    clusters, left_out = find_clusters(graph, types, support, cost=ANY_GAIN)
    assert members(clusters) == [{"a0", "a", "d"}, {"b0", "b"}]
    assert left_out["c"] == "placed on device '/device:GPU:0', not on the CPU"
    found = replace_with_calls(graph, types, clusters)
    assert [node.device for node in found] == ["/device:CPU:0", "/device:CPU:1"]


def test_nodes_outside_the_eligible_ones_are_neither_merged_nor_reported():
    def build():
        x = vector("x")
        y = tf.negative(tf.nn.relu(x, name="a"), name="y")
        tf.square(tf.abs(y, name="train0"), name="train")
        return [y]

    clusters, left_out, _ = cluster(main_graph(build), eligible=["a", "y"])
    assert members(clusters) == [{"a", "y"}]
    assert left_out == {}
    with pytest.raises(GraphError, match="eligible node 'nowhere'"):
        cluster(main_graph(build), eligible=["nowhere"])


def test_splitting_out_a_refused_node_leaves_safe_pieces():
    def build():
        x = vector("x")
        a = tf.negative(tf.nn.relu(x, name="a0"), name="a")
        bad = tf.exp(a, name="bad")
        b = tf.square(tf.abs(bad, name="b0"), name="b")
        return [tf.add(b, a, name="c")]

    graph = main_graph(build)
    before = graph.copy()
    clusters, _, types = cluster(graph)
    assert len(clusters) == 1
    pieces, left_out = split_out(clusters[0], "bad", "no vector form of Exp")
    assert members(pieces) == [{"a0", "a"}, {"b0", "b", "c"}]
    assert [p.name for p in pieces] == ["blade_cluster_0_0", "blade_cluster_0_1"]
    assert left_out == {"bad": "no vector form of Exp"}
    replace_with_calls(graph, types, pieces)
    assert_same_answers(before, graph, {"x": FOUR})
    with pytest.raises(KeyError, match="no member"):
        split_out(pieces[0], "bad", "again")


def test_the_result_does_not_depend_on_chance():
    def build():
        x = vector("x")
        sums = [tf.add(tf.nn.relu(x), tf.sinh(x)) for _ in range(20)]
        return [tf.add_n(sums), *[tf.square(s) for s in sums]]

    first, reasons, types = cluster(main_graph(build))
    second, again, _ = cluster(main_graph(build))
    assert [(c.name, c.members) for c in first] == [(c.name, c.members) for c in second]
    assert reasons == again
    graph = main_graph(build)
    names = {outline(graph, types, c).function.name for c in first}
    assert names == {outline(graph, types, c).function.name for c in second}


def test_light_pieces_that_are_ready_together_share_one_launch():
    def build():
        columns = [vector(f"x{i}") for i in range(50)]
        return [tf.sinh(tf.negative(c, name=f"n{i}"), name=f"s{i}") for i, c in enumerate(columns)]

    clusters, left_out, _ = cluster(main_graph(build), cost=CostModel())
    assert members(clusters) == [{f"n{i}" for i in range(50)}]
    assert len(clusters[0].inputs) == len(clusters[0].outputs) == 50
    assert set(left_out.values()) == {
        "a placeholder: its value is fed from outside",
        "no lowering for op Sinh",
    }


def test_pieces_whose_inputs_come_at_different_times_are_not_merged():
    def build():
        early = tf.square(tf.abs(vector("x"), name="e0"), name="e")
        late = tf.square(tf.abs(tf.sinh(vector("y")), name="l0"), name="l")
        return [tf.cosh(early), tf.cosh(late)]

    clusters, _, _ = cluster(main_graph(build))
    assert members(clusters) == [{"e0", "e"}, {"l0", "l"}]


def test_ready_together_pieces_are_not_merged_around_an_unsupported_op():
    def build():
        x = vector("x")
        a = tf.square(tf.abs(x, name="a0"), name="a")
        shown = tf.identity(a, name="shown")
        return [tf.square(tf.abs(shown, name="b0"), name="b")]

    graph = main_graph(build)
    types = infer_types(graph)

    def without_identity(node):
        return "not today" if node.op == "Identity" else None

    # Waiting for an Identity costs nothing, so both pieces count as ready together.
    clusters, _ = find_clusters(graph, types, without_identity, cost=ANY_GAIN)
    assert members(clusters) == [{"a0", "a"}, {"b0", "b"}]


def test_heavy_pieces_keep_running_beside_each_other():
    def build():
        towers = []
        for i in range(3):
            x = tf.compat.v1.placeholder(tf.float32, [None, 64], name=f"x{i}")
            weight = tf.constant(np.ones((64, 64), np.float32), name=f"w{i}")
            towers.append(tf.nn.relu(tf.matmul(x, weight, name=f"m{i}"), name=f"r{i}"))
        return [tf.sinh(t) for t in towers]

    clusters, _, _ = cluster(main_graph(build))
    assert members(clusters) == [{f"m{i}", f"r{i}"} for i in range(3)]


def test_much_elementwise_work_keeps_running_beside_each_other():
    def build():
        xs = [vector(f"x{i}", 1_000_000) for i in range(3)]
        return [tf.sinh(tf.square(tf.abs(x, name=f"a{i}"), name=f"b{i}")) for i, x in enumerate(xs)]

    clusters, _, _ = cluster(main_graph(build))
    assert members(clusters) == [{f"a{i}", f"b{i}"} for i in range(3)]
