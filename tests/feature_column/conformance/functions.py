"""Columns in functions: tf_keras' layers, Keras 3's preprocessing, TensorFlow's lookups."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tests.feature_column.conformance.case import Case, ColumnCase, Compute, Feature
from tests.feature_column.conformance.columns import (
    BOUNDARIES,
    COMBINERS,
    KEYS,
    NUMBERS,
    WORDS,
    column_cases,
)

Made = tuple[Compute, list[Any]]


# -- tf.feature_column through tf_keras -------------------------------------------------------


def keras_columns() -> list[Case]:
    """The kinds of `columns.py` under DenseFeatures or SequenceFeatures."""
    wanted = [case for case in column_cases() if {"dense_features", "sequence"} & {*case.layers}]
    return [
        Case(f"dense_features_{case.name}", case.features, _layer_over(case)) for case in wanted
    ]


def _layer_over(case: ColumnCase) -> Callable[[], Made]:
    def make() -> Made:
        import tf_keras

        columns = case.columns("")
        if "sequence" in case.layers:
            sequence = tf_keras.experimental.SequenceFeatures(columns)

            def run_sequence(features: dict[str, Any]) -> dict[str, Any]:
                output, lengths = sequence(features)
                return {"output": output, "lengths": lengths}

            return run_sequence, [sequence]
        layer = tf_keras.layers.DenseFeatures(columns)
        return layer, [layer]

    return make


# -- Keras 3 and Keras 2 ----------------------------------------------------------------------


def keras_layers(version: str) -> Iterator[Case]:
    """Preprocessing layers of "keras" or "tf_keras", with embeddings behind those that give ids."""
    layers = importlib.import_module(version).layers
    word, words = Feature("string", keys=WORDS), Feature("string", dims=(3,), keys=WORDS)
    number, numbers = (
        Feature("int64", keys=KEYS),
        Feature("int64", dims=(3,), keys=NUMBERS, takes="known"),
    )
    real, reals = Feature("float32"), Feature("float32", dims=(3,))

    def chain(*make: Callable[[], Any]) -> Callable[[], Made]:
        def made() -> Made:
            chained = [one() for one in make]

            def run(features: dict[str, Any]) -> Any:
                value = features["x"]
                for layer in chained:
                    value = layer(value)
                return value

            return run, chained

        return made

    def lookup(**options: Any) -> Callable[[], Any]:
        text = [value.decode() for value in WORDS]
        return lambda: layers.StringLookup(vocabulary=text, **options)

    def integers(**options: Any) -> Callable[[], Any]:
        return lambda: layers.IntegerLookup(vocabulary=list(KEYS), **options)

    def hashing(**options: Any) -> Callable[[], Any]:
        return lambda: layers.Hashing(11, **options)

    def table(rows: int, dim: int = 4, **options: Any) -> Callable[[], Any]:
        return lambda: layers.Embedding(rows, dim, "normal", **options)

    def crossing() -> Made:
        cross = layers.HashedCrossing(13)
        rows = layers.Embedding(13, 4, "normal")
        return lambda features: rows(cross((features["x"], features["y"]))), [cross, rows]

    def crossing_one_hot() -> Made:
        cross = layers.HashedCrossing(13, output_mode="one_hot")
        return lambda features: cross((features["x"], features["y"])), [cross]

    def together() -> Made:
        """Layers side by side, as models have them; counts are integers before they are joined."""
        hot, more = lookup(output_mode="multi_hot")(), lookup(output_mode="count")()
        counts, numbers = layers.Concatenate(), normalization()
        numbers.build((None, 3))
        ids, rows, flat = lookup()(), table(size)(), layers.Flatten()
        joined = layers.Concatenate()

        def run(features: dict[str, Any]) -> Any:
            pieces = [
                counts([hot(features["x"]), more(features["x"])]),
                numbers(features["r"]),
                flat(rows(ids(features["x"]))),
            ]
            return joined(pieces)

        return run, [hot, more, numbers, ids, rows]

    def normalization() -> Any:
        return layers.Normalization(mean=[0.5, -1.0, 2.0], variance=[1.0, 4.0, 0.25])

    size = len(WORDS) + 1
    pool, flat = layers.GlobalAveragePooling1D, layers.Flatten
    chains: dict[str, tuple[Feature, tuple[Callable[[], Any], ...]]] = {
        "string_lookup": (word, (lookup(), table(size), flat)),
        "string_lookup_list": (words, (lookup(), table(size), pool)),
        "string_lookup_mask": (words, (lookup(mask_token=""), table(size + 1))),
        "string_lookup_oov": (word, (lookup(num_oov_indices=3), table(size + 2), flat)),
        "string_lookup_multi_hot": (words, (lookup(output_mode="multi_hot"),)),
        "string_lookup_count": (words, (lookup(output_mode="count"),)),
        "string_lookup_one_hot": (word, (lookup(output_mode="one_hot"),)),
        "integer_lookup_one_hot": (number, (integers(output_mode="one_hot"),)),
        "hashing_multi_hot": (words, (hashing(output_mode="multi_hot"),)),
        "discretization_one_hot": (
            real,
            (lambda: layers.Discretization(BOUNDARIES, output_mode="one_hot"),),
        ),
        "integer_lookup": (number, (integers(), table(len(KEYS) + 1), flat)),
        "integer_lookup_oov": (number, (integers(num_oov_indices=2), table(len(KEYS) + 2))),
        "hashing": (word, (hashing(), table(11), flat)),
        "hashing_salted": (word, (hashing(salt=[133, 137]), table(11), flat)),
        "hashing_masked": (words, (hashing(mask_value=""), table(11))),
        "hashing_integers": (number, (hashing(), table(11), flat)),
        "category_multi_hot": (
            numbers,
            (lambda: layers.CategoryEncoding(10, output_mode="multi_hot"),),
        ),
        "category_count": (
            numbers,
            (lambda: layers.CategoryEncoding(10, output_mode="count"),),
        ),
        "category_one_hot": (
            Feature("int64", keys=NUMBERS, takes="known"),
            (lambda: layers.CategoryEncoding(10, output_mode="one_hot"),),
        ),
        "discretization": (
            real,
            (lambda: layers.Discretization(BOUNDARIES), table(len(BOUNDARIES) + 1), flat),
        ),
        "normalization": (reals, (normalization,)),
        "embedding": (Feature("int32", dims=(), keys=NUMBERS, takes="known"), (table(10),)),
        "embedding_of_floats": (real, (table(10), flat)),
        "embedding_list": (numbers, (table(10), flat)),
        "embedding_mean": (numbers, (table(10), pool)),
    }
    for name, (feature, made) in chains.items():
        yield Case(f"{version}_{name}", {"x": feature}, chain(*made))
    yield Case(f"{version}_hashed_crossing", {"x": word, "y": number}, crossing)
    yield Case(f"{version}_hashed_crossing_one_hot", {"x": word, "y": number}, crossing_one_hot)
    yield Case(f"{version}_together", {"x": words, "r": reals}, together)


# -- TensorFlow's lookups ---------------------------------------------------------------------


def lookups() -> Iterator[Case]:
    """embedding_lookup, embedding_lookup_sparse and safe_embedding_lookup_sparse."""
    v1 = tf.compat.v1.nn
    sparse = Feature("int64", "sparse", keys=NUMBERS, takes="missing")
    bare = Feature("int64", "sparse", keys=NUMBERS, takes="known")
    filled = Feature("int64", "sparse", keys=NUMBERS, takes="known", filled=True)
    narrow = Feature("int32", "sparse", keys=NUMBERS, takes="known", filled=True)
    ragged = Feature("int64", "ragged", keys=NUMBERS, takes="known", filled=True)
    weights = Feature("float32", "sparse", weights=True, like="x")
    deep = Feature("int64", "sparse", rank=3, keys=NUMBERS, takes="missing")

    def table(seed: int = 0, rows: int = 10) -> tf.Variable:
        values = np.random.default_rng(seed).normal(size=(rows, 4))
        return tf.Variable(values.astype(np.float32))

    def one_table(look_up: Callable[[Any, dict[str, Any]], Any]) -> Callable[[], Made]:
        def make() -> Made:
            rows = table()
            return lambda features: look_up(rows, features), [rows]

        return make

    def partitions() -> list[tf.Variable]:
        # "mod" and "div" both need 4, 3, 3 rows for 10.
        return [table(seed, count) for seed, count in enumerate((4, 3, 3))]

    def dense_parts(strategy: str) -> Callable[[], Made]:
        def make() -> Made:
            rows = partitions()
            return lambda f: v1.embedding_lookup(rows, f["x"], partition_strategy=strategy), rows

        return make

    def parts(strategy: str, safe: bool) -> Callable[[], Made]:
        def make() -> Made:
            rows = partitions()
            look_up = v1.safe_embedding_lookup_sparse if safe else v1.embedding_lookup_sparse

            def run(features: dict[str, Any]) -> Any:
                options = {} if safe else {"sp_weights": None}
                return look_up(
                    rows, features["x"], combiner="sum", partition_strategy=strategy, **options
                )

            return run, rows

        return make

    nn = tf.nn
    for combiner in COMBINERS:
        yield Case(
            f"lookup_sparse_{combiner}",
            {"x": filled},
            one_table(
                lambda t, f, c=combiner: nn.embedding_lookup_sparse(t, f["x"], None, combiner=c)  # type: ignore[misc]
            ),
        )
        yield Case(
            f"lookup_sparse_weights_{combiner}",
            {"x": filled, "w": weights},
            one_table(
                lambda t, f, c=combiner: nn.embedding_lookup_sparse(t, f["x"], f["w"], combiner=c)  # type: ignore[misc]
            ),
        )
        yield Case(
            f"safe_lookup_{combiner}",
            {"x": sparse},
            one_table(
                lambda t, f, c=combiner: nn.safe_embedding_lookup_sparse(t, f["x"], combiner=c)  # type: ignore[misc]
            ),
        )
        yield Case(
            f"safe_lookup_weights_{combiner}",
            {"x": sparse, "w": weights},
            one_table(
                lambda t, f, c=combiner: nn.safe_embedding_lookup_sparse(  # type: ignore[misc]
                    t, f["x"], f["w"], combiner=c
                )
            ),
        )
    yield Case(
        "safe_lookup_default",
        {"x": sparse},
        one_table(lambda t, f: nn.safe_embedding_lookup_sparse(t, f["x"], default_id=3)),
    )
    yield Case(
        "safe_lookup_max_norm",
        {"x": sparse},
        one_table(lambda t, f: nn.safe_embedding_lookup_sparse(t, f["x"], max_norm=1.5)),
    )
    yield Case(
        "lookup_sparse_max_norm",
        {"x": filled, "w": weights},
        one_table(
            lambda t, f: nn.embedding_lookup_sparse(
                t, f["x"], f["w"], combiner="sqrtn", max_norm=1.5
            )
        ),
    )
    yield Case(
        "lookup_sparse_int32",
        {"x": narrow},
        one_table(lambda t, f: nn.embedding_lookup_sparse(t, f["x"], None, combiner="sum")),
    )
    yield Case(
        "lookup_sparse_empty_rows",
        {"x": bare},
        one_table(lambda t, f: nn.embedding_lookup_sparse(t, f["x"], None, combiner="sum")),
    )
    yield Case(
        "lookup_ragged",
        {"x": ragged},
        one_table(lambda t, f: nn.embedding_lookup_sparse(t, f["x"], None, combiner="mean")),
    )
    yield Case(
        "safe_lookup_rank_3",
        {"x": deep},
        one_table(lambda t, f: nn.safe_embedding_lookup_sparse(t, f["x"], combiner="sum")),
    )
    for strategy in ("mod", "div"):
        yield Case(f"lookup_sparse_{strategy}", {"x": filled}, parts(strategy, safe=False))
        yield Case(f"safe_lookup_{strategy}", {"x": sparse}, parts(strategy, safe=True))
    for name, dims in (("vector", ()), ("list", (3,))):
        known = {"x": Feature("int64", dims=dims, keys=NUMBERS, takes="known")}
        yield Case(f"lookup_{name}", known, one_table(lambda t, f: nn.embedding_lookup(t, f["x"])))
        for strategy in ("mod", "div"):
            yield Case(f"lookup_{name}_{strategy}", known, dense_parts(strategy))
