"""docs/supported_ops.md is what the table of lowerings says today."""

from pathlib import Path

from tf_blade.compiler.lower.table import page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "supported_ops.md"


def test_the_page_is_up_to_date():
    command = "python -m tf_blade.compiler.lower.table > docs/supported_ops.md"
    assert PAGE.read_text() == page(), f"run: {command}"
