"""The op library, loaded; counters at zero; helpers to call the op."""

from __future__ import annotations

import itertools
from types import ModuleType

import pytest

from tf_blade import library


@pytest.fixture(scope="session")
def ops() -> ModuleType:
    return library.load_ops()


@pytest.fixture
def cluster(ops) -> str:
    """A cluster's name that no other test uses, so that its counters are this test's."""
    return f"cluster_{next(_numbers)}"


_numbers = itertools.count()


@pytest.fixture(autouse=True)
def counters_at_zero(ops):
    library.reset_counters()
