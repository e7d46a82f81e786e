"""v1 conditionals and loops: a cluster never spans two branches, two loops or two conditions."""

import numpy as np
import tensorflow as tf

from tests.clustering.graphs import (
    assert_same_answers,
    cluster,
    main_graph,
    members,
    replace_with_calls,
    vector,
)
from tf_blade.clustering.control_flow import find_places

v1 = tf.compat.v1
FOUR = np.array([0.5, -1.0, 2.0, 0.25], np.float32)


def with_v1_control_flow(build):
    """Builds with Switch and Merge instead of If and While."""

    def wrapped():
        was_on = v1.control_flow_v2_enabled()
        v1.disable_control_flow_v2()
        try:
            return build()
        finally:
            if was_on:
                v1.enable_control_flow_v2()

    return wrapped


def places(graph):
    return find_places(graph, graph.topological_order())


def test_the_branches_of_a_conditional_are_not_merged():
    def build():
        x, p = vector("x"), v1.placeholder(tf.bool, [], name="p")

        def yes():
            return tf.square(tf.nn.relu(x, name="t0"), name="t")

        def no():
            return tf.abs(tf.negative(x, name="f0"), name="f")

        y = v1.cond(p, yes, no)
        return [tf.square(tf.nn.relu(y, name="after0"), name="after")]

    graph = main_graph(with_v1_control_flow(build))
    assert any(n.op == "Switch" for n in graph)
    before = graph.copy()
    clusters, left_out, types = cluster(graph)
    found = [{n.rpartition("/")[2] for n in m} for m in members(clusters)]
    assert {"t0", "t"} in found and {"f0", "f"} in found and {"after0", "after"} in found
    assert any(
        r == "control flow (Switch) stays with TensorFlow's executor" for r in left_out.values()
    )
    replace_with_calls(graph, types, clusters)
    for p in (True, False):
        assert_same_answers(before, graph, {"x": FOUR, "p": p})


def test_dead_values_do_not_kill_what_is_alive():
    def build():
        x, p = vector("x"), v1.placeholder(tf.bool, [], name="p")
        off, on = tf.raw_ops.Switch(data=x, pred=p)
        a = tf.negative(tf.nn.relu(on, name="a0"), name="a")
        b = tf.negative(tf.abs(off, name="b0"), name="b")
        c = tf.negative(tf.square(x, name="c0"), name="c")
        joined, _ = tf.raw_ops.Merge(inputs=[b, a])
        return [tf.identity(joined, name="joined"), c]

    graph = main_graph(build)
    before = graph.copy()
    clusters, _, types = cluster(graph)
    assert members(clusters) == [{"a0", "a"}, {"b0", "b"}, {"c0", "c"}]
    replace_with_calls(graph, types, clusters)
    for p in (True, False):
        assert_same_answers(before, graph, {"x": FOUR, "p": p})


def test_a_branch_that_reads_from_outside_directly_does_not_take_the_source_in():
    def build():
        x, p = vector("x"), v1.placeholder(tf.bool, [], name="p")
        off, on = tf.raw_ops.Switch(data=x, pred=p)
        # As late as the Switch is, so that nothing but its condition tells the two apart.
        always = tf.negative(tf.square(tf.sinh(x), name="always0"), name="always")
        branch = tf.abs(tf.add(always, on, name="branch0"), name="branch")
        joined, _ = tf.raw_ops.Merge(inputs=[off, branch])
        return [always, tf.identity(joined, name="joined")]

    graph = main_graph(build)
    before = graph.copy()
    clusters, _, types = cluster(graph)
    assert members(clusters) == [{"always0", "always"}, {"branch0", "branch"}]
    replace_with_calls(graph, types, clusters)
    for p in (True, False):
        assert_same_answers(before, graph, {"x": FOUR, "p": p})


def test_two_switches_on_one_predicate_have_one_condition():
    def build():
        x, y = vector("x"), vector("y")
        p = v1.placeholder(tf.bool, [], name="p")
        _, on_x = tf.raw_ops.Switch(data=x, pred=p)
        _, on_y = tf.raw_ops.Switch(data=y, pred=tf.identity(p))
        both = tf.square(tf.add(on_x, on_y, name="sum"), name="both")
        joined, _ = tf.raw_ops.Merge(inputs=[tf.raw_ops.Switch(data=x, pred=p)[0], both])
        return [tf.negative(tf.abs(joined, name="j0"), name="j")]

    graph = main_graph(build)
    before = graph.copy()
    found = places(graph)
    assert found["j"].conditions == frozenset()
    assert len(found["sum"].conditions) == 1
    clusters, _, types = cluster(graph)
    assert members(clusters) == [{"sum", "both"}, {"j0", "j"}]
    replace_with_calls(graph, types, clusters)
    for p in (True, False):
        assert_same_answers(before, graph, {"x": FOUR, "y": FOUR, "p": p})


