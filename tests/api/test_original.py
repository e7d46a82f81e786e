"""What is known of the original after its proto is gone."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from tests.api import fakes
from tf_blade import Config, api
from tf_blade.errors import SignatureError
from tf_blade.original import Original
from tf_blade.saved_model import MetaGraph


def test_a_tf1_model_prefers_a_session(tf1_model: Path, two_signatures: Path):
    assert Original.read(tf1_model, None, None).prefers_session
    known = Original.read(two_signatures, None, None)
    assert known.has_objects and not known.prefers_session


def test_only_the_signatures_named_are_looked_at(dense_and_sparse: Path):
    known = Original.read(dense_and_sparse, None, ["sparse"])
    assert list(known.signatures) == list(known.features) == list(known.no_session) == ["sparse"]
    assert known.no_session["sparse"] == "output 'y' is sparse or composite"
    with pytest.raises(SignatureError):
        Original.read(dense_and_sparse, None, ["absent"])


def test_state_and_features_are_found(stateful: Path, example_model: Path):
    known = Original.read(stateful, None, None)
    assert known.stateful and not any(known.features.values())
    known = Original.read(example_model, None, None)
    assert not known.stateful and any(known.features.values())


def test_the_proto_is_let_go_before_the_driver_runs(tf1_model: Path):
    def driver(source_dir, staging_dir, config, signatures, progress, **_):
        gc.collect()
        assert not any(isinstance(found, MetaGraph) for found in gc.get_objects())
        return fakes.copying(source_dir, staging_dir, config, signatures, progress)

    api.run(driver, tf1_model, config=Config(timing_seconds=0, keep_slower=True))
