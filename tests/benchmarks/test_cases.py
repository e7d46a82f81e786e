"""Folders of models."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import cases


def write(directory, feeds):
    (directory / "saved_model").mkdir(parents=True)
    cases.write_case(directory, "predict", "test", feeds)


def test_case_is_read_as_it_was_written(tmp_path):
    feeds = {
        "ids": np.array([[1, 2**40]], np.int64),
        "words": np.array([b"", b"a\0b", b"long " * 30], object),
        "rate": np.array(0.5, np.float32),
    }
    write(tmp_path / "one", {"small": feeds})
    (case,) = cases.read_cases(tmp_path)
    assert (case.name, case.signature, case.sizes) == ("one", "predict", ["small"])
    read = case.feeds("small")
    assert set(read) == set(feeds)
    for name, value in feeds.items():
        assert read[name].dtype == value.dtype
        np.testing.assert_array_equal(read[name], value)
    assert case.answers("small") == {}


def test_models_come_by_name_or_in_the_order_asked_for(tmp_path):
    for name in ("b", "a"):
        write(tmp_path / name, {"large": {"x": np.ones(3)}})
    assert [case.name for case in cases.read_cases(tmp_path)] == ["a", "b"]
    assert [case.name for case in cases.read_cases(tmp_path, ["b"])] == ["b"]
    with pytest.raises(FileNotFoundError):
        cases.read_cases(tmp_path, ["c"])


def test_case_without_feeds_or_model_is_refused(tmp_path):
    write(tmp_path / "a", {})
    with pytest.raises(ValueError, match="no feeds"):
        cases.read_case(tmp_path / "a")
    (tmp_path / "a" / "saved_model").rmdir()
    with pytest.raises(FileNotFoundError, match="saved_model"):
        cases.read_case(tmp_path / "a")
