"""docs/jit.md prints what it says it prints."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "jit.md"


def test_the_page_prints_what_it_shows(tmp_path):
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    (tmp_path / "page.py").write_text("\n".join(text for name, text in blocks if name == "python"))
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
    assert done.stdout == "".join(text for name, text in blocks if not name)
