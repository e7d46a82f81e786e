"""What is written: everything that was there, no more than was there, under the same names."""

import os
import shutil

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from tests.saved_model.answers import ask
from tests.saved_model.conftest import apply_passes
from tests.saved_model.zoo import BUILDERS
from tf_blade import passes, saved_model
from tf_blade.errors import SavedModelError, SignatureError


def proto_of(path) -> saved_model_pb2.SavedModel:
    return saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())


def files_of(path) -> dict[str, bytes]:
    return {
        os.path.relpath(os.path.join(folder, name), path): open(
            os.path.join(folder, name), "rb"
        ).read()
        for folder, _, names in os.walk(path)
        for name in names
    }


@pytest.mark.parametrize("name", BUILDERS)
def test_all_but_graphs_is_carried_and_a_second_run_changes_nothing(models, tmp_path, name):
    once, twice = tmp_path / "once", tmp_path / "twice"
    apply_passes(models[name].path, once)
    before, after = files_of(models[name].path), files_of(once)
    assert before.keys() == after.keys()
    assert [f for f in before if before[f] != after[f]] == ["saved_model.pb"]
    for old, new in zip(
        proto_of(models[name].path).meta_graphs, proto_of(once).meta_graphs, strict=True
    ):
        for field in (
            "meta_info_def",
            "saver_def",
            "collection_def",
            "signature_def",
            "asset_file_def",
            "object_graph_def",
        ):
            assert getattr(old, field) == getattr(new, field), field
    apply_passes(once, twice)
    assert files_of(twice) == after


def test_an_unedited_model_is_written_as_it_was_read(models, tmp_path):
    for name, built in models.items():
        saved_model.read(built.path).write(str(tmp_path / name))
        assert proto_of(tmp_path / name) == proto_of(built.path), name


def test_variables_and_assets_are_not_copied_and_do_not_need_the_original(models, tmp_path):
    source = tmp_path / "source"
    shutil.copytree(models["module_with_tables"].path, source)
    real = tmp_path / "elsewhere.txt"
    (asset,) = (source / "assets").iterdir()
    asset.rename(real)
    asset.symlink_to(real)  # as download caches do
    saved_model.read(source).write(str(tmp_path / "target"))
    data = "variables/variables.data-00000-of-00001"
    assert os.path.samefile(source / data, tmp_path / "target" / data)
    written = tmp_path / "target" / "assets" / asset.name
    assert not written.is_symlink()
    text = real.read_text()
    shutil.rmtree(source)
    real.unlink()
    assert written.read_text() == text


def test_a_vocabulary_stays_a_file(models, tmp_path):
    for name, word in (("module_with_tables", b"pear"), ("v1_tables_and_assets", b"three")):
        apply_passes(models[name].path, tmp_path / name)
        assert word not in (tmp_path / name / "saved_model.pb").read_bytes()


def test_large_weights_stay_variables(models, tmp_path):
    apply_passes(models["keras3_export"].path, tmp_path / "small", passes.FreezeBudget(0))
    functions = proto_of(tmp_path / "small").meta_graphs[0].graph_def.library.function
    assert any(node.op == "ReadVariableOp" for f in functions for node in f.node_def)
    apply_passes(models["keras3_export"].path, tmp_path / "frozen")
    reading = [
        function.signature.name
        for function in proto_of(tmp_path / "frozen").meta_graphs[0].graph_def.library.function
        if any(node.op == "ReadVariableOp" for node in function.node_def)
    ]
    assert all("traced_save" in name or "traced_restore" in name for name in reading)


def test_functions_that_nothing_calls_any_more_go(models, tmp_path):
    apply_passes(models["tf_keras_save"].path, tmp_path / "out")
    proto = proto_of(tmp_path / "out").meta_graphs[0]
    names = {f.signature.name for f in proto.graph_def.library.function}
    assert set(proto.object_graph_def.concrete_functions) <= names
    before = proto_of(models["shared_functions"].path).meta_graphs[0].graph_def.library.function
    apply_passes(models["shared_functions"].path, tmp_path / "shared")
    after = proto_of(tmp_path / "shared").meta_graphs[0].graph_def.library.function
    gone = {f.signature.name for f in before} - {f.signature.name for f in after}
    assert len(gone) == 1 and "_body" in gone.pop(), "it was inlined into both callers"


def test_keras_loads_an_optimised_model(models, tmp_path):
    import tf_keras

    built = models["tf_keras_save"]
    apply_passes(built.path, tmp_path / "out")
    model = tf_keras.models.load_model(str(tmp_path / "out"))
    steps = built.questions[0][2]["steps"]
    expected = built.answers["v2"][0]["scores"]
    np.testing.assert_allclose(model.predict(steps, verbose=0), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["module_with_tables", "control_flow_v2", "written_elsewhere"])
def test_an_optimised_model_can_be_loaded_and_saved_by_tensorflow(models, tmp_path, name):
    built = models[name]
    apply_passes(built.path, tmp_path / "out")
    loaded = tf.saved_model.load(str(tmp_path / "out"))
    tf.saved_model.save(loaded, str(tmp_path / "again"), signatures=dict(loaded.signatures))
    shutil.rmtree(tmp_path / "out")
    found = ask(str(tmp_path / "again"), "v2", built.questions)
    for expected, answer in zip(built.answers["v2"], found, strict=True):
        for key, value in expected.items():
            np.testing.assert_allclose(answer[key], value, rtol=1e-5, atol=1e-6)


def test_writing_into_a_folder_with_files_is_refused(models, tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(SavedModelError, match="not empty"):
        saved_model.read(models["keras3_export"].path).write(str(tmp_path))
    assert os.listdir(tmp_path) == ["file"]


def test_the_result_may_lie_within_the_original(models, tmp_path):
    source = tmp_path / "source"
    shutil.copytree(models["keras3_export"].path, source)
    before = files_of(source)
    saved_model.read(source).write(str(source / "optimised"))
    assert files_of(source / "optimised").keys() == before.keys()


def test_an_unknown_signature_is_named_with_those_there_are(models):
    with pytest.raises(SignatureError, match=r"'nope' \(has: first, second\)"):
        saved_model.read(models["shared_functions"].path).regions(["nope"])


def test_the_session_loaders_names_stay(models, tmp_path):
    """Collections name loops, variables and initialisers of the graph; import_meta_graph asks for
    all of them."""
    for name in ("v1_control_flow", "v1_tables_and_assets", "v1_reference_variables"):
        apply_passes(models[name].path, tmp_path / name)
        with tf.Graph().as_default():
            tf.compat.v1.train.import_meta_graph(proto_of(tmp_path / name).meta_graphs[0])


def test_summaries_outside_the_signature_can_still_be_fetched(models, tmp_path):
    name = "v1_tables_and_assets"
    apply_passes(models[name].path, tmp_path / name)
    v1 = tf.compat.v1
    (_, _, feeds), *_ = models[name].questions
    found = []
    for path in (models[name].path, tmp_path / name):
        with tf.Graph().as_default(), v1.Session() as session:
            v1.saved_model.load(session, ["serve"], str(path))
            found.append(session.run("hidden_values:0", {"words:0": feeds["words"]}))
    assert found[0] == found[1] and found[0]
