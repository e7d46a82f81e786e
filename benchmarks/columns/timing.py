"""Timing of rivals in turn, in blocks that go round the same feeds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from benchmarks.columns.client import Block

_BLOCK_SECONDS = 0.02
_MIN_BLOCKS, _MAX_BLOCKS = 5, 400


@dataclass(frozen=True)
class Spread:
    """The median of paired ratios, and how far they scatter."""

    median: float
    p10: float
    p90: float


@dataclass(frozen=True)
class Timed:
    """The blocks of all rivals; the i-th blocks of two rivals were run next to each other."""

    blocks: Mapping[str, list[Block]]

    def latency_ms(self, name: str, percentile: float) -> float:
        """Of single calls, over all blocks."""
        calls = np.concatenate([block.seconds for block in self.blocks[name]])
        return float(np.percentile(calls, percentile)) * 1e3

    def calls_per_second(self, name: str) -> float:
        """Of all clients together: the median over the blocks."""
        return float(np.median([block.calls / block.wall for block in self.blocks[name]]))

    def ratio(self, slow: str, fast: str) -> Spread:
        """How many times more calls `fast` makes in the same time."""
        pairs = [
            (first.wall / first.calls) / (second.wall / second.calls)
            for first, second in zip(self.blocks[slow], self.blocks[fast], strict=True)
        ]
        p10, median, p90 = np.percentile(pairs, [10, 50, 90])
        return Spread(float(median), float(p10), float(p90))


def interleave(rivals: Mapping[str, Callable[[int], Block]], feeds: int, seconds: float) -> Timed:
    """Times the rivals in turn for about `seconds` altogether.

    A rival makes as many calls as it is told, from each of its clients. Each block goes round all
    `feeds`, once or several times over, so that every block of every rival has the same work in it.
    Who goes first changes from turn to turn.
    """
    rounds = {}
    for name, run in rivals.items():
        run(feeds)
        once = run(feeds).wall
        rounds[name] = feeds * max(1, round(_BLOCK_SECONDS / max(once, 1e-7)))
    blocks: dict[str, list[Block]] = {name: [] for name in rivals}
    order = list(rivals)
    end = time.perf_counter() + seconds
    for turn in range(_MAX_BLOCKS):
        if turn >= _MIN_BLOCKS and time.perf_counter() > end:
            break
        for name in order:
            blocks[name].append(rivals[name](rounds[name]))
        order.append(order.pop(0))
    return Timed(blocks)
