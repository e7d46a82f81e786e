"""Feeds of generated models, with the table rows that they name.

Ids follow a zipf law with exponent 1.1 (few ids make most of the traffic) or are uniform. In a
ranking request many columns describe the user, and hold the same row for all candidates: the
`user_share` of the columns repeats its first row through the batch.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal

import numpy as np

from benchmarks.columns import model
from benchmarks.columns.model import Column

Ids = Literal["zipf", "uniform"]
MAX_VALUES = 4  # of a row that has a list; 0 to 4 of them, 2 in the mean

_EXPONENT = 1.1
_STEP = 7919  # prime: neighbours in popularity are not neighbours in the table


@dataclass(frozen=True)
class ColumnRows:
    """What a column looks up: row r of a batch the table rows ids[splits[r]:splits[r + 1]]."""

    ids: np.ndarray
    splits: np.ndarray


@dataclass(frozen=True)
class Feed:
    """One batch: tensors by input name, and what each column looks up."""

    tensors: dict[str, np.ndarray]
    rows: list[ColumnRows]


def make(columns: list[Column], batch: int, ids: Ids, user_share: float, seed: int) -> Feed:
    """A batch of `batch` rows for the model of `columns`."""
    random = np.random.default_rng((seed, batch))
    users = round(user_share * len(columns))
    # The same columns for every seed, spread over all kinds.
    of_user = set(np.random.default_rng(0).permutation(len(columns))[:users].tolist())
    tensors: dict[str, np.ndarray] = {}
    rows = []
    for index, column in enumerate(columns):
        counts = random.integers(0, MAX_VALUES + 1, batch) if column.multi else np.ones(batch, int)
        keys = _keys(column, int(counts.sum()), ids, random)
        if index in of_user and batch:
            keys, counts = np.tile(keys[: counts[0]], batch), np.full(batch, counts[0])
        tensors.update(_tensors(column, keys, counts))
        splits = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        rows.append(ColumnRows(_table_rows(column, keys), splits))
    return Feed(tensors, rows)


def _keys(column: Column, count: int, ids: Ids, random: np.random.Generator) -> np.ndarray:
    """Numbers in [0, rows)."""
    if ids == "uniform":
        return random.integers(0, column.rows, count)
    ranks = np.searchsorted(_zipf(column.rows), random.random(count))
    return np.minimum(ranks, column.rows - 1) * _STEP % column.rows


@functools.cache
def _zipf(size: int) -> np.ndarray:
    weights = np.arange(1, size + 1, dtype=float) ** -_EXPONENT
    return np.cumsum(weights) / weights.sum()


def _tensors(column: Column, keys: np.ndarray, counts: np.ndarray) -> dict[str, np.ndarray]:
    values = _values(column, keys)
    if not column.multi:
        return {column.name: values.reshape(-1, 1)}
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    row = np.repeat(np.arange(len(counts)), counts)
    indices = np.stack([row, np.arange(len(row)) - starts], axis=1).astype(np.int64)
    return {
        f"{column.name}_indices": indices,
        f"{column.name}_values": values,
        f"{column.name}_shape": np.array([len(counts), MAX_VALUES], np.int64),
    }


def _values(column: Column, keys: np.ndarray) -> np.ndarray:
    if column.kind in ("hash_string", "vocabulary"):
        found = np.empty(len(keys), object)
        found[:] = [model.word(key) for key in keys.tolist()]
        return found
    if column.kind == "bucketized":
        return (keys / (column.rows - 1)).astype(np.float32)
    return keys.astype(np.int64)


def _table_rows(column: Column, keys: np.ndarray) -> np.ndarray:
    """The rows of the table that the column's own rule gives for `keys`."""
    import tensorflow as tf

    if column.kind == "bucketized":
        # float32 as Bucketize compares: the number is one, the boundaries too.
        limits = np.array(model.boundaries(), np.float32)
        return np.searchsorted(limits, _values(column, keys), side="right").astype(np.int64)
    if column.kind in ("hash_string", "hash_int"):
        text = [b"%d" % k if column.kind == "hash_int" else model.word(k) for k in keys.tolist()]
        hashed = tf.strings.to_hash_bucket_fast(tf.constant(text, tf.string), column.rows)
        return np.asarray(hashed.numpy(), np.int64)
    return keys.astype(np.int64)
