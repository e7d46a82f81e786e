"""The parts of `prelude.h` that a program needs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

_PART = re.compile(r"^//@ (\w+):(.*)$", re.MULTILINE)


_PRELUDE = Path(__file__).with_name("prelude.h")


@cache
def _parts(file: Path) -> dict[str, tuple[tuple[str, ...], str]]:
    """name -> (names it needs, text), in the file's order."""
    pieces = _PART.split(file.read_text())[1:]
    return {
        name: (tuple(n.strip() for n in needs.split(",") if n.strip()), text.strip())
        for name, needs, text in zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True)
    }


def prelude(names: Iterable[str], own: Path | None = None) -> str:
    """The text of the named parts and of what they need, in the order of prelude.h.

    own: a file of the same form, whose parts come before those of prelude.h.
    """
    parts = _parts(_PRELUDE) | (_parts(own) if own is not None else {})
    wanted: set[str] = set()
    todo = ["types", *names]
    while todo:
        name = todo.pop()
        if name not in wanted:
            wanted.add(name)
            todo.extend(parts[name][0])
    return "\n\n".join(text for name, (_, text) in parts.items() if name in wanted) + "\n"


def part_names() -> list[str]:
    return list(_parts(_PRELUDE))
