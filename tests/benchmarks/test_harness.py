"""Interleaved timing and the record of a run. No test here asserts how long anything takes."""

from __future__ import annotations

import itertools
import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest

from benchmarks import harness


def test_rivals_take_turns_and_get_equally_many_blocks():
    calls = []
    samples = harness.interleave(
        {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")},
        seconds=0.05,
        min_blocks=5,
        max_blocks=8,
    )
    blocks = len(samples.seconds["a"])
    assert 5 <= blocks <= 8 and len(samples.seconds["b"]) == blocks
    turns = [calls[0]]
    turns += [now for before, now in itertools.pairwise(calls) if now != before]
    assert len(turns) >= blocks


def test_slow_calls_still_get_the_fewest_blocks():
    samples = harness.interleave({"a": lambda: None}, seconds=0.0, min_blocks=4)
    assert len(samples.seconds["a"]) >= 4


def test_ratio_is_taken_from_neighbouring_blocks():
    # The machine slows down by 10 half-way: medians taken apart would say anything.
    drift = np.array([1.0] * 10 + [10.0] * 10)
    samples = harness.Samples({"slow": 3e-3 * drift, "fast": 2e-3 * drift}, {"slow": 1, "fast": 1})
    ratio = samples.ratio("slow", "fast")
    assert ratio.value == pytest.approx(1.5)
    assert ratio.low == pytest.approx(1.5) and ratio.high == pytest.approx(1.5)


def test_confidence_interval_widens_with_noise():
    noise = np.random.default_rng(3).lognormal(0.0, 0.3, 50)
    samples = harness.Samples({"a": 2e-3 * noise, "b": np.full(50, 1e-3)}, {"a": 1, "b": 1})
    ratio = samples.ratio("a", "b")
    assert ratio.low < ratio.value < ratio.high
    assert ratio.low > 1.0


def test_timing_is_median_and_quartiles_in_milliseconds():
    samples = harness.Samples({"a": np.array([1, 2, 3, 4, 5]) * 1e-3}, {"a": 7})
    timing = samples.timing("a")
    assert (timing.q1_ms, timing.median_ms, timing.q3_ms) == pytest.approx((2.0, 3.0, 4.0))
    assert (timing.blocks, timing.calls_per_block) == (5, 7)
    assert timing.spread == pytest.approx(2 / 3)


def test_geometric_mean():
    assert harness.geometric_mean([1.0, 4.0]) == pytest.approx(2.0)
    assert math.isnan(harness.geometric_mean([]))


def test_record_is_strict_json_with_everything_that_identifies_a_run(tmp_path):
    record = harness.Record(
        "models", True, [{"speedup": float("inf")}], {"x": float("nan")}, harness.machine()
    )
    path = tmp_path / "new" / "record.json"
    record.write(path)
    read = json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(name))
    assert set(read) == {"name", "quick", "rows", "summary", "machine", "date", "commit"}
    assert set(read["machine"]) >= {
        "cpu",
        "cores",
        "tensorflow",
        "onednn",
        "intra_op_threads",
        "inter_op_threads",
    }
    assert read["rows"] == [{"speedup": None}] and read["summary"] == {"x": None}
    assert read["date"].endswith("+00:00")


@pytest.mark.parametrize(("setting", "expected"), [("0", "False"), ("1", "True")])
def test_machine_tells_whether_onednn_is_on(setting, expected):
    printed = subprocess.run(
        [sys.executable, "-c", "from benchmarks import harness as h; print(h.machine().onednn)"],
        env=dict(os.environ, TF_ENABLE_ONEDNN_OPTS=setting),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert printed.strip() == expected
