"""docs/how-it-works.md shows what the code prints today."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "how-it-works.md"


def blocks() -> list[tuple[str, str]]:
    """(language, text) of the page's code blocks."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def dump(tmp_path_factory):
    """The folder that the page's own code writes."""
    folder = tmp_path_factory.mktemp("how_it_works")
    (code,) = [text for language, text in blocks() if language == "python"]
    (folder / "page.py").write_text(code)
    environment = dict(os.environ, PYTHONPATH=str(ROOT), TF_CPP_MIN_LOG_LEVEL="2")
    done = subprocess.run(
        [sys.executable, "page.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "dump" / "blade_cluster_0"


@pytest.mark.parametrize("file", ["1_lowered.ir", "2_rewritten.ir", "3_fused.txt"])
def test_the_page_shows_what_is_dumped(dump, file):
    shown = [text.strip() for language, text in blocks() if not language]
    assert (dump / file).read_text().strip() in shown


def test_the_kernels_name_their_nodes(dump):
    source = (dump / "4_kernels.cc").read_text()
    assert re.search(r"// row_reduce_0: .*Softmax", source)
