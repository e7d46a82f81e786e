"""Every kind of model answers the same after it was optimised, in a fresh process."""

from __future__ import annotations

import numpy as np
import pytest

from tests.saved_model.zoo import BUILDERS


@pytest.mark.parametrize("loader", ["v2", "v1"])
@pytest.mark.parametrize("name", BUILDERS)
def test_answers_stay_the_same(models, optimised, name, loader):
    expected, found = models[name].answers[loader], optimised[name][loader]
    assert not isinstance(found, str), found
    assert len(found) == len(expected)
    for before, after in zip(expected, found, strict=True):
        assert before.keys() == after.keys()
        for key, value in before.items():
            assert after[key].dtype == value.dtype
            np.testing.assert_allclose(after[key], value, rtol=1e-5, atol=1e-6, err_msg=key)
