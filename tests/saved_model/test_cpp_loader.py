"""The C++ loader (through TensorFlow's C API) takes optimised models."""

import ctypes
import glob
import os

import pytest
import tensorflow as tf

from tests.saved_model.conftest import apply_passes


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    folder = os.path.dirname(tf.__file__)
    (path, *_) = glob.glob(os.path.join(folder, "libtensorflow_cc.so.*"))
    c = ctypes.CDLL(path)
    for name in ("TF_NewStatus", "TF_NewGraph", "TF_NewSessionOptions"):
        getattr(c, name).restype = ctypes.c_void_p
    c.TF_LoadSessionFromSavedModel.restype = ctypes.c_void_p
    c.TF_Message.restype = ctypes.c_char_p
    return c


def load(c: ctypes.CDLL, path: str, tags: list[str]) -> str:
    """Loads a SavedModel, restores it and runs its init op. Returns the error, "" if none."""
    status = ctypes.c_void_p(c.TF_NewStatus())
    graph = ctypes.c_void_p(c.TF_NewGraph())
    options = ctypes.c_void_p(c.TF_NewSessionOptions())
    names = (ctypes.c_char_p * len(tags))(*[tag.encode() for tag in tags])
    session = c.TF_LoadSessionFromSavedModel(
        options, None, path.encode(), names, len(tags), graph, None, status
    )
    error = "" if c.TF_GetCode(status) == 0 else c.TF_Message(status).decode()
    if session:
        c.TF_CloseSession(ctypes.c_void_p(session), status)
        c.TF_DeleteSession(ctypes.c_void_p(session), status)
    c.TF_DeleteSessionOptions(options)
    c.TF_DeleteGraph(graph)
    c.TF_DeleteStatus(status)
    return error


def test_optimised_models_load(library, models, tmp_path):
    for name, built in models.items():
        apply_passes(built.path, tmp_path / name)
        for tags in {tuple(question[0]) for question in built.questions}:
            assert load(library, str(tmp_path / name), list(tags)) == "", name


def test_an_error_would_be_seen(library, tmp_path):
    assert "SavedModel" in load(library, str(tmp_path), ["serve"])
