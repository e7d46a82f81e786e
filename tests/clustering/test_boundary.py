"""Fetches, names, constants and control edges where a cluster meets the rest of the graph."""

import numpy as np
import tensorflow as tf

from tests.clustering.graphs import (
    ANY_GAIN,
    assert_same_answers,
    cluster,
    function_graph,
    main_graph,
    members,
    partitioned_call,
    proto_of,
    replace_with_calls,
    run,
    support,
    vector,
)
from tf_blade.clustering import (
    CostModel,
    Replacement,
    find_clusters,
    outline,
    replace,
    replace_all,
)
from tf_blade.graph.graph import Graph, TensorRef
from tf_blade.graph.shapes import infer_types

FOUR = np.array([0.5, -1.0, 2.0, 0.25], np.float32)


def test_fetched_intermediates_keep_their_names():
    def build():
        x = vector("x")
        inner = tf.nn.relu(x, name="inner")
        return [inner, tf.square(tf.negative(inner, name="n"), name="y")]

    graph = main_graph(build)
    before = graph.copy()
    clusters, _, types = cluster(graph)
    assert members(clusters) == [{"inner", "n", "y"}]
    (call,) = replace_with_calls(graph, types, clusters)
    assert [str(ref) for _, ref in graph.outputs] == ["inner:0", "y:0"]
    assert {n.name: n.op for n in graph} == {
        "x": "Placeholder",
        "blade_cluster_0": "PartitionedCall",
        "inner": "Identity",
        "y": "Identity",
    }
    assert graph.nodes["inner"].inputs == [TensorRef(call.name, 0)]
    assert_same_answers(before, graph, {"x": FOUR})


def test_fetched_later_outputs_of_a_node_keep_their_names():
    def build():
        x = vector("x")
        low, _, high = tf.split(tf.nn.relu(tf.tile(x, [3])), 3, name="parts")
        return [high, tf.square(low, name="y")]

    graph = main_graph(build)
    before = graph.copy()
    clusters, _, types = cluster(graph)
    replace_with_calls(graph, types, clusters)
    assert graph.nodes["parts"].op == "IdentityN"
    assert [str(ref) for _, ref in graph.outputs] == ["parts:2", "y:0"]
    assert_same_answers(before, graph, {"x": FOUR})


def test_readers_outside_the_eligible_nodes_keep_the_original_nodes():
    def build():
        x = vector("x")
        a = tf.nn.relu(x, name="a")
        b = tf.negative(a, name="b")
        tf.square(b, name="train")
        return [tf.abs(b, name="y")]

    graph = main_graph(build)
    before = graph.copy()
    clusters, _, types = cluster(graph, eligible=["a", "b", "y"])
    assert [str(ref) for ref in clusters[0].outputs] == ["y:0"]
    replace_with_calls(graph, types, clusters)
    assert graph.nodes["train"].inputs == [TensorRef("b")]
    assert graph.nodes["b"].op == "Neg" and graph.nodes["a"].op == "Relu"
    assert graph.nodes["y"].op == "Identity"
    assert_same_answers(before, graph, {"x": FOUR}, ["y:0", "train:0"])


def test_original_nodes_that_are_kept_go_on_reading_original_nodes():
    def build():
        x = vector("x")
        a = tf.negative(tf.nn.relu(x, name="a0"), name="a")
        b = tf.negative(tf.add(tf.sinh(a, name="s"), a, name="b0"), name="b")
        tf.square(b, name="train")
        return [tf.abs(b, name="y")]

    graph = main_graph(build)
    before = graph.copy()
    clusters, _, types = cluster(graph, eligible=["a0", "a", "s", "b0", "b", "y"])
    assert members(clusters) == [{"a0", "a"}, {"b0", "b", "y"}]
    replace_with_calls(graph, types, clusters[::-1])
    assert graph.nodes["b0"].inputs == [TensorRef("s"), TensorRef("a")]
    assert graph.nodes["a"].inputs == [TensorRef("a0")]
    assert graph.nodes["s"].inputs == [TensorRef("blade_cluster_0")]
    assert_same_answers(before, graph, {"x": FOUR}, ["y:0", "train:0"])


def test_a_fetched_node_with_readers_outside_serves_them_under_its_name():
    def build():
        x = vector("x")
        first, second = tf.split(tf.nn.relu(x, name="a"), 2, name="parts")
        tf.square(second, name="train")
        return [first, tf.abs(first, name="y")]

    graph = main_graph(build)
    before = graph.copy()
    names = ["a", "parts", "y", "parts/split_dim"]
    clusters, _, types = cluster(graph, eligible=[n for n in names if n in graph.nodes])
    replace_with_calls(graph, types, clusters)
    assert graph.nodes["parts"].op == "IdentityN" and "a" not in graph.nodes
    assert_same_answers(before, graph, {"x": FOUR}, ["parts:0", "y:0", "train:0"])


