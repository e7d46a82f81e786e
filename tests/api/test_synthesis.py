from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tf_blade.graph.types import TensorInfo
from tf_blade.inputs import FeedSet
from tf_blade.parse_example import ExampleFeature, find_features
from tf_blade.runner import first_line
from tf_blade.saved_model import Signature, SignatureTensor
from tf_blade.signatures import reachable_nodes, read_meta_graph
from tf_blade.synthesis import synthesise


def signature(**inputs: TensorInfo) -> Signature:
    tensors = {
        name: SignatureTensor(name, info.dtype, info.shape, (f"{name}:0",))
        for name, info in inputs.items()
    }
    return Signature("s", tensors, {}, "predict")


def accepts_all(feeds: FeedSet) -> None:
    pass


def test_one_set_for_each_batch_size_with_equal_first_and_last_rows():
    sig = signature(x=TensorInfo(tf.float32, (None, 3)), words=TensorInfo(tf.string, (None,)))
    made = synthesise(sig, [], (1, 2, 7), accepts_all)
    assert [f.label for f in made.sets] == ["batch 1", "batch 2", "batch 7"]
    for feeds, batch in zip(made.sets, (1, 2, 7), strict=True):
        assert feeds.values["x"].shape == (batch, 3)
        assert feeds.values["words"].shape == (batch,)
    seven = made.sets[2].values
    assert np.array_equal(seven["x"][0], seven["x"][6])
    assert not np.array_equal(seven["x"][0], seven["x"][1])


def test_the_same_signature_gets_the_same_values_every_time():
    sig = signature(x=TensorInfo(tf.int64, (None, 3)), w=TensorInfo(tf.string, (None, 4)))
    first = synthesise(sig, [], (5,), accepts_all).sets[0].values
    second = synthesise(sig, [], (5,), accepts_all).sets[0].values
    assert all(np.array_equal(first[k], second[k]) for k in first)


def test_free_dims_at_one_place_agree_across_inputs():
    free = TensorInfo(tf.int32, (None, None))
    made = synthesise(signature(ids=free, mask=free), [], (2,), accepts_all)
    assert made.sets[0].values["ids"].shape == made.sets[0].values["mask"].shape


def test_ids_beyond_a_small_vocabulary_are_not_insisted_on():
    def vocabulary_of_two(feeds: FeedSet) -> None:
        if feeds.values["ids"].max() >= 2:
            raise ValueError("out of range")

    made = synthesise(signature(ids=TensorInfo(tf.int64, (None, 8))), [], (32,), vocabulary_of_two)
    assert set(made.sets[0].values["ids"].ravel()) == {0, 1}


def test_strings_that_must_be_numbers_and_long_signals_are_found():
    def picky(feeds: FeedSet) -> None:
        [float(word) for word in feeds.values["n"].ravel()]
        if feeds.values["wave"].shape[1] < 600:
            raise ValueError("too short")

    sig = signature(n=TensorInfo(tf.string, (None,)), wave=TensorInfo(tf.float32, (None, None)))
    made = synthesise(sig, [], (2,), picky)
    assert made.sets[0].values["wave"].shape == (2, 1024)


def test_scalars_are_off_or_one_and_unknown_ranks_are_guessed():
    def wants_rank_one(feeds: FeedSet) -> None:
        assert feeds.values["any"].ndim == 1

    sig = signature(
        training=TensorInfo(tf.bool, ()),
        keep=TensorInfo(tf.float32, ()),
        any=TensorInfo(tf.float32, None),
    )
    values = synthesise(sig, [], (3,), wants_rank_one).sets[0].values
    assert values["training"] == np.array(False)
    assert values["keep"] == 1.0


def test_static_shapes_give_two_samples():
    made = synthesise(signature(x=TensorInfo(tf.float32, (1, 4))), [], (1, 2), accepts_all)
    assert [f.label for f in made.sets] == ["sample 1", "sample 2"]
    assert not np.array_equal(made.sets[0].values["x"], made.sets[1].values["x"])


