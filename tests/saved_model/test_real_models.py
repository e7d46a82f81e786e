"""The passes leave the answers of real models as they were. Needs ../shared/models."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

from tests.saved_model.answers import ask_in_fresh_process
from tests.saved_model.conftest import apply_passes

MODELS = Path(__file__).parents[3] / "shared" / "models"
NAMES = sorted(p.parent.name for p in MODELS.glob("*/model.json"))


def tensors(folder: Path) -> dict[str, np.ndarray]:
    return {
        name.removesuffix(".pb"): tf.make_ndarray(
            tensor_pb2.TensorProto.FromString((folder / name).read_bytes())
        )
        for name in sorted(os.listdir(folder))
    }


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    root = tmp_path_factory.mktemp("real")
    jobs = []
    for name in NAMES:
        apply_passes(MODELS / name / "saved_model", root / name)
        signature = json.loads((MODELS / name / "model.json").read_text())["signature"]
        question = (["serve"], signature, tensors(MODELS / name / "feeds" / "small"))
        jobs.append((str(root / name), "v2", [question]))
    return dict(zip(NAMES, ask_in_fresh_process(jobs, root), strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_answers_stay_the_same(found, name):
    answers = found[name]
    assert not isinstance(answers, str), answers
    for key, expected in tensors(MODELS / name / "answers" / "small").items():
        value = answers[0][key]
        assert value.shape == expected.shape and value.dtype == expected.dtype
        if expected.dtype.kind == "O":
            np.testing.assert_array_equal(value, expected)
        else:
            np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5)
