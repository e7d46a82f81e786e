"""Job folders: what is written for a program, and what is made of its answers."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.job_folder import JobFolder, Tensor

# Answers every job with what its first input holds, and says what the first argument is.
ECHO = """
import pathlib, sys
files = []
for line in pathlib.Path(sys.argv[-1]).read_text().splitlines():
    what, *rest = line.split()
    if what == "input":
        files.append(rest)
    elif what == "output":
        dtype, dims, content = files[0]
        data = pathlib.Path(content).read_bytes()
        pathlib.Path(rest[1]).write_bytes(data * int(sys.argv[2]))
    elif what == "run":
        print(sys.argv[1])
        files = []
"""


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    (tmp_path / "echo.py").write_text(ECHO)
    return JobFolder(tmp_path)


def answer(folder: JobFolder, said: str, times: int = 1):
    (outcome,) = folder.run([sys.executable, "echo.py", said, str(times)])
    return outcome


OK = '{"status": 0, "reason": "", "dims": [[2, 3]], "isa": "any"}'
X = np.array([[1, 2, np.nan], [4, 5, np.inf]], np.float32)


def test_equal_answers_are_right_and_the_rest_of_what_is_said_is_kept(folder):
    folder.add("same", b"code", [Tensor(X)], [Tensor(X)], image=b"image", repeats=3)
    outcome = answer(folder, OK)
    assert (outcome.name, outcome.message, outcome.max_error) == ("same", "", 0.0)
    assert outcome.details == {"isa": "any"}


def test_a_different_element_is_named_with_the_largest_error(folder):
    wrong = X.copy()
    wrong[1, 1] = 5.5
    folder.add("other", b"code", [Tensor(X)], [Tensor(wrong)])
    outcome = answer(folder, OK)
    assert "1 elements differ, the first is number 4: 5.0, not 5.5" in outcome.message
    assert outcome.max_error == 0.5


def test_another_shape_is_wrong(folder):
    folder.add("shape", b"code", [Tensor(X)], [Tensor(X[:1])])
    assert answer(folder, OK).message == "output 0 is of shape [2, 3], not [1, 3]"


def test_a_refusal_has_its_reason(folder):
    folder.add("refused", b"code", [Tensor(X)], [Tensor(X)])
    outcome = answer(folder, '{"status": 2, "reason": "too small", "dims": []}')
    assert (outcome.reason, outcome.message) == ("too small", "too small")


def test_rows_are_repeated_where_the_shape_says_so(folder):
    rows = np.arange(6, dtype=np.int64).reshape(2, 3)
    folder.add("rows", b"code", [Tensor(rows, (4, 3))], [Tensor(rows, (4, 3))])
    said = OK.replace("[2, 3]", "[4, 3]")
    assert answer(folder, said, times=2).message == ""


def test_strings_are_written_with_their_sizes(folder, tmp_path):
    words = np.array([b"a", b"", b"long enough not to be inside of it"], object)
    folder.add("words", b"code", [Tensor(words)], [])
    folder.save()
    (line,) = [x for x in (tmp_path / "jobs.txt").read_text().splitlines() if "input" in x]
    _, dtype, dims, content = line.split()
    assert (dtype, dims) == ("string", "3")
    written = (tmp_path / content).read_bytes()
    assert written == b"\1\0\0\0a\0\0\0\0\x22\0\0\0long enough not to be inside of it"


def test_a_program_that_fails_is_an_error_with_what_it_said(folder):
    folder.add("any", b"code", [Tensor(X)], [Tensor(X)])
    with pytest.raises(RuntimeError, match="no device"):
        folder.run([sys.executable, "-c", "import sys; sys.exit('no device')"])
