"""The benchmarks' own comparison of answers."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.compare import compare


def f32(values):
    return np.array(values, np.float32)


def i64(values):
    return np.array(values, np.int64)


def i32(values):
    return np.array(values, np.int32)


def test_equal_answers_pass():
    answers = {"a": np.ones((2, 3), np.float32), "b": np.array([b"x", b""], object)}
    assert compare(answers, {name: value.copy() for name, value in answers.items()}).ok


def test_rounding_of_a_cancelled_element_passes():
    want = np.array([100.0, 0.0], np.float32)
    found = compare({"a": want}, {"a": want + np.float32(1e-3)})
    assert found.ok
    assert found.max_abs_error == pytest.approx(1e-3, rel=0.01)
    assert found.max_error < 1e-4


@pytest.mark.parametrize(
    ("want", "got", "message"),
    [
        (f32([1, 2]), f32([1, 2.001]), "1 of 2 elements differ"),
        (f32([1, 2]), f32([1, np.nan]), "1 of 2 elements differ"),
        (f32([1, np.inf]), f32([1, -np.inf]), "1 of 2 elements differ"),
        (f32([np.nan, 2]), f32([0, 2]), "1 of 2 elements differ"),
        (i64([1, 2]), i64([1, 3]), "1 of 2 elements differ"),
        (i64([1, 2]), i32([1, 2]), r"int32\[2\], not int64\[2\]"),
        (f32([1, 2]), f32([[1, 2]]), r"float32\[1, 2\], not float32\[2\]"),
        (np.array([b"a"], object), np.array([b"b"], object), "1 of 1 elements differ"),
        (np.array([True]), np.array([False]), "1 of 1 elements differ"),
    ],
)
def test_differences_are_found_and_named(want, got, message):
    found = compare({"score": want}, {"score": got})
    assert not found.ok
    assert "output 'score'" in found.message
    with pytest.raises(ValueError, match=message):
        raise ValueError(found.message)


def test_missing_output_is_a_difference():
    assert compare({"a": np.ones(1)}, {}).message == "output 'a' is missing"


def test_nan_and_infinity_in_the_same_places_are_equal():
    values = f32([np.nan, np.inf, -np.inf, 1.0])
    found = compare({"a": values}, {"a": values.copy()})
    assert found.ok and found.max_abs_error == 0.0


def test_empty_outputs_are_equal():
    assert compare({"a": np.zeros((0, 3))}, {"a": np.zeros((0, 3))}).ok
