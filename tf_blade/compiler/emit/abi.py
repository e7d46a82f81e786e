"""The text of cc/blade_abi.h, which every generated file begins with."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).parents[2]
# In a source tree, and in an installed package.
_PLACES = (_PACKAGE.parent / "cc" / "blade_abi.h", _PACKAGE / "_lib" / "blade_abi.h")


@cache
def abi_header() -> str:
    """The header's text. Raises FileNotFoundError if the installation is broken."""
    for place in _PLACES:
        if place.is_file():
            return place.read_text().strip()
    raise FileNotFoundError(f"blade_abi.h is at none of {', '.join(map(str, _PLACES))}")


@cache
def abi_version() -> int:
    """BLADE_ABI_VERSION."""
    found = re.search(r"^#define BLADE_ABI_VERSION (\d+)$", abi_header(), re.MULTILINE)
    assert found is not None
    return int(found.group(1))
