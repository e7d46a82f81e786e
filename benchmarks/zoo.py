"""Models that anyone can build: from public packages and from this repository's own example.

`build_zoo(directory)` makes them all, each in its own process (they want different Keras versions
and leave global state behind), in the form of `cases.py`. What exists already is kept. A model
whose package is not installed is left out and said so.

DeepCTR's models are built by its own functions with random weights and random features: their
graphs are the real ones, their predictions mean nothing.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import cases

Feeds = dict[str, dict[str, np.ndarray]]

_SEED = 11
_BATCH = {"small": 1, "large": 256}
_CATEGORIES = 1000
_HISTORY = 20

# DeepCTR's builders by their name in deepctr.models.
_DEEPCTR = ("AutoInt", "BST", "DCN", "DeepFM", "DIN", "FiBiNET", "MMOE", "WDL", "xDeepFM")
_WITH_HISTORY = ("BST", "DIN")
_WITHOUT_LINEAR_PART = ("BST", "DIN", "MMOE")


def names() -> list[str]:
    """The models that can be built with the packages that are installed."""
    found = ["census"]
    if importlib.util.find_spec("basic_pitch"):
        found.append("basic_pitch")
    if importlib.util.find_spec("deepctr") and importlib.util.find_spec("tf_keras"):
        found += [f"deepctr_{name.lower()}" for name in _DEEPCTR]
    return sorted(found)


def build_zoo(
    directory: Path,
    only: Iterable[str] = (),
    say: Callable[[str], None] = print,
) -> list[cases.ModelCase]:
    """Builds the models that `directory` does not hold yet and returns them all.

    Raises ValueError for a name that is none of `names()`, RuntimeError when a build fails.
    """
    wanted = list(only) or names()
    unknown = sorted(set(wanted) - set(names()))
    if unknown:
        raise ValueError(
            f"no model called {', '.join(unknown)}; there are {', '.join(names())} "
            "(pip install --no-deps -r requirements-models.txt brings the packages of the rest)"
        )
    if not only and len(wanted) < len(_DEEPCTR) + 2:
        say("Some packages are missing (requirements-models.txt): fewer models than could be.")
    directory.mkdir(parents=True, exist_ok=True)
    for name in wanted:
        if not (directory / name).is_dir():
            say(f"Building {name}")
            _build_in_process(name, directory)
    return cases.read_cases(directory, wanted)


def _build_in_process(name: str, directory: Path) -> None:
    staging = directory / f".{name}.{os.getpid()}"
    shutil.rmtree(staging, ignore_errors=True)
    environment = dict(os.environ, TF_USE_LEGACY_KERAS="1", TF_CPP_MIN_LOG_LEVEL="3")
    root = Path(__file__).resolve().parent.parent
    finished = subprocess.run(
        [sys.executable, "-m", "benchmarks.zoo", name, str(staging.absolute())],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if finished.returncode != 0:
        shutil.rmtree(staging, ignore_errors=True)
        raise RuntimeError(f"building '{name}' failed:\n{finished.stderr[-2000:]}")
    staging.rename(directory / name)


def _build(name: str, directory: Path) -> None:
    directory.mkdir(parents=True)
    if name == "census":
        _census(directory)
    elif name == "basic_pitch":
        _basic_pitch(directory)
    else:
        by_name = {f"deepctr_{builder.lower()}": builder for builder in _DEEPCTR}
        _deepctr(by_name[name], directory)


def _census(directory: Path) -> None:
    from examples.census import data, model

    trained = model.build(directory / "saved_model")
    feeds = {
        size: data.take(trained.test_rows, np.arange(count))
        for size, count in (("small", 1), ("large", 512))
    }
    cases.write_case(directory, model.SIGNATURE, "examples/census, trained on its rows", feeds)


def _basic_pitch(directory: Path) -> None:
    spec = importlib.util.find_spec("basic_pitch")
    assert spec is not None and spec.submodule_search_locations is not None
    package = Path(next(iter(spec.submodule_search_locations)))
    shutil.copytree(package / "saved_models/icassp_2022/nmp", directory / "saved_model")
    seconds = np.arange(43844) / 22050.0  # the model's window at its sample rate
    random = np.random.default_rng(_SEED)
    feeds: Feeds = {}
    for size, count in (("small", 1), ("large", 2)):
        pitch = random.uniform(80.0, 900.0, (count, 3, 1))
        sound = 0.2 * np.sin(2 * np.pi * pitch * seconds).sum(axis=1)
        sound += random.normal(0.0, 0.01, sound.shape)
        feeds[size] = {"input_2": sound[:, :, np.newaxis].astype(np.float32)}
    cases.write_case(directory, "serving_default", "the SavedModel basic-pitch ships", feeds)


def _deepctr(builder: str, directory: Path) -> None:
    import requests

    # The package asks the network for its newest version while it is imported: not from here.
    def offline(*_: Any, **__: Any) -> Any:
        raise requests.ConnectionError("benchmarks do not use the network")

    requests.get = offline  # type: ignore[assignment]
    import deepctr.models
    import tensorflow as tf

    tf.keras.utils.set_random_seed(_SEED)
    columns = _history_columns() if builder in _WITH_HISTORY else _flat_columns()
    build = getattr(deepctr.models, builder)
    if builder in _WITH_HISTORY:
        options = {"dnn_hidden_units": (128, 64)}
        if builder == "BST":
            options["att_head_num"] = 4  # type: ignore[assignment]
        model = build(columns, ["item", "category"], **options)
    elif builder in _WITHOUT_LINEAR_PART:
        model = build(columns)
    else:
        model = build(columns, columns)
    _spread_weights(model)
    model.save(str(directory / "saved_model"), save_format="tf")
    random = np.random.default_rng(_SEED)
    feeds = {size: _random_feeds(model, count, random) for size, count in _BATCH.items()}
    origin = f"deepctr.models.{builder} with random weights"
    cases.write_case(directory, "serving_default", origin, feeds)


def _spread_weights(model: Any) -> None:
    """Makes tables large enough to matter: DeepCTR starts them at a deviation of 1e-4."""
    random = np.random.default_rng(_SEED)
    model.set_weights(
        [
            random.normal(0.0, 0.1, value.shape).astype(value.dtype)
            if value.ndim == 2 and value.shape[0] >= _CATEGORIES
            else value
            for value in model.get_weights()
        ]
    )


def _flat_columns() -> list[Any]:
    """A click model's features: 12 hashed strings, 12 ids, 2 lists of ids, 8 numbers."""
    from deepctr.feature_column import DenseFeat, SparseFeat, VarLenSparseFeat

    columns: list[Any] = [
        SparseFeat(f"string_{i}", _CATEGORIES, 8, use_hash=True, dtype="string") for i in range(12)
    ]
    columns += [SparseFeat(f"id_{i}", _CATEGORIES, 8) for i in range(12)]
    columns += [
        VarLenSparseFeat(SparseFeat(f"list_{i}", _CATEGORIES, 8), maxlen=_HISTORY, combiner="mean")
        for i in range(2)
    ]
    columns += [DenseFeat(f"number_{i}", 1) for i in range(8)]
    return columns


