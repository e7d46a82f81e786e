"""What columns are fed: the usual, and everything at the edges of it.

A scenario says how many rows there are, how many values each has, what the values are, and what is
wrong with sparse indices. `feeds` makes the tensors of a case's features from it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.feature_column.conformance.case import Feature, Features

Random = np.random.Generator
_MOST = 4  # values of a row

MISSING: dict[str, list[Any]] = {"string": [b""], "int32": [-1], "int64": [-1], "float32": [0.0]}
UNKNOWN: dict[str, list[Any]] = {
    "string": [b"nobody", b"Word1", b"word1 ", b"-1"],
    "int32": [10, 11, 12345, 2**31 - 1],
    "int64": [10, 11, 2**31, 2**40 + 1],
    "float32": [-1e9, 1e9],
}
ODD: dict[str, list[Any]] = {
    "string": [b"\xff\xfe\x00\x80", b"a\0b", b"\xc3\x28", b"x" * 300, "größe".encode(), b"word1"],
    "int32": [-2, -(2**31), 2**31 - 1, 0, 3],
    "int64": [-2, -(2**63), 2**63 - 1, 2**32, 2**31, -(2**31) - 1, 3],
    "float32": [np.nan, np.inf, -np.inf, -0.0, 1e-42, -1.0, 0.5],
}
# Weights away from zero: sums of them are too, so that quotients have digits to compare.
_WEIGHTS = [0.5, 1.0, 1.5, 2.0, 0.25]
_ODD_WEIGHTS = [0.0, -1.0, 0.5, -0.0, 2.0]


@dataclass(frozen=True)
class Scenario:
    """
    Attributes:
      name: of the scenario.
      rows: size of the batch.
      values: which values there are: "usual" (known, missing and unknown ones), or a kind alone.
      counts: how many values each row of a sparse feature has: (random, rows) -> [rows].
      same: all rows hold what the first does.
      damage: what is wrong with the indices of sparse features, if anything.
      weights: what weights are.
    """

    name: str
    rows: int = 6
    values: str = "usual"
    counts: Callable[[Random, int], np.ndarray] = lambda random, rows: random.integers(
        0, _MOST + 1, rows
    )
    same: bool = False
    damage: str = ""
    weights: str = "usual"

    def fits(self, features: Features) -> bool:
        """Whether it says anything about these features that another one does not."""
        if self.damage:
            return any(feature.form == "sparse" for feature in features.values())
        if self.weights != "usual":
            return any(feature.weights for feature in features.values())
        return True


def _none(random: Random, rows: int) -> np.ndarray:
    return np.zeros(rows, int)


def _in_the_middle(random: Random, rows: int) -> np.ndarray:
    counts = random.integers(1, _MOST + 1, rows)
    counts[:2] = counts[-2:] = 0
    return counts


SCENARIOS = (
    Scenario("usual"),
    Scenario("many rows", rows=67),
    Scenario("one row", rows=1, counts=lambda random, rows: np.full(rows, 2)),
    Scenario("no rows", rows=0),
    Scenario("one empty row", rows=1, values="missing", counts=_none),
    Scenario("all rows empty", counts=_none, values="missing"),
    Scenario("first and last rows empty", rows=9, counts=_in_the_middle),
    Scenario("all rows the same", rows=20, same=True),
    Scenario("known values", rows=20, values="known"),
    Scenario("one value again and again", rows=5, values="one"),
    Scenario("unknown values", values="unknown"),
    Scenario("odd values", rows=12, values="odd"),
    Scenario("zero and negative weights", rows=20, weights="odd"),
    Scenario("weights of zero", weights="zero"),
    Scenario("indices out of order", damage="order"),
    Scenario("the same index twice", damage="twice"),
    Scenario("rows past the shape", damage="past"),
    Scenario("negative rows", damage="negative"),
    Scenario("columns past the shape", damage="wide"),
    Scenario("more rows than values tell of", damage="tall"),
)


def feeds(name: str, features: Features, scenario: Scenario) -> dict[str, np.ndarray]:
    """A signature's tensors; the same for the same case `name` and scenario."""
    random = np.random.default_rng(zlib.crc32(f"{name}/{scenario.name}".encode()))
    found: dict[str, np.ndarray] = {}
    for key, feature in features.items():
        if feature.form == "dense":
            found[key] = _dense(feature, scenario, random)
        elif feature.form == "ragged":
            found |= _ragged(key, feature, scenario, random)
        elif feature.like is not None:
            indices, shape = found[f"{feature.like}_indices"], found[f"{feature.like}_shape"]
            values = _values(feature, scenario, len(indices), random)
            found |= {f"{key}_indices": indices, f"{key}_shape": shape, f"{key}_values": values}
        else:
            found |= _sparse(key, feature, scenario, random)
    return found


