"""replay, bisect and inspect (--trace, --fusions) from the command line: output and wrong usage."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.debug import faults
from tf_blade import cli
from tf_blade.dump import layout
from tf_blade.dump.read import Dump
from tf_blade.machine import cpu_target


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]):
    """Runs a command in this process; returns exit code, stdout, stderr."""

    def call(*argv: object) -> tuple[int, str, str]:
        capfd.readouterr()
        code = cli.main([str(a) for a in argv])
        out, err = capfd.readouterr()
        return code, out, err

    return call


@pytest.fixture
def quick_toml(tmp_path: Path) -> str:
    file = tmp_path / "quick.toml"
    file.write_text(f'timing_seconds = 0\nbatch_sizes = [1, 3]\ncpu_targets = ["{cpu_target()}"]\n')
    return str(file)


def test_replay_prints_comparisons_and_latencies(run, three_dump: Dump):
    code, out, _ = run("replay", three_dump.folder, "--seconds", "0.2")
    assert code == 0
    assert "interpreter" in out and "TensorFlow" in out and "Latency, ms" in out
    assert out.rstrip().endswith("equal")


def test_replay_json_has_every_comparison(run, copy: Path):
    kernels = copy / "blade_cluster_0" / layout.KERNELS
    kernels.write_text(kernels.read_text().replace("* 0.5f;", "* 0.25f;"))
    arguments = ["replay", copy, "--seconds", "0", "--json"]
    code, out, _ = run(*arguments)
    data = json.loads(out)
    assert (code, data["equal"]) == (1, False)
    assert {c["name"]: c["equal"] for c in data["clusters"]} == {
        "blade_cluster_0": False,
        "blade_cluster_1": True,
        "blade_cluster_2": True,
    }
    (check,) = data["clusters"][0]["samples"][0]["tensorflow"]
    assert not check["ok"] and check["first_index"] and check["max_abs_error"] > 0.01
    code, out, _ = run(*arguments, "--cluster", "blade_cluster_2")
    data = json.loads(out)
    assert (code, [c["name"] for c in data["clusters"]]) == (0, ["blade_cluster_2"])
    code, out, _ = run("replay", copy, "--seconds", "0")
    assert code == 1
    assert "differs" in out and "[0, " in out and out.rstrip().endswith("the answers differ")


def test_bisect_of_a_right_model(run, three_parts: Path, quick_toml: str):
    code, out, err = run("bisect", three_parts, "--config", quick_toml)
    assert (code, err) == (0, "")
    assert "there is nothing to find" in " ".join(out.split())
    code, out, _ = run("bisect", three_parts, "--config", quick_toml, "--json")
    data = json.loads(out)
    assert (code, data["status"], data["culprits"], data["dump"]) == (0, "equal", [], "")


def test_bisect_names_the_culprit_and_the_next_command(
    run, three_parts: Path, tmp_path: Path, quick_toml: str, monkeypatch: pytest.MonkeyPatch
):
    faults.rewrite(monkeypatch, "middle")
    dump = tmp_path / "dump"
    code, out, _ = run("bisect", three_parts, "--config", quick_toml, "--dump", dump)
    assert code == 1
    assert "blade_cluster_1: the rewrite 'wrong_rule'" in out
    assert "nodes: middle" in out
    assert "- %" in out and "+ %" in out
    text = out.replace("\n", "")
    assert f"tf-blade replay {dump} --cluster blade_cluster_1" in text.replace("  ", " ")
    code, _, _ = run("replay", dump, "--cluster", "blade_cluster_1", "--seconds", "0")
    assert code == 1
    code, out, _ = run("bisect", three_parts, "--config", quick_toml, "--dump", dump, "--json")
    data = json.loads(out)
    assert (code, data["status"]) == (1, "differs")
    (culprit,) = data["culprits"]
    assert (culprit["kind"], culprit["step"]["rule"]) == ("rewrite", "wrong_rule")


def test_inspect_shows_the_trace_and_writes_a_page(
    run, three_parts: Path, tmp_path: Path, quick_toml: str
):
    arguments = ["inspect", three_parts, "--config", quick_toml, "--trace"]
    code, out, err = run(*arguments)
    assert (code, err) == (0, "")
    assert "rewrite dot_with_bias  BiasAdd, matmul_1" in out
    page = tmp_path / "trace.html"
    page.write_text("old")
    code, out, _ = run(*arguments, "--html", page)
    assert code == 0 and "written: " in out
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["quick.toml", "trace.html"]
    code, out, _ = run(*arguments, "--json")
    data = json.loads(out)
    assert [trace["name"] for trace in data["trace"]] == [f"blade_cluster_{i}" for i in range(3)]
    assert data["trace"][1]["steps"][0]["rule"] == "cse"
    assert data["report"]["regions"]


def test_inspect_shows_the_fusion_plan(run, three_parts: Path, quick_toml: str):
    arguments = ["inspect", three_parts, "--config", quick_toml, "--fusions"]
    code, out, err = run(*arguments)
    assert (code, err) == (0, "")
    assert "blade_cluster_0: " in out and "why it is one" in out
    code, out, _ = run(*arguments, "--json")
    data = json.loads(out)
    assert [found["name"] for found in data["fusions"]] == [f"blade_cluster_{i}" for i in range(3)]
    assert all(found["kernels"] for found in data["fusions"])


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (["replay", "/no/such"], "DumpError", "does not exist"),
        (["replay", "MODEL"], "DumpError", "is no dump"),
        (["replay", "DUMP", "--cluster", "blade_clusters_1"], "DumpError", "Did you mean"),
        (["replay", "DUMP", "--rtol", "7"], "ConfigError", "rtol"),
        (["replay", "OTHER_VERSION"], "DumpError", "this tf-blade reads format 1"),
        (["bisect", "/no/such"], "SavedModelError", "does not exist"),
        (["bisect", "MODEL", "--inputs", "/no/such.npz"], "InputError", "does not exist"),
        (["bisect", "OPTIMIZED"], "InputError", "was optimised before"),
        (["bisect", "MODEL", "--signature", "nope"], "SignatureError", "no signature 'nope'"),
        (["bisect", "MODEL", "--atol", "-1"], "ConfigError", "atol"),
        (["bisect", "MODEL", "--dump", "FILE"], "DumpError", "can't write the dump"),
        (["inspect", "MODEL", "--html", "page.html"], "InputError", "--trace"),
        (["inspect", "MODEL", "--trace", "--html", "/no/such/page"], "InputError", "can't write"),
        (["inspect", "MODEL", "--trace", "--html", "DUMP"], "InputError", "is a folder"),
        (["inspect", "/no/such", "--trace"], "SavedModelError", "does not exist"),
    ],
)
def test_wrong_usage_is_exit_code_2_and_one_message(
    run,
    three_parts: Path,
    three_optimized: Path,
    copy: Path,
    tmp_path: Path,
    arguments,
    kind: str,
    message: str,
):
    (tmp_path / "file").write_text("")
    other = tmp_path / "other"
    other.mkdir()
    (other / layout.DUMP).write_text('{"format": 2, "tf_blade": "9.0"}')
    names = {
        "MODEL": three_parts,
        "OPTIMIZED": three_optimized,
        "DUMP": copy,
        "FILE": tmp_path / "file",
        "OTHER_VERSION": other,
    }
    argv = [names.get(a, a) for a in arguments]
    before = sorted(tmp_path.rglob("*"))
    code, out, err = run(*argv)
    assert (code, out) == (2, "")
    assert err.startswith(f"tf-blade: {kind}: ") and message in err
    assert len(err.strip().splitlines()) == 1
    code, out, err = run(*argv, "--json")
    assert (code, err) == (2, "")
    assert json.loads(out)["error"]["type"] == kind
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "arguments", [["replay"], ["bisect"], ["replay", "d", "--seconds", "-1"], ["replay", "d", "-x"]]
)
def test_arguments_that_cant_be_read_end_as_argparse_does(arguments: list[str], capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    assert "usage: tf-blade" in capsys.readouterr().err
