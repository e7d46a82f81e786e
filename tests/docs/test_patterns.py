"""docs/patterns.md prints what it says it prints, with the kernel compiled as it says."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.patterns.kernels import ROOT, dense_gelu


def test_the_page_prints_what_it_shows(tmp_path: Path):
    page = (ROOT / "docs" / "patterns.md").read_text()
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    code = "\n".join(text for name, text in blocks if name == "python")
    (tmp_path / "page.py").write_text(code.replace("libdense_gelu.so", str(dense_gelu())))
    environment = {
        "PYTHONPATH": str(ROOT),
        "TF_BLADE_CACHE": str(tmp_path / "cache"),
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
    done = subprocess.run(
        [sys.executable, "page.py"],
        cwd=tmp_path,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed = [text for name, text in blocks if not name and not text.startswith("cc ")]
    assert done.stdout == "".join(printed)
