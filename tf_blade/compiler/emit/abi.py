"""The text of cc/blade_abi.h, which every generated file begins with, and of its companions."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).parents[2]


def header_path(name: str) -> Path:
    """Where a header of cc/ is. Raises FileNotFoundError if the installation is broken."""
    # In a source tree, and in an installed package.
    places = (_PACKAGE.parent / "cc" / name, _PACKAGE / "_lib" / Path(name).name)
    for place in places:
        if place.is_file():
            return place
    raise FileNotFoundError(f"{name} is at none of {', '.join(map(str, places))}")


@cache
def header(name: str) -> str:
    """The text of a header of cc/."""
    return header_path(name).read_text().strip()


def abi_header() -> str:
    """The text of blade_abi.h."""
    return header("blade_abi.h")


@cache
def abi_version() -> int:
    """BLADE_ABI_VERSION."""
    found = re.search(r"^#define BLADE_ABI_VERSION (\d+)$", abi_header(), re.MULTILINE)
    assert found is not None
    return int(found.group(1))
