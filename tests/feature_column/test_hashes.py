"""Hashes and texts of integers are TensorFlow's, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tf_blade import _runtime
from tf_blade.feature_column.spec import (
    Bag,
    Cross,
    Dense,
    Expr,
    Lookup,
    Output,
    Part,
    Stream,
    Table,
)
from tf_blade.feature_column.text import encode

BUCKETS = 4093  # a table of this many rows shows which one was looked up


def found(ids: Expr, dtype: str, values: np.ndarray, buckets: int = BUCKETS) -> np.ndarray:
    """The ids that a lookup computes of values [n]."""
    bag = Bag(0, 2, Table((1,)))
    output = Output((Part(0, 2, bag=0),), (2,))
    lookup = Lookup((dtype, "f32"), (Stream(Dense((0,)), ids),), (bag,), (output,))
    table = np.stack([np.arange(buckets) // 2048, np.arange(buckets) % 2048], 1)
    ((out,), _) = _runtime.Lookup(encode(lookup)).run([values, table.astype(np.float32)])
    return out[:, 0].astype(np.int64) * 2048 + out[:, 1].astype(np.int64)


def strings() -> np.ndarray:
    """Every length from 0 to 200, some longer ones; all bytes, zeros, and none of UTF-8."""
    rng = np.random.default_rng(0)
    texts = [rng.bytes(n) for n in [*range(201), 255, 256, 1000, 4096, 100_000]]
    texts += [b"\0" * n for n in range(70)] + [b"\xff\xfe", b"caf\xc3\xa9", b"a", b"-1"]
    array = np.empty(len(texts), object)
    array[:] = texts
    return array


INTEGERS = [0, 1, 9, 10, 99, 100, -1, -9, -10, 2**31 - 1, 2**31, -(2**31), 2**40, 2**63 - 1]


def integers(dtype: type) -> np.ndarray:
    limits = np.iinfo(dtype)
    picked = [i for i in INTEGERS if limits.min <= i <= limits.max] + [limits.min, limits.max]
    random = np.random.default_rng(0).integers(limits.min, limits.max, 500, dtype)
    return np.concatenate([np.array(picked, dtype), random])


def test_fast_hashes_of_strings():
    ids = Expr("hash_fast", "i64", (Expr("value", "string"),), buckets=BUCKETS)
    expected = tf.strings.to_hash_bucket_fast(strings().tolist(), BUCKETS)
    np.testing.assert_array_equal(found(ids, "string", strings()), expected)


@pytest.mark.parametrize("key", [(0, 0), (1, 2), (2**63 - 1, -(2**63)), (-1, 7)])
def test_strong_hashes_of_strings(key):
    ids = Expr("hash_strong", "i64", (Expr("value", "string"),), buckets=BUCKETS, key=key)
    expected = tf.strings.to_hash_bucket_strong(strings().tolist(), BUCKETS, key)
    np.testing.assert_array_equal(found(ids, "string", strings()), expected)


@pytest.mark.parametrize("dtype", ["i32", "i64"])
def test_fast_hashes_of_integers_as_strings(dtype):
    values = integers({"i32": np.int32, "i64": np.int64}[dtype])
    text = Expr("as_string", "string", (Expr("value", dtype),))
    ids = Expr("hash_fast", "i64", (text,), buckets=BUCKETS)
    expected = tf.strings.to_hash_bucket_fast(tf.strings.as_string(values), BUCKETS)
    np.testing.assert_array_equal(found(ids, dtype, values), expected)
    # The text itself, not only its fast hash.
    strong = Expr("hash_strong", "i64", (text,), buckets=BUCKETS, key=(3, 4))
    expected = tf.strings.to_hash_bucket_strong(tf.strings.as_string(values), BUCKETS, (3, 4))
    np.testing.assert_array_equal(found(strong, dtype, values), expected)


@pytest.mark.parametrize("buckets", [0, 1, 1000])
@pytest.mark.parametrize("key", [0xDECAFCAFFE, 0, 2**63 - 1])
def test_crosses_of_strings_and_integers(buckets, key):
    texts, numbers = strings()[:250].reshape(-1, 2), integers(np.int64)[:375].reshape(-1, 3)
    parts = (
        Stream(Dense((0,)), Expr("value", "string")),
        Stream(Dense((1,)), Expr("value", "i64")),
    )
    modulus = Expr("const", "i64", scalar=BUCKETS)
    ids = Expr("floor_mod", "i64", (Expr("value", "i64"), modulus))
    cross = Stream(Cross((0, 1), buckets, key), ids)
    bag = Bag(2, BUCKETS)
    lookup = Lookup(
        ("string", "i64"),
        (*parts, cross),
        (bag,),
        (Output((Part(0, BUCKETS, bag=0),), (BUCKETS,)),),
    )
    ((counts,), _) = _runtime.Lookup(encode(lookup)).run([texts, numbers])
    crossed = tf.raw_ops.SparseCross(
        indices=[],
        values=[],
        shapes=[],
        dense_inputs=[tf.constant(texts.tolist()), numbers],
        hashed_output=True,
        num_buckets=buckets,
        hash_key=key,
        out_type=tf.int64,
        internal_type=tf.int64,
    )
    expected = np.zeros_like(counts)
    rows = crossed.output_indices.numpy()[:, 0]
    np.add.at(expected, (rows, crossed.output_values.numpy() % BUCKETS), 1)
    np.testing.assert_array_equal(counts, expected)
