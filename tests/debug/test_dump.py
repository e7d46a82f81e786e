"""A dump holds what it takes to run each cluster alone, and says what is wrong with it."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import tf_blade
from tests.compiler.emit.programs import EXAMPLES
from tests.debug import faults
from tests.debug.conftest import FEEDS, QUICK, dumped
from tf_blade.compiler.fuse import plan
from tf_blade.compiler.ir.parser import parse
from tf_blade.compiler.lower import LOWERINGS
from tf_blade.compiler.schedule import schedule
from tf_blade.config import Config
from tf_blade.dump import layout, record
from tf_blade.dump.arrays import load_arrays, save_arrays
from tf_blade.dump.read import Dump, read_dump
from tf_blade.dump.record import MAX_CALLS

FILES = {
    layout.CLUSTER,
    layout.NODES,
    layout.LOWERED,
    layout.REWRITTEN,
    layout.FUSED,
    layout.SCHEDULED,
    layout.KERNELS,
    layout.STEPS,
    layout.SAMPLES,
}


def test_every_cluster_has_every_file(three_dump: Dump):
    assert list(three_dump.clusters) == [f"blade_cluster_{i}" for i in range(3)]
    for cluster in three_dump.clusters.values():
        assert {path.name for path in cluster.folder.iterdir()} >= FILES
        assert (cluster.original / "saved_model.pb").exists()
        assert str(parse(cluster.text(layout.LOWERED))) + "\n" == cluster.text(layout.LOWERED)


def test_the_original_is_a_saved_model_with_its_constants(three_dump: Dump):
    cluster = three_dump.clusters["blade_cluster_1"]
    assert [tensor.constant for tensor in cluster.inputs] == [False, True]
    (sample,) = [s for s in cluster.samples if s.label == "serving_default, batch 3"]
    arrays = cluster.arrays(sample)
    model = tf.saved_model.load(str(cluster.original))
    answers = model.signatures[layout.SIGNATURE](input_0=tf.constant(arrays[0]))
    product = np.maximum(arrays[0] @ arrays[1] + _bias(cluster.text(layout.LOWERED)) + 1, 0)
    np.testing.assert_allclose(answers["output_0"], product + 1, rtol=1e-5, atol=1e-5)


def _bias(lowered: str) -> np.ndarray:
    (op,) = [op for op in parse(lowered).ops if op.kind == "constant" and op.result.type.rank == 1]
    return np.asarray(op.attrs["value"])


def test_a_clusters_recorded_inputs_are_what_the_model_gives_it(
    three_dump: Dump, three_parts: Path
):
    """Nothing but arrays is in the files, and the first cluster reads the model's input."""
    labels = [f"serving_default, batch {n}" for n in (1, 3)]
    for cluster in three_dump.clusters.values():
        assert [sample.label for sample in cluster.samples] == labels
        for sample, rows in zip(cluster.samples, (1, 3), strict=True):
            with np.load(sample.file, allow_pickle=False) as arrays:
                assert all(array.shape[0] == rows for array in arrays.values())
    first, last = three_dump.clusters["blade_cluster_0"], three_dump.clusters["blade_cluster_2"]
    x = first.arrays(first.samples[1])[0]
    model = tf.saved_model.load(str(three_parts))
    answers = model.signatures["serving_default"](x=tf.constant(x))
    h = last.arrays(last.samples[1])[0]
    np.testing.assert_allclose(answers["p"], tf.nn.softmax(-h), rtol=1e-4, atol=1e-6)


def test_the_steps_are_the_ones_that_were_made(three_dump: Dump):
    steps = three_dump.clusters["blade_cluster_1"].steps
    assert [step.number for step in steps] == list(range(1, len(steps) + 1))
    assert {"dot_with_bias", "cse"} <= {step.rule for step in steps}


def test_a_dump_changes_nothing_of_what_is_generated(
    three_parts: Path, three_dump: Dump, tmp_path: Path
):
    """Stages print from what they make, so a look at them could change it."""
    from tf_blade.backends.cpu.clusters import compile_function

    for cluster in three_dump.clusters.values():
        alone = compile_function(
            cluster.function, cluster.types, cluster.name, cluster.constant_inputs
        )
        assert alone.source == cluster.text(layout.KERNELS)


def test_a_new_dump_replaces_the_clusters_of_an_old_one(copy: Path, tmp_path: Path, quick: Config):
    (copy / "note.txt").write_text("mine")
    module = tf.Module()
    module.f = tf.function(
        lambda x: {"y": tf.nn.softmax(tf.nn.relu(tf.tanh(x)))},
        [tf.TensorSpec([None, 64], name="x")],
    )
    tf.saved_model.save(module, str(tmp_path / "model"), signatures=module.f)
    dump = dumped(tmp_path / "model", copy, quick)
    assert list(dump.clusters) == ["blade_cluster_0"]
    assert not (copy / "blade_cluster_1").exists()
    assert (copy / "note.txt").read_text() == "mine"


