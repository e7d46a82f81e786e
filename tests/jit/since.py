"""What happened since a moment: tf_blade.jit_stats() counts from the beginning of the process."""

from __future__ import annotations

import time
from collections import Counter

import tf_blade


class Since:
    """The counts of tf_blade.jit_stats() since this was made."""

    def __init__(self) -> None:
        self._before = tf_blade.jit_stats()

    def __getattr__(self, name: str):
        before, now = getattr(self._before, name), getattr(tf_blade.jit_stats(), name)
        if isinstance(now, dict):
            return dict(Counter(now) - Counter(before))
        return now - before


def until(condition) -> None:
    """Waits for what must come; the limit only ends a test that hangs."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, f"it never came:\n{tf_blade.jit_stats()}"
        time.sleep(0.01)
