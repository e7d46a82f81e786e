"""A registered pattern is replaced by its kernel wherever data flow says so, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tf_blade
from tests.patterns.kernels import EXAMPLE, compile_kernel, dense_gelu, pair
from tf_blade import library
from tf_blade.errors import InputError
from tf_blade.patterns import register_pattern, unregister_pattern

MATRIX, VECTOR = tf.TensorSpec([None, None]), tf.TensorSpec([None])
QUICK = tf_blade.Config(timing_seconds=0, keep_slower=True, batch_sizes=(1, 5))


def pattern(x, w, b):
    return tf.nn.gelu(tf.matmul(x, w) + b)


@pytest.fixture
def registered() -> Iterator[None]:
    register_pattern(dense_gelu(), [MATRIX, MATRIX, VECTOR], name="dense_gelu")(pattern)
    yield
    unregister_pattern("dense_gelu")


class Model(tf.Module):
    def __init__(self, function: Callable[..., Any], *shape: int | None) -> None:
        super().__init__()
        self.w = tf.Variable(tf.random.stateless_normal([40, 40], seed=(1, 2)) / 6)
        self.b = tf.Variable(tf.random.stateless_normal([40], seed=(3, 4)))
        spec = tf.TensorSpec(shape or [None, 40], tf.float32, "x")
        self.serve = tf.function(lambda x: function(self, x), input_signature=[spec])


def optimized(folder: Path, function: Callable[..., Any], *shape: int | None) -> Any:
    """The optimised model; `optimize` has compared its answers with the original's."""
    model = Model(function, *shape)
    tf.saved_model.save(model, str(folder / "model"), signatures=model.serve)
    return tf_blade.optimize(str(folder / "model"), str(folder / "blade"), config=QUICK)


def places(model: Any, name: str = "dense_gelu") -> list[list[str]]:
    """The ops of each place where the pattern's kernel runs."""
    clusters = [c for region in model.report.regions for c in region.clusters]
    found = [c for c in clusters if [k.fusion for k in c.kernels] == ["pattern"]]
    assert all(c.kernels[0].name == name for c in found)
    return [sorted(c.ops) for c in found]


OPS = sorted(["MatMul", "AddV2", "Mul", "Neg", "Erfc"])


@pytest.mark.usefixtures("registered")
def test_every_match_runs_the_kernel_whatever_it_is_called_and_however_sums_are_turned(tmp_path):
    def two_layers(self: Model, x):
        h = tf.nn.gelu(tf.matmul(x, self.w, name="one") + self.b)
        h = tf.nn.gelu(self.b + tf.matmul(h, self.w), name="other")
        return {"y": tf.tanh(h)}

    model = optimized(tmp_path, two_layers)
    assert places(model) == [OPS, OPS]
    library.reset_counters()
    for rows in (0, 1, 3, 8, 101):
        x = np.random.default_rng(rows).standard_normal((rows, 40)).astype(np.float32)
        got = model.signatures["serving_default"](x=tf.constant(x))["y"].numpy()
        h = pattern(pattern(x, *weights()), *weights())
        np.testing.assert_allclose(got, np.tanh(h), rtol=2e-5, atol=2e-6)
    assert not library.counters().fallbacks
    assert library.counters().launches >= 10


def weights() -> tuple[tf.Tensor, tf.Tensor]:
    model = Model(lambda self, x: x)
    return model.w.value(), model.b.value()


@pytest.mark.usefixtures("registered")
def test_the_model_needs_no_file_beside_it(tmp_path, monkeypatch):
    path = compile_kernel(EXAMPLE, tmp_path)
    register_pattern(path, [MATRIX, MATRIX, VECTOR], name="dense_gelu")(pattern)
    optimized(tmp_path, lambda self, x: {"y": pattern(x, self.w, self.b)})
    path.unlink()
    loaded = tf_blade.load(str(tmp_path / "blade"))
    x = np.ones((2, 40), np.float32)
    got = loaded.signatures["serving_default"](x=tf.constant(x))["y"].numpy()
    np.testing.assert_allclose(got, pattern(x, *weights()), rtol=2e-5, atol=2e-6)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    "why, function",
    [
        ("another op", lambda self, x: {"y": tf.nn.relu(tf.matmul(x, self.w) + self.b)}),
        (
            "another attribute",
            lambda self, x: {"y": tf.nn.gelu(tf.matmul(x, self.w, transpose_b=True) + self.b)},
        ),
        (
            "another constant",
            lambda self, x: {"y": tf.nn.gelu(tf.matmul(x, self.w) + self.b, approximate=True)},
        ),
        (
            "an argument of another rank",
            lambda self, x: {"y": tf.nn.gelu(tf.matmul(x, self.w) + self.b[tf.newaxis])},
        ),
    ],
    ids=lambda v: v.replace(" ", "_") if isinstance(v, str) else "",
)
def test_what_differs_stays(tmp_path, why, function):
    assert places(optimized(tmp_path, function)) == []


@pytest.mark.usefixtures("registered")
def test_a_match_stays_where_something_else_reads_what_is_computed_on_the_way(tmp_path):
    def function(self: Model, x):
        product = tf.matmul(x, self.w, name="product")
        return {"y": tf.nn.gelu(product + self.b), "z": product}

    model = optimized(tmp_path, function)
    assert places(model) == []
    (warning,) = model.report.warnings
    assert "pattern 'dense_gelu' is not replaced" in warning
    assert "'product:0' is read outside of it" in warning


