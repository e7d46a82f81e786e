"""The `feature_columns` benchmark on models that take no time."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import feature_columns, native
from benchmarks.__main__ import main
from benchmarks.columns import client, feeds, measure, model, subjects, variants
from benchmarks.columns.client import Block, Clients, Gather
from benchmarks.columns.model import ModelSpec
from benchmarks.columns.timing import Timed, interleave
from benchmarks.session import Session

SUMMARY = {
    "speedup_b1",
    "speedup_b16",
    "speedup_b100",
    "speedup_b512",
    "user70_b100",
    "codegen_vs_library",
    "floor_ratio_b512",
    "models_min",
    "models_geomean",
    "optimize_1443_seconds",
    "optimize_1443_peak_gb",
    "wrong",
}
SPEC = ModelSpec(12, rows=50)


@pytest.fixture(scope="module", autouse=True)
def generated(tmp_path_factory):
    """Models go to a folder of the test's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subjects, "GENERATED", tmp_path_factory.mktemp("generated"))
        yield subjects.GENERATED


@pytest.fixture(scope="module")
def saved_model(generated):
    return model.build(SPEC, generated)


# -- models and feeds -------------------------------------------------------------------------


def test_columns_of_every_kind_form_and_combiner_are_planned():
    columns = model.plan(ModelSpec(100))
    assert {column.kind for column in columns} == set(model.SOURCES["mixed"])
    assert {column.dim for column in columns} == set(model.DIMS)
    assert {column.combiner for column in columns} == set(model.COMBINERS)
    assert 20 <= sum(column.multi for column in columns) <= 45
    assert model.plan(ModelSpec(100)) == columns


@pytest.mark.parametrize("source, dtypes", [("string", {object}), ("int64", {np.int64})])
def test_source_says_what_is_fed(source, dtypes):
    columns = model.plan(ModelSpec(8, source, rows=50))
    feed = feeds.make(columns, 5, "uniform", 0.0, 1)
    values = [v for k, v in feed.tensors.items() if not k.endswith(("_indices", "_shape"))]
    assert {value.dtype.type for value in values} == {np.dtype(d).type for d in dtypes}


def test_existing_model_is_not_generated_again(saved_model, generated, monkeypatch):
    monkeypatch.setattr(model, "_write", None)
    assert model.build(SPEC, generated) == saved_model


@pytest.mark.parametrize("ids", ["zipf", "uniform"])
def test_feeds_name_the_table_rows_that_the_model_looks_up(saved_model, ids):
    columns = model.plan(SPEC)
    feed = feeds.make(columns, 9, ids, 0.0, 3)
    with Session(saved_model) as session:
        output = session.bind(model.SIGNATURE, feed.tensors).outputs()["output"]
    checkpoint = tf.train.load_checkpoint(str(saved_model / "variables" / "variables"))
    tables = {name: checkpoint.get_tensor(name) for name in checkpoint.get_variable_to_shape_map()}
    parts = []
    for column, rows in zip(columns, feed.rows, strict=True):
        (table,) = (value for name, value in tables.items() if column.name in name)
        part = np.zeros((9, column.dim), np.float32)
        for row in range(9):
            ids_of_row = rows.ids[rows.splits[row] : rows.splits[row + 1]]
            divisor = {"sum": 1.0, "mean": len(ids_of_row), "sqrtn": len(ids_of_row) ** 0.5}
            if len(ids_of_row):
                part[row] = table[ids_of_row].sum(axis=0) / divisor[column.combiner]
        parts.append(part)
    np.testing.assert_allclose(output, np.concatenate(parts, axis=1), rtol=1e-5, atol=1e-6)


def test_user_share_of_the_columns_repeats_its_row():
    columns = model.plan(ModelSpec(20, rows=1000))
    for share in (0.0, 0.7, 1.0):
        feed = feeds.make(columns, 30, "uniform", share, 1)
        same = 0
        for rows in feed.rows:
            lists = np.split(rows.ids, rows.splits[1:-1])
            same += all(np.array_equal(ids, lists[0]) for ids in lists)
        assert same == round(20 * share)


def test_zipf_ids_are_mostly_few_and_uniform_ones_are_not():
    column = model.Column("c", "identity", 10_000, 8, "sum", False)
    few = {}
    for ids in ("zipf", "uniform"):
        found = feeds.make([column], 5000, ids, 0.0, 1).rows[0].ids
        assert found.min() >= 0 and found.max() < 10_000
        few[ids] = len(np.unique(found))
    assert few["zipf"] < few["uniform"] / 2


