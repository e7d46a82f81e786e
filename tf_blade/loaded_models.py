"""Which copies of a model are in memory while it is optimised.

A copy may take gigabytes, so each is loaded when it is first needed and let go as soon as it isn't.
There are never more than two:

| while                         | of the original                           | of the result |
|-------------------------------|-------------------------------------------|---------------|
| feeds are planned             | one, whose answers are recorded           | none          |
| passes run                    | none*                                     | none          |
| answers are checked           | one afresh if calls change it, else none* | one           |
| outputs may be random         | two afresh                                | none          |
| latency is measured           | one                                       | one           |

* A TF1 model that will be timed stays: it runs in a session already, and large ones take long to
load. Its feeds are planned while the passes run. Others are planned and checked in Python and then
loaded into a session to be timed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from tf_blade.original import Original
from tf_blade.progress import Progress, silent
from tf_blade.runner import Model, Recorded, Runner

_Asked = TypeVar("_Asked")
_Done = TypeVar("_Done")


class LoadedModels:
    """The original and the result of one `optimize`, loaded and let go as the table above says.

    Args:
      source, staging: folders of the original and, once it is written, of the result.
      original: what is known of the original.
      timed: whether latency will be measured.
    """

    def __init__(
        self,
        source: Path,
        staging: Path,
        original: Original,
        timed: bool,
    ) -> None:
        self._source, self._staging = source, staging
        self._original = original
        self._timed = timed
        self._stays = timed and original.prefers_session and not original.stateful
        self._loaded: dict[Path, Runner] = {}
        self._answers = Recorded(self.original)

    def ask_beside(
        self,
        ask: Callable[[Model, Progress], _Asked],
        work: Callable[[Progress], _Done],
        progress: Progress,
    ) -> tuple[_Asked, _Done]:
        """Results of `ask`, which may run the original, and of `work`.

        Both at once only if the original stays in memory in any case: beside the passes it would
        make the peak, 0.7 GB more for 100,000 nodes.

        The original's errors come first: a model that TensorFlow can't load or feeds that it can't
        take are the user's to mend.
        """
        if not self._stays:
            return self._ask(ask, progress), work(progress)
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(self._ask, ask, silent)

            def watchful(stage: str, done: int = 0, total: int = 0) -> None:
                if asked.done():
                    asked.result()
                progress(stage, done, total)

            try:
                result = work(watchful)
            except Exception:
                asked.result()
                raise
            progress("prepare inputs")
            return asked.result(), result

    def to_check(self) -> tuple[Model, Runner]:
        """The original, or the answers it gave, and the result: both as they were saved."""
        return self.original() if self._original.stateful else self._answers, self.optimized()

    @contextlib.contextmanager
    def two_originals(self) -> Iterator[tuple[Runner, Runner]]:
        """Two copies of the original as it was saved, for as long as this is open."""
        self.release()
        first, second = self._load(self._source), self._load(self._source)
        try:
            yield first, second
        finally:
            first.close()
            second.close()

    def original(self, in_session: bool | None = None) -> Runner:
        """The original, where it is to run; None: where it runs now, or where its format is best.

        Raises as `Runner` does.
        """
        return self._hold(self._source, in_session)

    def optimized(self, in_session: bool | None = None) -> Runner:
        """The result, likewise."""
        return self._hold(self._staging, in_session)

    def release(self) -> None:
        """Gives the memory of every copy back."""
        for directory in list(self._loaded):
            self._let_go(directory)

    def _ask(self, ask: Callable[[Model, Progress], _Asked], progress: Progress) -> _Asked:
        self.original()
        answer = ask(self._answers, progress)
        # Its answers are known. If giving them left traces, it must start afresh for the check.
        if not self._stays:
            self.release()
        return answer

    def _hold(self, directory: Path, in_session: bool | None) -> Runner:
        held = self._loaded.get(directory)
        if held is None:
            held = self._loaded[directory] = self._load(directory, in_session)
        elif in_session is not None and (held.in_session, held.grappler) != (in_session, True):
            self._let_go(directory)  # it isn't what is to be timed
            held = self._loaded[directory] = self._load(directory, in_session)
        return held

    def _load(self, directory: Path, in_session: bool | None = None) -> Runner:
        # Grappler takes a minute for a large graph. The original goes without where no latency is
        # measured: answers are compared with the graph as it is written. The result always runs as
        # it will be served.
        timed = in_session is not None or (self._timed and self._original.prefers_session)
        grappler = timed or directory == self._staging
        if in_session is None:
            in_session = self._original.prefers_session
        return Runner(directory, self._original.tags, grappler, in_session)

    def _let_go(self, directory: Path) -> None:
        self._loaded.pop(directory).close()
