"""The command line: exit codes, JSON on stdout, and silence where it is asked for."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.api import fakes
from tf_blade import Config, cli, doctor
from tf_blade.doctor import Finding
from tf_blade.progress import silent


@pytest.fixture
def quick_toml(tmp_path: Path) -> str:
    file = tmp_path / "quick.toml"
    file.write_text("timing_seconds = 0\nbatch_sizes = [1, 3]\n")
    return str(file)


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]):
    """Runs a command in this process; returns exit code, stdout, stderr."""

    def call(*argv: object, driver: Any = fakes.copying) -> tuple[int, str, str]:
        capfd.readouterr()
        code = cli.main([str(a) for a in argv], driver=driver)
        out, err = capfd.readouterr()
        return code, out, err

    return call


def test_optimize_writes_and_prints_the_report(
    run, two_signatures: Path, tmp_path: Path, quick_toml: str
):
    code, out, err = run("optimize", two_signatures, tmp_path / "out", "--config", quick_toml)
    assert (code, err) == (0, "")
    assert "blade_0" in out
    assert f"written: {tmp_path}/out" in out.replace("\n", "")
    assert (tmp_path / "out/saved_model.pb").exists()


def test_optimize_json_is_one_object(run, two_signatures: Path, tmp_path: Path, quick_toml: str):
    def chatty(*args: object, **more: object) -> Any:
        print("a library says something")
        return fakes.copying(*args, **more)  # type: ignore[arg-type]

    code, out, _ = run(
        "optimize", two_signatures, tmp_path / "out", "--config", quick_toml, "--json",
        driver=chatty,
    )  # fmt: skip
    data = json.loads(out)
    assert code == 0
    assert data["output"] == str(tmp_path / "out")
    assert {s["name"] for s in data["report"]["signatures"]} == {"serving_default", "lookup"}
    assert data["report"]["regions"][0]["left_out"][0]["reason"]


def test_a_mismatch_is_exit_code_1_and_json_has_the_report(
    run, two_signatures: Path, tmp_path: Path, quick_toml: str
):
    wrong = fakes.adding_to_constants(0.5)
    arguments = ["optimize", two_signatures, tmp_path / "out", "--config", quick_toml]
    code, out, err = run(*arguments, driver=wrong)
    assert (code, out) == (1, "")
    assert "MismatchError: the optimised model's answers differ" in err
    assert not (tmp_path / "out").exists()
    code, out, err = run(*arguments, "--json", driver=wrong)
    data = json.loads(out)
    assert (code, err) == (1, "")
    assert data["error"]["type"] == "MismatchError"
    assert data["report"]["signatures"]
    code, out, err = run(*arguments, "--allow-mismatch", driver=wrong)
    assert code == 0
    assert "MISMATCH" in out
    assert (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (["optimize", "/no/such", "OUT"], "SavedModelError"),
        (["optimize", "CUT", "OUT"], "SavedModelError"),
        (["optimize", "MODEL", "OUT", "--signature", "nope"], "SignatureError"),
        (["optimize", "MODEL", "OUT", "--inputs", "/no/such.npz"], "InputError"),
        (["optimize", "MODEL", "OUT", "--inputs", "FEEDS"], "SignatureError"),
        (["optimize", "MODEL", "OUT", "--config", "/no/such.toml"], "ConfigError"),
        (["optimize", "MODEL", "OUT", "--config", "BAD_TOML"], "ConfigError"),
        (["optimize", "MODEL", "EXISTS"], "OutputExistsError"),
        (["optimize", "MODEL", "MODEL"], "InputError"),
        (["optimize", "MODEL", "MODEL/deeper"], "InputError"),
        (["inspect", "/no/such"], "SavedModelError"),
        (["bench", "/no/such"], "SavedModelError"),
        (["bench", "MODEL", "--against", "/no/such"], "SavedModelError"),
        (["verify", "MODEL", "/no/such"], "SavedModelError"),
        (["verify", "MODEL", "OTHER"], "SignatureError"),
    ],
)
def test_bad_input_is_exit_code_2_one_message_and_nothing_written(
    run, two_signatures: Path, stateful: Path, tmp_path: Path, arguments: list[str], kind: str
):
    cut = tmp_path / "cut"
    shutil.copytree(two_signatures, cut)
    (cut / "saved_model.pb").write_bytes((cut / "saved_model.pb").read_bytes()[:1000])
    (tmp_path / "bad.toml").write_text("nonsense = 1\n")
    (tmp_path / "exists").mkdir()
    np.savez(tmp_path / "feeds.npz", z=np.zeros(2))
    names = {
        "MODEL": two_signatures,
        "OTHER": stateful,
        "CUT": cut,
        "OUT": tmp_path / "new/out",
        "EXISTS": tmp_path / "exists",
        "FEEDS": tmp_path / "feeds.npz",
        "BAD_TOML": tmp_path / "bad.toml",
        "MODEL/deeper": two_signatures / "deeper",
    }
    argv = [names.get(a, a) for a in arguments]
    before = sorted(tmp_path.iterdir())
    code, out, err = run(*argv)
    assert (code, out) == (2, "")
    assert err.startswith(f"tf-blade: {kind}: ")
    assert len(err.strip().splitlines()) == 1
    code, out, err = run(*argv, "--json")
    assert (code, err) == (2, "")
    assert json.loads(out)["error"]["type"] == kind
    assert sorted(tmp_path.iterdir()) == before
    assert not (two_signatures / "deeper").exists()


def test_an_internal_error_is_exit_code_3_and_says_how_to_report_it(
    run, two_signatures: Path, tmp_path: Path
):
    arguments = ["optimize", two_signatures, tmp_path / "out"]
    code, out, err = run(*arguments, driver=fakes.failing)
    assert (code, out) == (3, "")
    assert "internal error, ZeroDivisionError: a bug. Nothing was written." in err
    assert "--debug" in err
    assert "Traceback" not in err
    code, out, err = run(*arguments, "--debug", "--json", driver=fakes.failing)
    assert code == 3
    assert "fakes.py" in json.loads(out)["error"]["traceback"]
    assert list(tmp_path.iterdir()) == []


def test_inspect_reports_and_writes_nothing(run, two_signatures: Path, tmp_path: Path):
    before = sorted(two_signatures.rglob("*"))
    code, out, _ = run("inspect", two_signatures, "--json", "--signature", "lookup")
    report = json.loads(out)["report"]
    assert code == 0
    assert [s["name"] for s in report["signatures"]] == ["lookup"]
    assert "dry run" in report["outcome_reason"]
    code, out, _ = run("inspect", two_signatures)
    assert "strings stay in TensorFlow" in out
    assert sorted(two_signatures.rglob("*")) == before


def test_verify_compares_two_models(run, two_signatures: Path, tmp_path: Path, quick_toml: str):
    code, out, _ = run("verify", two_signatures, two_signatures, "--json", "--config", quick_toml)
    data = json.loads(out)
    assert (code, data["equal"]) == (0, True)
    assert {o["feeds"] for o in data["signatures"]["lookup"]["outputs"]} == {"batch 1", "batch 3"}
    wrong = fakes.adding_to_constants(0.5)
    wrong(str(two_signatures), str(tmp_path / "b"), Config(), [], silent, likely={})
    code, out, _ = run("verify", two_signatures, tmp_path / "b", "--json", "--config", quick_toml)
    data = json.loads(out)
    assert (code, data["equal"]) == (1, False)
    assert data["signatures"]["serving_default"]["status"] == "mismatch"
    code, out, _ = run("verify", two_signatures, tmp_path / "b", "--config", quick_toml)
    assert code == 1
    assert "the answers differ" in out


def test_verify_of_a_random_model_is_exit_code_2(run, random_model: Path, quick_toml: str):
    code, _, err = run("verify", random_model, random_model, "--config", quick_toml)
    assert code == 2
    assert "can't be verified" in err


def test_bench_measures_one_model_or_two(run, two_signatures: Path, quick_toml: str):
    arguments = ["bench", two_signatures, "--seconds", "0.4", "--config", quick_toml]
    code, out, _ = run(*arguments, "--json", "--signature", "lookup")
    data = json.loads(out)
    assert code == 0
    assert [row["feeds"] for row in data["rows"]] == ["batch 1", "batch 3"]
    assert all(row["ms"] > 0 for row in data["rows"])
    assert data["timed_in"] == "session"
    code, out, _ = run(*arguments, "--json", "--against", two_signatures)
    data = json.loads(out)
    assert code == 0
    assert len(data["rows"]) == 4
    assert 0.2 < data["geomean_speedup"] < 5
    assert {row["timed_in"] for row in data["rows"]} == {"session"}
    code, out, _ = run(*arguments, "--against", two_signatures)
    assert "geometric mean" in out


def test_bench_times_in_python_what_no_session_runs(run, dense_and_sparse: Path, quick_toml: str):
    arguments = ["bench", dense_and_sparse, "--seconds", "0.2", "--config", quick_toml, "--json"]
    code, out, _ = run(*arguments, "--against", dense_and_sparse)
    data = json.loads(out)
    assert (code, data["timed_in"]) == (0, "Python")
    assert {row["timed_in"] for row in data["rows"]} == {"Python"}


def test_doctor_fails_when_something_needed_is_missing(run, monkeypatch: pytest.MonkeyPatch):
    findings = [Finding("CPU", "ok", "fast"), Finding("compiler", "missing", "install g++")]
    monkeypatch.setattr(doctor, "examine", lambda: findings)
    code, out, _ = run("doctor", "--json")
    assert code == 2
    assert json.loads(out) == {
        "ready": False,
        "findings": [
            {"name": "CPU", "status": "ok", "detail": "fast"},
            {"name": "compiler", "status": "missing", "detail": "install g++"},
        ],
    }
    monkeypatch.setattr(doctor, "examine", lambda: findings[:1])
    assert run("doctor")[0] == 0


def test_wrong_usage_is_exit_code_2(capsys: pytest.CaptureFixture[str]):
    for argv in ([], ["optimise"], ["optimize", "a"], ["bench", "a", "--seconds", "0"]):
        with pytest.raises(SystemExit) as caught:
            cli.main(argv)
        assert caught.value.code == 2
    capsys.readouterr()


def test_the_module_runs_as_a_program_with_a_clean_stdout_and_stderr(two_signatures: Path):
    command = [sys.executable, "-m", "tf_blade", "verify", str(two_signatures)]
    env = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [*command, str(two_signatures), "--json"],
        capture_output=True, text=True, cwd=root, env=env, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert json.loads(done.stdout)["equal"] is True
    assert done.stderr == ""


def test_importing_the_package_imports_neither_tensorflow_nor_the_compiler():
    code = (
        "import sys, tf_blade; tf_blade.Config(); tf_blade.Report; from tf_blade import cli; "
        "print([m for m in sys.modules if 'tensorflow' in m or m.startswith('tf_blade.compiler')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
