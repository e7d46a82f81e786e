"""Raised graphs: what is replaced, what stays, and that answers and errors stay TensorFlow's."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.feature_column.models import (
    Case,
    ask,
    fc,
    function_model,
    input_layer,
    run_fallback,
    sparse,
    strings,
    v1,
    v1_model,
    vocabulary_file,
)
from tests.passes.graphs import KnownVariable, function_graph, ops
from tf_blade import library
from tf_blade.feature_column.raising import blade_lookup_node, raise_lookups
from tf_blade.passes import PassContext, pipeline

TABLE = np.arange(20, dtype=np.float32).reshape(10, 2)
ROWS = {"a": strings([[b"x"], [b""], [b"red"]]), "b": sparse([[1, 2], [], [9]])}


def columns(folder):
    a = fc.categorical_column_with_hash_bucket("a", 10)
    words = fc.categorical_column_with_vocabulary_file("a", vocabulary_file(folder, ["red", "x"]))
    b = fc.categorical_column_with_identity("b", 10)
    return [
        fc.embedding_column(a, 4),
        fc.indicator_column(words),
        fc.embedding_column(b, 3, combiner="sum"),
    ]


OPS = {"PartitionedCall": run_fallback, "BladeLookup": blade_lookup_node}


@pytest.fixture(params=OPS)
def op(request):
    """The op that stands for lookups: the real one, or a call of the original nodes."""
    if request.param == "BladeLookup":
        library.load_ops()
    return request.param


FEATURES = {"a": (tf.string, [None, 1]), "b": (tf.int64, "sparse")}


def test_the_original_nodes_answer_in_the_fallback(tmp_path, op):
    path = str(tmp_path / "model")
    input_layer(path, FEATURES, lambda: columns(tmp_path))
    case = Case.load(path)
    raised, report, graph = case.raised(str(tmp_path / "raised"), make_node=OPS[op])
    assert ops(graph) == sorted(["HashTableV2", op])
    assert [(c.kind, c.fused) for c in report] == [
        ("embedding", True),
        ("indicator", True),
        ("embedding", True),
    ]
    none = {"a": strings(np.zeros([0, 1])), "b": sparse([])}
    library.reset_counters()
    for feeds in (ROWS, none):
        np.testing.assert_allclose(ask(raised, feeds)["y"], ask(path, feeds)["y"], rtol=1e-6)
    if op == "BladeLookup":
        counted = library.counters()
        assert counted.launches == 1 and sum(counted.fallbacks.values()) == 1  # no rows
    wrong = {**ROWS, "b": sparse([[1, 99], [], [3]])}
    for model in (path, raised):
        with pytest.raises(tf.errors.InvalidArgumentError, match="99"):
            ask(model, wrong)


def test_what_else_is_read_stays(tmp_path, op):
    """The hashes and one embedding are fetched as well; only they are computed twice."""

    def build(f):
        hashes = tf.strings.to_hash_bucket_fast(f["a"], 10)
        layer = v1.feature_column.input_layer(f, columns(tmp_path))
        graph = v1.get_default_graph()
        first = next(op for op in graph.get_operations() if op.type == "SparseSegmentMean")
        return {"y": layer, "hashes": hashes, "first": first.outputs[0]}

    path = str(tmp_path / "model")
    v1_model(path, FEATURES, build)
    case = Case.load(path)
    raised, _, graph = case.raised(str(tmp_path / "raised"), make_node=OPS[op])
    assert ops(graph).count(op) == 1
    expected, found = ask(path, ROWS), ask(raised, ROWS)
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-6)


def test_raising_twice_changes_nothing(tmp_path, op):
    path = str(tmp_path / "model")
    input_layer(path, FEATURES, lambda: columns(tmp_path))
    case = Case.load(path)
    _, _, graph = case.raised(str(tmp_path / "raised"), make_node=OPS[op])
    types = case.context.types(graph)
    again, report = raise_lookups(graph, types, case.context, case.vocabulary_of)
    assert list(again.nodes) == list(graph.nodes) and report == []


def test_only_some_operands_of_a_concat_are_columns(tmp_path, op):
    def build(f):
        embedding = v1.feature_column.input_layer(f, columns(tmp_path)[:1])
        other = v1.feature_column.input_layer(f, columns(tmp_path)[2:])
        mixed = tf.linalg.normalize(embedding, axis=1)[0]
        return tf.concat([embedding, other, mixed, other, embedding], 1)

    path = str(tmp_path / "model")
    v1_model(path, FEATURES, build)
    case = Case.load(path)
    raised, report, graph = case.raised(str(tmp_path / "raised"), make_node=OPS[op])
    assert ops(graph).count(op) == 1 and ops(graph).count("ConcatV2") == 1
    assert all(column.fused for column in report)
    np.testing.assert_allclose(ask(raised, ROWS)["y"], ask(path, ROWS)["y"], rtol=1e-6)


def test_towers_with_rows_of_their_own_are_lookups_of_their_own(tmp_path, op):
    def tower(ids, first, second):
        return tf.concat([tf.gather(first, ids % 10), tf.gather(second, ids % 10)], 1)

    first, second = tf.Variable(TABLE), tf.Variable(TABLE + 1)

    def both(user, item):
        return tf.linalg.matmul(
            tower(user, first, second), tower(item, first, second), transpose_b=True
        )

    ids = tf.TensorSpec([None], tf.int64)
    path = str(tmp_path / "model")
    function_model(path, both, ids, ids, first=first, second=second)
    case = Case.load(path)
    raised, _, graph = case.raised(str(tmp_path / "raised"), make_node=OPS[op])
    assert ops(graph).count(op) == 2
    feeds = {"user": np.array([3]), "item": np.array([1, 5, -2])}
    (a,), (b,) = ask(raised, feeds).values(), ask(path, feeds).values()
    np.testing.assert_allclose(a, b, rtol=1e-6)


def test_a_variable_is_read_by_its_resource_if_it_is_not_frozen(tmp_path, op):
    path = str(tmp_path / "model")
    input_layer(path, FEATURES, lambda: columns(tmp_path))
    case = Case.load(path, freeze=False)
    raised, _, graph = case.raised(str(tmp_path / "raised"), make_node=OPS[op])
    assert ops(graph) == sorted(["HashTableV2", op, "VarHandleOp", "VarHandleOp"])
    assert case.check(ROWS) == 0
    np.testing.assert_allclose(ask(raised, ROWS)["y"], ask(path, ROWS)["y"], rtol=1e-6)


# -- what is declined ---------------------------------------------------------------------

IDS = tf.TensorSpec([None], tf.int64, name="ids")
SAFE_IDS = "ids"


def lookup(table, ids):
    return tf.concat([tf.gather(table, ids % 10), tf.gather(table, (ids + 1) % 10)], 1)


def raised_function(function, *variables, **known):
    """The raised body of a function whose variables are its last arguments."""
    graph = function_graph(function, IDS)
    arguments = [arg.name for arg in graph.args][1:]
    values = {n: KnownVariable(TABLE, **known) for n, _ in zip(arguments, variables, strict=True)}
    context = PassContext(values)
    graph = pipeline.run(graph, context)
    return raise_lookups(graph, context.types(graph), context, make_node=run_fallback)


def test_a_variable_that_the_graph_assigns_is_read_where_it_was():
    table = tf.Variable(TABLE)

    def function(ids):
        before = lookup(table, ids)
        table.assign(table * 2.0)
        return before + lookup(table, ids)

    graph, report = raised_function(function, table, written_by="an op")
    assert "PartitionedCall" not in ops(graph)
    assert {column.fused for column in report} == {False}
    assert all("assigns" in c.reason or "waits" in c.reason for c in report)


def test_a_gather_alone_stays():
    table = tf.Variable(TABLE)
    graph, (column,) = raised_function(lambda ids: tf.gather(table, ids), table)
    assert "PartitionedCall" not in ops(graph)
    assert column.reason == "it is one op already"


def test_what_waits_for_an_effect_stays():
    table = tf.Variable(TABLE)

    def function(ids):
        with tf.control_dependencies([tf.print("asked")]):
            ids = tf.identity(ids) % 10
        return lookup(table, ids)

    graph, _ = raised_function(function, table)
    (node,) = [n for n in graph if n.op == "PartitionedCall"]
    order = [n.name for n in graph.topological_order()]
    printed = next(n.name for n in graph if n.op == "PrintV2")
    assert order.index(printed) < order.index(node.name)


def test_another_device_keeps_its_nodes():
    table = tf.Variable(TABLE)

    def function(ids):
        with tf.device("/device:GPU:0"):
            return lookup(table, ids)

    graph, _ = raised_function(function, table)
    assert "PartitionedCall" not in ops(graph)


def test_lookups_that_wait_for_others_stay():
    """The ids of the second are the result of the first."""
    table = tf.Variable(TABLE)

    def function(ids):
        first = tf.reduce_sum(lookup(table, ids), 1)
        return lookup(table, tf.cast(first, tf.int64))

    graph, _ = raised_function(function, table)
    assert ops(graph).count("PartitionedCall") == 1
    graph.topological_order()  # raises GraphError on a cycle