def _values(feature: Feature, scenario: Scenario, count: int, random: Random) -> np.ndarray:
    kind, dtype = scenario.values, feature.dtype
    if feature.weights:
        choices = {"odd": _ODD_WEIGHTS, "zero": [0.0]}.get(scenario.weights, _WEIGHTS)
    elif dtype == "float32" and kind in ("usual", "known"):
        return random.normal(0.0, 1.5, count).astype(np.float32)
    else:
        known = list(feature.keys) or [0.25]
        choices = {
            "usual": known * 4 + _unusual(feature),
            "known": known,
            "one": known[:1],
            "missing": MISSING[dtype],
            "unknown": UNKNOWN[dtype],
            "odd": ODD[dtype],
        }[kind]
    picked = [choices[index] for index in random.integers(0, len(choices), count)]
    values = np.empty(count, object if dtype == "string" else dtype)
    values[:] = picked
    return values


def _unusual(feature: Feature) -> list[Any]:
    missing = MISSING[feature.dtype] * 3 if feature.takes != "known" else []
    return missing + (UNKNOWN[feature.dtype] if feature.takes == "all" else [])


def _dense(feature: Feature, scenario: Scenario, random: Random) -> np.ndarray:
    shape = (scenario.rows, *feature.dims)
    values = _values(feature, scenario, int(np.prod(shape)), random).reshape(shape)
    if scenario.same and scenario.rows:
        values[:] = values[0].copy()
    return values


def _counts(feature: Feature, scenario: Scenario, random: Random) -> np.ndarray:
    counts = scenario.counts(random, scenario.rows)
    if scenario.same and scenario.rows:
        counts[:] = counts[0]
    return np.maximum(counts, 1) if feature.filled else counts


def _row_values(
    feature: Feature, scenario: Scenario, counts: np.ndarray, random: Random
) -> np.ndarray:
    if scenario.same and len(counts):
        return np.tile(_values(feature, scenario, int(counts[0]), random), len(counts))
    return _values(feature, scenario, int(counts.sum()), random)


def _ragged(
    key: str, feature: Feature, scenario: Scenario, random: Random
) -> dict[str, np.ndarray]:
    counts = _counts(feature, scenario, random)
    splits = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    values = _row_values(feature, scenario, counts, random)
    return {f"{key}_values": values, f"{key}_splits": splits}


def _sparse(
    key: str, feature: Feature, scenario: Scenario, random: Random
) -> dict[str, np.ndarray]:
    counts = _counts(feature, scenario, random)
    values = _row_values(feature, scenario, counts, random)
    rows = np.repeat(np.arange(len(counts)), counts)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    columns = [rows, within]
    shape = [scenario.rows, _MOST]
    if feature.rank == 3:  # two values a step
        columns = [rows, within // 2, within % 2]
        shape = [scenario.rows, 2, 2]
    indices = np.stack(columns, axis=1).astype(np.int64)
    dense_shape = np.array(shape, np.int64)
    _DAMAGES[scenario.damage](indices, dense_shape)
    return {f"{key}_indices": indices, f"{key}_values": values, f"{key}_shape": dense_shape}


def _no_damage(indices: np.ndarray, shape: np.ndarray) -> None:
    pass


def _out_of_order(indices: np.ndarray, shape: np.ndarray) -> None:
    indices[:] = indices[::-1].copy()


def _twice(indices: np.ndarray, shape: np.ndarray) -> None:
    if len(indices) > 1:
        indices[1] = indices[0]


def _past(indices: np.ndarray, shape: np.ndarray) -> None:
    if len(indices):
        indices[-1, 0] = shape[0] + 2


def _negative(indices: np.ndarray, shape: np.ndarray) -> None:
    if len(indices):
        indices[0, 0] = -1


def _wide(indices: np.ndarray, shape: np.ndarray) -> None:
    if len(indices):
        indices[-1, -1] = shape[-1] + 3


def _tall(indices: np.ndarray, shape: np.ndarray) -> None:
    shape[0] += 3


_DAMAGES = {
    "": _no_damage,
    "order": _out_of_order,
    "twice": _twice,
    "past": _past,
    "negative": _negative,
    "wide": _wide,
    "tall": _tall,
}
