"""Every kind of column, in every form, gives TensorFlow's answer or TensorFlow's error.

Each group of cases is one SavedModel with a signature for each case (`conformance/`), optimised as
a user would do it. Both models are fed the usual and the edges (`conformance/scenarios.py`).
Lookups are run by the library's kernels: hundreds of generated ones would take minutes to compile.
`test_random_columns.py` has generated ones, each with many kinds in it.
"""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import numpy as np
import pytest

from tests.feature_column.conformance import models
from tests.feature_column.conformance.scenarios import SCENARIOS, feeds

# Kinds of which something is left to TensorFlow, as "group/signature".
NOT_FUSED = frozenset(
    # tf_keras saves the path of the file, not the file: what is in it is not the model's to say.
    """
    dense_features/dense_features_file_oov_one_mean
    dense_features/dense_features_file_oov_sparse_mean
    """.split()
    # Lengths of sequences come from indices that SparseReshape has renumbered.
    + """
    dense_features/dense_features_sequence_hash dense_features/dense_features_sequence_nested
    dense_features/dense_features_sequence_identity
    dense_features/dense_features_sequence_words_indicator
    """.split()
    # One or two ops, which are as fast in TensorFlow. Beside other columns they are fused.
    + """
    keras/keras_normalization tf_keras/tf_keras_normalization
    tf_keras/tf_keras_embedding tf_keras/tf_keras_embedding_list
    lookups/lookup_vector lookups/lookup_list
    """.split()
    # Row numbers that TensorFlow computes from row splits by some thirty ops.
    + ["lookups/lookup_ragged"]
)

CASES = [(group, name) for group in models.GROUPS for name in models.group_cases(group)]

# What answers look like beyond these is rounding: sums of a few floats of about 1.
RTOL, ATOL = 2e-5, 2e-6


@functools.cache
def pair(group: str) -> models.Pair:
    folder = Path(tempfile.mkdtemp(prefix=f"tf_blade_{group}_"))
    models.write_group(group, folder / "original")
    return models.optimize(folder / "original", folder / "optimized", "library")


def assert_same(expected: models.Outcome, found: models.Outcome, about: str) -> None:
    """The same error class, or the same outputs in dtype, shape and value."""
    if isinstance(expected, type) or isinstance(found, type):
        assert expected is found, about
        return
    assert set(expected) == set(found), about
    for name, value in expected.items():
        assert found[name].dtype == value.dtype, about
        assert found[name].shape == value.shape, about
        np.testing.assert_allclose(found[name], value, RTOL, ATOL, err_msg=about)


@pytest.mark.parametrize("group, name", CASES, ids=["/".join(case) for case in CASES])
def test_optimised_column_answers_as_tensorflow_does(group, name):
    features = models.group_cases(group)[name]
    for scenario in SCENARIOS:
        if scenario.fits(features):
            expected, found = pair(group).outcomes(name, feeds(name, features, scenario))
            assert_same(expected, found, f"{name}: {scenario.name}")


def test_which_kinds_are_fused():
    left = {
        f"{group}/{name}"
        for group, name in CASES
        if not models.is_fused(pair(group).directory, name)
    }
    assert left == NOT_FUSED, sorted(left ^ NOT_FUSED)
