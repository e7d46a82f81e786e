from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tf_blade.errors import InputError, SignatureError
from tf_blade.inputs import likely_shapes, read_inputs, with_other_batches
from tf_blade.saved_model import Signature, SignatureTensor

PREDICT = Signature(
    "predict",
    {
        "age": SignatureTensor("age", tf.float32, (None,), ("age:0",)),
        "education": SignatureTensor("education", tf.string, (None,), ("education:0",)),
        "id": SignatureTensor("id", tf.int64, (None, 2), ("id:0",)),
    },
    {},
    "predict",
)
OTHER = Signature("other", {"x": SignatureTensor("x", tf.bfloat16, (2,), ("x:0",))}, {}, "predict")
SIGNATURES = {"other": OTHER, "predict": PREDICT}
GOOD = {
    "age": np.array([1, 2], np.float32),
    "education": np.array(["BA", "MSc"]),
    "id": np.array([[2**40, 1], [2, 3]]),
}


def test_a_dict_goes_to_the_signature_with_its_names():
    found = read_inputs(GOOD, SIGNATURES)
    assert list(found) == ["predict"]
    (feeds,) = found["predict"]
    assert feeds.label == "inputs"
    assert feeds.values["education"].tolist() == [b"BA", b"MSc"]
    assert feeds.values["id"][0, 0] == 2**40


def test_lists_take_the_signatures_dtypes():
    lists = {"age": [30, 41], "education": ["BA", b"MSc"], "id": [[1, 2], [3, 4]]}
    (feeds,) = read_inputs(lists, SIGNATURES)["predict"]
    assert feeds.values["age"].dtype == np.float32
    assert feeds.values["id"].dtype == np.int64
    (feeds,) = read_inputs({"x": [1.5, 2]}, SIGNATURES)["other"]
    assert feeds.values["x"].dtype == tf.bfloat16.as_numpy_dtype


def test_a_list_of_dicts_and_feeds_by_signature_are_taken():
    assert [f.label for f in read_inputs([GOOD, GOOD], SIGNATURES)["predict"]] == [
        "inputs[0]",
        "inputs[1]",
    ]
    found = read_inputs({"predict": [GOOD], "other": {"x": [1, 2]}}, SIGNATURES)
    assert sorted(found) == ["other", "predict"]


def test_tensors_are_taken():
    feeds = dict(GOOD, age=tf.constant([1.0, 2.0]))
    assert read_inputs(feeds, SIGNATURES)["predict"][0].values["age"].tolist() == [1, 2]


def changed(**changes: object) -> dict[str, object]:
    return {k: v for k, v in (GOOD | changes).items() if v is not None}


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        (changed(age=None, ages=[1, 2]), r"'predict' has no input 'ages'.*Did you mean 'age'"),
        (changed(age=None), "no value for input 'age'.*needs: age, education, id"),
        (changed(age=np.zeros(2)), r"input 'age': dtype float64.*float32.*\.astype\('float32'\)"),
        (changed(id=np.zeros((2, 2), np.int32)), "input 'id': dtype int32.*int64"),
        (changed(age=["a", "b"]), "input 'age'"),
        (changed(education=[1, 2]), "input 'education'.*wants string"),
        (changed(age=[[1.0]]), r"input 'age': shape \[1, 1\] does not fit.*float32\[\?\]"),
        (changed(id=[[1, 2, 3]]), r"shape \[1, 3\] does not fit.*int64\[\?,2\]"),
        (changed(id=[[1, 2], [3]]), "input 'id': the value is not a rectangular array"),
        ({"nothing": 1}, "no input 'nothing'"),
        ({}, "no value for input"),
        ({"unknown": GOOD}, "name the signature 'unknown'"),
    ],
)
def test_feeds_that_do_not_fit_are_refused_by_name(feeds: dict, message: str):
    with pytest.raises(SignatureError, match=message):
        read_inputs(feeds, {"predict": PREDICT})


def test_out_of_range_python_integers_are_not_wrapped():
    small = Signature("s", {"x": SignatureTensor("x", tf.int8, (1,), ("x:0",))}, {}, "predict")
    with pytest.raises(SignatureError, match="outside the range of int8"):
        read_inputs({"x": [300]}, {"s": small})


