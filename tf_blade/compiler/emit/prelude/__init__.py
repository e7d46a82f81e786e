"""The prelude: functions that generated code uses.

Each part in the files of this folder starts with `//@ name: parts it needs`; only the parts that a
program needs are printed into its source.

Functions of f32 are branch-free, so that a loop that calls them is vectorised. Their errors are in
units of the last place (ulp) against the correctly rounded result, and tests hold them to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

_PART = re.compile(r"^//@ (\w+):(.*)$", re.MULTILINE)


# In this order, since a part stands behind those that it needs.
_FILES = (
    *("types", "run", "lanes", "rows", "halves", "floats"),
    *("exponentials", "sigmoids", "tables", "pieces", "trigonometric", "hyperbolic"),
    *("integers", "listing"),
)
_PRELUDE = tuple(Path(__file__).with_name(f"{name}.h") for name in _FILES)

_Parts = dict[str, tuple[tuple[str, ...], str]]


@cache
def _parts(*files: Path) -> _Parts:
    """name -> (names it needs, text), in the files' order."""
    found: _Parts = {}
    for file in files:
        pieces = _PART.split(file.read_text())[1:]
        for name, needs, text in zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True):
            found[name] = tuple(n.strip() for n in needs.split(",") if n.strip()), text.strip()
    return found


def prelude(names: Iterable[str], own: Path | None = None) -> str:
    """The text of the named parts and of what they need.

    own: a file of the same form, whose parts are taken before those of the prelude.
    """
    parts = _parts(*_PRELUDE) | (_parts(own) if own is not None else {})
    wanted: set[str] = set()
    todo = ["types", *names]
    while todo:
        name = todo.pop()
        if name not in wanted:
            wanted.add(name)
            todo.extend(parts[name][0])
    return "\n\n".join(text for name, (_, text) in parts.items() if name in wanted) + "\n"


def part_names() -> list[str]:
    return list(_parts(*_PRELUDE))
