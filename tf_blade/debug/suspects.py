"""Compiled code that may crash, and models with it: run in a child process.

TensorFlow is imported there for models only.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tf_blade import _runtime, machine
from tf_blade.child import Child, Crashed

if TYPE_CHECKING:
    from tf_blade.runner import Answers, Feeds, Runner


class Refused(Exception):
    """The compiled code or the interpreter doesn't cover these inputs; the text says why."""


def run_executable(
    container: bytes,
    arrays: Sequence[np.ndarray],
    dtypes: Sequence[np.dtype],
    constant_inputs: Sequence[int] = (),
) -> list[np.ndarray]:
    """What compiled code gives, in this process. Raises Refused."""
    try:
        results: list[np.ndarray] = _runtime.Executable(container).run(
            list(arrays),
            list(dtypes),
            threads=machine.available_cpus(),
            constant_inputs=list(constant_inputs),
        )
    except _runtime.Refused as refusal:
        raise Refused(str(refusal)) from None
    return results


class SuspectModel:
    """A SavedModel in a child process; a `tf_blade.runner.Model` besides.

    Args:
      child: where it runs.
      directory, tags, grappler, in_session: as for `tf_blade.runner.Runner`.

    Attributes:
      directory, tags: as given.
      crash: how it crashed, "" if it didn't. Then it isn't asked any more.
    """

    def __init__(
        self, child: Child, directory: Path, tags: tuple[str, ...], grappler: bool, in_session: bool
    ) -> None:
        self.directory, self.tags = os.fspath(directory), tags
        self.crash = ""
        self._child = child
        self._options = grappler, in_session

    def run(self, signature: str, feeds: Feeds) -> Answers:
        """As `Runner.run`. Raises Crashed besides."""
        if self.crash:
            raise Crashed(self.crash)
        try:
            return self._child.call(
                _answer, self.directory, self.tags, *self._options, signature, feeds
            )
        except Crashed as crash:
            self.crash = str(crash)
            raise

    def close(self) -> None:
        """Gives the model's memory back."""
        if not self.crash:
            self._child.call(_forget, self.directory)


# In the child: the models asked so far, until they are closed.
_models: dict[str, Runner] = {}


def _answer(
    directory: str,
    tags: tuple[str, ...],
    grappler: bool,
    in_session: bool,
    signature: str,
    feeds: Feeds,
) -> Answers:
    from tf_blade.runner import Runner

    if directory not in _models:
        _models[directory] = Runner(directory, tags, grappler, in_session)
    return _models[directory].run(signature, feeds)


def _forget(directory: str) -> None:
    if directory in _models:
        _models.pop(directory).close()
