"""Models that leave elements out: sizes that nobody knows before a request is computed."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import tf_blade
from tf_blade import Config, library


class Filters(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        rng = np.random.default_rng(1)
        self.w = tf.Variable(rng.standard_normal((8, 4)).astype(np.float32))

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, 8], tf.float32, "x"),
            tf.TensorSpec([None], tf.int32, "ids"),
        ]
    )
    def serve(self, x, ids):
        """A masked dense layer, its pooled result, and sums for each of the ids that are there."""
        kept = tf.boolean_mask(x, x[:, 0] > 0.0)
        hidden = tf.nn.relu(kept @ self.w) + 1.0
        found, index, counts = tf.unique_with_counts(tf.abs(ids) % 5)
        return {
            "hidden": hidden,
            "sum": tf.reduce_sum(hidden, 0),
            "ids": found * 2,
            "means": tf.cast(counts, tf.float32) / tf.cast(tf.size(index) + 1, tf.float32),
        }


@pytest.fixture(scope="module")
def module() -> Filters:
    return Filters()


@pytest.fixture(scope="module")
def model(module: Filters, tmp_path_factory: pytest.TempPathFactory) -> tf_blade.OptimizedModel:
    path = tmp_path_factory.mktemp("filters")
    tf.saved_model.save(module, str(path / "model"), signatures=module.serve)
    config = Config(timing_seconds=0, cache_dir=str(path / "cache"))
    return tf_blade.optimize(path / "model", path / "out", config=config)


def test_they_are_inside_clusters(model: tf_blade.OptimizedModel):
    clusters = [cluster for region in model.report.regions for cluster in region.clusters]
    inside = {op for cluster in clusters for op in cluster.ops}
    assert {"Where", "UniqueWithCounts", "GatherV2", "MatMul", "Sum"} <= inside


@pytest.mark.parametrize("rows", [0, 1, 7, 100])
@pytest.mark.parametrize("kept", ["none", "all", "some"])
def test_answers_are_tensorflows(
    module: Filters, model: tf_blade.OptimizedModel, rows: int, kept: str
):
    rng = np.random.default_rng(rows)
    x = rng.standard_normal((rows, 8)).astype(np.float32)
    if kept != "some":
        x[:, 0] = 1.0 if kept == "all" else -1.0
    ids = rng.integers(-9, 9, rows).astype(np.int32)
    before = library.counters()
    got = model(x=tf.constant(x), ids=tf.constant(ids))
    after = library.counters()
    assert after.launches > before.launches and after.fallbacks == before.fallbacks
    want = module.serve(tf.constant(x), tf.constant(ids))
    for name in want:
        np.testing.assert_allclose(got[name], want[name], rtol=1e-5, atol=1e-5, err_msg=name)
