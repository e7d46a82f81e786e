"""Loading the op library, and what it says when that can't be done."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import tensorflow as tf

from tf_blade import library
from tf_blade.errors import RuntimeLibraryError


@pytest.fixture
def not_loaded(monkeypatch, tmp_path):
    """As in a new process, with the library's folder at tmp_path."""
    monkeypatch.setattr(library, "_module", None)
    monkeypatch.setattr(library, "_LIBRARY", tmp_path / "libtf_blade_ops.so")
    monkeypatch.setattr(library, "_BUILD_INFO", tmp_path / "build_info.json")
    return tmp_path


def test_loading_twice_gives_the_same_module():
    assert library.load_ops() is library.load_ops()
    assert hasattr(library.load_ops(), "blade_cluster")


def test_the_build_knows_what_it_was_built_for():
    info = library.build_info()
    assert info["tensorflow"] == tf.__version__
    assert "GNU" in str(info["compiler"]) or "Clang" in str(info["compiler"])


def test_a_missing_library_says_how_to_build_it(not_loaded):
    with pytest.raises(RuntimeLibraryError, match="build_ext --inplace"):
        library.load_ops()


def test_another_tensorflow_is_noticed_before_the_library_is_opened(not_loaded):
    (not_loaded / "build_info.json").write_text(json.dumps({"tensorflow": "2.3.1"}))
    with pytest.raises(RuntimeLibraryError) as error:
        library.load_ops()
    assert f"built for TensorFlow 2.3.1, this is TensorFlow {tf.__version__}" in str(error.value)
    assert "build tf-blade again" in str(error.value)


def test_a_patch_release_of_tensorflow_is_accepted():
    library._check_version("2.21.0", "2.21.3")


def test_a_damaged_library_is_one_error(not_loaded):
    (not_loaded / "build_info.json").write_text(json.dumps({"tensorflow": tf.__version__}))
    (not_loaded / "libtf_blade_ops.so").write_text("not a library")
    with pytest.raises(RuntimeLibraryError, match="can't be opened"):
        library.load_ops()


def test_damaged_build_info_is_one_error(not_loaded):
    (not_loaded / "build_info.json").write_text("{")
    with pytest.raises(RuntimeLibraryError, match="damaged"):
        library.load_ops()


def test_counters_are_empty_and_tensorflow_unloaded_until_the_library_is_used():
    code = (
        "import sys; from tf_blade import library; c = library.counters(); "
        "assert c.clusters == {} and c.launches == 0 and c.fallbacks == {}; "
        "print('tensorflow' in sys.modules)"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    assert output.stdout.strip() == "False"
