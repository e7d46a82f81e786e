"""What isn't a readable SavedModel gets one clear message."""

import os
import shutil

import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.protobuf import saved_model_pb2

from tests.saved_model.answers import ask
from tests.saved_model.conftest import apply_passes
from tf_blade import saved_model
from tf_blade.errors import SavedModelError

DATA = os.path.join("variables", "variables.data-00000-of-00001")
INDEX = os.path.join("variables", "variables.index")


@pytest.fixture
def copy(models, tmp_path):
    """A model that the test may damage."""
    path = tmp_path / "model"
    shutil.copytree(models["shared_functions"].path, path)
    return path


def message(path) -> str:
    with pytest.raises(SavedModelError) as caught:
        saved_model.read(path)
    return str(caught.value)


def cut(path, share: float) -> None:
    os.truncate(path, int(os.path.getsize(path) * share))


def edit(path, change) -> None:
    proto = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())
    change(proto)
    (path / "saved_model.pb").write_bytes(proto.SerializeToString())


def test_nothing_there(tmp_path):
    assert "does not exist" in message(tmp_path / "nowhere")


def test_a_file(tmp_path):
    (tmp_path / "file").write_text("x")
    assert "is no folder" in message(tmp_path / "file")


def test_a_folder_of_something_else(tmp_path):
    assert "has no saved_model.pb" in message(tmp_path)


def test_the_folder_above_a_version_names_the_version(copy):
    assert f"Did you mean '{copy}'" in message(copy.parent)


def test_a_truncated_proto(copy):
    cut(copy / "saved_model.pb", 0.5)
    assert "damaged or truncated" in message(copy)


def test_an_empty_proto(copy):
    cut(copy / "saved_model.pb", 0.0)
    assert "no MetaGraph" in message(copy)


def test_text_that_does_not_parse(copy):
    (copy / "saved_model.pb").unlink()
    (copy / "saved_model.pbtxt").write_text("meta_graphs { nonsense")
    assert "can't be parsed" in message(copy)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("file", [DATA, INDEX])
def test_truncated_variables(copy, file, share):
    cut(copy / file, share)
    assert "truncated" in message(copy)


@pytest.mark.parametrize("file", [DATA, INDEX])
def test_missing_variables(copy, file):
    (copy / file).unlink()
    assert "missing" in message(copy)


@pytest.mark.parametrize("name", ["shared_functions", "v1_tables_and_assets"])
def test_a_missing_variables_folder(models, tmp_path, name):
    shutil.copytree(models[name].path, tmp_path / name)
    shutil.rmtree(tmp_path / name / "variables")
    assert "is missing or empty" in message(tmp_path / name)


def test_an_unknown_op_in_a_function_names_op_node_and_function(copy):
    names = []

    def change(proto):
        function = proto.meta_graphs[0].graph_def.library.function[0]
        names.append(function.signature.name)
        function.node_def.add(name="hidden", op="OpOfSomebodyElse")

    edit(copy, change)
    text = message(copy)
    assert "'OpOfSomebodyElse'" in text and "'hidden'" in text and names[0] in text
    assert "tf.load_op_library" in text


def test_a_signature_of_a_tensor_that_is_not_there(copy):
    def change(proto):
        signature = proto.meta_graphs[0].signature_def["first"]
        signature.outputs["y"].name = "nowhere:0"

    edit(copy, change)
    assert "'first'" in (text := message(copy)) and "'nowhere:0'" in text


@pytest.mark.parametrize("where", ["the main graph", "a function"])
def test_an_input_that_is_not_there(copy, where):
    def change(proto):
        graph = proto.meta_graphs[0].graph_def
        bodies = [f for f in graph.library.function if "signature_wrapper" in f.signature.name]
        nodes = graph.node if where == "the main graph" else bodies[0].node_def
        next(n for n in nodes if n.input).input[0] = "nowhere"

    edit(copy, change)
    with pytest.raises(SavedModelError, match="'nowhere'"):
        saved_model.read(copy).regions()


def test_a_split_proto_says_how_to_export_again(copy):
    (copy / "saved_model.pb").rename(copy / "saved_model.cpb")
    assert "experimental_image_format" in message(copy)


def test_a_text_proto_is_read_and_written_as_binary(models, tmp_path):
    built = models["shared_functions"]
    source, target = tmp_path / "text", tmp_path / "binary"
    shutil.copytree(built.path, source)
    proto = saved_model_pb2.SavedModel.FromString((source / "saved_model.pb").read_bytes())
    (source / "saved_model.pb").unlink()
    (source / "saved_model.pbtxt").write_text(text_format.MessageToString(proto))
    apply_passes(source, target)
    assert not (target / "saved_model.pbtxt").exists()
    (first, *_) = ask(str(target), "v2", built.questions)
    assert tf.reduce_all(abs(first["y"] - built.answers["v2"][0]["y"]) < 1e-5)


def test_a_compressed_index_of_old_tensorflow_is_read(tmp_path):
    """Blocks that TensorFlow 1 wrote are Snappy-compressed."""
    from tf_blade.saved_model.tensor_bundle import _unsnap

    # literal "abcd", copy 8 bytes from 4 back (overlapping), literal "!"
    block = bytes([13, 3 << 2]) + b"abcd" + bytes([(8 - 4) << 2 | 1, 4, 0 << 2]) + b"!"
    assert _unsnap(block) == b"abcdabcdabcd!"
    long = b"x" * 300
    assert _unsnap(b"\xac\x02" + bytes([61 << 2]) + (299).to_bytes(2, "little") + long) == long
