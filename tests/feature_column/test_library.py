"""The interpreter of lookups gives what the reference gives, and refuses what it refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.feature_column.lookups import random_case
from tf_blade import _runtime
from tf_blade.feature_column import reference
from tf_blade.feature_column.spec import (
    Bag,
    Cross,
    Dense,
    Expr,
    Lookup,
    Output,
    Part,
    Ragged,
    Sparse,
    Stream,
    Table,
)
from tf_blade.feature_column.text import encode

VALUE = Expr("value", "i64")


def run(lookup: Lookup, inputs: list[np.ndarray], **options) -> list[np.ndarray]:
    return _runtime.Lookup(encode(lookup)).run(inputs, **options)[0]


def check(lookup: Lookup, inputs: list[np.ndarray], **options) -> None:
    """Both refuse, or both give the same; a cross may be too long for the kernels only."""
    message = f"\n{encode(lookup)}\n{inputs}"
    try:
        expected = reference.evaluate(lookup, inputs)
    except reference.Refused:
        with pytest.raises(_runtime.Refused):
            run(lookup, inputs, **options)
        return
    try:
        outputs = run(lookup, inputs, **options)
    except _runtime.Refused as error:
        assert "too many crosses" in str(error), message
        return
    for output, wanted in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(output, wanted, rtol=2e-5, atol=1e-6, err_msg=message)


def table(rows: int, dim: int) -> np.ndarray:
    return np.arange(rows * dim, dtype=np.float32).reshape(rows, dim) + 1


def one_bag(stream: Stream, dtypes: tuple[str, ...], dim: int, **fields) -> Lookup:
    """A bag whose table is the last input."""
    bag = Bag(0, dim, Table((len(dtypes),)), **{"column": "age", **fields})
    output = Output((Part(0, dim, bag=0),), (dim,))
    return Lookup((*dtypes, "f32"), (stream,), (bag,), (output,))


def sparse(rank: int | None = None, **fields) -> Stream:
    return Stream(Sparse(0, (1,), 2, rank=rank, **fields), VALUE)


SPARSE = ("i64", "i64", "i64")


def i64(*values) -> np.ndarray:
    return np.array(values, np.int64)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), threads=st.sampled_from([1, 3]), repeats=st.booleans())
@example(seed=7, threads=1, repeats=True)
@example(seed=15, threads=3, repeats=True)
def test_random_lookups_give_what_the_reference_gives(seed, threads, repeats):
    lookup, inputs = random_case(seed)
    check(lookup, inputs, threads=threads, find_repeats=repeats)


@pytest.mark.parametrize("dim", [1, 3, 4, 8, 16, 31, 32, 64, 100, 300])
@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
def test_rows_of_any_length_are_added_up(dim, combiner):
    lengths = [0, 1, 2, 3000, 0, 7, 1024, 1025]
    splits = np.concatenate([[0], np.cumsum(lengths)])
    ids = np.random.default_rng(0).integers(0, 5, splits[-1])
    weight = Expr("cast", "f32", (Expr("add", "i64", (VALUE, Expr("const", "i64", scalar=1))),))
    for stream in (Stream(Ragged((0,), 1), VALUE), Stream(Ragged((0,), 1), VALUE, weight=weight)):
        for empty in (None, 2):
            lookup = one_bag(stream, ("i64", "i64"), dim, combiner=combiner, empty=empty)
            check(lookup, [ids, i64(*splits), table(5, dim) % 4])


def pairs(lengths: list[int]) -> np.ndarray:
    """Indices [n, 2] of rows of these lengths."""
    rows = np.repeat(np.arange(len(lengths)), lengths)
    columns = np.concatenate([np.arange(n) for n in lengths])
    return np.stack([rows, columns], 1).astype(np.int64)


@pytest.mark.parametrize("complete", [True, False])
def test_sparse_rows_of_any_length_are_added_up(complete):
    """Around the 1,024 elements that are looked at together, and blocks of 256 rows."""
    few = [0] * 5 + [3, 1, 0, 4] * 130 + [0] * 3
    for lengths in ([1023, 1, 2], [0, 1024, 1], [1020, 0, 0, 4, 0, 1], [1025, 0, 2], few, [2, 0]):
        indices = pairs(lengths)
        ids = np.random.default_rng(0).integers(0, 5, len(indices))
        shape = i64(len(lengths), 2000)
        check(one_bag(sparse(complete=complete), SPARSE, 8), [indices, ids, shape, table(5, 8)])


@pytest.mark.parametrize("at", [0, 1, 700, 1023, 1024, 1025, 2099])
@pytest.mark.parametrize(
    "index", [(-1, 0), (0, -1), (-(2**63), 0), (2**63 - 1, 0), (700, 0), (0, 10), (0, 0)]
)
def test_a_sparse_index_out_of_place_is_found_wherever_it_is(at, index):
    indices = pairs([3] * 700)
    ids = np.zeros(len(indices), np.int64)
    inputs = [indices, ids, i64(700, 10), table(5, 8)]
    check(one_bag(sparse(), SPARSE, 8), inputs)
    if at > 0 or index != (0, 0):
        indices[at] = index
        refused(one_bag(sparse(), SPARSE, 8), inputs, "out of order|not in order")


def test_repeated_rows_are_found_and_change_nothing():
    row = i64(3, 1, 4, 1)
    stream = Stream(Dense((0,)), VALUE)
    lookup = one_bag(stream, ("i64",), 8, combiner="mean")
    ids = np.repeat(row[None], 40, 0)
    found = _runtime.Lookup(encode(lookup))
    outputs, repeated = found.run([ids, table(5, 8)])
    assert repeated > 0
    plain, none = found.run([ids, table(5, 8)], find_repeats=False)
    assert none == 0
    np.testing.assert_array_equal(outputs[0], plain[0])
    ids[17, 2] = 0
    check(lookup, [ids, table(5, 8)])


def test_repeated_strings_are_compared_by_their_bytes():
    word = Expr("hash_fast", "i64", (Expr("value", "string"),), buckets=5)
    lookup = one_bag(Stream(Dense((0,)), word), ("string",), 4)
    for other in (b"a longer string than fits", b"another string, of that len", b""):
        strings = np.array([[b"a longer string than fits"]] * 7 + [[other]], object)
        check(lookup, [strings, table(5, 4)])


def test_nan_and_infinity_are_added_up_as_ieee_has_them():
    values = table(3, 4)
    values[0, 1], values[1, 2], values[2, 2] = np.nan, np.inf, -np.inf
    lookup = one_bag(Stream(Dense((0,)), VALUE), ("i64",), 4, combiner="mean", max_norm=2.0)
    with np.errstate(invalid="ignore"):
        for bags in (lookup, replace(lookup, bags=(replace(lookup.bags[0], max_norm=None),))):
            check(bags, [i64([0, 0], [0, 1], [1, 2], [2, 2]), values])


def test_a_quotient_by_no_weight_is_zero():
    stream = Stream(Dense((0, 1)), VALUE, weight=Expr("value", "f32", at=1))
    weights = np.array([[0, 0], [1, -1], [2, 0]], np.float32)
    for combiner in ("sum", "mean", "sqrtn"):
        lookup = one_bag(stream, ("i64", "f32"), 4, combiner=combiner)
        check(lookup, [i64([0, 1], [1, 1], [0, 1]), weights, table(2, 4)])


def test_many_bags_read_one_stream():
    inputs = [np.arange(300, dtype=np.int64)[:, None] % 7, table(7, 4)]
    bags = tuple(Bag(0, 4, Table((1,)), column=str(i)) for i in range(150))
    output = Output(tuple(Part(4 * i, 4, bag=i) for i in range(150)), (600,))
    check(Lookup(("i64", "f32"), (Stream(Dense((0,)), VALUE),), bags, (output,)), inputs)


def test_a_bag_goes_to_several_outputs():
    lookup = one_bag(Stream(Dense((0,)), VALUE), ("i64",), 4)
    outputs = (
        lookup.outputs[0],
        Output((Part(0, 4, bag=0), Part(4, 4, bag=0)), (2, 4)),
        Output((Part(0, 4, bag=0), Part(0, 4, bag=0)), (4,), add=True),
    )
    check(replace(lookup, outputs=outputs), [i64([0], [2], [2]), table(3, 4)])


def test_rows_that_end_with_the_last_element():
    lookup = one_bag(sparse(complete=False), SPARSE, 4)
    check(lookup, [i64([0, 0], [3, 1]), i64(1, 0), i64(9, 2), table(2, 4)])


# -- refusals -----------------------------------------------------------------------------


def refused(lookup: Lookup, inputs: list[np.ndarray], words: str) -> None:
    for threads in (1, 2):
        with pytest.raises(_runtime.Refused, match=words):
            run(lookup, inputs, threads=threads)


@pytest.mark.parametrize("id_", [5, -1, 2**40, -(2**63), 2**63 - 1])
def test_an_id_outside_its_table_is_refused_by_the_columns_name(id_):
    for strategy in ("mod", "div"):
        lookup = one_bag(Stream(Dense((0,)), VALUE), ("i64",), 4)
        words = "column 'age': an id is outside its table"
        refused(lookup, [i64([0], [id_]), table(5, 4)], words)
        parts = replace(lookup.bags[0], table=Table((1, 2), strategy))  # type: ignore[arg-type]
        halves = replace(lookup, inputs=("i64", "f32", "f32"), bags=(parts,))
        refused(halves, [i64([0], [id_]), table(3, 4), table(2, 4)], words)
    # Those that a filter takes out don't matter.
    keep = Expr("lt", "bool", (Expr("abs", "i64", (VALUE,)), Expr("const", "i64", scalar=5)))
    check(one_bag(Stream(Dense((0,)), VALUE, keep), ("i64",), 4), [i64([0], [id_]), table(5, 4)])


def test_an_empty_rows_id_outside_its_table_is_refused():
    lookup = one_bag(sparse(), SPARSE, 4, empty=2)
    refused(lookup, [i64([0, 0]), i64(1), i64(2, 2), table(2, 4)], "outside its table")
    check(lookup, [i64([0, 0], [1, 0]), i64(1, 1), i64(2, 2), table(2, 4)])


@pytest.mark.parametrize(
    "indices",
    [
        [[1, 0], [0, 0], [2, 0]],
        [[0, 0], [0, 0], [2, 0]],
        [[0, 1], [0, 0], [2, 0]],
        [[0, 0], [1, 0], [3, 0]],
        [[0, 0], [1, 2], [2, 0]],
        [[-1, 0], [1, 0], [2, 0]],
        [[0, 0], [2, 0], [1, 0]],
        [[0, 0], [1, -1], [2, 0]],
        [[2, 0], [2, 1], [-(2**63), 0]],
    ],
)
def test_indices_out_of_order_or_range_are_refused(indices):
    inputs = [i64(*indices), i64(0, 1, 1), i64(3, 2), table(2, 4)]
    refused(one_bag(sparse(), SPARSE, 4), inputs, "column 'age': the indices are not in order")


def test_indices_out_of_order_are_found_wherever_tasks_begin():
    rng = np.random.default_rng(0)
    rows = 20000
    indices = np.stack([np.arange(rows), np.zeros(rows, np.int64)], 1)
    lookup = one_bag(sparse(), SPARSE, 32)
    values = [np.zeros(rows, np.int64), i64(rows, 2), table(2, 32)]
    run(lookup, [indices, *values], threads=3)
    for _ in range(30):
        a, b = rng.integers(0, rows, 2)
        if a == b:
            continue
        swapped = indices.copy()
        swapped[[a, b]] = swapped[[b, a]]
        with pytest.raises(_runtime.Refused, match="not in order"):
            run(lookup, [swapped, *values], threads=3)


@pytest.mark.parametrize(
    "splits", [[1, 2, 3], [0, 2, 1, 3], [0, 1, 2], [0, 4, 3], [], [0, -5, 3], [0, 2**40, 3]]
)
def test_row_splits_that_do_not_fit_are_refused(splits):
    lookup = one_bag(Stream(Ragged((0,), 1), VALUE), ("i64", "i64"), 4)
    refused(lookup, [i64(0, 0, 0), np.array(splits, np.int64), table(1, 4)], "row splits")


def test_rows_that_are_not_as_many_are_refused():
    streams = (Stream(Dense((0,)), VALUE), Stream(Dense((1,)), VALUE))
    bags = (Bag(0, 4, Table((2,)), column="a"), Bag(1, 4, Table((2,)), column="b"))
    output = Output((Part(0, 4, bag=0), Part(4, 4, bag=1)), (8,))
    lookup = Lookup(("i64", "i64", "f32"), streams, bags, (output,))
    inputs = [i64([0], [0]), i64([0], [0], [0]), table(1, 4)]
    refused(lookup, inputs, "column 'b': its rows are not as many")


def test_shapes_and_dtypes_that_do_not_fit_are_refused():
    dense = one_bag(Stream(Dense((0,), dims=(2,)), VALUE), ("i64",), 4)
    refused(dense, [i64([0]), table(1, 4)], "shapes")
    refused(dense, [i64(0), table(1, 4)], "rank")
    refused(dense, [i64([0, 0]), table(1, 3)], "the table's rows have another width")
    refused(dense, [np.zeros((1, 2), np.int32), table(1, 4)], "another dtype")
    refused(dense, [np.zeros((0, 2), np.int64), table(1, 4)], "there are no rows")
    of_rank = one_bag(sparse(rank=3), SPARSE, 4)
    refused(of_rank, [i64([0, 0]), i64(0), i64(1, 1), table(1, 4)], "rank")
    refused(of_rank, [i64([0, 0]), i64(0, 0), i64(1, 1), table(1, 4)], "shapes|rank")


def test_a_division_by_zero_is_refused():
    ids = Expr("floor_mod", "i64", (VALUE, Expr("value", "i64", at=1)))
    lookup = one_bag(Stream(Dense((0, 1)), ids), ("i64", "i64"), 4)
    refused(lookup, [i64([4]), i64([0]), table(3, 4)], "an expression has no value")
    check(lookup, [i64([4]), i64([3]), table(3, 4)])


def test_what_is_required_of_any_element_and_does_not_hold_is_refused():
    positive = Expr("ge", "bool", (VALUE, Expr("const", "i64")))
    kept = Stream(Dense((0,)), Expr("require", "i64", (positive, VALUE)), keep=positive)
    lookup = one_bag(kept, ("i64",), 4)
    check(lookup, [i64([4, 0]), table(5, 4)])
    refused(lookup, [i64([4, -1]), table(5, 4)], "an expression has no value")


def test_constants_go_by_the_place_in_a_row():
    constants = Expr("constants", "i64", constants=(0, 10, 20))
    lookup = one_bag(
        Stream(Dense((0,), dims=(3,)), Expr("add", "i64", (VALUE, constants))), ("i64",), 4
    )
    check(lookup, [np.arange(600).reshape(200, 3) % 10, table(30, 4)], threads=3)
    check(lookup, [np.tile(i64(3, 1, 2), (50, 1)), table(30, 4)])


def test_a_row_with_very_many_crosses_is_refused():
    part = Stream(Dense((0,)), VALUE)
    streams = (part, part, Stream(Cross((0, 1), 3, 7), VALUE))
    bag = Bag(2, 4, Table((1,)), column="crossed")
    lookup = Lookup(("i64", "f32"), streams, (bag,), (Output((Part(0, 4, bag=0),), (4,)),))
    check(lookup, [np.arange(90).reshape(3, 30), table(3, 4)])
    refused(lookup, [np.arange(120).reshape(3, 40), table(3, 4)], "column 'crossed': a row has too")


# -- the text -----------------------------------------------------------------------------


def test_text_cut_or_changed_anywhere_is_refused_or_another_lookup():
    rng = np.random.default_rng(0)
    for seed in range(4):
        words = encode(random_case(seed)[0]).split()
        for _ in range(150):
            at = rng.integers(len(words))
            with pytest.raises(_runtime.Refused, match="the lookup can't be read"):
                _runtime.Lookup(" ".join(words[:at]))
            other = str(rng.choice(["-1", "0", "1", "99999999999999999999", "x", "i64", "xff"]))
            for changed in ([], [other]):
                try:
                    _runtime.Lookup(" ".join([*words[:at], *changed, *words[at + 1 :]]))
                except _runtime.Refused as error:
                    assert "the lookup can't be read" in str(error)