@pytest.mark.parametrize("inputs", [3, [], [1, 2], object()])
def test_other_kinds_of_inputs_are_refused(inputs: object):
    with pytest.raises(InputError, match="it must be a dict"):
        read_inputs(inputs, SIGNATURES)


def test_an_npz_file_is_read(tmp_path: Path):
    file = tmp_path / "feeds.npz"
    education = GOOD["education"].astype("S")
    np.savez(file, age=GOOD["age"], id=GOOD["id"], education=education)
    (feeds,) = read_inputs(str(file), SIGNATURES)["predict"]
    assert feeds.values["education"].tolist() == [b"BA", b"MSc"]


def write_file(path: Path, kind: str) -> Path:
    if kind == "text":
        path.write_text("not an archive")
    elif kind == "pickle":
        np.savez(path, education=np.array([b"a"], object))
        path = path.with_suffix(".npz") if not path.exists() else path
    elif kind == "one array":
        np.save(path, np.zeros(2))
        path = Path(f"{path}.npy") if not path.exists() else path
    elif kind == "folder":
        path.mkdir()
    elif kind == "bad proto":
        path.mkdir()
        (path / "age.pb").write_bytes(b"\xff\xff\xff")
    return path


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("absent", "does not exist"),
        ("text", "can't read"),
        ("pickle", r"astype\('S'\)"),
        ("one array", "np.savez"),
        ("folder", "no TensorProto files"),
        ("bad proto", "not a serialized TensorProto"),
    ],
)
def test_files_of_other_kinds_are_refused(tmp_path: Path, kind: str, message: str):
    path = write_file(tmp_path / "feeds.npz", kind)
    with pytest.raises(InputError, match=message):
        read_inputs(path, SIGNATURES)


def write_protos(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name, value in GOOD.items():
        proto = tf.make_tensor_proto(value.astype(object) if value.dtype.kind == "U" else value)
        (folder / f"{name}.pb").write_bytes(proto.SerializeToString())


def test_a_folder_of_tensor_protos_is_one_set_and_a_folder_of_folders_several(tmp_path: Path):
    write_protos(tmp_path / "feeds/small")
    write_protos(tmp_path / "feeds/large")
    one = read_inputs(tmp_path / "feeds/small", SIGNATURES)["predict"]
    assert one[0].values["education"].tolist() == [b"BA", b"MSc"]
    both = read_inputs(tmp_path / "feeds", SIGNATURES)["predict"]
    assert [f.label for f in both] == ["large", "small"]


def test_given_feeds_are_also_tried_as_one_row_and_an_odd_batch_with_equal_rows():
    sets = with_other_batches(read_inputs(GOOD, SIGNATURES)["predict"], PREDICT)
    assert [f.label for f in sets] == ["inputs", "inputs, 1 row", "inputs, 7 rows"]
    assert sets[2].values["age"].tolist() == [1, 1, 2, 2, 1, 1, 2]
    assert sets[2].values["id"].shape == (7, 2)


def test_feeds_without_a_common_batch_stay_as_they_are():
    uneven = {"age": [1.0], "education": ["a", "b"], "id": np.zeros((3, 2), np.int64)}
    assert len(with_other_batches(read_inputs(uneven, SIGNATURES)["predict"], PREDICT)) == 1
    assert len(with_other_batches(read_inputs({"x": [1, 2]}, SIGNATURES)["other"], OTHER)) == 1


def test_sizes_that_all_feeds_have_are_likely():
    more = {"age": np.zeros(3, np.float32), "education": np.array(["BA"]), "id": np.zeros((3, 2))}
    feeds = read_inputs([GOOD, {**more, "id": np.zeros((3, 2), np.int64)}], {"predict": PREDICT})
    shapes = {"age": (None,), "education": (None,), "id": (None, 2)}
    assert likely_shapes(feeds) == {"predict": shapes}
    one = likely_shapes({"predict": feeds["predict"][:1]})
    assert one["predict"] == {"age": (2,), "education": (2,), "id": (2, 2)}
