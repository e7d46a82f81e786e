"""Every test begins and ends with the compiler off; one cache for all of them."""

from __future__ import annotations

import pytest

import tf_blade


@pytest.fixture(scope="session")
def config(tmp_path_factory) -> tf_blade.Config:
    return tf_blade.Config(cache_dir=str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(autouse=True)
def off():
    tf_blade.disable()
    yield
    tf_blade.disable()
