"""The changes on the way from a graph to kernels, one by one: watched, and stopped after some.

    steps = Steps(limit=7)
    rewrite(program, RewriteLog(steps=steps))
    kernels = plan(program, steps)
    steps.made        # the first seven changes, each with what stood there before and after

The stages make their changes in a fixed order, and a change doesn't depend on those after it, so
the first seven are the same whatever the limit is. That is what lets `tf-blade bisect` halve them,
and, once a wrong one is found, look for others without its kind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

Stage = Literal["pass", "rewrite", "inline", "fuse"]


@dataclass(frozen=True)
class Step:
    """One change.

    Attributes:
      number: its place among all changes, from 1.
      stage: what was changed: the graph, the program's ops, what has memory, the kernels.
      rule: what made it: a rule's name, a pass's.
      before, after: IR text (of a fusion: groups of ops; of a pass: the graph's size).
      nodes: names of the TensorFlow nodes that it is about, separated by commas.
    """

    number: int
    stage: Stage
    rule: str
    before: str
    after: str
    nodes: str

    def __str__(self) -> str:
        return f"{self.stage} {self.number}: {self.rule} ({self.nodes})"


# Before, after, and the nodes' names.
Description = tuple[str, str, str]


@dataclass
class Steps:
    """Counts changes, and keeps a record of those that were made.

    Attributes:
      limit: how many may be made. None: all.
      without: (stage, rule) pairs of changes that may not be made, and don't count.
      made: those that were, in order.
    """

    limit: int | None = None
    without: frozenset[tuple[Stage, str]] = frozenset()
    made: list[Step] = field(default_factory=list)

    def allow(self, stage: Stage, rule: str, describe: Callable[[], Description]) -> bool:
        """Whether the change may be made. The caller makes it if so: it is recorded now."""
        number = len(self.made) + 1
        if (self.limit is not None and number > self.limit) or (stage, rule) in self.without:
            return False
        before, after, nodes = describe()
        self.made.append(Step(number, stage, rule, before, after, nodes))
        return True