def test_a_fetched_node_serves_members_that_stay():
    def build():
        x = vector("x")
        first, second = tf.split(tf.nn.relu(x, name="a"), 2, name="parts")
        inner = tf.abs(second, name="inner")  # a member that stays: "train" needs it
        tf.square(inner, name="train")
        return [first, tf.negative(inner, name="y")]

    graph = main_graph(build)
    before = graph.copy()
    names = ["a", "parts", "inner", "y", "parts/split_dim"]
    clusters, _, types = cluster(graph, eligible=[n for n in names if n in graph.nodes])
    replace_with_calls(graph, types, clusters)
    assert graph.nodes["parts"].op == "IdentityN" and graph.nodes["inner"].op == "Abs"
    assert_same_answers(before, graph, {"x": FOUR}, ["parts:0", "y:0", "train:0"])


def test_neighbouring_clusters_can_be_replaced_in_either_order():
    def build():
        x = vector("x")
        a = tf.negative(tf.nn.relu(x, name="a0"), name="a")
        b = tf.add(tf.sinh(a), a, name="b")
        c = tf.square(tf.add(tf.cosh(b), b), name="c")
        tf.square(tf.abs(b, name="train0"), name="train")
        return [c]

    for order in (1, -1):
        graph = main_graph(build)
        before = graph.copy()
        eligible = [n for n in graph.nodes if not n.startswith("train")]
        clusters, _, types = cluster(graph, eligible=eligible)
        assert len(clusters) == 2
        outlined = [outline(graph, types, c) for c in clusters]
        for item in outlined[::order]:
            replace(graph, item, b"", make_node=partitioned_call)
        assert_same_answers(before, graph, {"x": FOUR}, ["c:0", "train:0"])


def test_outlining_after_a_neighbour_was_replaced_works_too():
    def build():
        x = vector("x")
        a = tf.negative(tf.nn.relu(x, name="a0"), name="a")
        return [tf.square(tf.add(tf.sinh(a), a, name="b"), name="c")]

    graph = main_graph(build)
    before = graph.copy()
    clusters, _, types = cluster(graph)
    for found in clusters:
        replace(graph, outline(graph, types, found), b"", make_node=partitioned_call)
    assert len(clusters) == 2 and "a" not in graph.nodes
    assert_same_answers(before, graph, {"x": FOUR})


def test_small_constants_are_copied_and_large_ones_are_fed():
    def build():
        x = vector("x", 300)
        small = tf.constant(2.0, name="small")
        large = tf.constant(np.arange(300, dtype=np.float32), name="large")
        y = tf.add(tf.multiply(x, small, name="m"), large, name="y")
        return [y, tf.sinh(tf.multiply(tf.cosh(y), small, name="z0") * large, name="z")]

    graph = main_graph(build)
    before = graph.copy()
    clusters, left_out, types = cluster(graph)
    assert len(clusters) == 2
    assert left_out["large"] == "a constant: there is nothing to run"
    assert "small" not in left_out
    outlined = [outline(graph, types, c) for c in clusters]
    assert [o.inputs[i].node for o in outlined for i in o.constant_inputs] == ["large", "large"]
    assert all("small" in o.function.nodes for o in outlined)
    assert not any(n.op == "_Arg" and n.attrs["index"].i > 1 for o in outlined for n in o.function)
    nodes = replace_all(graph, [Replacement(o, b"") for o in outlined], make_node=partitioned_call)
    assert len(nodes) == 2 and "small" not in graph.nodes and "large" in graph.nodes
    assert_same_answers(before, graph, {"x": np.linspace(-1e-3, 1e-3, 300, dtype=np.float32)})


def test_a_constant_with_other_readers_stays():
    def build():
        x = vector("x")
        two = tf.constant(2.0, name="two")
        y = tf.negative(tf.multiply(x, two, name="m"), name="y")
        return [y, tf.sinh(two, name="s")]

    graph = main_graph(build)
    before = graph.copy()
    clusters, left_out, types = cluster(graph)
    replace_with_calls(graph, types, clusters)
    assert graph.nodes["two"].op == "Const"
    assert left_out["two"] == "a constant: there is nothing to run"
    assert_same_answers(before, graph, {"x": FOUR})


