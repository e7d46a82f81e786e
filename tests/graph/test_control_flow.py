import tensorflow as tf

from tests.passes.graphs import main_graph, v1
from tf_blade.graph.control_flow import v1_controlled


def controlled(build):
    v1.disable_control_flow_v2()
    try:
        return v1_controlled(main_graph(build, ["after"]))
    finally:
        v1.enable_control_flow_v2()


def test_a_conditional_ends_at_its_merge():
    def build():
        x = v1.placeholder(tf.float32, [], "x")
        before = tf.exp(x, name="before")
        y = v1.cond(
            before > 1,
            lambda: v1.cond(x > 5, lambda: tf.sin(before, name="inner"), lambda: x),
            lambda: tf.cos(tf.constant(1.0, name="lone"), name="other"),
        )
        tf.exp(y, name="after")

    found = controlled(build)
    names = {name.rsplit("/", 1)[-1] for name in found}
    assert {"inner", "lone", "other", "Merge", "Switch"} <= names
    assert not {"before", "after", "x"} & found


def test_a_loop_ends_at_its_exit():
    def build():
        x = v1.placeholder(tf.float32, [], "x")
        invariant = tf.exp(x, name="invariant")

        def body(i, y):
            inner = v1.while_loop(lambda j, _: j < 2, lambda j, z: (j + 1, tf.sin(z)), [0, y])[1]
            return i + 1, tf.add(inner, invariant, name="sum")

        y = v1.while_loop(lambda i, _: i < 3, body, [0, x])[1]
        tf.exp(y, name="after")

    found = controlled(build)
    assert "while/sum" in found and "while/while/Sin" in found
    assert not {"invariant", "after", "x"} & found


def test_what_hangs_on_a_pivot_by_a_control_edge_alone_is_inside():
    def build():
        x = v1.placeholder(tf.float32, [], "x")

        def branch():
            with tf.control_dependencies([tf.no_op("hub")]):
                return tf.constant(1.0, name="late")

        tf.identity(v1.cond(x > 0, branch, lambda: x), name="after")

    assert {"cond/hub", "cond/late"} <= controlled(build)


def test_an_unusual_merge_keeps_what_is_behind_it_inside():
    def build():
        x = v1.placeholder(tf.float32, [], "x")
        p, q = x > 0, x > 1
        (_, first), (second, _) = (
            tf.raw_ops.Switch(data=x, pred=p),
            tf.raw_ops.Switch(data=x, pred=q),
        )
        tf.identity(tf.raw_ops.Merge(inputs=[first, second])[0], name="after")

    assert "after" in controlled(build)


def test_functional_control_flow_is_not_v1():
    def build():
        x = v1.placeholder(tf.float32, [], "x")
        tf.identity(tf.cond(x > 0, lambda: x, lambda: -x), name="after")

    v1.enable_control_flow_v2()
    graph = main_graph(build, ["after"])
    assert [n for n in graph if n.op in ("If", "StatelessIf")]
    assert v1_controlled(graph) == set()
