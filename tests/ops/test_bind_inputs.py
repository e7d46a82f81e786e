"""A session's graph for a signature: compiled ops find arguments and tables by themselves."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.ops.calls import counts, dense
from tests.ops.test_blade_lookup import DIM, columns, original
from tf_blade import library
from tf_blade.feature_column.text import encode

v1 = tf.compat.v1


class Model:
    """A TF1 graph with a BladeLookup of two variables, whose fallback also reads a hash table."""

    def __init__(self, name: str) -> None:
        with tf.Graph().as_default() as self.graph:
            self.words = v1.placeholder(tf.string, [None, 2])
            self.ids = v1.placeholder(tf.int64, [None])
            self.splits = v1.placeholder(tf.int64, [None])
            rng = np.random.default_rng(0)
            with v1.variable_scope("tables", use_resource=True):
                self.first, self.second = (
                    v1.get_variable(part, initializer=rng.normal(size=size).astype(np.float32))
                    for part, size in (("first", (5, DIM)), ("second", (7, DIM)))
                )
            table = tf.lookup.StaticHashTable(
                tf.lookup.KeyValueTensorInitializer(["a"], tf.constant([1], tf.int64)), -1
            )
            specs = [
                *(tf.TensorSpec(x.shape, x.dtype) for x in (self.words, self.ids, self.splits)),
                *[tf.TensorSpec([], tf.resource)] * 3,
                tf.TensorSpec([7, DIM], tf.float32),
            ]

            @tf.function(input_signature=specs)
            def fallback(words, ids, splits, first, second, table, _):
                found = tf.raw_ops.LookupTableFindV2(
                    table_handle=table, keys=["a"], default_value=np.int64(0)
                )
                with tf.control_dependencies([v1.debugging.assert_equal(found, np.int64([1]))]):
                    read = [
                        tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)
                        for handle in (first, second)
                    ]
                return original(words, ids, splits, *read)

            (self.out,) = library.load_ops().blade_lookup(
                inputs=[
                    self.words,
                    self.ids,
                    self.splits,
                    self.first.handle,
                    self.second.handle,
                    table.resource_handle,
                    tf.zeros([7, DIM]),
                ],
                Tout=[tf.float32],
                fallback=fallback.get_concrete_function(),
                lookup=encode(columns()),
                columns=name,
            )
            self.expected = original(self.words, self.ids, self.splits, self.first, self.second)
            self.twice = tf.concat([self.ids, self.ids], 0)
            self.init_variables = v1.global_variables_initializer()
            self.init_tables = v1.tables_initializer()

    def feed(self, words: list[list[str]], lists: list[list[int]]) -> dict:
        return {
            self.words: words,
            self.ids: [id for ids in lists for id in ids],
            self.splits: np.cumsum([0, *map(len, lists)]),
        }


@pytest.fixture
def model(cluster) -> Model:
    return Model(cluster)


@pytest.fixture
def session(model):
    with v1.Session(graph=model.graph) as session:
        session.run([model.init_variables, model.init_tables])
        yield session


GOOD = [["a", "b"], ["", "c"]], [[1, 6], []]
BAD = [["a", "b"]], [[7]]


def executed(session, fetches, feed) -> list[str]:
    """The ops of the graph that a session made for a signature."""
    metadata = v1.RunMetadata()
    session.run(fetches, feed, v1.RunOptions(output_partition_graphs=True), metadata)
    return sorted(
        node.op for graph in metadata.partition_graphs for node in graph.node if node.op != "NoOp"
    )


def test_only_the_op_and_its_result_are_executed(model, session):
    feed = model.feed(*GOOD)
    # One argument stays: an op without inputs would be folded as a constant.
    assert executed(session, model.out, feed) == ["BladeLookup", "_Arg", "_Retval"]


def test_answers_are_the_original_s(cluster, model, session):
    feed = model.feed(*GOOD)
    np.testing.assert_allclose(*session.run([model.out, model.expected], feed), rtol=1e-6)
    assert counts(cluster).launches == 1


def test_what_others_read_stays(cluster, model, session):
    feed = model.feed(*GOOD)
    assert executed(session, [model.out, model.twice], feed).count("_Arg") == 2
    out, expected, twice = session.run([model.out, model.expected, model.twice], feed)
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    assert twice.tolist() == [1, 6, 1, 6]


def test_a_constant_of_two_ops_is_not_copied(cluster):
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 3])
        weight = tf.ones([3, 2])
        both = [
            dense(x, weight, tf.constant([0.0, float(i)]), cluster=f"{cluster}_{i}") for i in (1, 2)
        ]
        ran = executed(session, both, {x: np.ones((2, 3))})
        assert ran == ["BladeCluster"] * 2 + ["Const", "_Arg", "_Retval", "_Retval"]
        first, second = session.run(both, {x: np.ones((1, 3))})
        np.testing.assert_array_equal([first, second], [[[3, 4]], [[3, 5]]])


def test_what_is_computed_comes_by_an_edge(cluster):
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 3])
        y = dense(-x, tf.ones([3, 2]), tf.constant([0.0, 1.0]), cluster=cluster)
        ran = executed(session, y, {x: np.full((2, 3), -4.0)})
        assert ran == ["BladeCluster", "Neg", "_Arg", "_Retval"]
        np.testing.assert_array_equal(session.run(y, {x: np.full((1, 3), -4.0)}), [[12, 13]])


def test_an_op_of_variables_only_is_not_folded(cluster):
    with tf.Graph().as_default(), v1.Session() as session:
        with v1.variable_scope("v", use_resource=True):
            x = v1.get_variable("x", initializer=np.ones((1, 3), np.float32))
        y = dense(x, tf.ones([3, 2]), tf.constant([0.0, 1.0]), cluster=cluster)
        session.run(v1.global_variables_initializer())
        np.testing.assert_array_equal(session.run(y), [[3, 4]])
        x.load(np.zeros((1, 3), np.float32), session)
        np.testing.assert_array_equal(session.run(y), [[0, 1]])


def test_an_assigned_variable_is_seen(cluster, model, session):
    feed = model.feed(*GOOD)
    before = session.run(model.out, feed)
    model.second.load(np.full((7, DIM), 9.0, np.float32), session)
    after, expected = session.run([model.out, model.expected], feed)
    np.testing.assert_allclose(after, expected, rtol=1e-6)
    assert not np.allclose(before, after)
    assert counts(cluster).launches == 2


def test_the_fallback_gets_every_input(cluster, model, session):
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"not in \[0, 7\)"):
        session.run(model.out, model.feed(*BAD))
    assert counts(cluster).fallbacks == {"column 'age': an id is outside its table": 1}
    empty = model.feed(np.zeros((0, 2), object), [])
    assert session.run(model.out, empty).shape == (0, 2 * DIM)


def test_variables_without_a_value(cluster, model):
    with v1.Session(graph=model.graph) as session:
        session.run(model.init_tables)
        # Another session of this process may have used the resource manager; this one has its own.
        with pytest.raises(tf.errors.FailedPreconditionError):
            session.run(model.out, model.feed(*GOOD))
        session.run(model.init_variables)
        np.testing.assert_allclose(
            *session.run([model.out, model.expected], model.feed(*GOOD)), rtol=1e-6
        )


def test_tables_that_nobody_made(model):
    with v1.Session(graph=model.graph) as session:
        session.run(model.init_variables)
        with pytest.raises(tf.errors.FailedPreconditionError, match="Table not initialized"):
            session.run(model.out, model.feed(np.zeros((0, 2), object), []))


def test_the_op_waits_for_what_it_depends_on(cluster):
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 3])
        weight, bias = tf.ones([3, 2]), tf.constant([0.0, 1.0])
        with tf.control_dependencies([v1.debugging.assert_positive(x)]):
            y = dense(x, weight, bias, cluster=cluster)
        np.testing.assert_array_equal(session.run(y, {x: np.ones((2, 3))}), [[3, 4]] * 2)
        with pytest.raises(tf.errors.InvalidArgumentError, match="x > 0"):
            session.run(y, {x: -np.ones((2, 3))})
        assert counts(cluster).launches >= 1


def test_callables_bind_arguments_too(cluster):
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 3])
        y = dense(x, tf.ones([3, 2]), tf.constant([0.0, 1.0]), cluster=cluster)
        call = session.make_callable(y, [x])
        for rows in (1, 5):
            np.testing.assert_array_equal(call(np.ones((rows, 3))), [[3, 4]] * rows)
        assert counts(cluster).launches == 2


def test_what_a_constant_waits_for_still_happens_first(cluster):
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 3])
        with tf.control_dependencies([v1.debugging.assert_positive(x)]):
            weight = tf.ones([3, 2])
        y = dense(x, weight, tf.constant([0.0, 1.0]), cluster=cluster)
        np.testing.assert_array_equal(session.run(y, {x: np.ones((2, 3))}), [[3, 4]] * 2)
        with pytest.raises(tf.errors.InvalidArgumentError, match="x > 0"):
            session.run(y, {x: -np.ones((2, 3))})


def test_nodes_that_only_order_others_go(cluster):
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 3])
        unread = v1.placeholder(tf.float32, [])
        with v1.variable_scope("v", use_resource=True):
            v1.get_variable("unread", [2])
        handle = next(op for op in v1.get_default_graph().get_operations() if "Var" in op.type)
        with tf.control_dependencies([unread, handle]):
            nothing = tf.no_op()
        with tf.control_dependencies([nothing]):
            y = dense(x, tf.ones([3, 2]), tf.constant([0.0, 1.0]), cluster=cluster)
        feed = {x: np.ones((2, 3)), unread: 0.0}
        metadata = v1.RunMetadata()
        options = v1.RunOptions(output_partition_graphs=True)
        np.testing.assert_array_equal(session.run(y, feed, options, metadata), [[3, 4]] * 2)
        (graph,) = metadata.partition_graphs
        assert sorted(node.op for node in graph.node) == ["BladeCluster", "_Arg", "_Retval"]
        session.run(nothing, feed)


def test_a_variable_that_was_made_anew_is_found(cluster):
    with tf.Graph().as_default(), v1.Session() as session:
        with v1.variable_scope("v", use_resource=True):
            x = v1.get_variable("x", initializer=np.ones((1, 3), np.float32))
        y = dense(x, tf.ones([3, 2]), tf.constant([0.0, 1.0]), cluster=cluster)
        again = x.assign(np.zeros((1, 3), np.float32))
        gone = tf.raw_ops.DestroyResourceOp(resource=x.handle)
        session.run(x.initializer)
        np.testing.assert_array_equal(session.run(y), [[3, 4]])
        session.run(gone)
        with pytest.raises(tf.errors.FailedPreconditionError):
            session.run(y)
        session.run(again)
        np.testing.assert_array_equal(session.run(y), [[0, 1]])
