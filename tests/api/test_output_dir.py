import os
import subprocess
import sys
from pathlib import Path

import pytest

from tf_blade import output_dir
from tf_blade.errors import InputError, OutputExistsError
from tf_blade.output_dir import atomic_output, check_output


def make_model(path: Path, content: str = "model") -> Path:
    path.mkdir(parents=True)
    (path / "saved_model.pb").write_text(content)
    return path


def write(output: Path, content: str, overwrite: bool = False) -> None:
    with atomic_output(output, overwrite) as staging:
        (staging / "saved_model.pb").write_text(content)


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_the_folder_appears_complete_and_nothing_else_stays(tmp_path: Path):
    write(tmp_path / "a/b/out", "new")
    assert (tmp_path / "a/b/out/saved_model.pb").read_text() == "new"
    assert names(tmp_path / "a/b") == ["out"]


def test_an_exception_leaves_nothing_not_even_parents(tmp_path: Path):
    with (
        pytest.raises(ZeroDivisionError),
        atomic_output(tmp_path / "a/b/out", False) as staging,
    ):
        (staging / "saved_model.pb").write_text("half")
        raise ZeroDivisionError
    assert names(tmp_path) == []


def test_an_exception_while_overwriting_leaves_the_old_model(tmp_path: Path):
    out = make_model(tmp_path / "out", "old")
    with pytest.raises(ZeroDivisionError), atomic_output(out, True):
        raise ZeroDivisionError
    assert (out / "saved_model.pb").read_text() == "old"
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("exchange", [True, False])
def test_overwriting_swaps_the_folders(
    tmp_path: Path, exchange: bool, monkeypatch: pytest.MonkeyPatch
):
    if not exchange:  # a kernel or file system that can't
        monkeypatch.setattr(output_dir, "_exchange", lambda first, second: False)
    out = make_model(tmp_path / "out", "old")
    (out / "extra").write_text("gone afterwards")
    write(out, "new", overwrite=True)
    assert names(tmp_path) == ["out"]
    assert names(out) == ["saved_model.pb"]
    assert (out / "saved_model.pb").read_text() == "new"


def test_somebody_elses_output_made_meanwhile_is_not_replaced(tmp_path: Path):
    out = tmp_path / "out"
    with pytest.raises(OutputExistsError, match="meanwhile"), atomic_output(out, False):
        make_model(out, "theirs")
    assert (out / "saved_model.pb").read_text() == "theirs"
    assert names(tmp_path) == ["out"]


def dead_owner() -> str:
    """The owner name of a process that has ended."""
    code = "from tf_blade.output_dir import _owner; print(_owner())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_leftovers_of_dead_processes_go_and_those_of_living_ones_stay(tmp_path: Path):
    dead = tmp_path / f"{output_dir._STAGING}out.{dead_owner()}"
    alive = tmp_path / f"{output_dir._STAGING}out.{output_dir._owner()}"
    other = tmp_path / f"{output_dir._STAGING}out2.{dead_owner()}"
    for path in (dead, alive, other):
        make_model(path)
    output_dir._remove_stale(tmp_path / "out")
    assert names(tmp_path) == sorted([alive.name, other.name])


def test_a_reused_process_id_does_not_protect_a_leftover(tmp_path: Path):
    host, pid, start = output_dir._owner().rsplit(".", 2)
    leftover = make_model(tmp_path / f"{output_dir._STAGING}out.{host}.{pid}.{int(start) + 1}")
    output_dir._remove_stale(tmp_path / "out")
    assert not leftover.exists()


def test_a_model_set_aside_by_a_killed_process_comes_back(tmp_path: Path):
    make_model(tmp_path / f"{output_dir._ASIDE}out.{dead_owner()}", "old")
    output_dir._remove_stale(tmp_path / "out")
    assert (tmp_path / "out/saved_model.pb").read_text() == "old"


def test_an_existing_output_needs_overwrite(tmp_path: Path):
    out = make_model(tmp_path / "out")
    with pytest.raises(OutputExistsError, match="overwrite=True"):
        check_output(out, None, overwrite=False)
    check_output(out, None, overwrite=True)


def test_a_folder_that_is_no_model_is_never_replaced(tmp_path: Path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(OutputExistsError, match="not a SavedModel"):
        check_output(tmp_path, None, overwrite=True)
    with pytest.raises(OutputExistsError, match="not a SavedModel"):
        check_output(tmp_path / "thesis.tex", None, overwrite=True)


@pytest.mark.parametrize("overwrite", [True, False])
def test_input_and_output_must_be_apart(tmp_path: Path, overwrite: bool):
    model = make_model(tmp_path / "models" / "m")
    with pytest.raises(InputError, match="is the input itself"):
        check_output(model, model, overwrite)
    link = tmp_path / "link"
    link.symlink_to(model)
    with pytest.raises(InputError, match="is the input itself"):
        check_output(link, model, overwrite)
    with pytest.raises(InputError, match="output folder is inside the input"):
        check_output(model / "out", model, overwrite)
    with pytest.raises(InputError, match="input folder is inside the output"):
        check_output(tmp_path / "models", model, overwrite)


def test_a_parent_that_is_a_file_is_refused(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        check_output(tmp_path / "file" / "out", None, False)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_refused(tmp_path: Path):
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="no permission"):
        check_output(tmp_path / "out", None, False)
