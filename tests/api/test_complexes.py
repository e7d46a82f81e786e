"""Models with Fourier transforms: what the optimizer makes of them answers as the original does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import tf_blade
from tf_blade import Config, library


def counted() -> tuple[int, dict[str, int]]:
    found = library.counters()
    return found.launches, dict(found.fallbacks)


class Filter(tf.Module):
    """Turns down what is weak in a signal, and says how strong its frequencies are."""

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.float32, "x")])
    def serve(self, x: Any) -> Any:
        spectra = tf.signal.stft(x, 40, 16, 64)
        strength = tf.abs(spectra)
        mask = tf.cast(tf.sigmoid(strength - 1.0), tf.complex64)
        return {
            "y": tf.signal.inverse_stft(spectra * mask, 40, 16, 64),
            "strength": tf.math.log(strength + 1e-3),
        }


def test_a_filter_of_frequencies_is_one_cluster(tmp_path: Path):
    module = Filter()
    tf.saved_model.save(module, str(tmp_path / "model"), signatures=module.serve)
    config = Config(timing_seconds=0, cache_dir=str(tmp_path / "cache"))
    rng = np.random.default_rng(6)
    small = {"x": rng.standard_normal((1, 200)).astype(np.float32)}
    made = tf_blade.optimize(tmp_path / "model", tmp_path / "out", inputs=small, config=config)
    (region,) = made.report.regions
    assert {node.op for node in region.left_out} <= {"_Arg", "Const", "Identity"}
    (cluster,) = region.clusters
    assert {"rfft", "irfft"} <= {kernel.fusion for kernel in cluster.kernels}

    original, optimized = (
        tf.saved_model.load(str(tmp_path / name)).signatures["serving_default"]
        for name in ("model", "out")
    )
    launches, fallbacks = counted()
    shapes = [(1, 40), (3, 333), (2, 1000), (0, 100)]
    for shape in shapes:
        x = tf.constant(rng.standard_normal(shape).astype(np.float32))
        want, got = original(x=x), optimized(x=x)
        for name in want:
            assert got[name].shape == want[name].shape
            np.testing.assert_allclose(got[name], want[name], rtol=1e-4, atol=1e-5)
    assert counted() == (launches + len(shapes), fallbacks)


def test_spectra_that_a_model_returns_stay_in_tensorflow(tmp_path: Path):
    @tf.function(input_signature=[tf.TensorSpec([None, 16], tf.float32, "x")])
    def serve(x: Any) -> Any:
        return {"z": tf.signal.rfft(tf.tanh(x) * 2.0 + 1.0)}

    tf.saved_model.save(tf.Module(), str(tmp_path / "model"), signatures=serve)
    config = Config(timing_seconds=0, cache_dir=str(tmp_path / "cache"))
    made = tf_blade.optimize(tmp_path / "model", tmp_path / "out", config=config)
    (region,) = made.report.regions
    reasons = {node.op: node.reason for node in region.left_out}
    assert "complex numbers" in reasons["RFFT"]
