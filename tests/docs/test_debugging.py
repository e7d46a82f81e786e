"""docs/debugging.md does and prints today what it says, from top to bottom."""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tf_blade import cli

PAGE = Path(__file__).resolve().parents[2] / "docs" / "debugging.md"
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def blocks() -> list[tuple[str, str]]:
    """(language, text) of the page's code blocks."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def run(language: str, text: str, names: dict[str, object]) -> str:
    """What a block prints. `tf-blade` runs in this process, other commands in a shell."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        if language == "python":
            file = Path(f"block_{len(list(Path().glob('block_*')))}.py").absolute()
            file.write_text(text)  # TensorFlow reads the source of functions
            exec(compile(text, str(file), "exec"), names)
        for line in text.splitlines() if language == "sh" else ():
            if line.startswith("tf-blade "):
                cli.main(shlex.split(line)[1:])
            else:
                subprocess.run(line, shell=True, check=True)
    return out.getvalue()


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[str, str, str]]]:
    """The folder after the page's code has run; (code, what the page shows, what was printed)."""
    folder = tmp_path_factory.mktemp("debugging")
    names: dict[str, object] = {"__name__": "page"}
    shown: list[tuple[str, str, str]] = []
    code, printed = "", ""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for language, text in blocks():
            if language:
                code, printed = text, run(language, text, names)
            else:
                shown.append((code, text, printed))
    return folder, shown


def test_the_page_shows_what_is_printed(walked):
    _, shown = walked
    assert len(shown) >= 7
    for code, expected, printed in shown:
        # Wide lines are folded; so are they on the page, at other places.
        flat = re.sub(r"\s+", " ", printed).strip()
        wanted = re.sub(r"\s+", " ", expected).strip()
        assert doctest.OutputChecker().check_output(wanted, flat, FLAGS), (
            f"{code}\nprints\n{printed}\nand the page shows\n{expected}"
        )


def test_the_page_lists_the_files_of_a_dump(walked):
    folder, _ = walked
    dump = folder / "dump"
    files = {str(p.relative_to(dump)) for p in dump.rglob("*") if p.is_file()}
    listed = set(re.findall(r"^\| `([\w./]+)` \|", PAGE.read_text(), re.MULTILINE))
    assert listed == {file for file in files if not file.endswith("0001.npz")}


def test_the_page_that_is_written_is_one(walked):
    folder, _ = walked
    assert (folder / "trace.html").read_text().startswith("<!DOCTYPE html>")
