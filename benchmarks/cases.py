"""A folder of models with feeds, the form in which benchmarks get them.

NAME/saved_model/                     the SavedModel
NAME/model.json                       {"signature": …} and whatever else is worth knowing
NAME/feeds/{small,large}/INPUT.pb     inputs, one serialized TensorProto each
NAME/answers/{small,large}/OUTPUT.pb  TensorFlow's answers to them (optional)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SIZES = ("small", "large")


@dataclass(frozen=True)
class ModelCase:
    """One model of such a folder."""

    name: str
    directory: Path
    signature: str

    @property
    def saved_model(self) -> Path:
        return self.directory / "saved_model"

    @property
    def sizes(self) -> list[str]:
        """The sizes there are feeds for."""
        return [size for size in SIZES if any((self.directory / "feeds" / size).glob("*.pb"))]

    def feeds(self, size: str) -> dict[str, np.ndarray]:
        """Input name -> array (strings: an object array of bytes)."""
        return read_tensors(self.directory / "feeds" / size)

    def answers(self, size: str) -> dict[str, np.ndarray]:
        """Output name -> array; empty when none are stored."""
        return read_tensors(self.directory / "answers" / size)


def read_case(directory: Path) -> ModelCase:
    """The model in `directory`. Raises FileNotFoundError or ValueError naming what is missing."""
    description = json.loads((directory / "model.json").read_text(encoding="utf-8"))
    case = ModelCase(directory.name, directory, description["signature"])
    if not case.saved_model.is_dir():
        raise FileNotFoundError(f"'{case.saved_model}' is missing")
    if not case.sizes:
        raise ValueError(f"'{directory}' has no feeds")
    return case


def read_cases(directory: Path, only: Iterable[str] = ()) -> list[ModelCase]:
    """All models in `directory` by name, or those called `only`.

    Raises FileNotFoundError if one of `only` is not there.
    """
    names = list(only) or sorted(path.parent.name for path in directory.glob("*/model.json"))
    return [read_case(directory / name) for name in names]


def write_case(
    directory: Path, signature: str, origin: str, feeds: Mapping[str, Mapping[str, np.ndarray]]
) -> None:
    """Writes everything but the SavedModel: model.json and the feeds (size -> input -> array)."""
    for size, tensors in feeds.items():
        write_tensors(directory / "feeds" / size, tensors)
    description = {"origin": origin, "signature": signature}
    (directory / "model.json").write_text(json.dumps(description) + "\n", encoding="utf-8")


def read_tensors(directory: Path) -> dict[str, np.ndarray]:
    import tensorflow as tf
    from tensorflow.core.framework import tensor_pb2

    return {
        path.stem: tf.make_ndarray(tensor_pb2.TensorProto.FromString(path.read_bytes()))
        for path in sorted(directory.glob("*.pb"))
    }


def write_tensors(directory: Path, tensors: Mapping[str, np.ndarray]) -> None:
    import tensorflow as tf

    directory.mkdir(parents=True, exist_ok=True)
    for name, value in tensors.items():
        data = tf.make_tensor_proto(value).SerializeToString()
        (directory / f"{name}.pb").write_bytes(data)
