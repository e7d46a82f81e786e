"""How long work tells where it stands: a callable that anything may pass along."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called at the start of a stage and as it advances.

    Args:
      stage: what is being done, for people: "compile kernels".
      done, total: finished and planned units; total 0 when it isn't known.
    """

    def __call__(self, stage: str, done: int = 0, total: int = 0) -> None: ...


def silent(stage: str, done: int = 0, total: int = 0) -> None:
    """Says nothing."""
