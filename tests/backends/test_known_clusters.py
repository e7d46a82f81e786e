"""Clusters are lowered once: when their executables are found again, and when they must not be."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.whole_graphs import Signature, optimise, session
from tf_blade.backends.cpu import known_clusters
from tf_blade.compiler.lower import LOWERINGS
from tf_blade.config import Config
from tf_blade.inputs import LikelyShapes
from tf_blade.library import load_ops
from tf_blade.machine import cpu_target
from tf_blade.report import ClusterReport

Build = Callable[[Any], Any]
X = np.linspace(-2, 2, 8, dtype=np.float32).reshape(4, 2)


def tanh_then(
    build: Build, shape: Any = (None, 2), dtype: Any = tf.float32, scope: str = "here"
) -> Any:
    """The GraphDef of `y = build(tanh(x))`, with all but x and y under the name scope."""
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(dtype, shape, "x")
        with tf.name_scope(scope):
            y = build(tf.tanh(x))
        tf.identity(y, "y")
    return graph.as_graph_def()


def scaled(h: Any) -> Any:
    return tf.nn.softmax(h * 3.0 - 1.0)


class Lowerings:
    """Optimises graphs with one kernel cache, and counts how many clusters are lowered."""

    def __init__(self, folder: Path) -> None:
        self.config = Config(cache_dir=str(folder), cpu_targets=(cpu_target(),))
        self.count = 0
        self.graph_def: Any = None

    def of(
        self,
        graph_def: Any,
        config: Config | None = None,
        likely: LikelyShapes | None = None,
    ) -> tuple[int, list[ClusterReport]]:
        """How many clusters were lowered, and the reports on all."""
        before = self.count
        signatures = {"serving_default": Signature(["x"], ["y:0"])}
        config = config or self.config
        self.graph_def, report = optimise(graph_def, signatures, config, likely=likely)
        return self.count - before, [c for region in report.regions for c in region.clusters]

    def answer(self, x: np.ndarray) -> np.ndarray:
        """What the last optimised graph gives."""
        load_ops()
        with session(self.graph_def) as running:
            result: np.ndarray = running.run("y:0", {"x:0": x})
        return result


@pytest.fixture
def lowerings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lowerings]:
    found = Lowerings(tmp_path / "cache")
    right = known_clusters.lower_cluster

    def counting(*args: Any) -> Any:
        found.count += 1
        return right(*args)

    monkeypatch.setattr(known_clusters, "lower_cluster", counting)
    yield found


def softmax(v: np.ndarray) -> np.ndarray:
    e = np.exp(v - v.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def test_an_equal_cluster_is_not_lowered_again_and_is_reported_alike(lowerings: Lowerings):
    count, first = lowerings.of(tanh_then(scaled))
    assert (count, [c.cached for c in first]) == (1, [False])
    count, second = lowerings.of(tanh_then(scaled))
    assert (count, [c.cached for c in second]) == (0, [True])
    (made,), (found,) = first, second
    assert found == dataclasses.replace(made, cached=True, compile_seconds=0.0)
    assert found.kernels
    np.testing.assert_allclose(lowerings.answer(X), softmax(np.tanh(X) * 3 - 1), rtol=1e-5)


def test_nodes_of_other_names_are_lowered_themselves(lowerings: Lowerings):
    """An executable that refuses a run names a node."""
    _, (first,) = lowerings.of(tanh_then(scaled))
    count, (second,) = lowerings.of(tanh_then(scaled, scope="elsewhere"))
    assert count == 1
    assert [k.nodes for k in second.kernels] == [
        [node.replace("here/", "elsewhere/") for node in kernel.nodes] for kernel in first.kernels
    ]
    np.testing.assert_allclose(lowerings.answer(X), softmax(np.tanh(X) * 3 - 1), rtol=1e-5)


OTHERS: dict[str, tuple[Build, dict[str, Any]]] = {
    "constant": (lambda h: tf.nn.softmax(h * 3.5 - 1.0), {}),
    "zero's sign": (lambda h: tf.nn.softmax(h * 3.0 - 1.0) + np.float32(-0.0), {}),
    "op": (lambda h: tf.nn.log_softmax(h * 3.0 - 1.0), {}),
    "attribute": (lambda h: tf.reduce_sum(tf.nn.softmax(h * 3.0 - 1.0), 1, keepdims=True), {}),
    "wiring": (lambda h: tf.nn.softmax(1.0 - h * 3.0), {}),
    "shape": (scaled, {"shape": (4, 2)}),
    "dtype": (scaled, {"dtype": tf.float64}),
}


@pytest.mark.parametrize("change", OTHERS)
def test_another_cluster_is_lowered_itself(lowerings: Lowerings, change: str):
    near = {
        "zero's sign": lambda h: tf.nn.softmax(h * 3.0 - 1.0) + np.float32(0.0),
        "attribute": lambda h: tf.reduce_sum(tf.nn.softmax(h * 3.0 - 1.0), 1),
    }
    lowerings.of(tanh_then(near.get(change, scaled)))
    build, arguments = OTHERS[change]
    graph_def = tanh_then(build, **arguments)
    count, _ = lowerings.of(graph_def)
    assert count == 1
    x = X.astype(arguments.get("dtype", tf.float32).as_numpy_dtype)
    with session(graph_def) as original:
        np.testing.assert_allclose(lowerings.answer(x), original.run("y:0", {"x:0": x}), rtol=1e-5)


def dense(w: np.ndarray, h: Any) -> Any:
    return tf.matmul(h, w) + 1.0


def test_a_large_constant_is_an_input_and_may_change(lowerings: Lowerings):
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((2, 400)).astype(np.float32) for _ in range(2)]
    for number, w in enumerate(weights):
        count, _ = lowerings.of(tanh_then(partial(dense, w)))
        assert count == (1 if number == 0 else 0)
        np.testing.assert_allclose(lowerings.answer(X), np.tanh(X) @ w + 1, rtol=1e-4, atol=1e-5)


def repeated(times: int) -> Build:
    def build(h: Any) -> Any:
        with tf.compat.v1.variable_scope("", use_resource=True):
            loop = tf.while_loop(
                lambda i, h: i < 5, lambda i, h: (i + 1, tf.sin(h) * float(times)), [0, h]
            )
        return loop[1] + 1.0

    return build


def test_the_body_of_a_loop_counts(lowerings: Lowerings):
    """A function that the cluster calls."""
    tf.compat.v1.enable_control_flow_v2()
    graphs = [tanh_then(repeated(times)) for times in (2, 2, 3)]
    counts, answers = [], []
    for graph_def in graphs:
        counts.append(lowerings.of(graph_def)[0])
        answers.append(lowerings.answer(X))
    assert counts == [1, 0, 1]
    for times, answer in zip((2, 2, 3), answers, strict=True):
        want = np.tanh(X)
        for _ in range(5):
            want = np.sin(want) * times
        np.testing.assert_allclose(answer, want + 1, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="makes x86-64 code")
def test_other_targets_are_other_executables(lowerings: Lowerings):
    for targets in (("x86-64-v3",), ("x86-64-v3", "x86-64-v4")):
        config = dataclasses.replace(lowerings.config, cpu_targets=targets)
        assert [lowerings.of(tanh_then(scaled), config)[0] for _ in range(2)] == [1, 0]


def test_other_code_of_the_compiler_makes_its_own_executables(
    lowerings: Lowerings, monkeypatch: pytest.MonkeyPatch
):
    lowerings.of(tanh_then(scaled))
    monkeypatch.setattr(known_clusters, "_files_hash", lambda: "another version")
    count, _ = lowerings.of(tanh_then(scaled))
    assert count == 1


def test_with_a_lowering_from_outside_nothing_is_known_or_remembered(
    lowerings: Lowerings, monkeypatch: pytest.MonkeyPatch
):
    mine = dataclasses.replace(LOWERINGS["Tanh"], function=lambda b, x: b.unary("sin", x))
    with monkeypatch.context() as patch:
        patch.setitem(LOWERINGS, "Tanh", mine)
        assert known_clusters.compiler_code() == ""
        for _ in range(2):
            assert lowerings.of(tanh_then(scaled))[0] == 1
        np.testing.assert_allclose(lowerings.answer(X), softmax(np.sin(X) * 3 - 1), rtol=1e-5)
    assert lowerings.of(tanh_then(scaled))[0] == 1
    np.testing.assert_allclose(lowerings.answer(X), softmax(np.tanh(X) * 3 - 1), rtol=1e-5)


def test_code_that_was_edited_while_it_runs_is_not_trusted(monkeypatch: pytest.MonkeyPatch):
    assert known_clusters.compiler_code()
    monkeypatch.setattr(known_clusters, "_LOADED", 0.0)
    known_clusters._files_hash.cache_clear()
    assert known_clusters.compiler_code() == ""
    known_clusters._files_hash.cache_clear()


@pytest.mark.parametrize("damage", ["note", "executable", "no executable"])
def test_what_is_damaged_or_swept_away_is_made_again(lowerings: Lowerings, damage: str):
    lowerings.of(tanh_then(scaled))
    suffix = "json" if damage == "note" else "blade"
    (file,) = Path(lowerings.config.cache_path).glob(f"??/*.{suffix}")
    if damage == "no executable":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-1] + b"!")
    assert lowerings.of(tanh_then(scaled))[0] == 1
    np.testing.assert_allclose(lowerings.answer(X), softmax(np.tanh(X) * 3 - 1), rtol=1e-5)
    assert lowerings.of(tanh_then(scaled))[0] == 0


def test_a_node_that_can_not_be_lowered_is_known(lowerings: Lowerings):
    def with_a_cut(h: Any) -> Any:
        h = tf.nn.softmax(tf.cast(tf.sin(h) * 2.0, tf.float64))
        cut = tf.raw_ops.Cast(x=h, DstT=tf.float32, Truncate=True, name="cut")
        return tf.nn.softmax(tf.cos(cut) + 1.0)

    count, first = lowerings.of(tanh_then(with_a_cut))
    assert count == 3, "the whole, and what is left before and behind the Cast"
    again, second = lowerings.of(tanh_then(with_a_cut))
    assert again == 0
    assert [c.nodes for c in second] == [c.nodes for c in first] and len(first) == 2
    assert not any("cut" in node for c in second for node in c.nodes)


def test_a_cluster_for_a_likely_size_is_another_one(lowerings: Lowerings):
    graph, likely = tanh_then(scaled, (None, None)), {"serving_default": {"x": (None, 48)}}
    assert [lowerings.of(graph)[0], lowerings.of(graph, likely=likely)[0]] == [1, 1]
    assert lowerings.of(graph, likely=likely)[0] == 0
    for columns in (48, 3):
        x = np.ones((2, columns), np.float32)
        np.testing.assert_allclose(lowerings.answer(x), np.full_like(x, 1 / columns), rtol=1e-5)
