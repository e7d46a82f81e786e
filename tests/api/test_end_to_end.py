"""The real optimizer behind the API: what comes out loads elsewhere and stays what it is."""

from __future__ import annotations

import dataclasses
import filecmp
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import tf_blade
from tf_blade import Config, library, saved_model
from tf_blade.report import REPORT_FILE

ROOT = Path(__file__).parents[2]
X = np.random.default_rng(0).standard_normal((5, 8)).astype(np.float32)

# A fresh process that knows the op library and TensorFlow, nothing else.
PREDICT = """
import json, sys
import tensorflow as tf
from tf_blade import library
library.load_ops()
model = tf.saved_model.load(sys.argv[1])
x = tf.constant(json.loads(sys.argv[2]))
answer = model.signatures["serving_default"](x=x)["scores"]
counts = library.counters()
print(json.dumps({"scores": answer.numpy().tolist(), "launches": counts.launches,
                  "fallbacks": counts.fallbacks}))
"""


@pytest.fixture(scope="module")
def layers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Element-wise work, a matrix product and a softmax: enough for a cluster that can win."""

    class Layers(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            rng = np.random.default_rng(1)
            self.w = tf.Variable(rng.standard_normal((8, 16)).astype(np.float32))
            self.b = tf.Variable(rng.standard_normal(16).astype(np.float32))

        @tf.function(input_signature=[tf.TensorSpec([None, 8], tf.float32, "x")])
        def scores(self, x):
            hidden = tf.nn.relu(tf.matmul(tf.tanh(x) * 2.0 + 1.0, self.w) + self.b)
            mean = tf.reduce_mean(hidden, 1, keepdims=True)
            scaled = (hidden - mean) * tf.math.rsqrt(tf.square(mean) + 1e-3)
            return {"scores": tf.nn.softmax(scaled)}

    path = tmp_path_factory.mktemp("layers") / "model"
    module = Layers()
    tf.saved_model.save(module, str(path), signatures=module.scores)
    return path


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    cache = str(tmp_path_factory.mktemp("cache"))
    return Config(timing_seconds=0, cache_dir=cache)


def test_the_result_runs_in_a_fresh_process_without_the_original(
    layers: Path, tmp_path: Path, config: Config
):
    original = tmp_path / "original"
    shutil.copytree(layers, original)
    expected = tf.saved_model.load(str(original)).signatures["serving_default"](x=X)["scores"]
    model = tf_blade.optimize(original, tmp_path / "out", config=config)
    assert model.report.cluster_count > 0
    assert model.report.signature("serving_default").check.status == "passed"
    assert model.report.fallbacks == {}
    shutil.rmtree(original)
    np.testing.assert_allclose(model(X)["scores"], expected, rtol=1e-5, atol=1e-6)
    command = [sys.executable, "-c", PREDICT, str(tmp_path / "out"), json.dumps(X.tolist())]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)
    np.testing.assert_allclose(answer["scores"], expected, rtol=1e-5, atol=1e-6)
    assert answer["launches"] >= 1
    assert answer["fallbacks"] == {}


def test_optimising_the_result_again_changes_nothing(layers: Path, tmp_path: Path, config: Config):
    tf_blade.optimize(layers, tmp_path / "once", config=config)
    report = (tmp_path / "once" / REPORT_FILE).read_text()
    again = tf_blade.optimize(tmp_path / "once", tmp_path / "twice", config=config)
    assert again.report.outcome == "unchanged"
    names = [
        str(p.relative_to(tmp_path / "once")) for p in (tmp_path / "once").rglob("*") if p.is_file()
    ]
    _, different, missing = filecmp.cmpfiles(
        tmp_path / "once", tmp_path / "twice", names, shallow=False
    )
    assert (different, missing) == ([], [])
    assert (tmp_path / "once" / REPORT_FILE).read_text() == report


def test_the_report_accounts_for_every_node(layers: Path, config: Config):
    report = tf_blade.optimize(layers, config=config).report
    (region,) = report.regions
    cluster = region.clusters[0]
    assert cluster.ops["MatMul"] == 1
    assert cluster.gemms == 1
    assert cluster.kernels
    assert cluster.executable_bytes > 0
    assert all(node.reason for node in region.left_out)
    inside = {name for c in region.clusters for name in c.nodes}
    assert not inside & {node.name for node in region.left_out}
    assert report.compiler
    assert 0 < report.clustered_share <= 1


def test_two_processes_optimise_into_one_cache_at_once(layers: Path, tmp_path: Path):
    (tmp_path / "c.toml").write_text(f'timing_seconds = 0\ncache_dir = "{tmp_path}/cache"\n')
    command = [sys.executable, "-m", "tf_blade", "optimize", str(layers)]
    started = [
        subprocess.Popen(
            [*command, str(tmp_path / f"out{i}"), "--config", str(tmp_path / "c.toml"), "--json"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for i in range(2)
    ]
    outputs = [json.loads(process.communicate()[0]) for process in started]
    assert [process.returncode for process in started] == [0, 0]
    for i, data in enumerate(outputs):
        assert data["report"]["regions"][0]["clusters"]
        answers = tf_blade.load(tmp_path / f"out{i}")(X)["scores"]
        np.testing.assert_allclose(answers, tf_blade.load(layers)(X)["scores"], rtol=1e-5)
    assert not list((tmp_path / "cache").rglob(".new-*"))


def test_without_a_compiler_the_message_names_three_ways_to_get_one(
    layers: Path, tmp_path: Path, config: Config, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", "")
    monkeypatch.setitem(sys.modules, "ziglang", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None)
    with pytest.raises(tf_blade.CompilerNotFoundError) as caught:
        tf_blade.optimize(layers, tmp_path / "out", config=config)
    for way in ("g++", "clang", "ziglang"):
        assert way in str(caught.value)
    assert caught.value.exit_code == 2
    assert not (tmp_path / "out").exists()


def test_what_no_function_can_run_is_in_no_cluster(tmp_path: Path, config: Config):
    """ParallelConcat's kernel is a placeholder: Grappler rewrites it, but not in the functions that
    run in a cluster's place."""

    class Model(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, n) for n in "xy"])
        def serve(self, x, y):
            # Two unknown dims that broadcast: the cluster refuses, and its fallback runs.
            row = tf.reduce_sum(tf.tanh(x * 2.0) + tf.sigmoid(y), 0, keepdims=True)
            both = tf.raw_ops.ParallelConcat(values=[row, tf.exp(-row)], shape=[2, 4])
            return {"z": tf.nn.softmax(both * 0.5 + 1.0)}

    model = Model()
    tf.saved_model.save(model, str(tmp_path / "model"), signatures=model.serve)
    samples = {"x": X[:, :4], "y": X[:, 4:]}
    optimized = tf_blade.optimize(tmp_path / "model", config=config, inputs=samples)
    assert optimized.report.cluster_count > 0
    before = sum(library.counters().fallbacks.values())
    got = optimized(x=X[:, :4], y=X[:1, 4:])["z"]
    assert sum(library.counters().fallbacks.values()) > before
    expected = model.serve(tf.constant(X[:, :4]), tf.constant(X[:1, 4:]))["z"]
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_gradients_that_captured_what_a_cluster_computes_are_dropped(
    tmp_path: Path, config: Config
):
    """tf.nn.silu has a custom gradient, which is saved and captures silu's argument by its name."""

    class Model(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, 8], tf.float32, "x")])
        def serve(self, x):
            return {"y": tf.nn.softmax(tf.nn.silu(tf.tanh(x) * 2.0 + 1.0))}

    model = Model()
    tf.saved_model.save(model, str(tmp_path / "model"), signatures=model.serve)
    optimized = tf_blade.optimize(tmp_path / "model", tmp_path / "out", config=config)
    assert optimized.report.cluster_count > 0
    loaded = tf.saved_model.load(str(tmp_path / "out"))
    got = loaded.signatures["serving_default"](x=X)["y"]
    np.testing.assert_allclose(got, model.serve(X)["y"], rtol=1e-5, atol=1e-6)
    # Where nothing was edited, the gradient is still there.
    saved_model.read(str(tmp_path / "model")).write(str(tmp_path / "same"))
    x = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(tf.saved_model.load(str(tmp_path / "same")).serve(x)["y"][:, 0])
    assert np.abs(tape.gradient(loss, x)).max() > 0


