"""Which signatures a C++ session runs."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

from tf_blade.saved_model import Signature, SignatureTensor
from tf_blade.servable import why_not_servable
from tf_blade.signatures import read_meta_graph


@pytest.mark.parametrize("name", ["two_signatures", "tf1_model", "example_model", "stateful"])
def test_signatures_of_plain_tensors_are_served(name: str, request: pytest.FixtureRequest):
    meta_graph = read_meta_graph(request.getfixturevalue(name))
    for signature in meta_graph.signatures.values():
        assert why_not_servable(meta_graph.graph_def, signature) == ""


def test_a_sparse_output_is_not_served(dense_and_sparse: Path):
    meta_graph = read_meta_graph(dense_and_sparse)
    reasons = {
        name: why_not_servable(meta_graph.graph_def, signature)
        for name, signature in meta_graph.signatures.items()
    }
    assert reasons == {"serving_default": "", "sparse": "output 'y' is sparse or composite"}


@pytest.mark.parametrize(("dtype", "word"), [(tf.resource, "resource"), (tf.variant, "variant")])
def test_opaque_inputs_are_not_served(dtype: tf.DType, word: str):
    inputs = {"x": SignatureTensor("x", dtype, (), ("x:0",))}
    outputs = {"y": SignatureTensor("y", tf.float32, (), ("y:0",))}
    with tf.Graph().as_default() as graph:
        pass
    reason = why_not_servable(graph.as_graph_def(), Signature("s", inputs, outputs, "predict"))
    assert reason == f"input 'x' is a {word}"


def test_a_placeholder_that_is_no_input_is_named():
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        x, y = v1.placeholder(tf.float32, [], "x"), v1.placeholder(tf.float32, [], "forgotten")
        tf.add(tf.identity(x), y, "z")
        v1.placeholder_with_default(1.0, [], "defaulted")
    inputs = {"x": SignatureTensor("x", tf.float32, (), ("x:0",))}
    for output, reason in (("z", "placeholder 'forgotten' is no input of it"), ("defaulted", "")):
        outputs = {"z": SignatureTensor("z", tf.float32, (), (f"{output}:0",))}
        signature = Signature("s", inputs, outputs, "predict")
        assert why_not_servable(graph.as_graph_def(), signature) == reason


def test_a_signature_without_outputs_is_not_served():
    graph = tf.Graph().as_graph_def()
    assert why_not_servable(graph, Signature("s", {}, {}, "predict")) == "it has no outputs"
