"""Garbage: large graphs are looked at rarely, and what is free goes back to the system."""

from __future__ import annotations

import contextlib
import ctypes
import gc
from collections.abc import Iterator

# Objects made between two looks at the young ones, and how many of these looks until older ones
# are looked at. A graph of 100,000 nodes is millions of objects, none of them garbage: with
# Python's own thresholds the collector takes most of the time that copying it does.
_THRESHOLDS = (200_000, 20, 1_000)


@contextlib.contextmanager
def rarely_collected() -> Iterator[None]:
    """Within this, garbage that refers to itself is looked for rarely."""
    before = gc.get_threshold()
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextlib.contextmanager
def spared() -> Iterator[None]:
    """Within this, what exists already is not looked at: to be used where much is given back.

    TensorFlow and the compiler are objects enough to take a quarter of a second each time.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def give_back() -> None:
    """Collects garbage and hands freed memory back to the system, where the C library can."""
    gc.collect()
    trim()


def trim() -> None:
    """Hands freed memory back to the system, where the C library can.

    Each thread has its own: what one has freed is not there for another to take.
    """
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
