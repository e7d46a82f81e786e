"""Clusters alone: what they give, held against TensorFlow's nodes and the IR's reference."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import tf_blade
from tests.debug.conftest import FEEDS, QUICK, dumped
from tf_blade import library
from tf_blade.debug.alone import compile_config
from tf_blade.debug.replay import ClusterReplay, replay
from tf_blade.debug.tables import replay_renderable
from tf_blade.dump import layout
from tf_blade.dump.arrays import load_arrays, save_arrays
from tf_blade.dump.read import Dump, read_dump

MIDDLE, LOOKUP = "blade_cluster_1", "blade_lookup_0"


def change(dump: Path, cluster: str, file: str, old: str, new: str) -> None:
    path = dump / cluster / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def one(dump: Path, cluster: str, **arguments) -> ClusterReplay:
    (found,) = replay(read_dump(dump), cluster, **arguments)
    return found


def test_a_right_model_replays_equal(three_dump: Dump):
    found = replay(three_dump)
    assert [cluster.name for cluster in found] == list(three_dump.clusters)
    for cluster in found:
        assert cluster.equal and not cluster.skipped
        for sample in cluster.samples:
            outputs = three_dump.clusters[cluster.name].outputs
            for checks in (sample.tensorflow, sample.interpreter):
                assert [check.output for check in checks] == [t.tensor for t in outputs]
            assert sample.latency is None
    assert found[1].samples[1].inputs[0].endswith("float32[3, 64]")


def test_wrong_kernels_differ_from_both_and_the_first_element_is_named(copy: Path):
    """The kernels are compiled as they stand in the dump, edited by hand or not."""
    change(copy, "blade_cluster_0", layout.KERNELS, "* 0.5f;", "* 0.25f;")
    found = one(copy, "blade_cluster_0")
    assert not found.equal
    for check in [*found.samples[1].tensorflow, *found.samples[1].interpreter]:
        assert not check.ok
        assert check.first_index is not None and check.max_abs_error > 0.1
        # Where keep is 0, nothing differs: the first element that does is further on or there.
        assert check.first_index <= (check.worst_index or [])


def test_a_wrong_program_differs_from_the_interpreter_only(copy: Path):
    change(copy, "blade_cluster_0", layout.REWRITTEN, "constant(value=0.5)", "constant(value=0.25)")
    found = one(copy, "blade_cluster_0")
    assert not found.equal
    for sample in found.samples:
        assert all(check.ok for check in sample.tensorflow)
        assert not any(check.ok for check in sample.interpreter)


def test_what_the_code_and_the_reference_refuse_is_no_error(copy: Path):
    """In a model, TensorFlow's nodes would answer."""
    file = copy / MIDDLE / layout.SAMPLE_FOLDER / "0000.npz"
    np.savez(file, input_0=np.ones((2, 63), np.float32))
    found = one(copy, MIDDLE)
    assert found.equal
    first, second = found.samples
    assert "dim 1 of input" in first.interpreter_refused and first.refused
    assert first.tensorflow == first.interpreter == []
    assert second.tensorflow and not second.refused
    shown = io.StringIO()
    Console(file=shown, width=300).print(replay_renderable([found]))
    assert "f32[s0, 64]" in shown.getvalue()  # brackets are no markup


def test_code_that_refuses_what_the_reference_answers_fails(copy: Path):
    file = copy / MIDDLE / layout.SAMPLE_FOLDER / "0000.npz"
    np.savez(file, input_0=np.ones((2, 63), np.float32))
    # A reference that takes any number of columns.
    program = "program p(%a: f32[s0, s1], %w: f32[64, 16]) -> (%0) {\n"
    program += "  symbol s0 = dim(%a, 0)\n  symbol s1 = dim(%a, 1)\n"
    program += "  %0: f32[s0, s1] = exp(%a)\n}"
    (copy / MIDDLE / layout.REWRITTEN).write_text(program)
    found = one(copy, MIDDLE)
    assert not found.equal
    assert found.samples[0].failure.startswith("the compiled code refuses")


def test_a_crash_of_the_kernels_is_told_and_other_clusters_go_on(copy: Path):
    """With inputs of some sizes only."""
    kernels = copy / MIDDLE / layout.KERNELS
    start = "int BLADE_RUN(const BladeHost* host, void* ctx, const BladeTensor* inputs) {\n"
    assert start in kernels.read_text()
    store = "if (inputs[0].dims[0] == 3) *(volatile int*)8 = 1;\n"
    change(copy, MIDDLE, layout.KERNELS, start, start + store)
    found = {cluster.name: cluster for cluster in replay(read_dump(copy), seconds=0.1)}
    assert [name for name, cluster in found.items() if not cluster.equal] == [MIDDLE]
    right, wrong = found[MIDDLE].samples
    assert right.equal and right.tensorflow and not right.crashed
    assert wrong.crashed and wrong.failure == "the compiled code crashed with SIGSEGV"
    # It would take this process down.
    assert right.latency is None and wrong.latency is None
    assert found["blade_cluster_0"].samples[0].latency is not None
    shown = io.StringIO()
    Console(file=shown, width=300).print(replay_renderable([found[MIDDLE]]))
    assert "crashed with SIGSEGV" in shown.getvalue()


