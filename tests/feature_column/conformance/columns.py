"""The kinds of tf.feature_column.

Each is seen through the layers that take it: `input_layer` and `linear_model` in TF1 graphs, and
tf_keras' DenseFeatures and SequenceFeatures in functions.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf

from tests.feature_column.conformance.case import ColumnCase, Feature

fc = tf.feature_column

WORDS = tuple(f"word{i}".encode() for i in range(12))
LONG_WORDS = tuple(b"a word that no small string holds " * 2 + b"%d" % i for i in range(4))
NUMBERS = tuple(range(10))
KEYS = (3, 5, 8, 1 << 40, 13, -7)
COMBINERS = ("mean", "sum", "sqrtn")
BOUNDARIES = [-1.0, -0.25, 0.0, 0.5, 2.0]

BOTH = ("input_layer", "dense_features")
V1_ONLY = ("input_layer",)
LINEAR = ("linear_model",)
SEQUENCE = ("sequence",)


def embedding(column: Any, combiner: str = "mean", dim: int = 4, **options: Any) -> Any:
    start = tf.random_uniform_initializer(-1.0, 1.0, seed=dim)
    return fc.embedding_column(column, dim, combiner, start, **options)


@functools.cache
def vocabulary_file() -> str:
    """A file of WORDS, one a line."""
    folder = Path(tempfile.mkdtemp(prefix="tf_blade_vocabulary_"))
    path = folder / "words.txt"
    path.write_bytes(b"\n".join(WORDS) + b"\n")
    return str(path)


Categorical = Callable[[str], Any]

# Kind -> (dtype of the feature, values it knows, how the column is made from the feature's name).
CATEGORICAL: dict[str, tuple[str, tuple[Any, ...], Categorical]] = {
    "hash_string": (
        "string",
        WORDS + LONG_WORDS,
        lambda key: fc.categorical_column_with_hash_bucket(key, 7),
    ),
    "hash_int64": (
        "int64",
        KEYS,
        lambda key: fc.categorical_column_with_hash_bucket(key, 50, tf.int64),
    ),
    "hash_int32": (
        "int32",
        NUMBERS,
        lambda key: fc.categorical_column_with_hash_bucket(key, 50, tf.int32),
    ),
    "identity": (
        "int64",
        NUMBERS,
        lambda key: fc.categorical_column_with_identity(key, 10),
    ),
    "identity_default": (
        "int64",
        NUMBERS,
        lambda key: fc.categorical_column_with_identity(key, 10, default_value=4),
    ),
    "identity_int32": (
        "int32",
        NUMBERS,
        lambda key: fc.categorical_column_with_identity(key, 10, default_value=0),
    ),
    "words": (
        "string",
        WORDS,
        lambda key: fc.categorical_column_with_vocabulary_list(key, list(WORDS)),
    ),
    "words_default": (
        "string",
        WORDS,
        lambda key: fc.categorical_column_with_vocabulary_list(key, list(WORDS), default_value=2),
    ),
    "words_oov": (
        "string",
        WORDS,
        lambda key: fc.categorical_column_with_vocabulary_list(key, list(WORDS), num_oov_buckets=3),
    ),
    "numbers": (
        "int64",
        KEYS,
        lambda key: fc.categorical_column_with_vocabulary_list(key, list(KEYS), tf.int64),
    ),
    "numbers_oov": (
        "int64",
        KEYS,
        lambda key: fc.categorical_column_with_vocabulary_list(
            key, list(KEYS), tf.int64, num_oov_buckets=2
        ),
    ),
    "file": (
        "string",
        WORDS,
        lambda key: fc.categorical_column_with_vocabulary_file(key, vocabulary_file(), len(WORDS)),
    ),
    "file_oov": (
        "string",
        WORDS,
        lambda key: fc.categorical_column_with_vocabulary_file(
            key, vocabulary_file(), len(WORDS), num_oov_buckets=4
        ),
    ),
}


def feature(kind: str, form: str) -> Feature:
    """The input of a categorical kind: "one" is dense [B, 1], "three" [B, 3], or "sparse"."""
    dtype, keys, _ = CATEGORICAL[kind]
    takes: Any = "missing" if kind == "identity" else "all"
    if form == "sparse":
        return Feature(dtype, "sparse", keys=keys, takes=takes)
    return Feature(dtype, dims=(3 if form == "three" else 1,), keys=keys, takes=takes)


def embeddings() -> Iterator[ColumnCase]:
    """An embedding over every categorical kind, sparse and dense; the combiners take turns."""
    for turn, (kind, (_, _, make)) in enumerate(CATEGORICAL.items()):
        in_full = kind in ("hash_string", "identity")
        for form in (
            ("one", "three", "sparse") if in_full else (("one", "three")[turn % 2], "sparse")
        ):
            combiners = COMBINERS if in_full and form == "sparse" else (COMBINERS[turn % 3],)
            for combiner in combiners:
                yield ColumnCase(
                    f"{kind}_{form}_{combiner}",
                    {"x": feature(kind, form)},
                    lambda p, make=make, combiner=combiner: [  # type: ignore[misc]
                        embedding(make(p + "x"), combiner)
                    ],
                    BOTH if form == "sparse" or in_full else ("dense_features",),
                )


def indicators() -> Iterator[ColumnCase]:
    kinds = {"identity": "one", "identity_default": "sparse", "words_oov": "sparse"}
    for kind, form in {**kinds, "hash_string": "one"}.items():
        make = CATEGORICAL[kind][2]
        yield ColumnCase(
            f"indicator_{kind}_{form}",
            {"x": feature(kind, form)},
            lambda p, make=make: [fc.indicator_column(make(p + "x"))],  # type: ignore[misc]
        )


def numbers() -> Iterator[ColumnCase]:
    """Numeric columns, and what is made of them by buckets."""
    one, three = Feature("float32"), Feature("float32", dims=(3,))

    def bucketized(prefix: str, width: int) -> Any:
        return fc.bucketized_column(fc.numeric_column(prefix + "x", (width,)), BOUNDARIES)

    def normal(value: Any) -> Any:
        return (tf.maximum(value, 0.0) - 0.5) / 2.0

    yield ColumnCase("numeric", {"x": three}, lambda p: [fc.numeric_column(p + "x", (3,))])
    yield ColumnCase(
        "numeric_normalised",
        {"x": one},
        lambda p: [fc.numeric_column(p + "x", normalizer_fn=normal)],
    )
    yield ColumnCase(
        "numeric_int64",
        {"x": Feature("int64", keys=NUMBERS)},
        lambda p: [fc.numeric_column(p + "x", dtype=tf.int64)],
    )
    yield ColumnCase("buckets", {"x": one}, lambda p: [bucketized(p, 1)])
    yield ColumnCase("buckets_three", {"x": three}, lambda p: [bucketized(p, 3)])
    yield ColumnCase("bucketized", {"x": one}, lambda p: [embedding(bucketized(p, 1), "sum")])
    yield ColumnCase("bucketized_three", {"x": three}, lambda p: [embedding(bucketized(p, 3))])


def crossed() -> Iterator[ColumnCase]:
    words, more = feature("hash_string", "sparse"), feature("hash_string", "one")

    def of_two(prefix: str) -> Any:
        return fc.crossed_column([prefix + "x", prefix + "y"], 20)

    def of_three(prefix: str) -> Any:
        buckets = fc.bucketized_column(fc.numeric_column(prefix + "z"), BOUNDARIES)
        number = fc.categorical_column_with_identity(prefix + "i", 10, default_value=0)
        return fc.crossed_column([prefix + "x", number, buckets], 30, hash_key=77)

    two = {"x": words, "y": more}
    three = {"x": words, "i": feature("identity", "one"), "z": Feature("float32")}
    yield ColumnCase("crossed", two, lambda p: [embedding(of_two(p), "sqrtn")])
    yield ColumnCase("crossed_dense", {"x": more, "y": more}, lambda p: [embedding(of_two(p))])
    yield ColumnCase("crossed_indicator", two, lambda p: [fc.indicator_column(of_two(p))])
    yield ColumnCase("crossed_three", three, lambda p: [embedding(of_three(p), "sum")])


def weighted() -> Iterator[ColumnCase]:
    weight = Feature("float32", "sparse", weights=True, like="x")
    dense_weight = Feature("float32", dims=(3,), weights=True)

    def with_weight(kind: str, prefix: str) -> Any:
        column = CATEGORICAL[kind][2](prefix + "x")
        return fc.weighted_categorical_column(column, prefix + "w")

    for kind, combiner in zip(("hash_string", "words", "identity_default"), COMBINERS, strict=True):
        yield ColumnCase(
            f"weighted_{kind}_{combiner}",
            {"x": feature(kind, "sparse"), "w": weight},
            lambda p, kind=kind, combiner=combiner: [  # type: ignore[misc]
                embedding(with_weight(kind, p), combiner)
            ],
        )
    sparse = {"x": feature("words", "sparse"), "w": weight}
    dense = {"x": feature("identity_default", "three"), "w": dense_weight}
    yield ColumnCase(
        "weighted_dense", dense, lambda p: [embedding(with_weight("identity_default", p))]
    )
    yield ColumnCase(
        "weighted_indicator", sparse, lambda p: [fc.indicator_column(with_weight("words", p))]
    )


def tables() -> Iterator[ColumnCase]:
    """Unusual tables: with a norm, in partitions, shared."""
    words = feature("hash_string", "sparse")

    def hashed(prefix: str, name: str = "x", buckets: int = 9) -> Any:
        return fc.categorical_column_with_hash_bucket(prefix + name, buckets)

    def shared(prefix: str) -> list[Any]:
        columns = [hashed(prefix), hashed(prefix, "y")]
        return list(tf.compat.v1.feature_column.shared_embedding_columns(columns, 4, "sum"))

    yield ColumnCase(
        "max_norm", {"x": words}, lambda p: [embedding(hashed(p), "mean", max_norm=0.9)]
    )
    yield ColumnCase(
        "partitioned",
        {"x": words},
        lambda p: [embedding(hashed(p, buckets=11), "sum")],
        V1_ONLY,
        {"partitioner": tf.compat.v1.fixed_size_partitioner(3)},
    )
    pair = {"x": words, "y": feature("hash_string", "one")}
    yield ColumnCase("shared", pair, shared, V1_ONLY)
    yield ColumnCase(
        "unsafe",
        {"x": Feature("string", "sparse", keys=WORDS, filled=True)},
        lambda p: [embedding(hashed(p), use_safe_embedding_lookup=False)],
    )


def together() -> Iterator[ColumnCase]:
    """Columns side by side, as models have them."""
    features = {
        "a": feature("hash_string", "sparse"),
        "b": feature("identity_default", "one"),
        "c": feature("words_oov", "three"),
        "d": Feature("float32", dims=(2,)),
        "e": Feature("float32"),
        "f": feature("hash_int64", "one"),
    }

    def columns(prefix: str) -> list[Any]:
        kinds = {"a": "hash_string", "b": "identity_default", "c": "words_oov", "f": "hash_int64"}
        word, number, list_of, hashed = (
            CATEGORICAL[kind][2](prefix + name) for name, kind in kinds.items()
        )
        numeric = fc.numeric_column(prefix + "d", (2,))
        buckets = fc.bucketized_column(fc.numeric_column(prefix + "e"), BOUNDARIES)
        return [
            embedding(word, "sum", 3),
            embedding(hashed, "mean", 8),
            embedding(number, "mean", 16),
            embedding(list_of, "sqrtn", 5),
            fc.indicator_column(list_of),
            numeric,
            embedding(buckets, "mean", 4),
            buckets,
        ]

    yield ColumnCase("together", features, columns)
    yield ColumnCase(
        "linear_together",
        {name: features[name] for name in ("a", "b", "d", "e")},
        lambda p: [
            CATEGORICAL["hash_string"][2](p + "a"),
            CATEGORICAL["identity_default"][2](p + "b"),
            fc.numeric_column(p + "d", (2,)),
            fc.bucketized_column(fc.numeric_column(p + "e"), BOUNDARIES),
        ],
        LINEAR,
    )


def linear() -> Iterator[ColumnCase]:
    for kind in ("hash_string", "identity_default", "words"):
        make = CATEGORICAL[kind][2]
        yield ColumnCase(
            f"linear_{kind}",
            {"x": feature(kind, "sparse")},
            lambda p, make=make: [make(p + "x")],  # type: ignore[misc]
            LINEAR,
        )
    weight = Feature("float32", "sparse", weights=True, like="x")
    yield ColumnCase(
        "linear_weighted",
        {"x": feature("words", "sparse"), "w": weight},
        lambda p: [
            fc.weighted_categorical_column(CATEGORICAL["words"][2](p + "x"), p + "w"),
        ],
        LINEAR,
    )
    yield ColumnCase(
        "linear_crossed",
        {"x": feature("hash_string", "sparse"), "y": feature("hash_string", "one")},
        lambda p: [fc.crossed_column([p + "x", p + "y"], 20)],
        LINEAR,
    )


def sequences() -> Iterator[ColumnCase]:
    """Sequences: step t of row r is element (r, t), or the elements (r, t, ...) of rank 3."""
    hashed, identity = (
        fc.sequence_categorical_column_with_hash_bucket,
        fc.sequence_categorical_column_with_identity,
    )
    vocabulary = fc.sequence_categorical_column_with_vocabulary_list
    words = Feature("string", "sparse", keys=WORDS)
    nested = Feature("string", "sparse", rank=3, keys=WORDS)
    ids = Feature("int64", "sparse", keys=NUMBERS, takes="missing")
    yield ColumnCase(
        "sequence_hash", {"x": words}, lambda p: [embedding(hashed(p + "x", 7))], SEQUENCE
    )
    yield ColumnCase(
        "sequence_nested", {"x": nested}, lambda p: [embedding(hashed(p + "x", 7), "sum")], SEQUENCE
    )
    yield ColumnCase(
        "sequence_identity", {"x": ids}, lambda p: [embedding(identity(p + "x", 10))], SEQUENCE
    )
    yield ColumnCase(
        "sequence_words_indicator",
        {"x": words},
        lambda p: [fc.indicator_column(vocabulary(p + "x", list(WORDS)))],
        SEQUENCE,
    )


def column_cases() -> list[ColumnCase]:
    """All kinds."""
    makers = (
        embeddings,
        indicators,
        numbers,
        crossed,
        weighted,
        tables,
        together,
        linear,
        sequences,
    )
    return [case for make in makers for case in make()]
