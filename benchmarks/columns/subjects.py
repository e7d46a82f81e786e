"""What is run: generated columns, generated ranking models, models of the zoo."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from benchmarks import cases, zoo
from benchmarks.columns import feeds, model
from benchmarks.columns.feeds import Feed, Ids
from benchmarks.columns.model import ModelSpec

ROOT = Path(__file__).resolve().parents[2]
GENERATED = ROOT / "build" / "feature_columns"
_ZOO = ROOT / "build" / "models"

# Ranking models of the sizes that EasyRec's users have. Their tables are smaller than those of the
# bare columns, or original and optimised model would not fit a small machine's memory together.
_RANKING_ROWS = 10_000
RANKING = {
    f"ranking_{count}": ModelSpec(count, rows=_RANKING_ROWS, mlp=True) for count in (237, 1443)
}
FROM_ZOO = ("census", "deepctr_wdl", "deepctr_deepfm", "deepctr_xdeepfm", "deepctr_din")


class Subject(Protocol):
    """A SavedModel and feeds for it."""

    @property
    def name(self) -> str: ...
    @property
    def saved_model(self) -> Path: ...
    @property
    def signature(self) -> str: ...

    def feeds(self, batch: int, ids: Ids, user_share: float, count: int) -> list[Feed]: ...


@dataclass(frozen=True)
class Generated:
    """A model of `model.py`; building it is `model.build(spec, GENERATED)`."""

    spec: ModelSpec
    signature: str = model.SIGNATURE

    @property
    def name(self) -> str:
        by_spec = {spec: name for name, spec in RANKING.items()}
        return by_spec.get(self.spec, f"columns_{self.spec.columns}_{self.spec.source}")

    @property
    def saved_model(self) -> Path:
        return GENERATED / self.spec.name

    def idle_model(self) -> Path:
        """A model with the same inputs that does nothing, generated unless it is there."""
        return model.build_idle(self.spec, GENERATED)

    def feeds(self, batch: int, ids: Ids, user_share: float, count: int) -> list[Feed]:
        columns = model.plan(self.spec)
        return [feeds.make(columns, batch, ids, user_share, seed) for seed in range(count)]


@dataclass(frozen=True)
class FromZoo:
    """A model of `zoo.py`; its feeds are slices of the large one, whatever ids are asked for."""

    case: cases.ModelCase

    @property
    def name(self) -> str:
        return self.case.name

    @property
    def saved_model(self) -> Path:
        return self.case.saved_model

    @property
    def signature(self) -> str:
        return self.case.signature

    def feeds(self, batch: int, ids: Ids, user_share: float, count: int) -> list[Feed]:
        large = self.case.feeds("large")
        rows = min(len(value) for value in large.values())
        found = []
        for index in range(count):
            picked = (np.arange(batch) + index * batch) % rows
            found.append(Feed({name: value[picked] for name, value in large.items()}, []))
        return found


def whole_models(names: list[str]) -> list[str]:
    """The names of whole models to run: these, or all. Raises ValueError for an unknown one."""
    known = [*(name for name in FROM_ZOO if name in zoo.names()), *RANKING]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"no model called {', '.join(unknown)}; there are {', '.join(known)}")
    return names or known


def encode(subject: str | ModelSpec) -> dict[str, Any]:
    """A subject as JSON takes it."""
    return {"name": subject} if isinstance(subject, str) else {"spec": asdict(subject)}


def build(code: dict[str, Any]) -> Subject:
    """The subject that `encode` wrote down, generated now if it does not exist yet."""
    spec = RANKING.get(code.get("name", ""))
    if "spec" in code:
        spec = ModelSpec(**code["spec"])
    if spec is None:
        (case,) = zoo.build_zoo(_ZOO, [code["name"]])
        return FromZoo(case)
    model.build(spec, GENERATED)
    return Generated(spec)
