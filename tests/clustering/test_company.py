"""Signatures of a TF1 main graph: none is asked for inputs that only another one has."""

from __future__ import annotations

import tensorflow as tf

from tests.clustering.graphs import ANY_GAIN, main_graph, members, support, vector
from tf_blade.clustering import find_clusters
from tf_blade.graph.shapes import infer_types


def clusters_of(build, *served):
    graph = main_graph(build)
    found, _ = find_clusters(graph, infer_types(graph), support, served=served, cost=ANY_GAIN)
    return members(found)


def two_towers():
    """Outputs 'user' and 'item' of an input each, and 'score' of both."""
    user = tf.exp(vector("x") * 2.0, name="user")
    item = tf.exp(vector("y") * 3.0, name="item")
    return user, item, tf.tanh(user + item, name="score")


def test_signatures_with_inputs_of_their_own_have_clusters_of_their_own():
    found = clusters_of(two_towers, {"user:0"}, {"item:0"})
    assert {"mul", "user"} in found and {"mul_1", "item"} in found


def test_what_only_the_signature_with_all_inputs_needs_stays_out_of_the_others_clusters():
    found = clusters_of(two_towers, {"user:0"}, {"score:0"})
    assert found == [{"mul", "user"}, {"mul_1", "item", "add", "score"}]


def test_outputs_of_one_signature_share_a_cluster():
    assert clusters_of(two_towers, {"user:0", "item:0", "score:0"}) == [
        {"mul", "user", "mul_1", "item", "add", "score"}
    ]


def test_signatures_with_equal_inputs_share_a_cluster():
    def build():
        scaled = vector("x") * 2.0
        return tf.exp(scaled, name="a"), tf.tanh(scaled, name="b")

    assert clusters_of(build, {"a:0"}, {"b:0"}) == [{"mul", "a", "b"}]


def test_without_signatures_nothing_is_kept_apart():
    assert len(clusters_of(two_towers)) == 1
