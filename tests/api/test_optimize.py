"""Everything around the optimizer, with drivers that stand in for it."""

from __future__ import annotations

import dataclasses
import filecmp
import shutil
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import tensorflow as tf

from tests.api import fakes
from tf_blade import Config, Report, api, latency
from tf_blade.errors import (
    ConfigError,
    InputError,
    MismatchError,
    OutputExistsError,
    SavedModelError,
    SignatureError,
)
from tf_blade.report import REPORT_FILE, Verdict
from tf_blade.report import LatencyReport as Latency


def files(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def same_files(a: Path, b: Path, but: str = REPORT_FILE) -> bool:
    names = [f for f in files(a) if f != but]
    if names != [f for f in files(b) if f != but]:
        return False
    return filecmp.cmpfiles(a, b, names, shallow=False)[0] == names


def test_every_signature_is_checked_at_every_batch_size(
    two_signatures: Path, tmp_path: Path, quick: Config
):
    model = api.run(fakes.copying, two_signatures, tmp_path / "out", config=quick)
    assert model.report.outcome == "optimized"
    for name in ("serving_default", "lookup"):
        found = model.report.signature(name).check
        assert found.status == "passed"
        assert {o.feeds for o in found.outputs} == {"batch 1", "batch 2", "batch 7", "batch 32"}
    written = Report.from_json((tmp_path / "out" / REPORT_FILE).read_text())
    assert written.to_json() == model.report.to_json()
    assert (tmp_path / "out/assets.extra/note.txt").read_text() == "kept"
    assert written.baseline.tensorflow == tf.__version__
    assert written.peak_memory_bytes > 1 << 20
    assert written.saved_model_bytes_before == written.saved_model_bytes_after > 0
    assert str(model.report).startswith(str(two_signatures))


def test_a_wrong_model_is_refused_and_nothing_is_written(
    two_signatures: Path, tmp_path: Path, quick: Config
):
    wrong = fakes.adding_to_constants(0.125)
    with pytest.raises(MismatchError, match="signature 'serving_default', output 'y'") as caught:
        api.run(wrong, two_signatures, tmp_path / "a/out", config=quick)
    assert list(tmp_path.iterdir()) == []
    report = caught.value.report
    assert isinstance(report, Report)
    bad = report.signature("serving_default").check
    assert bad.status == "mismatch"
    assert {o.output for o in bad.mismatches} == {"y"}
    assert {o.feeds for o in bad.mismatches} == {"batch 1", "batch 2", "batch 7", "batch 32"}
    assert bad.mismatches[0].worst_index is not None
    assert "batch" in str(caught.value)
    assert "allow_mismatch" in str(caught.value)
    assert report.signature("lookup").check.status == "passed"


def test_a_wrong_model_is_written_when_that_is_allowed(
    two_signatures: Path, tmp_path: Path, quick: Config
):
    config = dataclasses.replace(quick, allow_mismatch=True)
    wrong = fakes.adding_to_constants(0.125)
    model = api.run(wrong, two_signatures, tmp_path / "out", config=config)
    assert model.report.signature("serving_default").check.status == "mismatch"
    assert any(w.startswith("MISMATCH") for w in model.report.warnings)
    assert (tmp_path / "out/saved_model.pb").exists()


def test_an_error_within_the_tolerance_passes_and_is_reported(two_signatures: Path, quick: Config):
    model = api.run(fakes.adding_to_constants(1e-6), two_signatures, config=quick)
    found = model.report.signature("serving_default").check
    assert found.status == "passed"
    assert 0 < max(o.max_abs_error for o in found.outputs) < 1e-4


def test_given_inputs_are_used_for_their_signature(two_signatures: Path, quick: Config):
    x = np.ones((4, 3), np.float32)
    model = api.run(fakes.copying, two_signatures, config=quick, inputs={"x": x})
    given = model.report.signature("serving_default").check
    assert given.inputs == "given"
    labels = list(dict.fromkeys(o.feeds for o in given.outputs))
    assert labels == ["inputs", "inputs, 1 row", "inputs, 7 rows"]
    assert model.report.signature("lookup").check.inputs == "synthesised"


def test_a_model_with_state_is_compared_call_by_call(stateful: Path, quick: Config):
    model = api.run(fakes.copying, stateful, config=quick)
    assert model.report.signature("serving_default").check.status == "passed"
    with pytest.raises(MismatchError):
        api.run(fakes.adding_to_constants(0.01), stateful, config=quick)


def test_examples_are_made_up_for_a_model_that_parses_them(example_model: Path, quick: Config):
    model = api.run(fakes.copying, example_model, config=quick)
    assert model.report.signature("serving_default").check.status == "passed"
    with pytest.raises(MismatchError):
        api.run(fakes.adding_to_constants(0.5), example_model, config=quick)


def test_random_outputs_are_told_apart_from_mismatches(random_model: Path, quick: Config):
    model = api.run(fakes.copying, random_model, config=quick)
    found = model.report.signature("serving_default").check
    assert found.status == "not possible"
    assert "noisy" in found.reason
    assert "random" in found.reason
    with pytest.raises(MismatchError, match="'plain'"):
        api.run(fakes.adding_to_constants(0.5), random_model, config=quick)


def test_a_model_that_cannot_be_checked_is_written_with_a_loud_warning(
    tmp_path: Path, quick: Config
):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "jpeg")])
    def decode(jpeg):
        return tf.map_fn(
            lambda j: tf.reduce_mean(tf.cast(tf.io.decode_jpeg(j), tf.float32)),
            jpeg,
            fn_output_signature=tf.float32,
        )

    model = api.run(fakes.copying, decode, tmp_path / "out", config=quick)
    assert model.report.signature("serving_default").check.status == "not possible"
    (warning,) = model.report.warnings
    assert warning.startswith("NOT CHECKED")
    assert "inputs=" in warning
    pixels = tf.io.encode_jpeg(tf.zeros([2, 2, 3], tf.uint8)).numpy()
    with pytest.raises(InputError, match="itself fails on inputs"):
        api.run(fakes.copying, decode, config=quick, inputs={"jpeg": [b"no"]})
    model = api.run(fakes.copying, decode, config=quick, inputs={"jpeg": [pixels]})
    assert model.report.signature("serving_default").check.status == "passed"


