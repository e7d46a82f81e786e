"""An optimised model with only some of its clusters, or with other executables in them."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from tensorflow.core.framework import attr_value_pb2

from tf_blade.check import FeedPlan, check
from tf_blade.child import Child
from tf_blade.config import Config
from tf_blade.debug.suspects import SuspectModel
from tf_blade.dump.edit import cluster_of, edit_clusters, run_fallback
from tf_blade.graph.graph import Graph, Node
from tf_blade.original import Original
from tf_blade.report import CheckReport
from tf_blade.runner import Model, Recorded, Runner

_NONE: Mapping[str, bytes] = {}


@contextlib.contextmanager
def variant(
    optimized: Path, enabled: Collection[str], executables: Mapping[str, bytes] = _NONE
) -> Iterator[Path]:
    """A copy of an optimised model, for as long as this is open.

    Args:
      optimized: the model's folder.
      enabled: names of the clusters and lookups that stay; TensorFlow runs the others' nodes.
      executables: what clusters run in the place of their own executables, by name.
    """

    def edit(graph: Graph, node: Node) -> None:
        name = cluster_of(node)
        if name not in enabled:
            run_fallback(node)
        elif name in executables:
            node.attrs["executable"] = attr_value_pb2.AttrValue(s=executables[name])

    with tempfile.TemporaryDirectory(prefix="tf_blade_variant_") as folder:
        target = Path(folder) / "model"
        edit_clusters(optimized, target, edit)
        yield target


class Judge:
    """Says where a variant's answers differ from the original's.

    Args:
      directory: the original model.
      known: facts about it.
      plans: feeds for its signatures.
      config: the tolerances.
      child: where variants run, which may crash.

    Attributes:
      tries: how many models were judged.
      crash: how the last one crashed, "" if it didn't.
      random: (signature, output) pairs on which the original disagrees with itself.
    """

    def __init__(
        self,
        directory: Path,
        known: Original,
        plans: Mapping[str, FeedPlan],
        config: Config,
        child: Child,
    ) -> None:
        self._directory = directory
        self._known = known
        self._plans = plans
        self._config = config
        self._child = child
        self._answers = Recorded(self._asked)
        self._loaded: Runner | None = None
        self.tries = 0
        self.crash = ""
        self.random: set[tuple[str, str]] = set()

    def checks(self, directory: Path) -> dict[str, CheckReport]:
        """A model's answers held against the original's, by signature."""
        self.tries += 1
        tags, in_session = self._known.tags, self._known.prefers_session
        suspect = SuspectModel(self._child, directory, tags, True, in_session)
        with self._original() as original, contextlib.closing(suspect):
            found = check(original, suspect, self._plans, self._config)
        self.crash = suspect.crash
        return found

    def fails(self, directory: Path) -> bool:
        """Whether the model is wrong where the original gives the same answer each time."""
        return bool(self.mismatches(self.checks(directory)))

    def mismatches(self, checks: Mapping[str, CheckReport]) -> list[tuple[str, int]]:
        """(signature, number of its comparison) of each that fails and isn't random."""
        return [
            (name, i)
            for name, found in checks.items()
            for i, output in enumerate(found.outputs)
            if not output.ok and (output.message or (name, output.output) not in self.random)
        ]

    def find_random(self) -> None:
        """Compares the original with itself, and remembers the outputs that differ."""
        first, second = self._load(), self._load()
        with contextlib.closing(first), contextlib.closing(second):
            itself = check(first, second, self._plans, self._config)
        for name, found in itself.items():
            self.random |= {(name, output.output) for output in found.mismatches}

    @contextlib.contextmanager
    def _original(self) -> Iterator[Model]:
        """The original as it was saved, or the answers it gave, if calls leave no trace."""
        if self._known.stateful:
            with contextlib.closing(self._load()) as model:
                yield model
            return
        try:
            yield self._answers
        finally:
            if self._loaded is not None:
                self._loaded.close()
                self._loaded = None

    def _asked(self) -> Runner:
        if self._loaded is None:
            self._loaded = self._load()
        return self._loaded

    def _load(self) -> Runner:
        # Variants run with Grappler, as they will be served; the original may go without.
        return Runner(self._directory, self._known.tags, False, self._known.prefers_session)
