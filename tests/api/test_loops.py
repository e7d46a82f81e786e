"""Models with loops: what the optimizer makes of them answers as the original does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tf_blade
from tf_blade import Config, library


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    cache = str(tmp_path_factory.mktemp("cache"))
    return Config(timing_seconds=0, cache_dir=cache)


def counted() -> tuple[int, dict[str, int]]:
    found = library.counters()
    return found.launches, dict(found.fallbacks)


def answers(path: Path) -> Any:
    return tf.saved_model.load(str(path)).signatures["serving_default"]


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "masked"])
def test_recurrent_layers_run_at_every_length(kind: str, tmp_path: Path, config: Config):
    import keras

    keras.utils.set_random_seed(3)
    inputs = keras.Input((None, 6), name="x")
    if kind == "masked":
        hidden = keras.layers.LSTM(5)(keras.layers.Masking()(inputs))
    else:
        layer = getattr(keras.layers, kind)
        hidden = layer(16)(keras.layers.Bidirectional(layer(5, return_sequences=True))(inputs))
    model = keras.Model(inputs, keras.layers.Dense(3)(hidden))
    model.export(str(tmp_path / "model"), verbose=False)
    made = tf_blade.optimize(tmp_path / "model", tmp_path / "out", config=config)
    (region,) = made.report.regions  # the bodies of loops are none of their own any more
    assert {node.op for node in region.left_out} <= {"_Arg", "Const", "Identity"}
    (cluster,) = region.clusters
    loops = sum(kernel.fusion == "while" for kernel in cluster.kernels)
    assert loops == (1 if kind == "masked" else 3)

    original, optimized = answers(tmp_path / "model"), answers(tmp_path / "out")
    launches, fallbacks = counted()
    rng = np.random.default_rng(4)
    shapes = [(1, 1), (3, 7), (2, 30), (0, 4), (5, 2)]
    for shape in shapes:
        x = tf.constant(rng.standard_normal((*shape, 6)).astype(np.float32))
        if kind == "masked" and x.shape[0]:
            x = tf.concat([x, tf.zeros([shape[0], 2, 6])], 1)
        want, got = original(x=x), optimized(x=x)
        for name in want:
            np.testing.assert_allclose(got[name], want[name], rtol=1e-4, atol=1e-6)
    assert counted() == (launches + len(shapes), fallbacks)


class Dividing(tf.Module):
    """Divides by 3 - i in iteration i."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = tf.Variable(tf.range(600))

    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.int32, "x"), tf.TensorSpec([], tf.int32, "n")]
    )
    def serve(self, x: Any, n: Any) -> Any:
        def body(i: Any, h: Any) -> Any:
            return i + 1, h + 100 // (3 - i) + self.scale[7]

        i, h = tf.while_loop(lambda i, h: i < n, body, [0, tf.abs(x)])
        return {"i": tf.identity(i), "h": h * 2 + i}


def test_an_error_in_an_iteration_is_tensorflows(tmp_path: Path, config: Config):
    module = Dividing()
    tf.saved_model.save(module, str(tmp_path / "model"), signatures=module.serve)
    small = {"x": np.arange(4, dtype=np.int32), "n": np.int32(2)}
    made = tf_blade.optimize(tmp_path / "model", tmp_path / "out", inputs=small, config=config)
    assert made.report.cluster_count == 1
    original, optimized = answers(tmp_path / "model"), answers(tmp_path / "out")
    x = tf.constant([5, -6, 7])
    for n in (0, 1, 3, -4):
        want, got = original(x=x, n=tf.constant(n)), optimized(x=x, n=tf.constant(n))
        for name in want:
            np.testing.assert_array_equal(got[name], want[name])
    launches, fallbacks = counted()
    for model in (original, optimized):
        with pytest.raises(tf.errors.InvalidArgumentError, match="division by zero"):
            model(x=x, n=tf.constant(4))
    after_launches, after = counted()
    assert after_launches == launches
    assert sum(after.values()) == sum(fallbacks.values()) + 1


def test_a_conditional_inside_a_loop_is_part_of_its_cluster(tmp_path: Path, config: Config):
    module = Dividing()

    @tf.function(input_signature=[tf.TensorSpec([4]), tf.TensorSpec([], tf.int32)])
    def serve(x: Any, n: Any) -> Any:
        def body(i: Any, h: Any) -> Any:
            return i + 1, tf.cond(i % 2 == 0, lambda: tf.sin(h) + x, lambda: h * 0.5)

        return {"h": tf.exp(tf.while_loop(lambda i, h: i < n, body, [0, x])[1])}

    tf.saved_model.save(module, str(tmp_path / "model"), signatures=serve)
    small = {"x": np.ones(4, np.float32), "n": np.int32(3)}
    made = tf_blade.optimize(tmp_path / "model", tmp_path / "out", inputs=small, config=config)
    main = next(r for r in made.report.regions if {"x", "n"} <= {n.name for n in r.left_out})
    (cluster,) = main.clusters
    assert "while" in {kernel.fusion for kernel in cluster.kernels}
    original, optimized = answers(tmp_path / "model"), answers(tmp_path / "out")
    launches, fallbacks = counted()
    for n in range(4):
        x = tf.constant([0.5, -1.0, 2.0, 0.0])
        want, got = original(x=x, n=tf.constant(n))["h"], optimized(x=x, n=tf.constant(n))["h"]
        np.testing.assert_allclose(got, want, rtol=1e-5)
    assert counted() == (launches + 4, fallbacks)


def test_a_loop_too_long_for_code_that_nobody_can_stop_runs_in_tensorflow(
    tmp_path: Path, config: Config, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tf_blade.compiler.emit.loop.MAX_TRIPS", 5)
    module = Dividing()

    @tf.function(input_signature=[tf.TensorSpec([4]), tf.TensorSpec([], tf.int32)])
    def serve(x: Any, n: Any) -> Any:
        _, h = tf.while_loop(lambda i, h: i < n, lambda i, h: (i + 1, tf.sin(h) + x), [0, x])
        return {"h": tf.exp(h)}

    tf.saved_model.save(module, str(tmp_path / "model"), signatures=serve)
    small = {"x": np.ones(4, np.float32), "n": np.int32(3)}
    tf_blade.optimize(tmp_path / "model", tmp_path / "out", inputs=small, config=config)
    original, optimized = answers(tmp_path / "model"), answers(tmp_path / "out")
    launches, fallbacks = counted()
    for n in (5, 6):
        want = original(x=tf.ones(4), n=tf.constant(n))["h"]
        got = optimized(x=tf.ones(4), n=tf.constant(n))["h"]
        np.testing.assert_allclose(got, want, rtol=1e-5)
    after_launches, after = counted()
    assert after_launches == launches + 1
    assert sum(after.values()) == sum(fallbacks.values()) + 1