def test_model_with_layers_has_one_score_a_row(generated):
    spec = ModelSpec(4, rows=20, mlp=True)
    feed = feeds.make(model.plan(spec), 6, "zipf", 0.0, 1)
    with Session(model.build(spec, generated)) as session:
        assert session.bind(model.SIGNATURE, feed.tensors).outputs()["output"].shape == (6, 1)


# -- clients and timing -----------------------------------------------------------------------


def test_floor_adds_up_the_rows_it_is_given():
    columns = [column for column in model.plan(ModelSpec(15, rows=40))]
    random = np.random.default_rng(5)
    tables = [random.normal(size=(c.rows, c.dim)).astype(np.float32) for c in columns]
    feed = feeds.make(columns, 70, "uniform", 0.0, 2)
    expected = np.concatenate(
        [
            [
                table[rows.ids[start:end]].sum(axis=0)
                for start, end in zip(rows.splits[:-1], rows.splits[1:], strict=True)
            ]
            for table, rows in zip(tables, feed.rows, strict=True)
        ],
        axis=1,
    )
    for threads in (1, 3):
        floor = Gather(columns, [feed.rows], tables)
        assert floor.run(1, threads) > 0
        np.testing.assert_allclose(floor.output, expected, rtol=1e-5, atol=1e-6)
    read = sum(len(rows.ids) * c.dim for rows, c in zip(feed.rows, columns, strict=True))
    assert floor.bytes_per_call == 4 * read + expected.size * 4


class Counting(tf.Module):
    def __init__(self):
        super().__init__()
        self.calls = tf.Variable(0, dtype=tf.int64)

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, "x")])
    def __call__(self, x):
        with tf.control_dependencies([self.calls.assign_add(1)]):
            return {"calls": self.calls.read_value(), "y": tf.matmul(x, [[1.0], [2.0]])}


@pytest.fixture(scope="module")
def counting(tmp_path_factory):
    path = tmp_path_factory.mktemp("counting") / "model"
    module = Counting()
    tf.saved_model.save(module, str(path), signatures=module.__call__.get_concrete_function())
    return path


@pytest.mark.parametrize("clients", [1, 3])
def test_clients_make_as_many_calls_as_they_are_told(counting, clients):
    with Session(counting) as session:
        calls = [
            session.bind("serving_default", {"x": np.ones((rows, 2), np.float32)})
            for rows in (1, 2)
        ]
        block = Clients(calls).run(5, clients)
        assert block.calls == 5 * clients and (block.seconds > 0).all()
        assert block.wall >= block.seconds.max()
        assert calls[0].outputs()["calls"] == 5 * clients + 1


def test_failing_call_gives_tensorflows_words(counting):
    with Session(counting) as session:
        call = session.bind("serving_default", {"x": np.ones((1, 3), np.float32)})
        with pytest.raises(RuntimeError, match="Matrix size-incompatible"):
            Clients([call]).run(3, 2)


