import numpy as np
import pytest
import tensorflow as tf

from tf_blade.compare import compare, compare_answers

F = np.float32


def check(a, b, rtol=1e-4, atol=1e-6):
    return compare("y", "batch 2", np.asarray(a), np.asarray(b), rtol, atol)


def test_rounding_noise_on_a_value_that_cancelled_passes():
    a = np.array([1000.0, 1e-7], F)
    assert check(a, a + np.array([0, 1e-4], F)).ok


def test_an_error_beyond_the_outputs_scale_names_the_worst_element():
    a = np.arange(12, dtype=F).reshape(3, 4)
    b = a.copy()
    b[2, 1] += 0.5
    b[0, 0] += 0.01
    found = check(a, b)
    assert not found.ok
    assert found.worst_index == [2, 1]
    assert found.first_index == [0, 0]
    assert (found.worst_original, found.worst_optimized) == ("9", "9.5")
    assert found.max_abs_error == pytest.approx(0.5)
    assert "output 'y' (batch 2)" in found.describe()


def test_one_large_element_does_not_hide_an_error_in_the_others():
    a = np.ones(10_000, F)
    a[0] = 1e3
    b = a.copy()
    b[1] += 0.01
    assert not check(a, b).ok


@pytest.mark.parametrize(
    ("a", "b", "ok"),
    [
        ([np.nan, 1], [np.nan, 1], True),
        ([np.nan, 1], [0, 1], False),
        ([0, 1], [np.nan, 1], False),
        ([np.inf, 1], [np.inf, 1], True),
        ([np.inf, 1], [-np.inf, 1], False),
        ([np.inf, 1], [1e38, 1], False),
        ([-0.0, 1], [0.0, 1], True),
        ([0, 0], [0, 0], True),
        ([0, 0], [0, 1e-3], False),
        ([3e38, 3e38], [3e38, 3e38], True),
        ([3e38, 3e38], [3e38, 3.1e38], False),
    ],
)
def test_nan_equals_nan_and_infinities_must_agree(a, b, ok):
    found = check(np.array(a, F), np.array(b, F))
    assert found.ok is ok
    assert (found.first_index is None) is ok


def test_integers_must_be_equal_even_where_floats_would_not_tell():
    a = np.array([2**60, 5], np.int64)
    found = check(a, a + np.array([1, 0]))
    assert not found.ok
    assert found.max_abs_error == 1
    assert found.worst_index == found.first_index == [0]


def test_int64_extremes_do_not_overflow():
    found = check(np.array([-(2**63)]), np.array([2**63 - 1]))
    assert found.max_abs_error == pytest.approx(2.0**64)


def test_strings_must_be_equal():
    a = np.array([b"on", b"red"], object)
    assert check(a, a.copy()).ok
    found = check(a, np.array([b"on", b"rod"], object))
    assert not found.ok
    assert found.worst_index == [1]
    assert (found.worst_original, found.worst_optimized) == ("'red'", "'rod'")


def test_shape_and_dtype_differences_fail_with_a_message():
    assert "float32[2]" in check(np.zeros(2, F), np.zeros(3, F)).message
    assert not check(np.zeros(2, F), np.zeros(2, np.float64)).ok


def test_empty_outputs_pass():
    assert check(np.zeros((0, 3), F), np.zeros((0, 3), F)).ok


@pytest.mark.parametrize("dtype", [np.float16, tf.bfloat16.as_numpy_dtype])
def test_sixteen_bit_floats_may_differ_by_their_last_bits(dtype):
    a = np.full(4, 1.0).astype(dtype)
    eps = 2.0**-7 if dtype != np.float16 else 2.0**-10
    assert check(a, (np.full(4, 1.0) + 2 * eps).astype(dtype)).ok
    assert not check(a, (np.full(4, 1.0) + 16 * eps).astype(dtype)).ok


def test_missing_and_extra_outputs_fail():
    zero = np.zeros(1, F)
    found = compare_answers("f", {"a": zero, "b": zero}, {"a": zero, "c": zero}, 0.1, 0.1)
    assert {c.output: c.ok for c in found} == {"a": True, "b": False, "c": False}


def test_a_scalar_output_is_compared():
    found = check(F(1.0), F(2.0))
    assert not found.ok
    assert found.worst_index == []
