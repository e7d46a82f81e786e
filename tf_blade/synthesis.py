"""Inputs made up from a signature, for checking and timing when the user gives none.

Nobody knows what a model accepts (ids within a vocabulary, text that must be a number, lengths that
must agree), so strategies are tried in order until the original model runs on one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from tf_blade.inputs import FeedSet
from tf_blade.parse_example import ExampleFeature, serialize_example
from tf_blade.runner import first_line
from tf_blade.saved_model import Signature, SignatureTensor

_WORDS = ("a", "red", "on", "Private", "seven", "data model", "x1", "ÀÇ", "")
_SEED = 20240229


@dataclass(frozen=True)
class Strategy:
    """One guess at what a model accepts.

    Attributes:
      int_high: integers are drawn from [0, int_high).
      digits: strings are numbers in decimal, never words or empty.
      positive: floats are uniform in [0, 1) instead of normal.
      rank: rank assumed for inputs of unknown rank.
      most_values: tf.Example features of any length have up to this many values.
    """

    int_high: int = 10
    digits: bool = False
    positive: bool = False
    rank: int = 0
    most_values: int = 3


STRATEGIES = (
    Strategy(),
    Strategy(int_high=2, digits=True, positive=True),
    # Estimators often read features of any length that must have one value or none.
    Strategy(most_values=1),
    Strategy(int_high=2, digits=True, positive=True, most_values=1),
    Strategy(rank=1),
    Strategy(rank=2),
    Strategy(int_high=1, digits=True, positive=True, rank=1),
)
# Sizes for unknown dims other than the batch, tried in order: the same axis gets the same size in
# every input, because dims that must agree usually stand at the same place.
DIM_SIZES = (16, 64, 1024, 1, 16384)
_MAX_ELEMENTS = 1 << 24


@dataclass(frozen=True)
class Synthesised:
    """Feed sets on which the original model runs; empty with the reason why there are none."""

    sets: list[FeedSet]
    reason: str = ""


def synthesise(
    signature: Signature,
    features: Sequence[ExampleFeature],
    batch_sizes: Sequence[int],
    runs: Callable[[FeedSet], None],
) -> Synthesised:
    """Makes feeds for a signature.

    Args:
      signature: what to feed.
      features: what the model's ParseExample nodes ask for, empty if it has none.
      batch_sizes: one feed set for each, where the first dim of some input is unknown; without
        such an input two sets with different values.
      runs: runs the original model on a feed set; raises if it fails.
    """
    for name, info in signature.inputs.items():
        if not info.is_dense or info.dtype in (tf.resource, tf.variant):
            kind = info.dtype.name if info.is_dense else "a sparse or composite tensor"
            return Synthesised([], f"input '{name}' is {kind}; give sample feeds with inputs=…")
    error: Exception | None = None
    for strategy, size, batch in _guesses(signature, features):
        if _elements(signature, size, batch, strategy) > _MAX_ELEMENTS:
            continue
        trial = _make(signature, features, strategy, size, batch, "trial")
        try:
            runs(trial)
        except Exception as failure:
            error = error or failure
            continue
        return _all_batches(signature, features, strategy, size, batch_sizes, runs)
    detail = first_line(error) if error else "the inputs would be too large"
    return Synthesised(
        [],
        f"the original model itself fails on made-up inputs ({detail}); give sample feeds with "
        "inputs=…",
    )


def _guesses(
    signature: Signature, features: Sequence[ExampleFeature]
) -> Iterator[tuple[Strategy, int, int]]:
    """Strategies, sizes of free dims and batch sizes in the order in which to try them."""
    known_ranks = all(info.shape is not None for info in signature.inputs.values())
    strategies = [
        strategy
        for strategy in STRATEGIES
        if (not strategy.rank or not known_ranks)
        and (strategy.most_values == Strategy.most_values or features)
    ]
    sizes = DIM_SIZES if _has_free_dims(signature) else DIM_SIZES[:1]
    # Eight rows show more failures than one; a model may take no more than one, though.
    for batch in (8, 1) if _has_batch(signature) else (1,):
        for strategy in strategies:
            for size in sizes:
                yield strategy, size, batch


def _all_batches(
    signature: Signature,
    features: Sequence[ExampleFeature],
    strategy: Strategy,
    size: int,
    batch_sizes: Sequence[int],
    runs: Callable[[FeedSet], None],
) -> Synthesised:
    if _has_batch(signature):
        sets = [
            _make(signature, features, strategy, size, batch, f"batch {batch}")
            for batch in batch_sizes
            if _elements(signature, size, batch, strategy) <= _MAX_ELEMENTS
        ]
    else:
        sets = [
            _make(signature, features, strategy, size, 1, f"sample {i}", seed=i) for i in (1, 2)
        ]
    kept, reasons = [], []
    for feeds in sets:
        try:
            runs(feeds)
            kept.append(feeds)
        except Exception as error:  # this size only: the others may do
            reasons.append(f"{feeds.label}: the original model fails on it ({first_line(error)})")
    return Synthesised(kept, "; ".join(reasons))


def _make(
    signature: Signature,
    features: Sequence[ExampleFeature],
    strategy: Strategy,
    size: int,
    batch: int,
    label: str,
    seed: int = 0,
) -> FeedSet:
    rng = np.random.default_rng([_SEED, batch, seed])
    values: dict[str, np.ndarray] = {}
    for name, info in signature.inputs.items():
        shape = _concrete_shape(info, size, batch, strategy)
        if features and info.dtype == tf.string and len(shape) <= 1:
            rows = int(np.prod(shape, dtype=np.int64))
            examples = [_example(features, strategy, rng) for _ in range(rows)]
            values[name] = np.array(examples, object).reshape(shape)
        elif not shape:
            values[name] = _neutral(info.dtype)
        else:
            values[name] = random_values(info.dtype, shape, rng, strategy)
        # Equal rows must give equal answers: the last row repeats the first.
        if batch > 2 and info.shape is not None and info.shape[:1] == (None,):
            values[name][-1] = values[name][0]
    return FeedSet(label, values)


def _example(
    features: Sequence[ExampleFeature], strategy: Strategy, rng: np.random.Generator
) -> bytes:
    values = {}
    for feature in features:
        count = feature.count
        if count is None:
            count = int(rng.integers(0, strategy.most_values + 1))
        values[feature] = random_values(feature.dtype, (count,), rng, strategy)
    return serialize_example(values)


def random_values(
    dtype: tf.DType, shape: tuple[int, ...], rng: np.random.Generator, strategy: Strategy
) -> np.ndarray:
    """Random values of a dtype: small whole numbers, floats around 0, short words and digits."""
    if dtype == tf.string:
        count = int(np.prod(shape, dtype=np.int64))
        flat = np.empty(count, object)
        numbers = rng.integers(0, strategy.int_high, count)
        words = rng.integers(0, 2 * len(_WORDS), count)
        for i in range(count):
            word = _WORDS[words[i]] if words[i] < len(_WORDS) else str(numbers[i])
            flat[i] = (str(numbers[i]) if strategy.digits else word).encode()
        return flat.reshape(shape)
    if dtype == tf.bool:
        return rng.random(shape) < 0.5
    kind = dtype.as_numpy_dtype
    if dtype.is_floating or dtype.is_complex:
        draw = rng.random if strategy.positive else rng.standard_normal
        return np.asarray(draw(shape)).astype(kind)
    return rng.integers(0, strategy.int_high, shape).astype(kind)


def _neutral(dtype: tf.DType) -> np.ndarray:
    """A scalar input is mostly a switch or a rate: off for booleans, 1 for numbers."""
    if dtype == tf.string:
        return np.array(b"1", object)
    return np.array(0 if dtype == tf.bool else 1).astype(dtype.as_numpy_dtype)


def _concrete_shape(
    info: SignatureTensor, size: int, batch: int, strategy: Strategy
) -> tuple[int, ...]:
    shape = (None,) * strategy.rank if info.shape is None else info.shape
    return tuple(
        dim if dim is not None else batch if axis == 0 else size for axis, dim in enumerate(shape)
    )


def _elements(signature: Signature, size: int, batch: int, strategy: Strategy) -> int:
    shapes = [_concrete_shape(i, size, batch, strategy) for i in signature.inputs.values()]
    return sum(int(np.prod(shape, dtype=np.int64)) for shape in shapes)


def _has_batch(signature: Signature) -> bool:
    shapes = [info.shape for info in signature.inputs.values()]
    return any(shape is None or shape[:1] == (None,) for shape in shapes)


def _has_free_dims(signature: Signature) -> bool:
    shapes = [info.shape for info in signature.inputs.values()]
    return any(shape is None or None in shape[1:] for shape in shapes)