def test_a_merge_of_unrelated_switches_keeps_a_condition_of_its_own():
    def build():
        x = vector("x")
        p, q = (v1.placeholder(tf.bool, [], name=n) for n in "pq")
        on = tf.raw_ops.Switch(data=x, pred=p)[1]
        off = tf.raw_ops.Switch(data=x, pred=q)[0]
        joined, _ = tf.raw_ops.Merge(inputs=[on, off], name="joined")
        return [tf.negative(joined, name="y")]

    graph = main_graph(build)
    assert places(graph)["y"].conditions == {("merge", "joined")}


def test_loops_keep_their_bodies_and_run_as_before():
    def build():
        x = vector("x")
        scale = tf.square(tf.nn.relu(x, name="s0"), name="s")

        def body(i, total):
            more = tf.multiply(tf.add(total, scale, name="b0"), 0.5, name="b")
            return i + 1, tf.abs(more, name="b1")

        _, total = v1.while_loop(lambda i, _: i * 2 < 10, body, [tf.constant(0), tf.negative(x)])
        return [tf.square(tf.nn.relu(total, name="after0"), name="after")]

    graph = main_graph(with_v1_control_flow(build))
    assert any(n.op == "NextIteration" for n in graph)
    before = graph.copy()
    found = places(graph)
    assert found["while/b"].frame == ("while/while_context",)
    assert found["while/b"] == found["while/add"] != found["while/LoopCond"]
    assert found["after"] == found["s"] and found["after"].conditions == frozenset()
    clusters, _, types = cluster(graph)
    body = next(m for m in members(clusters) if "while/b" in m)
    assert {"while/b0", "while/b", "while/b1"} <= body
    assert all(n.startswith("while/") for n in body)
    assert {"s0", "s"} in [m - {"Neg"} for m in members(clusters)]
    replace_with_calls(graph, types, clusters)
    assert_same_answers(before, graph, {"x": FOUR})


def test_nested_loops_and_a_conditional_in_a_loop_run_as_before():
    def build():
        x = vector("x")

        def inner(j, v):
            return j + 1, tf.tanh(tf.add(v, 0.25))

        def outer(i, v):
            _, w = v1.while_loop(lambda j, _: j < 3, inner, [tf.constant(0), tf.square(v)])
            odd = tf.equal(i % 2, 1)
            u = v1.cond(odd, lambda: tf.abs(tf.negative(w)) + v, lambda: tf.nn.relu(w * 2.0) - v)
            return i + 1, tf.negative(tf.square(u))

        _, y = v1.while_loop(lambda i, _: i < 4, outer, [tf.constant(0), x])
        return [tf.square(tf.nn.relu(tf.negative(y)))]

    graph = main_graph(with_v1_control_flow(build))
    before = graph.copy()
    clusters, _, types = cluster(graph)
    found = places(before)
    assert len({p.frame for p in found.values()}) == 3
    assert len(clusters) >= 4
    for c in clusters:
        assert len({found[name] for name in c.members}) == 1
    replace_with_calls(graph, types, clusters)
    assert_same_answers(before, graph, {"x": FOUR})


def test_loop_variables_that_do_not_live_alike_are_told_apart():
    def build():
        x, p = vector("x"), v1.placeholder(tf.bool, [], name="p")
        on = tf.raw_ops.Switch(data=x, pred=p)[1]
        loops = []
        for name, start in (("always", x), ("sometimes", on)):
            enter = tf.raw_ops.Enter(data=start, frame_name="loop", name=f"{name}_enter")
            merge, _ = tf.raw_ops.Merge(inputs=[enter, enter], name=f"{name}_merge")
            loops.append((merge, tf.negative(merge, name=f"{name}_next")))
        nexts = [tf.raw_ops.NextIteration(data=value) for _, value in loops]
        for (merge, _), value in zip(loops, nexts, strict=True):
            merge.op._update_input(1, value)
        return [value for _, value in loops]

    found = places(main_graph(build))
    assert found["always_next"] != found["sometimes_next"]
    assert found["always_next"].frame == found["sometimes_next"].frame == ("loop",)
