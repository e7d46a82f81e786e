"""Reads the census rows and turns them into what the model is fed.

The file and its licence are described in `data/README.md`.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

DATA_FILE = Path(__file__).with_name("data") / "adult.csv.gz"

Features = dict[str, np.ndarray]

_FLOATS = ("age", "capital_gain", "capital_loss")
_INTEGERS = ("education_num", "hours_per_week")
_STRINGS = (
    "workclass",
    "education",
    "marital_status",
    "occupation",
    "relationship",
    "native_country",
)


def read_rows(limit: int | None = None) -> list[dict[str, str]]:
    """The first `limit` rows of the data file (all 6,000 by default), one dict a row."""
    with gzip.open(DATA_FILE, "rt", encoding="utf-8", newline="") as file:
        rows: list[dict[str, str]] = []
        for row in csv.DictReader(file):
            if limit is not None and len(rows) == limit:
                break
            rows.append(row)
        return rows


def features_of(rows: Sequence[Mapping[str, str]]) -> Features:
    """The model's inputs for `rows`.

    Every array is [batch], float32, int64 or bytes, except the word lists: `job_words` (the words
    of work class and occupation) and `home_words` (those of marital status and relationship) are
    bytes of shape [batch, longest list], shorter lists padded at the end with b"".
    """
    features: Features = {}
    for name in _FLOATS:
        features[name] = np.array([float(row[name]) for row in rows], np.float32)
    for name in _INTEGERS:
        features[name] = np.array([int(row[name]) for row in rows], np.int64)
    for name in _STRINGS:
        features[name] = np.array([row[name].encode() for row in rows], object)
    features["job_words"] = _word_lists(rows, "workclass", "occupation")
    features["home_words"] = _word_lists(rows, "marital_status", "relationship")
    return features


def labels_of(rows: Sequence[Mapping[str, str]]) -> np.ndarray:
    """1.0 where the yearly income is above 50,000 dollars; float32 [batch]."""
    return np.array([row["income"] == ">50K" for row in rows], np.float32)


def vocabulary(rows: Sequence[Mapping[str, str]], name: str) -> list[str]:
    """The distinct known values of a column, most frequent first, ties in alphabetical order."""
    counts: dict[str, int] = {}
    for row in rows:
        counts[row[name]] = counts.get(row[name], 0) + 1
    counts.pop("?", None)
    return sorted(counts, key=lambda value: (-counts[value], value))


def take(features: Features, indices: np.ndarray) -> Features:
    """The rows `indices` of every feature."""
    return {name: values[indices] for name, values in features.items()}


def _word_lists(rows: Sequence[Mapping[str, str]], *names: str) -> np.ndarray:
    lists = [[word for name in names for word in row[name].split("-")] for row in rows]
    longest = max(map(len, lists))
    return np.array(
        [[word.encode() for word in words] + [b""] * (longest - len(words)) for words in lists],
        object,
    )
