"""What element-wise ops, filters, crosses and counts become, and when it is refused."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.feature_column.models import Case, ask, function_model, sparse, strings
from tf_blade import library

TABLE = np.random.default_rng(0).normal(size=(10, 4)).astype(np.float32)


def rows_of(path, look, *specs, **options):
    """The only lookup of a model that joins what `look` gives with rows of a table."""
    table = tf.Variable(TABLE)

    def model(*inputs):
        return look(table, *inputs)

    function_model(str(path), model, *specs, table=table)
    case = Case.load(str(path), **options)
    (found,) = case.found
    return case, found


def operations(stream):
    exprs = [e for e in (stream.ids, stream.keep, stream.weight) if e is not None]
    return {part.op for expr in exprs for part in expr.walk()}


@pytest.mark.parametrize("dtype, to", [(tf.float32, tf.int32), (tf.float64, tf.int64)])
def test_ids_are_cast_from_floats_that_integers_hold(tmp_path, dtype, to):
    def look(table, x):
        return tf.concat([tf.gather(table, tf.cast(x, to)), tf.one_hot(tf.cast(x, to), 3)], 1)

    case, found = rows_of(tmp_path, look, tf.TensorSpec([None], dtype, "x"))
    assert len(found.inputs) == 2
    assert case.check({"x": np.array([9.75, 0.0, -0.5], dtype.as_numpy_dtype)}) == 0
    # TensorFlow's answer for these is its own business.
    for odd in (np.nan, np.inf, 1e30, -1e30):
        with pytest.raises(tf.errors.InvalidArgumentError):
            case.check({"x": np.array([1.0, odd], dtype.as_numpy_dtype)})


def test_constants_go_by_the_place_in_a_row(tmp_path):
    def look(table, x, ids):
        scaled = (x - [1.0, 2.0, -3.0]) / [[0.5, 4.0, 3.0]]
        shifted = tf.gather(table, tf.math.floormod(tf.add(ids, [0, 3]), 10))
        return tf.concat([scaled, tf.reduce_sum(shifted, 1)], 1)

    specs = tf.TensorSpec([None, 3], tf.float32, "x"), tf.TensorSpec([None, 2], tf.int32, "ids")
    case, found = rows_of(tmp_path, look, *specs)
    assert "constants" in operations(found.lookup.streams[0])
    assert [str(ref) for ref in found.inputs if "frozen" not in ref.node] == ["x:0", "ids:0"]
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    assert case.check({"x": x, "ids": np.arange(8, dtype=np.int32).reshape(4, 2)}) == 0


@pytest.mark.parametrize("constant", [[[1], [2]], [1, 2, 3]])
def test_constants_that_do_not_go_by_the_place_in_a_row_stay(tmp_path, constant):
    """One for each row, and a row of one number that becomes three."""

    def look(table, ids):
        ids = tf.math.floormod(ids + constant, 10)
        return tf.concat([tf.gather(table, ids), tf.gather(table, ids) * 2.0], -1)

    table = tf.Variable(TABLE)
    spec = tf.TensorSpec([None, 1], tf.int32, "ids")
    function_model(str(tmp_path), lambda ids: look(table, ids), spec, table=table)
    case = Case.load(str(tmp_path))
    assert all("constants" not in operations(s) for f in case.found for s in f.lookup.streams)
    assert case.check({"ids": np.array([[1], [5]], np.int32)}) == 0


@pytest.mark.parametrize("same", [True, False])
def test_places_in_a_row_are_those_of_the_tensor_itself(tmp_path, same):
    """As bucketized columns make them, from the number of rows of one tensor."""

    def look(table, ids, other):
        rows = tf.shape(ids if same else other)[0]
        shifted = tf.reshape(ids, [-1]) + tf.tile(tf.range(3), [rows]) * 3
        shifted = tf.reshape(shifted, tf.shape(ids))
        return tf.concat([tf.reduce_sum(tf.gather(table, shifted), 1), other], 1)

    specs = tf.TensorSpec([None, 3], tf.int32, "ids"), tf.TensorSpec([None, 1], tf.float32, "other")
    case, found = rows_of(tmp_path, look, *specs)
    assert ("constants" in operations(found.lookup.streams[0])) == same
    feeds = {
        "ids": np.array([[0, 1, 2], [2, 0, 3]], np.int32),
        "other": np.ones((2, 1), np.float32),
    }
    assert case.check(feeds) == 0


def test_weights_of_a_dense_tensor_belong_to_ids_at_the_same_places(tmp_path):
    def look(table, ids, weights):
        ids, weights = tf.sparse.from_dense(ids), tf.sparse.from_dense(weights)
        return tf.nn.safe_embedding_lookup_sparse(table, ids, weights, combiner="mean")

    specs = (
        tf.TensorSpec([None, 3], tf.int64, "ids"),
        tf.TensorSpec([None, 3], tf.float32, "weights"),
    )
    case, found = rows_of(tmp_path, look, *specs)
    assert len(found.inputs) == 3
    ids = np.array([[1, 2, 0], [0, 0, 0], [3, 0, 9]])
    weights = np.array([[0.5, 2, 0], [0, 0, 0], [1, 0, 4]], np.float32)
    assert case.check({"ids": ids, "weights": weights}) == 0
    # As many, but elsewhere: the second weight is the second id's all the same.
    elsewhere = np.array([[0.5, 0, 2], [0, 0, 0], [1, 0, 4]], np.float32)
    assert case.check({"ids": ids, "weights": elsewhere}) == 1


@pytest.mark.parametrize("mode", ["int", "one_hot"])
def test_crosses_of_dense_tensors_are_dense(tmp_path, mode):
    inputs = [keras.Input((1,), dtype=d, name=d) for d in ("string", "int64")]
    layer = keras.layers.HashedCrossing(10, output_mode=mode)(inputs)
    if mode == "int":
        layer = keras.layers.Flatten()(keras.layers.Embedding(10, 4)(layer))
    keras.Model(inputs, layer).export(str(tmp_path), verbose=False)
    case = Case.load(str(tmp_path))
    (found,) = case.found
    assert {str(ref) for ref in found.inputs if "frozen" not in ref.node} == {"string:0", "int64:0"}
    words, numbers = strings([[b"a"], [b""], [b"b"]]), np.array([[5], [-7], [2**40]])
    assert case.check({"string": words, "int64": numbers}) == 0


def test_counts_that_are_used_as_integers_are_cast_back(tmp_path):
    library.load_ops()
    inputs = keras.Input((3,), dtype="string", name="x")
    layers = [
        keras.layers.StringLookup(vocabulary=["a", "b"], output_mode=mode)
        for mode in ("multi_hot", "count")
    ]
    joined = keras.layers.Concatenate()([layer(inputs) for layer in layers])
    keras.Model(inputs, joined).export(str(tmp_path / "model"), verbose=False)
    case = Case.load(str(tmp_path / "model"))
    (found,) = case.found
    assert len(found.lookup.bags) == 2
    path, columns, graph = case.raised(str(tmp_path / "raised"))
    assert all(column.fused for column in columns)
    assert not any(node.op in ("DenseBincount", "ConcatV2") for node in graph)
    words = strings([[b"a", b"a", b"?"], [b"b", b"", b"a"]])
    feeds = {"x": words}
    (ours,), (theirs,) = ask(path, feeds).values(), case.ask(feeds).values()
    assert ours.dtype == theirs.dtype == np.int64
    np.testing.assert_array_equal(ours, theirs)


def test_a_feature_space_is_one_lookup(tmp_path):
    kinds = keras.utils.FeatureSpace
    space = kinds(
        {
            "age": kinds.float_normalized(),
            "hours": kinds.float_discretized(num_bins=4),
            "job": kinds.string_categorical(num_oov_indices=1),
            "city": kinds.string_hashed(num_bins=8),
            "rank": kinds.integer_categorical(),
        },
        crosses=[kinds.cross(("job", "rank"), crossing_dim=16)],
        output_mode="concat",
    )
    random = np.random.default_rng(0)
    words = strings([b"cook", b"pilot", b"clerk"])
    rows = {
        "age": random.normal(40, 9, 50).astype(np.float32),
        "hours": random.normal(40, 9, 50).astype(np.float32),
        "job": random.choice(words, 50),
        "city": random.choice(words, 50),
        "rank": random.integers(0, 5, 50),
    }
    tensors = {
        name: tf.constant(values.tolist(), tf.as_dtype(values.dtype))
        for name, values in rows.items()
    }
    space.adapt(tf.data.Dataset.from_tensor_slices(tensors).batch(25))
    model = keras.Model(space.get_inputs(), space.get_encoded_features())
    model.export(str(tmp_path), verbose=False)
    case = Case.load(str(tmp_path))
    (found,) = case.found
    assert len(found.lookup.inputs) == len(rows)
    feeds = {name: values[:, None] for name, values in rows.items()}
    feeds["job"][0] = b"nobody"
    assert case.check(feeds) == 0


def test_negative_ids_are_not_counted_but_refused(tmp_path):
    inputs = keras.Input((2,), dtype="int32", name="x")
    encoded = keras.layers.CategoryEncoding(5, output_mode="count")(inputs)
    keras.Model(inputs, encoded).export(str(tmp_path), verbose=False)
    case = Case.load(str(tmp_path))
    assert len(case.found) == 1
    assert case.check({"x": np.array([[1, 1], [4, 0]], np.int32)}) == 0
    with pytest.raises(tf.errors.InvalidArgumentError):
        case.check({"x": np.array([[1, -1]], np.int32)})


@pytest.mark.parametrize("op", ["Assert", "If"])
def test_no_column_waits_for_an_assert_of_its_function(tmp_path, op):
    library.load_ops()

    def look(table, ids):
        limit = tf.constant(9, tf.int64)
        if op == "If":  # the branch with the assert is a function
            valid = tf.debugging.assert_less(ids, limit)
        else:
            valid = tf.raw_ops.Assert(condition=tf.reduce_all(ids < limit), data=["assert"])
        with tf.control_dependencies([valid]):
            ids = tf.maximum(ids, tf.constant(3, tf.int64))
            return tf.concat([tf.gather(table, ids), tf.gather(table, ids)], 1)

    case, _ = rows_of(tmp_path / "model", look, tf.TensorSpec([None], tf.int64, "ids"))
    path, columns, graph = case.raised(str(tmp_path / "raised"))
    assert all(column.fused for column in columns)
    assert [node.op for node in graph].count(op) == 1
    known, unknown = {"ids": np.array([1, 8])}, {"ids": np.array([1, 9])}
    (ours,), (theirs,) = ask(path, known).values(), case.ask(known).values()
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    with pytest.raises(tf.errors.InvalidArgumentError, match="assert"):
        ask(path, unknown)


@pytest.mark.parametrize("form", ["dense", "sparse", "filtered"])
def test_of_a_table_of_unknown_contents_only_the_find_stays(tmp_path, form):
    words = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    words.insert([b"a", b"b"], tf.constant([1, 2], tf.int64))

    def look(table, x):
        if form == "dense":
            ids = tf.maximum(words.lookup(x), 0)
            return tf.concat(
                [tf.reduce_sum(tf.gather(table, ids), 1), tf.gather(table, ids[:, 0])], 1
            )
        if form == "filtered":
            x = tf.sparse.from_dense(x)
        ids = tf.SparseTensor(x.indices, words.lookup(x.values), x.dense_shape)
        return tf.nn.safe_embedding_lookup_sparse(table, ids, combiner="sum")

    spec = tf.TensorSpec([None, 3], tf.string, "x")
    if form == "sparse":
        spec = tf.SparseTensorSpec([None, None], tf.string)
    table = tf.Variable(TABLE)
    function_model(str(tmp_path), lambda x: look(table, x), spec, table=table, words=words)
    case = Case.load(str(tmp_path))
    found = case.found[0]
    finds = [case.graph.nodes[ref.node] for ref in found.inputs]
    assert [node.op for node in finds].count("LookupTableFindV2") == 1
    assert not {"Where", "GatherNd", "GatherV2"} & {node.op for node in finds}


@pytest.mark.parametrize("strategy", ["mod", "div"])
def test_partitions_of_variables_that_are_not_frozen(tmp_path, strategy):
    parts = [tf.Variable(TABLE[:4]), tf.Variable(TABLE[4:7]), tf.Variable(TABLE[7:])]

    def look(x):
        return tf.compat.v1.nn.safe_embedding_lookup_sparse(
            parts, x, combiner="sum", partition_strategy=strategy
        )

    spec = tf.SparseTensorSpec([None, None], tf.int64)
    function_model(str(tmp_path), look, spec, **{f"part_{i}": p for i, p in enumerate(parts)})
    case = Case.load(str(tmp_path), freeze=False)
    (found,) = case.found
    assert found.lookup.bags[0].table.strategy == strategy
    assert len(found.lookup.bags[0].table.parts) == 3
    assert case.check({"x": sparse([[9, 3], [], [4, 0, 7]])}) == 0
