"""Halving: which of many things makes something fail, in as few tries as there can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

_Item = TypeVar("_Item")


def first_failing(count: int, fails: Callable[[int], bool]) -> int:
    """The smallest n with fails(n), in about log2(count) tries.

    Args:
      count: fails(count) is known to be true, and fails(0) to be false.
      fails: once it is true, it stays true; where that doesn't hold, the result is some n with
        fails(n) and not fails(n - 1).
    """
    good, bad = 0, count
    while bad - good > 1:
        middle = (good + bad) // 2
        if fails(middle):
            bad = middle
        else:
            good = middle
    return bad


def minimal_failing(
    items: Sequence[_Item], fails: Callable[[Sequence[_Item]], bool]
) -> list[_Item]:
    """Items that fail together, of which none can be left out.

    Args:
      items: fails(items) is known to be true, and fails([]) to be false.
      fails: whether these items together fail. Adding items to some that fail never helps.

    Returns: one such set, in about log2(len(items)) tries for each of its items.
    """
    found: list[_Item] = []
    rest = list(items)
    while rest and not (found and fails(found)):
        n = first_failing(len(rest), partial(_prefix_fails, fails, rest, found))
        found.insert(0, rest[n - 1])
        rest = rest[: n - 1]
    return found


def _prefix_fails(
    fails: Callable[[Sequence[_Item]], bool], rest: list[_Item], found: list[_Item], n: int
) -> bool:
    return fails([*rest[:n], *found])


def all_failing(
    items: Sequence[_Item], fails: Callable[[Sequence[_Item]], bool], most: int
) -> tuple[list[list[_Item]], list[_Item]]:
    """Every minimal set of items that fails, no item being in two of them.

    Args:
      items, fails: as above; all items are known to fail together.
      most: how many sets to look for.

    Returns: the sets, and the items that are left. These may fail only if `most` were found.
    """
    groups: list[list[_Item]] = []
    left = list(items)
    while len(groups) < most and (not groups or (left and fails(left))):
        groups.append(minimal_failing(left, fails))
        left = [item for item in left if item not in groups[-1]]
    return groups, left
