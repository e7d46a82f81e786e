"""What `optimize` asks of the original's graph: all at once, so that its proto, 200 MB for 100,000
nodes, need not stay in memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tf_blade.parse_example import ExampleFeature, find_features
from tf_blade.saved_model import Signature
from tf_blade.servable import why_not_servable
from tf_blade.signatures import choose_signatures, keeps_state, reachable_nodes, read_meta_graph
from tf_blade.trial import is_risky


@dataclass(frozen=True)
class Original:
    """Facts about one MetaGraph of a SavedModel, and some of its signatures.

    Attributes:
      tags: of the MetaGraph.
      signatures: those that are meant, by name.
      features: for each of them, what its ParseExample nodes ask for.
      no_session: for each, why a C++ session can't run it; "" if it can.
      has_objects: whether the model is of the TF2 format, with an object graph.
      stateful: whether calls of the signatures may change the answers of later calls.
      risky: whether running them may crash the process.
    """

    tags: tuple[str, ...]
    signatures: dict[str, Signature]
    features: dict[str, list[ExampleFeature]]
    no_session: dict[str, str]
    has_objects: bool
    stateful: bool
    risky: bool

    @property
    def prefers_session(self) -> bool:
        """Whether the signatures are best run in a C++ session (see `Runner`)."""
        return not self.has_objects and not any(self.no_session.values())

    @classmethod
    def read(
        cls,
        directory: str | os.PathLike[str],
        tags: Sequence[str] | None,
        signatures: Iterable[str] | None,
    ) -> Original:
        """Facts about the signatures named (None: all). Raises as `read_meta_graph` and
        `choose_signatures` do."""
        meta = read_meta_graph(directory, tags)
        chosen = choose_signatures(meta, signatures)
        return cls(
            meta.tags,
            chosen,
            {name: find_features(meta, reachable_nodes(meta, name)) for name in chosen},
            {name: why_not_servable(meta.graph_def, found) for name, found in chosen.items()},
            meta.object_graph is not None,
            keeps_state(meta, chosen),
            is_risky(meta, chosen),
        )