def test_a_batch_size_that_the_model_refuses_is_left_out_and_told():
    def pairs_only(feeds: FeedSet) -> None:
        if len(feeds.values["x"]) % 2:
            raise ValueError("odd batch")

    made = synthesise(signature(x=TensorInfo(tf.float32, (None,))), [], (1, 2, 7), pairs_only)
    assert [f.label for f in made.sets] == ["batch 2"]
    assert "batch 7: the original model fails on it (odd batch)" in made.reason


def test_a_model_that_takes_nothing_made_up_says_give_inputs():
    def refuses(feeds: FeedSet) -> None:
        raise ValueError("not a JPEG file\nmore")

    made = synthesise(signature(x=TensorInfo(tf.string, (None,))), [], (1,), refuses)
    assert made.sets == []
    assert "not a JPEG file" in made.reason
    assert "inputs=" in made.reason


def test_a_sparse_input_is_not_made_up():
    parts = ("values:0", "indices:0", "shape:0")
    sparse = SignatureTensor("sp", tf.float32, (None, None), parts)
    made = synthesise(Signature("s", {"sp": sparse}, {}, "predict"), [], (1,), accepts_all)
    assert made.sets == []
    assert "'sp' is a sparse" in made.reason


def test_examples_are_built_from_the_models_own_parse_nodes(example_model: Path):
    meta_graph = read_meta_graph(example_model)
    features = find_features(meta_graph, reachable_nodes(meta_graph, "serving_default"))
    assert features == [
        ExampleFeature("age", tf.float32, 1),
        ExampleFeature("ids", tf.int64, 2),
        ExampleFeature("tags", tf.string, None),
    ]
    made = synthesise(
        signature(examples=TensorInfo(tf.string, (None,))), features, (7,), accepts_all
    )
    example = tf.train.Example.FromString(made.sets[0].values["examples"][1])
    assert len(example.features.feature["age"].float_list.value) == 1
    assert len(example.features.feature["ids"].int64_list.value) == 2


def test_examples_for_the_older_parse_op_are_built(tmp_path: Path):
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        serialized = v1.placeholder(tf.string, [None], "serialized")
        names = tf.constant([], tf.string)
        parsed = tf.raw_ops.ParseExample(
            serialized=serialized,
            names=names,
            sparse_keys=[tf.constant("tags")],
            dense_keys=[tf.constant("age")],
            dense_defaults=[tf.constant([], tf.float32)],
            sparse_types=[tf.string],
            dense_shapes=[[3]],
        )
        v1.saved_model.simple_save(
            session,
            str(tmp_path / "m"),
            {"serialized": serialized},
            {"age": parsed.dense_values[0], "tags": parsed.sparse_values[0]},
        )
    meta_graph = read_meta_graph(tmp_path / "m")
    features = find_features(meta_graph, reachable_nodes(meta_graph, "serving_default"))
    assert features == [
        ExampleFeature("age", tf.float32, 3),
        ExampleFeature("tags", tf.string, None),
    ]


def test_features_of_any_length_that_must_be_single_get_at_most_one_value():
    def single(feeds: FeedSet) -> None:
        for serialized in feeds.values["examples"]:
            example = tf.train.Example.FromString(serialized)
            assert len(example.features.feature["tag"].bytes_list.value) <= 1

    made = synthesise(
        signature(examples=TensorInfo(tf.string, (None,))),
        [ExampleFeature("tag", tf.string, None)],
        (1, 32),
        single,
    )
    assert [f.label for f in made.sets] == ["batch 1", "batch 32"]


def test_a_graph_error_is_told_without_its_stack_trace():
    @tf.function
    def fails(x):
        return tf.debugging.check_numerics(x, "too large")

    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        fails(tf.constant(float("inf")))
    text = first_line(caught.value)
    assert text.startswith("too large : Tensor had Inf values")
    assert "CheckNumerics" in text
    assert "Graph execution" not in text