def test_a_failing_check_leaves_a_dump_with_inputs(
    three_parts: Path, tmp_path: Path, quick: Config, monkeypatch: pytest.MonkeyPatch
):
    faults.rewrite(monkeypatch, "middle")
    with pytest.raises(tf_blade.MismatchError):
        dumped(three_parts, tmp_path / "dump", quick)
    dump = read_dump(tmp_path / "dump")
    assert all(len(cluster.samples) == 2 for cluster in dump.clusters.values())


def test_recording_is_nothing_that_the_report_tells(
    three_parts: Path, tmp_path: Path, quick: Config
):
    """The fallbacks that it runs on purpose are not counted, and all is recorded."""
    config = dataclasses.replace(quick, dump_dir=str(tmp_path / "dump"))
    report = tf_blade.optimize(three_parts, config=config).report
    assert report.warnings == [] and report.fallbacks == {}


def test_of_a_model_that_was_optimised_before_nothing_is_recorded(
    three_parts: Path, tmp_path: Path, quick: Config
):
    """Its own clusters have the names of the new ones."""
    with pytest.MonkeyPatch.context() as patch:
        for op in ("Softmax", "Neg"):
            patch.delitem(LOWERINGS, op)
        tf_blade.optimize(three_parts, tmp_path / "once", config=quick)
    config = dataclasses.replace(quick, dump_dir=str(tmp_path / "dump"))
    report = tf_blade.optimize(tmp_path / "once", config=config).report
    assert report.cluster_count
    assert any("was optimised before" in warning for warning in report.warnings)
    assert not list(tmp_path.rglob("*.npz"))


def test_a_dry_run_leaves_a_dump_without_inputs(three_parts: Path, tmp_path: Path):
    from tf_blade import api

    config = Config(dump_dir=str(tmp_path / "dump"))
    api.inspect(api.default_driver(), three_parts, config=config)
    assert all(not cluster.samples for cluster in read_dump(tmp_path / "dump").clusters.values())


def test_of_a_cluster_in_a_loop_the_first_calls_are_recorded(tmp_path: Path, quick: Config):
    @tf.function(input_signature=[tf.TensorSpec([None, 32], tf.float32, "x")])
    def serve(x):
        def body(i, h):
            return i + 1, tf.nn.softmax(tf.tanh(h * 2.0) + x)

        # A condition that isn't a counter's limit: the loop stays in TensorFlow.
        return {"y": tf.while_loop(lambda i, h: i * i < 80, body, [0, x])[1]}

    module = tf.Module()
    module.serve = serve
    tf.saved_model.save(module, str(tmp_path / "model"), signatures=serve)
    dump = dumped(tmp_path / "model", tmp_path / "dump", quick)
    looped = [c for c in dump.clusters.values() if len(c.samples) > 2]
    assert looped
    labels = [sample.label for sample in looped[0].samples]
    assert labels[:2] == ["serving_default, batch 1", "serving_default, batch 1, call 2"]
    assert len(labels) == 2 * MAX_CALLS


def test_a_main_graph_is_dumped_like_a_function(tmp_path: Path, quick: Config):
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 64], "x")
        y = tf.nn.softmax(tf.tanh(x) * 2.0 + 1.0, name="y")
        v1.saved_model.simple_save(session, str(tmp_path / "model"), {"x": x}, {"y": y})
    dump = dumped(tmp_path / "model", tmp_path / "dump", quick)
    (cluster,) = dump.clusters.values()
    assert [tensor.tensor for tensor in cluster.outputs] == ["y:0"]
    assert len(cluster.samples) == 2


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
def test_every_kind_of_kernel_has_a_schedule_to_read(example):
    made = schedule(plan(example.program()))
    text = str(made)
    for group in made.plan.groups:
        assert f"\n  {group.name}: " in text
    for value in made.memory.outputs:
        assert f"buffer {value} = output" in text


# -- what is wrong with a dump ------------------------------------------------------------


def remove_clusters(dump: Path) -> None:
    for folder in dump.glob("blade_*"):
        shutil.rmtree(folder)


def rewrite_json(path: Path, **changes) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_folder_of_one_cluster_is_a_dump_of_it(three_dump: Dump):
    dump = read_dump(three_dump.folder / "blade_cluster_2")
    assert list(dump.clusters) == ["blade_cluster_2"]
    assert dump.rtol == three_dump.rtol


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (shutil.rmtree, "does not exist"),
        (lambda p: (p / layout.DUMP).unlink(), "is no dump, or one of an older tf-blade"),
        (lambda p: (p / layout.DUMP).write_text("{"), "can't be read"),
        (lambda p: (p / layout.DUMP).write_text("[]"), "is a dump of format None"),
        (
            lambda p: rewrite_json(p / layout.DUMP, format=99, tf_blade="7.1"),
            "is a dump of format 99 (tf-blade 7.1), this tf-blade reads format 1",
        ),
        (remove_clusters, "has no cluster"),
        (
            lambda p: (p / "blade_cluster_1" / layout.CLUSTER).write_text("{}"),
            "doesn't describe a cluster",
        ),
    ],
)
def test_a_broken_dump_is_refused_with_what_to_do(copy: Path, break_it, message: str):
    break_it(copy)
    with pytest.raises(tf_blade.DumpError) as error:
        read_dump(copy)
    assert message in str(error.value)
    assert str(copy) in str(error.value)


