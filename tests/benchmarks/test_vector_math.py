"""The benchmark of vector functions on a small part of all numbers."""

from __future__ import annotations

import argparse

from benchmarks import vector_math


def test_each_function_has_its_largest_error_and_its_time():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    vector_math.add_arguments(parser)
    arguments = parser.parse_args(["--quick", "--every", "1000003", "--only", "tanh", "atan2"])
    rows, summary = vector_math.run(arguments)
    assert [row["function"] for row in rows] == ["tanh", "atan2"]
    assert all(0 < row["ulp"] <= 2 and row["numbers"] > 4000 for row in rows)
    assert summary["over_2_ulp"] == 0
    assert {"ps_tanh", "ps_atan2"} <= summary.keys()