def test_control_edges_move_to_the_node_that_stands_for_a_cluster():
    def build():
        x = vector("x")
        check = tf.debugging.Assert(tf.reduce_all(x < 10.0), [x], name="check")
        with tf.control_dependencies([check]):
            a = tf.negative(tf.nn.relu(x, name="a0"), name="a")
        with tf.control_dependencies([a]):
            after = tf.sinh(x, name="after")
        return [tf.square(a, name="y"), after]

    graph = main_graph(build)
    before = graph.copy()
    clusters, left_out, types = cluster(graph)
    assert {"a0", "a", "y"} in members(clusters)
    nodes = replace_with_calls(graph, types, clusters)
    node = nodes[members(clusters).index({"a0", "a", "y"})]
    assert node.controls == ["check/AssertGuard/Identity"]
    assert left_out["check/AssertGuard/Identity"].startswith("nothing reads its results")
    assert graph.nodes["after"].controls == [node.name]
    assert_same_answers(before, graph, {"x": FOUR})
    try:
        run(graph, {"x": FOUR * 100})
    except tf.errors.InvalidArgumentError as error:
        assert "assertion failed" in str(error)
    else:
        raise AssertionError("the assertion is gone")


def test_the_control_edges_of_a_copied_constant_are_kept():
    def build():
        x = vector("x")
        before = tf.sinh(x, name="before")
        with tf.control_dependencies([before]):
            two = tf.constant(2.0, name="two")
        return [tf.negative(tf.multiply(x, two, name="m"), name="y")]

    graph = main_graph(build)
    clusters, _, types = cluster(graph)
    (node,) = replace_with_calls(graph, types, clusters)
    assert node.controls == ["before"] and "two" not in graph.nodes


def test_reads_stay_before_the_assignment_that_waits_for_them():
    def build():
        table = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[4], name="table", shared_name="t")
        start = tf.raw_ops.AssignVariableOp(resource=table, value=vector("x"))
        with tf.control_dependencies([start]):
            read = tf.raw_ops.ReadVariableOp(resource=table, dtype=tf.float32, name="read")
        old = tf.square(tf.add(read, 1.0, name="more"), name="old")
        with tf.control_dependencies([old]):
            write = tf.raw_ops.AssignVariableOp(resource=table, value=old + 0.0)
        with tf.control_dependencies([write]):
            again = tf.raw_ops.ReadVariableOp(resource=table, dtype=tf.float32, name="again")
        return [old, tf.abs(tf.negative(again, name="n"), name="new")]

    graph = main_graph(build)
    before = graph.copy()
    clusters, _, types = cluster(graph)
    assert not any({"old", "new"} <= found for found in members(clusters))
    replace_with_calls(graph, types, clusters)
    assert_same_answers(before, graph, {"x": FOUR})


def test_colocation_with_a_removed_node_is_dropped():
    def build():
        x = vector("x")
        a = tf.nn.relu(x, name="a")
        with tf.compat.v1.colocate_with(a):
            shown = tf.sinh(x, name="shown")
        return [tf.negative(a, name="b"), shown]

    graph = main_graph(build)
    assert "_class" in graph.nodes["shown"].attrs
    before = graph.copy()
    clusters, _, types = cluster(graph)
    assert members(clusters) == [{"a", "b"}]
    replace_with_calls(graph, types, clusters)
    assert "a" not in graph.nodes and "_class" not in graph.nodes["shown"].attrs
    assert_same_answers(before, graph, {"x": FOUR})