def test_a_file_is_no_dump(copy: Path):
    with pytest.raises(tf_blade.DumpError, match="is no folder"):
        read_dump(copy / layout.DUMP)


@pytest.mark.parametrize(
    ("file", "ask"),
    [
        (layout.NODES, lambda c: c.function),
        (layout.REWRITTEN, lambda c: c.rewritten),
        (layout.STEPS, lambda c: c.steps),
        (f"{layout.ORIGINAL}/saved_model.pb", lambda c: c.constants),
        (f"{layout.SAMPLE_FOLDER}/0001.npz", lambda c: c.arrays(c.samples[1])),
    ],
)
def test_a_missing_or_damaged_file_is_named(copy: Path, file: str, ask):
    (copy / "blade_cluster_1" / file).write_bytes(b"\xff damaged")
    with pytest.raises(tf_blade.DumpError) as error:
        ask(read_dump(copy).clusters["blade_cluster_1"])
    assert Path(file).name in str(error.value) and "can't be read" in str(error.value)
    (copy / "blade_cluster_1" / file).unlink()
    with pytest.raises(tf_blade.DumpError, match="lacks"):
        ask(read_dump(copy).clusters["blade_cluster_1"])


def test_an_unknown_cluster_is_refused_with_its_neighbours(three_dump: Dump):
    with pytest.raises(tf_blade.DumpError, match=r"no cluster 'blade_clutser_1'.*Did you mean"):
        three_dump.choose("blade_clutser_1")


def test_a_dump_that_cant_be_written_is_refused_before_anything_is_compiled(
    three_parts: Path, tmp_path: Path, quick: Config
):
    (tmp_path / "file").write_text("")
    with pytest.raises(tf_blade.DumpError, match="can't write the dump"):
        dumped(three_parts, tmp_path / "file", quick)


# -- fused lookups ------------------------------------------------------------------------


def test_a_lookup_is_dumped_with_inputs_outputs_and_tables(columns: Path, tmp_path: Path):
    dump = dumped(columns, tmp_path / "dump", QUICK, inputs=FEEDS)
    (lookup,) = [c for c in dump.clusters.values() if c.is_lookup]
    assert lookup.name == "blade_lookup_0"
    kinds = {tensor.tensor: tensor.info.dtype.name for tensor in lookup.inputs}
    assert kinds["words:0"] == "string" and kinds["ids:0"] == "int64"
    assert [tensor.info.dtype.name for tensor in lookup.inputs if tensor.constant] == [
        "float32"
    ] * 2
    given = [sample for sample in lookup.samples if sample.label == "serving_default, inputs"]
    arrays = dict(zip([t.tensor for t in lookup.inputs], lookup.arrays(given[0]), strict=True))
    np.testing.assert_array_equal(arrays["words:0"], FEEDS["words"].astype(bytes).astype(object))
    np.testing.assert_array_equal(arrays["ids:0"], FEEDS["ids"])
    model = tf.compat.v1.saved_model.load_v2(str(columns)).signatures["serving_default"]
    answers = model(**{name: tf.constant(value) for name, value in FEEDS.items()})
    np.testing.assert_allclose(lookup.expected(given[0])[0], answers["y"], rtol=1e-6)


def test_tables_that_are_too_large_are_not_recorded(
    columns: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(record, "MAX_TABLE_BYTES", 100)
    dump = dumped(columns, tmp_path / "dump", QUICK, inputs=FEEDS)
    lookup = dump.clusters["blade_lookup_0"]
    assert lookup.samples == []
    assert "tables have 0 MiB, which are not recorded" in lookup.missing


def test_arrays_of_strings_come_back_as_they_were(tmp_path: Path):
    strings = np.array([[b"", b"a\0"], [b"\xff\xfe", "\u00e4".encode()]], object)
    arrays = {
        "s": strings,
        "none": np.empty((0, 2), object),
        "one": np.array(b"scalar", object),
        "n": np.arange(6, dtype=np.int64).reshape(2, 3),
        "b": np.array(True),
    }
    save_arrays(tmp_path / "arrays.npz", arrays)
    found = load_arrays(tmp_path / "arrays.npz")
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype and found[name].shape == array.shape
        assert found[name].tolist() == array.tolist()