@pytest.fixture
def registered_pair() -> Iterator[None]:
    register_pattern(pair(), [MATRIX] * 3, name="pair")(lambda x, y, z: (x + y, x * z))
    yield
    unregister_pattern("pair")


@pytest.mark.usefixtures("registered_pair")
def test_a_pattern_may_have_several_results(tmp_path):
    def function(self: Model, x):
        y, z = tf.tanh(x), tf.exp(x)
        return {"a": z * x, "b": y + x, "c": tf.abs(y) + z}

    result = optimized(tmp_path, function)
    assert places(result, "pair") == [["AddV2", "Mul"]]
    x = np.array([[1.0] * 40, [-2.0] * 40], np.float32)
    got = result.signatures["serving_default"](x=tf.constant(x))
    for name, want in {"a": np.exp(x) * x, "b": np.tanh(x) + x}.items():
        np.testing.assert_allclose(got[name], want, rtol=2e-5)


@pytest.mark.usefixtures("registered_pair")
def test_a_match_stays_where_its_replacement_would_wait_for_itself(tmp_path):
    def function(self: Model, x):
        y = tf.tanh(x)
        total = x + y
        return {"a": total, "b": x * tf.exp(total)}

    model = optimized(tmp_path, function)
    assert places(model, "pair") == []
    assert "wait for each other by way of others" in model.report.warnings[0]


@pytest.mark.usefixtures("registered")
def test_a_refusal_falls_back_to_the_matched_nodes(tmp_path):
    """The bias may turn out to be one number, which the kernel doesn't take."""

    def function(self: Model, x):
        return {"y": pattern(x, self.w, self.b[: tf.shape(x)[0]])}

    model = Model(function)
    tf.saved_model.save(model, str(tmp_path / "model"), signatures=model.serve)
    result = tf_blade.optimize(
        str(tmp_path / "model"),
        str(tmp_path / "blade"),
        inputs=[{"x": np.ones((40, 40), np.float32)}],
        config=QUICK,
    )
    assert places(result) == [OPS]
    library.reset_counters()
    got = result.signatures["serving_default"](x=tf.ones([1, 40]))["y"].numpy()
    w, b = weights()
    np.testing.assert_allclose(got, pattern(tf.ones([1, 40]), w, b[:1]), rtol=2e-5, atol=2e-6)
    assert sum(library.counters().fallbacks.values()) == 1
    with pytest.raises(tf.errors.InvalidArgumentError, match="ncompatible shapes"):
        result.signatures["serving_default"](x=tf.ones([3, 40]))


def test_a_wrong_kernel_is_a_mismatch_and_nothing_is_written(tmp_path):
    wrong = tmp_path / "wrong.c"
    wrong.write_text(EXAMPLE.read_text().replace("0.5f * sum", "0.25f * sum"))
    kernel = compile_kernel(wrong, tmp_path)
    register_pattern(kernel, [MATRIX, MATRIX, VECTOR], name="wrong")(pattern)
    try:
        with pytest.raises(tf_blade.MismatchError):
            optimized(tmp_path, lambda self, x: {"y": pattern(x, self.w, self.b)})
    finally:
        unregister_pattern("wrong")
    assert not (tmp_path / "blade").exists()


@pytest.mark.parametrize(
    "message, inputs, function",
    [
        ("2 arguments and 1 results, its kernel 3", [MATRIX] * 2, lambda x, w: x @ w),
        ("does not use its argument 'b'", [MATRIX] * 3, lambda x, w, b: x @ w),
        ("a constant of more than", [MATRIX] * 3, lambda x, w, b: x @ w + b + tf.eye(30)),
        ("is stateful", [MATRIX] * 3, lambda x, w, b: x @ w + b + tf.random.uniform([3, 3])),
    ],
)
def test_what_is_no_pattern_is_said_when_it_is_registered(message, inputs, function):
    with pytest.raises(InputError, match=message):
        register_pattern(dense_gelu(), inputs, name="no_pattern")(function)


@pytest.mark.parametrize(
    "message, source",
    [
        ("does not export blade_executable", "int x;"),
        (
            "was built for version 99",
            EXAMPLE.read_text().replace("BLADE_ABI_VERSION, 3", "99, 3"),
        ),
    ],
)
def test_a_library_that_is_no_kernel_is_refused(tmp_path, message, source):
    (tmp_path / "other.c").write_text(source)
    kernel = compile_kernel(tmp_path / "other.c", tmp_path)
    with pytest.raises(InputError, match=message):
        register_pattern(kernel, [MATRIX, MATRIX, VECTOR])(pattern)


def test_a_file_that_is_no_library_is_refused(tmp_path):
    with pytest.raises(InputError, match="there is no file"):
        register_pattern(tmp_path / "none.so", [MATRIX])(pattern)
    (tmp_path / "text.so").write_text("text")
    with pytest.raises(InputError, match=r"text.so' can't be opened"):
        register_pattern(tmp_path / "text.so", [MATRIX])(pattern)