def test_equal_clusters_share_one_function():
    def build():
        results = []
        for i in range(3):
            x = vector(f"x{i}")
            early = tf.add(tf.nn.relu(x) * 2.0, tf.sinh(x))
            results.append(tf.cosh(tf.negative(early * float(i // 2))))
        return results

    graph = main_graph(build)
    before = graph.copy()
    types = infer_types(graph)
    clusters, _ = find_clusters(graph, types, support, cost=CostModel(light_us=0, margin_us=-9))
    assert len(clusters) == 3
    names = [outline(graph, types, c).function.name for c in clusters]
    assert names[0] == names[1] != names[2]
    assert all(name.startswith("blade_fallback_") for name in names)
    replace_with_calls(graph, types, clusters)
    assert sorted(graph.library) == sorted(set(names))
    assert_same_answers(before, graph, {f"x{i}": FOUR + i for i in range(3)})


def test_a_function_body_keeps_its_signature():
    def body(x, y):
        a = tf.nn.relu(x) * 2.0
        return {"sum": a + tf.sinh(y), "same": a, "square": tf.square(a)}

    spec = tf.TensorSpec([None], tf.float32)
    graph = function_graph(body, spec, spec)
    before = graph.to_function_def()
    clusters, _, types = cluster(graph)
    last = clusters[0].members[-1]
    graph.control_outputs = [("ran", last)]
    found = replace_with_calls(graph, types, clusters)
    assert len(found) == 1
    assert last not in graph.nodes and graph.control_outputs == [("ran", found[0].name)]
    graph.control_outputs = []
    after = graph.to_function_def()
    assert after.signature == before.signature
    feeds = (tf.constant(FOUR), tf.constant(FOUR * 0.5))
    assert [t.numpy().tolist() for t in call(before, {}, "body_before", *feeds)] == [
        t.numpy().tolist() for t in call(after, graph.library, "body_after", *feeds)
    ]


def call(fdef, library, name, *feeds):
    """Calls a function proto, under a name that this process hasn't seen yet."""
    graph_def = tf.compat.v1.GraphDef()
    for function in [*library.values(), fdef]:
        graph_def.library.function.add().CopyFrom(function)
    graph_def.library.function[-1].signature.name = name
    names = [f"arg{i}" for i in range(len(feeds))]
    for arg in names:
        node = graph_def.node.add(name=arg, op="Placeholder")
        node.attr["dtype"].type = tf.float32.as_datatype_enum
    graph_def.node.add(name="call", op=name, input=names)

    def imported(*args):
        return tf.graph_util.import_graph_def(
            graph_def,
            input_map=dict(zip(names, args, strict=True)),
            return_elements=[f"call:{i}" for i in range(len(fdef.signature.output_arg))],
        )

    specs = [tf.TensorSpec([None], tf.float32) for _ in feeds]
    return tf.compat.v1.wrap_function(imported, specs)(*feeds)


def test_the_default_node_is_a_blade_cluster_with_all_it_needs():
    def build():
        x = vector("x", None)
        large = tf.constant(np.ones((1, 400), np.float32), name="large")
        return [tf.negative(tf.matmul(large, tf.tile(x[:, None], [1, 3])), name="y")]

    graph = main_graph(build)
    clusters, _, types = cluster(graph)
    outlined = outline(graph, types, clusters[0])
    node = replace(graph, outlined, b"TFBLADE1...")
    assert node.op == "BladeCluster"
    assert node.attrs["executable"].s == b"TFBLADE1..."
    assert node.attrs["fallback"].func.name == outlined.function.name in graph.library
    assert node.attrs["cluster"].s == b"blade_cluster_0"
    assert [node.inputs[i].node for i in node.attrs["constant_inputs"].list.i] == ["large"]
    assert list(node.attrs["Tin"].list.type) == [tf.float32.as_datatype_enum] * 2
    (shape,) = node.attrs["output_shapes"].list.shape
    assert [d.size for d in shape.dim] == [1, 3]
    assert types[TensorRef(node.name)].shape == (1, 3)


def test_node_names_that_look_like_arguments_do_no_harm():
    def build():
        x = vector("input_1")
        return [tf.negative(tf.nn.relu(x, name="input_0"), name="output_0")]

    graph = main_graph(build)
    before = graph.copy()
    clusters, _, types = cluster(graph)
    replace_with_calls(graph, types, clusters)
    assert_same_answers(before, graph, {"input_1": FOUR})


def test_a_replaced_graph_survives_a_round_trip_through_its_proto():
    def build():
        x = vector("x")
        return [tf.negative(tf.nn.relu(x), name="y")]

    graph = main_graph(build)
    before = graph.copy()
    clusters, _, types = cluster(graph)
    replace_with_calls(graph, types, clusters)
    again = Graph.from_graph_def(proto_of(graph), [ref for _, ref in graph.outputs])
    assert_same_answers(before, again, {"x": FOUR})
    found, left_out = find_clusters(again, infer_types(again), support, cost=ANY_GAIN)
    assert found == []
    assert left_out["blade_cluster_0"].startswith("calls function 'blade_fallback_")


def test_a_node_that_only_control_edges_read_stays_and_is_waited_for():
    def build():
        x = vector("x")
        gate = tf.negative(tf.sinh(x, name="slow"), name="gate")
        with tf.control_dependencies([gate]):
            a = tf.nn.relu(x, name="a")
        return [tf.negative(a, name="y")]

    graph = main_graph(build)
    clusters, left_out, types = cluster(graph)
    assert members(clusters) == [{"a", "y"}]
    assert left_out["gate"] == "nothing reads its results, at most control edges wait for it"
    (node,) = replace_with_calls(graph, types, clusters)
    assert node.controls == ["gate"] and graph.nodes["gate"].inputs == [TensorRef("slow")]
