from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import tf_blade
from tests.api import fakes
from tf_blade import Config, api
from tf_blade.errors import InputError, OutputExistsError, SavedModelError, SignatureError

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_a_temporary_model_lives_as_long_as_the_object(
    two_signatures: Path, tmp_path: Path, quick: Config
):
    model = api.run(fakes.copying, two_signatures, config=quick)
    folder = model.directory
    assert folder.exists()
    model.save(tmp_path / "kept")
    del model
    gc.collect()
    assert not folder.exists()
    kept = tf_blade.load(tmp_path / "kept")
    np.testing.assert_allclose(kept(X)["sum"], X.sum(1))


def test_a_saved_model_is_not_overwritten_unless_asked(
    two_signatures: Path, tmp_path: Path, quick: Config
):
    model = api.run(fakes.copying, two_signatures, tmp_path / "out", config=quick)
    for inside in (tmp_path, tmp_path / "out", tmp_path / "out/deeper"):
        with pytest.raises(InputError):
            model.save(inside, overwrite=True)
    model.save(tmp_path / "copy")
    with pytest.raises(OutputExistsError):
        model.save(tmp_path / "copy")
    model.save(tmp_path / "copy", overwrite=True)


def test_load_gives_the_report_of_the_run_that_wrote_the_folder(
    two_signatures: Path, tmp_path: Path, quick: Config
):
    written = api.run(fakes.copying, two_signatures, tmp_path / "out", config=quick)
    assert tf_blade.load(tmp_path / "out").report.to_json() == written.report.to_json()


def test_load_takes_models_that_nobody_optimised(two_signatures: Path, tf1_model: Path):
    model = tf_blade.load(two_signatures)
    assert model.report.outcome == "unchanged"
    assert model.report.cluster_count == 0
    answers = tf_blade.load(tf1_model)(a=X[:, :2], b=X[:, :2])
    assert set(answers) == {"z"}


def test_load_refuses_what_is_no_model(tmp_path: Path):
    with pytest.raises(SavedModelError):
        tf_blade.load(tmp_path)


def test_arguments_that_do_not_fit_are_refused(two_signatures: Path, tf1_model: Path):
    model = tf_blade.load(two_signatures)
    with pytest.raises(SignatureError, match="no input 'z'"):
        model(z=X)
    with pytest.raises(SignatureError, match="needs a value for input 'x'"):
        model()
    with pytest.raises(SignatureError, match=r"input 'x': shape \[2, 2\]"):
        model(X[:, :2])
    with pytest.raises(SignatureError, match="input 'x': the value is no float32"):
        model(np.array([["a", "b", "c"]]))
    with pytest.raises(SignatureError, match=r"pass them by name \(a, b\)"):
        tf_blade.load(tf1_model)(X, X)


def test_one_of_several_meta_graphs_is_chosen_by_its_tags(tmp_path: Path, quick: Config):
    v1 = tf.compat.v1
    builder = v1.saved_model.Builder(str(tmp_path / "m"))
    for i, tags in enumerate((["serve"], ["serve", "gpu"])):
        with tf.Graph().as_default(), v1.Session() as session:
            x = v1.placeholder(tf.float32, [None], "x")
            y = tf.multiply(x, 2.0 + i, "y")
            info = v1.saved_model.build_tensor_info
            signature = v1.saved_model.build_signature_def({"x": info(x)}, {"y": info(y)}, "p")
            if i == 0:
                v1.get_variable("v", [1])
                session.run(v1.global_variables_initializer())
                builder.add_meta_graph_and_variables(session, tags, {"serving_default": signature})
            else:
                builder.add_meta_graph(tags, {"serving_default": signature})
    builder.save()
    assert tf_blade.load(tmp_path / "m")([1.0])["y"].numpy() == [2.0]
    chosen = Config(timing_seconds=0, tags=("gpu", "serve"))
    model = api.run(fakes.copying, tmp_path / "m", config=chosen)
    assert model([1.0])["y"].numpy() == [3.0]
