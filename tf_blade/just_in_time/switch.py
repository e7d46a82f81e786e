"""Whether TensorFlow hands its graphs over."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator


class Switch:
    """On or off, and off for a while whatever it is. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._accept: Callable[[bool], None] = lambda accepting: None
        self._on = False
        self._pauses = 0

    def connect(self, accept: Callable[[bool], None]) -> None:
        """`accept` is called with whether graphs are to be handed over, when that changes."""
        with self._lock:
            self._accept = accept

    def turn(self, on: bool) -> None:
        """Turns it on or off; during a pause, for after it."""
        with self._lock:
            self._on = on
            self._accept(self._on and not self._pauses)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Off in all threads meanwhile: for graphs that must run as they are."""
        self._pause(1)
        try:
            yield
        finally:
            self._pause(-1)

    def end_in_fork(self) -> None:
        """Off for good: nobody answers in a process that was forked off."""
        self._lock = threading.Lock()  # another thread may have held it, and is not here
        self._accept(False)
        self._accept = lambda accepting: None

    def _pause(self, by: int) -> None:
        with self._lock:
            self._pauses += by
            self._accept(self._on and not self._pauses)


SWITCH = Switch()