def test_without_clusters_the_output_is_the_input(
    two_signatures: Path, tmp_path: Path, quick: Config
):
    model = api.run(fakes.without_clusters, two_signatures, tmp_path / "out", config=quick)
    assert model.report.outcome == "unchanged"
    assert same_files(two_signatures, tmp_path / "out")
    assert model.report.signature("lookup").check.status == "unchanged"
    assert "unchanged" in str(model.report)
    # Once more: a no-op, the earlier report included.
    api.run(fakes.without_clusters, tmp_path / "out", tmp_path / "again", config=quick)
    assert same_files(tmp_path / "out", tmp_path / "again", but="")


def measured(word: Verdict, speedup: float):
    def fake(feeds: str, original, optimized, budget_seconds: float) -> Latency:
        original(), optimized()  # both can be called
        return Latency(feeds, 1.0, 1 / speedup, 0, 0, speedup, speedup, speedup, 20, word)

    return fake


def test_a_model_that_is_not_faster_is_dropped_unless_asked_for(
    two_signatures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(latency, "compare_latency", measured("slower", 0.5))
    tiny = fakes.adding_to_constants(1e-7)
    model = api.run(tiny, two_signatures, tmp_path / "out", config=Config())
    assert model.report.outcome == "unchanged"
    assert "slower" in model.report.outcome_reason
    assert model.report.signature("lookup").check.status == "passed"
    assert same_files(two_signatures, tmp_path / "out")
    model = api.run(tiny, two_signatures, tmp_path / "kept", config=Config(keep_slower=True))
    assert model.report.outcome == "optimized"
    assert not same_files(two_signatures, tmp_path / "kept")


def test_smallest_and_largest_feeds_of_each_computation_are_timed_once(
    tf1_model: Path, monkeypatch: pytest.MonkeyPatch
):
    timed = []

    def counting(feeds: str, original, optimized, budget_seconds: float) -> Latency:
        timed.append((feeds, budget_seconds))
        return measured("faster", 2.0)(feeds, original, optimized, budget_seconds)

    monkeypatch.setattr(latency, "compare_latency", counting)
    model = api.run(fakes.copying, tf1_model, config=Config(timing_seconds=3.0))
    # "same" and "serving_default" are one computation.
    assert timed == [("batch 1", 1.5), ("batch 32", 1.5)]
    for name in ("same", "serving_default"):
        assert [item.feeds for item in model.report.signature(name).latency] == [
            "batch 1",
            "batch 32",
        ]
    assert "2.00x" in model.report.outcome_reason


def test_real_timing_of_equal_models_fills_the_report(two_signatures: Path):
    config = Config(timing_seconds=0.4, keep_slower=True)
    model = api.run(fakes.copying, two_signatures, config=config)
    for name in ("serving_default", "lookup"):
        for item in model.report.signature(name).latency:
            assert item.original_ms > 0
            assert item.speedup_low <= item.speedup <= item.speedup_high


def test_checking_can_be_switched_off(two_signatures: Path):
    config = Config(check=False, timing_seconds=0)
    model = api.run(fakes.adding_to_constants(1.0), two_signatures, config=config)
    assert model.report.signature("lookup").check.status == "skipped"
    assert any("not checked" in w for w in model.report.warnings)


def test_only_the_chosen_signatures_are_given_to_the_optimizer(two_signatures: Path, quick: Config):
    model = api.run(fakes.copying, two_signatures, config=quick, signatures=["lookup"])
    assert [s.name for s in model.report.signatures] == ["lookup"]
    assert sorted(model.signatures) == ["lookup", "serving_default"]


# -- bad input ----------------------------------------------------------------------------


def damaged(two_signatures: Path, tmp_path: Path, how: str) -> Path:
    path = tmp_path / "damaged"
    shutil.copytree(two_signatures, path)
    proto = path / "saved_model.pb"
    data = proto.read_bytes()
    if how == "absent":
        shutil.rmtree(path)
    elif how == "empty folder":
        shutil.rmtree(path)
        path.mkdir()
    elif how == "a file":
        shutil.rmtree(path)
        path.write_text("x")
    elif how == "empty proto":
        proto.write_bytes(b"")
    elif how == "text":
        proto.write_text("this is no proto")
    elif how.startswith("cut to"):
        proto.write_bytes(data[: int(len(data) * float(how.split()[-1]))])
    elif how == "no variables":
        shutil.rmtree(path / "variables")
    elif how == "cut variables":
        file = path / "variables/variables.data-00000-of-00001"
        file.write_bytes(file.read_bytes()[:4])
    elif how == "unknown op":
        proto.write_bytes(data.replace(b"LookupTableFindV2", b"LookupTableLostV2"))
    return path


@pytest.mark.parametrize(
    "how",
    [
        "absent",
        "empty folder",
        "a file",
        "empty proto",
        "text",
        "cut to 0.1",
        "cut to 0.5",
        "cut to 0.95",
        "no variables",
        "cut variables",
        "unknown op",
    ],
)
def test_a_damaged_model_is_refused_and_nothing_is_written(
    two_signatures: Path, tmp_path: Path, quick: Config, how: str
):
    model = damaged(two_signatures, tmp_path, how)
    with pytest.raises(SavedModelError) as caught:
        api.run(fakes.copying, model, tmp_path / "new/out", config=quick)
    # Either the folder's name or, for an op, the node's.
    assert "damaged" in str(caught.value) or "LookupTableLostV2" in str(caught.value)
    assert caught.value.exit_code == 2
    assert not (tmp_path / "new").exists()


def test_the_version_folder_below_is_suggested(two_signatures: Path, quick: Config):
    with pytest.raises(SavedModelError, match=r"Did you mean '.*two'"):
        api.run(fakes.copying, two_signatures.parent, config=quick)


def test_a_missing_signature_is_refused(two_signatures: Path, tmp_path: Path, quick: Config):
    with pytest.raises(SignatureError, match=r"no signature 'lookap'.*Did you mean 'lookup'"):
        api.run(
            fakes.copying, two_signatures, tmp_path / "out", config=quick, signatures=["lookap"]
        )
    assert not (tmp_path / "out").exists()


def test_wrong_feeds_are_refused_before_any_work(
    two_signatures: Path, tmp_path: Path, quick: Config
):
    def never(source_dir, staging_dir, config, signatures, progress, **_) -> Report:
        raise AssertionError("the optimizer was run")

    for inputs in ({"y": [1.0]}, {"x": np.zeros((1, 3))}, {"x": [[1.0]]}, {"words": [1]}):
        with pytest.raises(SignatureError):
            api.run(never, two_signatures, tmp_path / "out", config=quick, inputs=inputs)
    assert not (tmp_path / "out").exists()


def test_unknown_tags_are_refused(two_signatures: Path, quick: Config):
    config = dataclasses.replace(quick, tags=("train",))
    with pytest.raises(ConfigError, match=r"no MetaGraph with the tags \['train'\]"):
        api.run(fakes.copying, two_signatures, config=config)


def test_an_existing_output_is_kept(two_signatures: Path, tmp_path: Path, quick: Config):
    out = tmp_path / "out"
    shutil.copytree(two_signatures, out)
    (out / "mark").write_text("mine")
    with pytest.raises(OutputExistsError):
        api.run(fakes.copying, two_signatures, out, config=quick)
    assert (out / "mark").exists()
    api.run(fakes.copying, two_signatures, out, config=quick, overwrite=True)
    assert not (out / "mark").exists()


def test_the_output_may_not_be_the_input(two_signatures: Path, quick: Config):
    for out in (two_signatures, two_signatures / "blade", two_signatures.parent):
        with pytest.raises(InputError):
            api.run(fakes.copying, two_signatures, out, config=quick, overwrite=True)
    assert (two_signatures / "saved_model.pb").exists()


def test_a_bug_in_the_optimizer_leaves_nothing(two_signatures: Path, tmp_path: Path, quick: Config):
    with pytest.raises(ZeroDivisionError):
        api.run(fakes.failing, two_signatures, tmp_path / "out", config=quick)
    assert list(tmp_path.iterdir()) == []


def test_a_config_of_another_type_is_refused(two_signatures: Path):
    with pytest.raises(ConfigError, match=r"Config\.from_toml"):
        api.run(fakes.copying, two_signatures, config=cast(Any, {"freeze": True}))
