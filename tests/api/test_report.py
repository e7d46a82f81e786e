import json
import math

from tests.api.fakes import one_cluster
from tf_blade import Report
from tf_blade.report import Baseline, CheckReport, ColumnReport, LatencyReport, OutputCheck


def full_report() -> Report:
    report = one_cluster(["serving_default", "other"])
    report.source, report.outcome_reason = "model/1", "2.00x faster"
    report.baseline = Baseline("2.21.0", True, 2, 2, "a cpu", 2)
    report.fallbacks = {"no usable variant": 3}
    report.warnings = ["look out"]
    found = report.signatures[0]
    bad = OutputCheck("y", "batch 7", "float32", [7, 3], math.inf, math.nan, [1, 2], "1", "nan")
    bad.ok = False
    found.check = CheckReport("mismatch", "", "given", 1e-4, 1e-6, [bad])
    found.latency = [LatencyReport("batch 1", 2.0, 1.0, 0.1, 0.1, 2.0, 1.9, 2.1, 30, "faster")]
    report.signatures[1].check = CheckReport("not possible", "because")
    return report


def test_json_round_trips_and_is_strict():
    report = full_report()

    def refuse(token: str) -> None:
        raise AssertionError(f"{token} is not strict JSON")

    json.loads(report.to_json(), parse_constant=refuse)
    back = Report.from_json(report.to_json())
    assert back.to_json() == report.to_json()
    output = back.signatures[0].check.outputs[0]
    assert math.isinf(output.max_abs_error) and math.isnan(output.max_rel_error)
    assert back.regions[0].clusters[0].kernels == report.regions[0].clusters[0].kernels


def test_json_with_keys_of_a_newer_version_is_read():
    data = json.loads(full_report().to_json())
    data["from_the_future"] = {"a": 1}
    data["regions"][0]["clusters"][0]["colour"] = "green"
    assert Report.from_json(json.dumps(data)).cluster_count == 1


def test_columns_are_counted_by_kind_and_those_left_out_have_a_line_each():
    report = full_report()
    report.regions[0].columns = [
        ColumnReport("age/lookup", "embedding", True),
        ColumnReport("job/lookup", "embedding", True),
        ColumnReport("home/lookup", "linear", False, "its table is not float32"),
    ]
    assert Report.from_json(report.to_json()).regions[0].columns == report.regions[0].columns
    lines = [" ".join(line.split()) for line in str(report).splitlines()]
    assert any("2 │ embedding │ a fused lookup" in line for line in lines)
    assert any("home/lookup: its table is not float32" in line for line in lines)


def test_the_table_names_clusters_reasons_check_latency_and_baseline():
    text = str(full_report())
    for piece in (
        "model/1: optimized: 2.00x faster",
        "blade_0",
        "AddV2",
        "strings stay in TensorFlow",
        "StringToHashBucketFast",
        "mismatch",
        "output 'y' (batch 7)",
        "not possible",
        "2.00x (1.90-2.10)",
        "TensorFlow 2.21.0, oneDNN on",
        "! look out",
    ):
        # Cells wrap: compare without line breaks and borders.
        flat = "".join(text.replace("│", "").split())
        assert "".join(piece.split()) in flat, piece


def test_the_clustered_share_counts_nodes_inside_and_outside():
    report = full_report()
    assert report.clustered_share == 2 / 3
    report.regions.clear()
    assert report.clustered_share == 0.0
