"""A model of three clusters, kept apart by an op that stays in TensorFlow."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tf_blade
from tests.feature_column.models import input_layer
from tf_blade.child import Child
from tf_blade.config import Config
from tf_blade.dump.read import Dump, read_dump
from tf_blade.machine import cpu_target

fc = tf.feature_column
# By name: each has a function called like the module.
bisect, replay = (
    importlib.import_module(f"tf_blade.debug.{name}") for name in ("bisect", "replay")
)


class SharedChild(Child):
    """It serves all tests: another one would import TensorFlow again."""

    def close(self) -> None:
        """It stays."""


@pytest.fixture(scope="session")
def shared_children() -> Iterator[list[Child]]:
    children: list[Child] = [SharedChild(), SharedChild()]
    yield children
    for child in children:
        Child.close(child)


@pytest.fixture(autouse=True)
def few_children(shared_children: list[Child], monkeypatch: pytest.MonkeyPatch) -> None:
    turn = itertools.cycle(shared_children)  # for models, for kernels
    monkeypatch.setattr(bisect, "Child", lambda: next(turn))
    monkeypatch.setattr(replay, "Child", lambda: shared_children[1])


class ThreeParts(tf.Module):
    """Two dense layers and a softmax, with Lgamma between them."""

    def __init__(self) -> None:
        super().__init__()
        self.w = tf.Variable(tf.random.stateless_normal([8, 64], seed=(1, 2)), name="w")
        self.v = tf.Variable(tf.random.stateless_normal([64, 16], seed=(3, 4)) / 8, name="v")
        self.b = tf.Variable(tf.random.stateless_normal([16], seed=(5, 6)), name="b")

    @tf.function(input_signature=[tf.TensorSpec([None, 8], tf.float32, "x")])
    def serve(self, x):
        h = tf.nn.relu(tf.tanh(x @ self.w, name="squash") * 0.5, name="keep")
        h = tf.math.lgamma(1.0 + h)
        h = tf.nn.relu(tf.nn.bias_add(h @ self.v, self.b) + 1.0, name="middle")
        h = tf.math.lgamma(1.0 + h)
        return {"p": tf.nn.softmax(-h, name="scores"), "largest": tf.reduce_max(h, 1)}


@pytest.fixture(scope="session")
def three_parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "three_parts"
    module = ThreeParts()
    tf.saved_model.save(module, str(path), signatures=module.serve)
    return path


# Few feeds, code for this machine only, and no timing.
QUICK = Config(timing_seconds=0, batch_sizes=(1, 3), cpu_targets=(cpu_target(),))


@pytest.fixture
def quick() -> Config:
    return QUICK


def dumped(model: Path, folder: Path, config: Config, **arguments: Any) -> Dump:
    """The dump that optimising a model makes."""
    config = dataclasses.replace(config, dump_dir=str(folder))
    tf_blade.optimize(model, config=config, **arguments)
    return read_dump(folder)


@pytest.fixture(scope="session")
def three_dump(three_parts: Path, tmp_path_factory: pytest.TempPathFactory) -> Dump:
    return dumped(three_parts, tmp_path_factory.mktemp("dumps") / "three", QUICK)


@pytest.fixture(scope="session")
def three_optimized(three_parts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "three_optimized"
    tf_blade.optimize(three_parts, folder, config=QUICK)
    return folder


@pytest.fixture
def copy(three_dump: Dump, tmp_path: Path) -> Path:
    """A dump to break."""
    return shutil.copytree(three_dump.folder, tmp_path / "copy")


@pytest.fixture(scope="session")
def columns(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "columns"

    def build() -> list:
        words = fc.categorical_column_with_hash_bucket("words", 50)
        ids = fc.categorical_column_with_identity("ids", 40)
        return [fc.embedding_column(words, 4), fc.embedding_column(ids, 3)]

    features = {"words": (tf.string, [None, 3]), "ids": (tf.int64, [None, 2])}
    input_layer(str(path), features, build)
    return path


FEEDS = {
    "words": np.array([["a", "b", ""], ["c", "c", "d"]]),
    "ids": np.array([[1, 2], [3, 39]]),
}
