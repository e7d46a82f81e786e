"""The `compiler` benchmark on graphs and models that take no time."""

from __future__ import annotations

import contextlib
import json
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import cases
from benchmarks.__main__ import main
from benchmarks.compiler import memory_bound, stream
from benchmarks.compiler.graphs import GRAPHS
from benchmarks.peers import Peer, PeerError

SUMMARY = {
    *("geomean_vs_tf", "min_vs_tf", "geomean_vs_xla", "min_vs_xla", "slower_than_xla"),
    *("bandwidth_fraction", "min_bandwidth_fraction", "peak_memory_vs_tf"),
    *("wrong", "falling_back", "not_compiled", "rows"),
}
STREAM_SUMMARY = {
    *("shapes_total_vs_xla", "worst_shape_vs_specialised", "compiles_after_first"),
    *("minilm_compile_seconds", "stream_wrong", "stream_falling_back"),
}


def run(tmp_path, *options):
    path = tmp_path / "record.json"
    code = main(["compiler", "--quick", "--seconds", "0.01", "--json", str(path), *options])
    return code, json.loads(path.read_text())


def test_graphs_leave_rows_and_their_part_of_the_summary(tmp_path):
    options = ("--only", "layer_norm", "column_sums", "--sizes", "3x7", "40x9", "--no-stream")
    code, record = run(tmp_path, *options, "--targets", "x86-64-v3")
    assert code == 0, record["rows"]
    assert set(record["summary"]) == SUMMARY
    assert record["summary"]["rows"] == 4
    assert [(row["graph"], row["rows"]) for row in record["rows"]] == [
        ("layer_norm", 3),
        ("layer_norm", 40),
        ("column_sums", 3),
        ("column_sums", 40),
    ]
    for row in record["rows"]:
        assert not row["wrong"] and not row["xla_wrong"] and not row["fallbacks"]
        assert row["launches"] == 1 and row["vs_xla"]["value"] > 0