def test_a_model_of_half_precision(tmp_path: Path) -> None:
    """What is between its products is compiled; the products stay."""

    class Halves(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            w = np.random.default_rng(1).standard_normal((8, 16))
            self.w = tf.Variable(tf.cast(w, tf.bfloat16))

        @tf.function(input_signature=[tf.TensorSpec([None, 8], tf.bfloat16, "x")])
        def scores(self, x):
            x = tf.cast(x, tf.float32)
            centred = x - tf.reduce_mean(x, 1, keepdims=True)
            y = tf.matmul(tf.cast(centred, tf.bfloat16), self.w)
            return {"scores": tf.nn.softmax(tf.nn.gelu(y) + tf.cast(1.0, tf.bfloat16))}

    module = Halves()
    source, target = tmp_path / "halves", tmp_path / "out"
    tf.saved_model.save(module, str(source), signatures=module.scores)
    made = tf_blade.optimize(str(source), str(target), config=Config(keep_slower=True))
    assert [c.ops.get("Softmax") for r in made.report.regions for c in r.clusters][-1] == 1
    x = tf.cast(X, tf.bfloat16)
    library.load_ops()
    before = library.counters()
    got = tf.saved_model.load(str(target)).signatures["serving_default"](x=x)["scores"]
    after = library.counters()
    assert after.launches > before.launches and after.fallbacks == before.fallbacks
    want = module.scores(x)["scores"]
    # Two units in the last place: TensorFlow rounds to halves within gelu and softmax.
    np.testing.assert_allclose(tf.cast(got, tf.float32), tf.cast(want, tf.float32), rtol=2**-6)


def test_sample_inputs_tell_likely_sizes(tmp_path: Path, config: Config):
    class Scores(tf.Module):
        @tf.function(
            input_signature=[
                tf.TensorSpec([None, None], tf.float32, "x"),
                tf.TensorSpec([None, None], tf.int32, "mask"),
            ]
        )
        def scores(self, x, mask):
            return {"y": tf.nn.softmax(x + (1.0 - tf.cast(mask, tf.float32)) * -1e4)}

    module, rng = Scores(), np.random.default_rng(2)
    tf.saved_model.save(module, str(tmp_path / "model"), signatures=module.scores)

    def feeds(rows: int, columns: int) -> dict[str, np.ndarray]:
        x = rng.standard_normal((rows, columns)).astype(np.float32)
        return {"x": x, "mask": rng.integers(0, 2, (rows, columns), np.int32)}

    dump = tmp_path / "dump"
    result = tf_blade.optimize(
        tmp_path / "model",
        config=dataclasses.replace(config, dump_dir=str(dump), keep_slower=True),
        inputs=[feeds(1, 64), feeds(7, 64)],
    )
    cluster = dump / "blade_cluster_0"
    assert "symbol s1 = dim(%p0, 1), likely 64" in (cluster / "1_lowered.ir").read_text()
    assert "args.s1 == 64" in (cluster / "4_kernels.cc").read_text()
    for rows, columns in ((3, 64), (2, 63), (0, 64)):
        x = feeds(rows, columns)
        expected = module.scores(**x)["y"]
        np.testing.assert_allclose(result(**x)["y"], expected, rtol=1e-5, atol=1e-7)