def test_missing_compiler_is_named(monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(native.shutil, "which", lambda name: None)
    with pytest.raises(RuntimeError, match=r"g\+\+"):
        client._library.__wrapped__()


def block(calls, seconds_a_call):
    return Block(np.full(calls, seconds_a_call), calls * seconds_a_call)


def test_ratios_are_paired_and_spread():
    timed = Timed(
        {
            "slow": [block(4, t) for t in (2.0, 3.0, 8.0)],
            "fast": [block(8, t) for t in (1.0, 1.0, 2.0)],
        }
    )
    ratio = timed.ratio("slow", "fast")
    assert ratio.median == 3.0 and 2.0 < ratio.p10 < 3.0 < ratio.p90 < 4.0
    assert timed.calls_per_second("fast") == 1.0
    assert timed.latency_ms("slow", 50) == 3000.0


def test_blocks_go_round_all_feeds_and_rivals_take_turns():
    asked = []

    def rival(name):
        def run(rounds):
            asked.append((name, rounds))
            return block(rounds, 1e-3)

        return run

    timed = interleave({"a": rival("a"), "b": rival("b")}, feeds=3, seconds=0.0)
    assert all(rounds % 3 == 0 for _, rounds in asked)
    turns = [name for name, _ in asked[4:]]  # after warming up
    assert turns[:6] == ["a", "b", "b", "a", "a", "b"]
    assert len(timed.blocks["a"]) == len(timed.blocks["b"]) >= 5


# -- rows and summary -------------------------------------------------------------------------


def test_rows_hold_errors_latencies_and_ratios(saved_model):
    subject = subjects.build(subjects.encode(SPEC))
    models = {"stock": saved_model, "default": saved_model}
    rows = measure.measure(subject, models, [(1, 0.0), (7, 0.7)], "zipf", (1, 2), 0.01)
    assert [(row["batch"], row["variant"]) for row in rows] == [
        (batch, name)
        for batch in (1, 7)
        for name in ("stock", "default", "session", "floor", "floor_1_thread")
    ]
    for row in rows:
        assert row["p50_ms"] <= row["p99_ms"] and row["qps_1"] > 0
        if row["variant"] == "default":
            assert row["max_abs_error"] == 0.0 and not row["wrong"] and row["qps_2"] > 0
            assert row["speedup_1"]["p10"] <= row["speedup_1"]["median"] <= row["speedup_1"]["p90"]
            assert row["over_floor"]["median"] > 0 and row["over_session"]["median"] > 0
        if row["variant"].startswith("floor"):
            assert row["gb_per_second"] > 0


def test_model_with_other_answers_is_wrong(saved_model, generated):
    other = model.build(ModelSpec(12, rows=51), generated)
    subject = subjects.build(subjects.encode(SPEC))
    models = {"stock": saved_model, "default": other}
    rows = measure.measure(subject, models, [(7, 0.0)], "zipf", (1,), 0.01)
    assert [row.get("wrong") for row in rows] == [False, True, None, None, None]


def test_variants_are_those_that_the_configuration_knows():
    names = [variant.name for variant in variants.available(["stock", "xla", "default"])]
    assert names == ["stock", "xla", "default"]
    with pytest.raises(ValueError, match="no variant called nonsense"):
        variants.available(["nonsense"])


def test_only_the_xla_variant_asks_for_clustering():
    config = tf.compat.v1.ConfigProto
    levels = {
        name: config.FromString(
            variants.session_config(variants.VARIANTS[name])
        ).graph_options.optimizer_options.global_jit_level
        for name in ("stock", "xla")
    }
    assert levels == {"stock": -1, "xla": 2}
    assert "TF_XLA_FLAGS" in variants.environment([variants.VARIANTS["xla"]])


def row(variant, batch, median, user_share=0.0, **values):
    found = {"columns": 100, "source": "mixed", "mlp": False, "batch": batch}
    found |= {"variant": variant, "user_share": user_share, "speedup_1": {"median": median}}
    return found | values


def test_summary_takes_each_figure_from_its_row():
    rows = [
        row("codegen", 1, 20.0, over_library={"median": 2.0}),
        row("codegen", 512, 4.0, over_library={"median": 8.0}, over_floor={"median": 1.5}),
        row("codegen", 100, 9.0, 0.7, over_library={"median": 99.0}),
        row("codegen", 16, 7.0, source="string"),
        row("library", 16, 8.0),
        row("xla", 16, 0.5, wrong=True),
        {"variant": "default", "model": "census", "speedup_1": {"median": 2.0}},
        {
            "variant": "default",
            "model": "ranking_1443",
            "speedup_1": {"median": 8.0},
            "optimize_seconds": 40.0,
            "optimize_peak_gb": 3.0,
        },
        {"variant": "all", "wrong": True, "error": "crash"},
    ]
    summary = feature_columns.summarize(rows)
    assert set(summary) == SUMMARY
    missing = {name for name, value in summary.items() if np.isnan(value)}
    assert missing == {"speedup_b16", "speedup_b100"}
    assert summary | dict.fromkeys(missing, None) == {
        "speedup_b1": 20.0,
        "speedup_b16": None,
        "speedup_b100": None,
        "speedup_b512": 4.0,
        "user70_b100": 9.0,
        "codegen_vs_library": pytest.approx(4.0),
        "floor_ratio_b512": 1.5,
        "models_min": 2.0,
        "models_geomean": pytest.approx(4.0),
        "optimize_1443_seconds": 40.0,
        "optimize_1443_peak_gb": 3.0,
        "wrong": 2,
    }


def test_unknown_model_is_refused():
    with pytest.raises(ValueError, match="no model called nonsense"):
        subjects.whole_models(["nonsense"])


def test_command_leaves_rows_and_the_whole_summary(tmp_path, capsys):
    path = tmp_path / "record.json"
    options = "--quick --columns 3 --rows 20 --batch 2 --user-share 0 --seconds 0.01".split()
    code = main(["feature_columns", *options, "--variants", "stock,default", "--json", str(path)])
    record = json.loads(path.read_text())
    assert code == 0, record["rows"]
    assert set(record["summary"]) == SUMMARY
    names = ["stock", "default", "session", "floor", "floor_1_thread"]
    assert [row["variant"] for row in record["rows"]] == names
    assert record["rows"][1]["optimize_seconds"] > 0
    assert "3 columns" in capsys.readouterr().out