class NumpySoftmax(Peer):
    """A softmax in numpy; a `scale` other than 1 makes its answers wrong."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    @contextlib.contextmanager
    def open(self, case, folder, feeds):
        assert (case.saved_model / "saved_model.pb").exists()
        e = np.exp(feeds["x"] - feeds["x"].max(-1, keepdims=True))
        y = e / e.sum(-1, keepdims=True) * self.scale
        yield SimpleNamespace(run=lambda: y, outputs=lambda: {"y": y})


class Stubborn(Peer):
    def convert(self, case, folder):
        raise PeerError("no such op")


def test_peers_that_answer_as_tensorflow_are_rivals(tmp_path, monkeypatch):
    peers = {"right": NumpySoftmax(1.0), "wrong": NumpySoftmax(2.0), "stubborn": Stubborn()}
    monkeypatch.setattr(memory_bound, "PEERS", peers)
    graphs = memory_bound.chosen(["softmax"])
    memory_bound.save_models(graphs, tmp_path, ("x86-64-v3",))
    (row,) = memory_bound.measure(graphs, [(3, 7)], tmp_path, 0.01, list(peers))
    assert row["vs_right"]["value"] > 0 and row["right_ms"]["median_ms"] > 0
    assert "vs_wrong" not in row and "vs_stubborn" not in row
    assert row["peers_missing"]["stubborn"] == "no such op"
    assert row["peers_missing"]["wrong"].startswith("other answers")
    summary = memory_bound.summarize([row], 0, list(peers))
    assert summary["right_rows"] == 1 and summary["wrong_rows"] == 0


@pytest.mark.parametrize("name", GRAPHS)
def test_every_graph_takes_any_size(name):
    graph = GRAPHS[name]
    function = tf.function(graph.function, input_signature=None)
    concrete = function.get_concrete_function(**graph.specs())
    for size in ((1, 7), (5, 16)):
        feeds = graph.feeds(*size)
        y = concrete(**{key: tf.constant(value) for key, value in feeds.items()}).numpy()
        assert y.size > 0 and np.isfinite(y).all()


def test_an_unknown_graph_is_refused():
    with pytest.raises(KeyError, match="nonsense"):
        memory_bound.chosen(["nonsense"])


def test_copies_move_every_byte():
    with ThreadPoolExecutor(3) as threads:
        for count in (1, 1000, (1 << 18) + 7):
            copy = memory_bound.Copier(count, threads)
            copy.source[:] = np.random.default_rng(count).integers(0, 256, count)
            copy()
            np.testing.assert_array_equal(copy.target, copy.source)


class Encoder(tf.Module):
    def __init__(self):
        super().__init__()
        self.table = tf.Variable(np.random.default_rng(1).normal(size=(11, 4)).astype(np.float32))

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None], tf.int32, "ids"),
            tf.TensorSpec([None, None], tf.int32, "mask"),
        ]
    )
    def serve(self, ids, mask):
        x = tf.gather(self.table, ids) * tf.cast(mask, tf.float32)[:, :, None]
        return {"y": tf.nn.softmax(tf.tanh(x) * 2.0 + 1.0)}


def test_a_stream_compiles_once(tmp_path):
    model = Encoder()
    folder = tmp_path / "encoder"
    signatures = model.serve.get_concrete_function()
    tf.saved_model.save(model, str(folder / "saved_model"), signatures=signatures)
    ids = np.arange(6, dtype=np.int32).reshape(2, 3)
    feeds = {"large": {"ids": ids, "mask": np.ones_like(ids)}}
    cases.write_case(folder, "serving_default", "test", feeds)
    options = ("--no-graphs", "--model", str(folder), "--shapes", "4", "--xla-shapes", "2")
    code, record = run(tmp_path, *options, "--fixed-shapes", "1")
    assert code == 0, record["rows"]
    assert set(record["summary"]) == STREAM_SUMMARY | {"wrong"}
    assert record["summary"]["compiles_after_first"] == 0
    first, alone = record["rows"]
    assert first["shapes"] == 4 and first["launches"] >= 4 and not first["fallbacks"]
    assert alone["specialised"] and not alone["wrong"]


def test_shapes_of_the_stream_differ_and_repeat_from_run_to_run():
    found = stream.shapes(50)
    assert len(set(found)) == 50 and found == stream.shapes(50)
    assert all(1 <= batch <= 8 and 4 <= length <= 128 for batch, length in found)


def row(vs_tf, vs_xla, vs_copy, size, **values):
    ratios = {"vs_tensorflow": vs_tf, "vs_xla": vs_xla, "vs_copy": vs_copy}
    found = {name: {"value": value} for name, value in ratios.items()}
    peaks = {"tensorflow": 2 * size, "ours": size}
    found |= {"bytes": size, "peak_bytes": peaks, "wrong": False, "fallbacks": {}, "launches": 1}
    return found | values


def test_summary_counts_bandwidth_of_large_data_only_and_drops_nothing():
    rows = [
        row(4.0, 2.0, 0.1, 10),
        row(1.0, 0.5, 0.8, 5000, wrong=True, launches=0),
        row(2.0, 1.0, 0.2, 5000, fallbacks={"shape": 1}, launches=0),
    ]
    summary = memory_bound.summarize(rows, large=1000)
    assert summary == {
        "geomean_vs_tf": pytest.approx(2.0),
        "min_vs_tf": 1.0,
        "geomean_vs_xla": pytest.approx(1.0),
        "min_vs_xla": 0.5,
        "slower_than_xla": 1,
        "bandwidth_fraction": pytest.approx(0.4),
        "min_bandwidth_fraction": 0.2,
        "peak_memory_vs_tf": 0.5,
        "wrong": 1,
        "falling_back": 1,
        "not_compiled": 1,
        "rows": 3,
    }