def _history_columns() -> list[Any]:
    """A user's profile, a candidate item, and the items seen before it."""
    from deepctr.feature_column import DenseFeat, SparseFeat, VarLenSparseFeat

    columns: list[Any] = [
        SparseFeat("user", _CATEGORIES, 8),
        SparseFeat("gender", 3, 8),
        SparseFeat("item", _CATEGORIES, 8),
        SparseFeat("category", _CATEGORIES, 8),
        DenseFeat("score", 1),
    ]
    for name in ("item", "category"):
        seen = SparseFeat(f"hist_{name}", _CATEGORIES, 8, embedding_name=name)
        columns.append(VarLenSparseFeat(seen, maxlen=_HISTORY, length_name="seq_length"))
    return columns


def _random_feeds(model: Any, batch: int, random: np.random.Generator) -> dict[str, np.ndarray]:
    feeds = {}
    for tensor in model.inputs:
        name, dtype = tensor.name.partition(":")[0], tensor.dtype.name
        shape = (batch, *tensor.shape[1:])
        if dtype == "string":
            words = [b"%08x" % value for value in random.integers(0, 1 << 32, np.prod(shape))]
            feeds[name] = np.array(words, object).reshape(shape)
        elif dtype.startswith("int"):
            feeds[name] = _random_ids(name, shape, random).astype(dtype)
        else:
            feeds[name] = random.uniform(0.0, 1.0, shape).astype(dtype)
    return feeds


def _random_ids(name: str, shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    if name == "seq_length":
        return random.integers(1, _HISTORY + 1, shape)
    if name == "gender":
        return random.integers(0, 3, shape)
    ids = random.integers(1, _CATEGORIES, shape)
    if shape[1] > 1:  # a list of ids: 0 fills it up
        lengths = random.integers(1, shape[1] + 1, (shape[0], 1))
        ids[np.arange(shape[1])[np.newaxis, :] >= lengths] = 0
    return ids


if __name__ == "__main__":
    _build(sys.argv[1], Path(sys.argv[2]))
