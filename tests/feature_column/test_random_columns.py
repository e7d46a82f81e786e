"""Sets of columns under one layer give TensorFlow's answers, with generated kernels."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.feature_column.conformance import models, save
from tests.feature_column.conformance.random_sets import KINDS, TOLERANT, column_set
from tests.feature_column.conformance.scenarios import SCENARIOS, feeds
from tests.feature_column.test_conformance import assert_same


@settings(
    max_examples=3,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(st.lists(st.sampled_from(sorted(KINDS)), min_size=2, max_size=8))
def test_random_columns_answer_as_tensorflow_does(kinds):
    check(kinds)


def test_all_kinds_in_one_layer_answer_as_tensorflow_does():
    check(sorted(TOLERANT))


def check(kinds):
    case = column_set(kinds)
    with tempfile.TemporaryDirectory(prefix="tf_blade_columns_") as folder:
        original = Path(folder) / "original"
        save.save_graph([("input_layer", case)], original)
        pair = models.optimize(original, Path(folder) / "optimized", "codegen")
        for scenario in SCENARIOS:
            if scenario.fits(case.features):
                expected, found = pair.outcomes(
                    case.name, feeds(case.name, case.features, scenario)
                )
                assert_same(expected, found, f"{kinds}: {scenario.name}")