def test_the_tolerance_can_be_chosen(copy: Path):
    change(copy, "blade_cluster_0", layout.KERNELS, "* 0.5f;", "* 0.499f;")
    assert not one(copy, "blade_cluster_0").equal
    assert one(copy, "blade_cluster_0", rtol=0.01).equal
    assert one(copy, "blade_cluster_0", atol=0.01).equal


def test_both_are_timed_in_sessions_and_the_op_runs_its_code(three_dump: Dump):
    library.load_ops()
    library.reset_counters()
    (found,) = replay(three_dump, MIDDLE, seconds=0.2)
    for sample in found.samples:
        assert sample.latency is not None
        assert sample.latency.timed_in == "session"
        assert sample.latency.original_ms > 0 and sample.latency.optimized_ms > 0
    counted = library.counters().clusters["replay"]
    assert counted.launches > 0 and not counted.fallbacks


def test_kernels_for_other_machines_are_compiled_for_this_one(copy: Path):
    path = copy / layout.DUMP
    path.write_text(json.dumps({**json.loads(path.read_text()), "cpu_targets": ["other"]}))
    dump = read_dump(copy)
    assert compile_config(dump).cpu_targets == tf_blade.Config().cpu_targets
    assert all(cluster.equal for cluster in replay(dump))


def test_kernels_that_dont_compile_are_said_to(copy: Path):
    (copy / MIDDLE / layout.KERNELS).write_text("nonsense;\n")
    with pytest.raises(tf_blade.DumpError, match="kernels don't compile"):
        replay(read_dump(copy), MIDDLE)


def test_clusters_without_inputs_are_passed_by_and_asked_for_refused(copy: Path):
    (copy / MIDDLE / layout.SAMPLES).unlink()
    found = {cluster.name: cluster for cluster in replay(read_dump(copy))}
    assert "no recorded inputs" in found[MIDDLE].skipped
    assert found["blade_cluster_0"].samples
    with pytest.raises(tf_blade.DumpError, match=f"{MIDDLE} can't be replayed: it has no recorded"):
        replay(read_dump(copy), MIDDLE)
    for samples in copy.glob(f"*/{layout.SAMPLES}"):
        samples.unlink()
    with pytest.raises(tf_blade.DumpError, match="no cluster of"):
        replay(read_dump(copy))


@pytest.fixture(scope="module")
def lookup_dump(columns: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dumped(columns, tmp_path_factory.mktemp("dumps") / "columns", QUICK, inputs=FEEDS).folder


def test_a_lookup_replays_against_what_tensorflow_gave(lookup_dump: Path):
    found = one(lookup_dump, LOOKUP, seconds=0.1)
    assert found.equal and len(found.samples) == 3
    for sample in found.samples:
        assert [check.output for check in sample.tensorflow] == [f"{LOOKUP}:0"]
        assert [check.output for check in sample.interpreter] == [f"{LOOKUP}:0"]
        assert sample.latency is None  # TensorFlow's nodes aren't there to be timed


def test_a_lookup_without_kernels_of_its_own_runs_on_the_librarys(
    lookup_dump: Path, tmp_path: Path
):
    copy = shutil.copytree(lookup_dump, tmp_path / "copy")
    (copy / LOOKUP / layout.KERNELS).unlink()
    assert one(copy, LOOKUP).equal


def test_a_lookup_whose_tables_were_changed_differs_from_tensorflow_only(
    lookup_dump: Path, tmp_path: Path
):
    copy = shutil.copytree(lookup_dump, tmp_path / "copy")
    tables = load_arrays(copy / LOOKUP / layout.TABLES)
    save_arrays(copy / LOOKUP / layout.TABLES, {name: t + 1 for name, t in tables.items()})
    found = one(copy, LOOKUP)
    assert not found.equal
    for sample in found.samples:
        assert all(check.ok for check in sample.interpreter)
        assert not any(check.ok for check in sample.tensorflow)


def test_a_lookups_text_that_is_damaged_is_named(lookup_dump: Path, tmp_path: Path):
    copy = shutil.copytree(lookup_dump, tmp_path / "copy")
    (copy / LOOKUP / layout.LOOKUP).write_text("nonsense")
    with pytest.raises(tf_blade.DumpError, match=rf"{layout.LOOKUP}' can't be read"):
        replay(read_dump(copy), LOOKUP)
