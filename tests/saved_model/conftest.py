"""Builds the model zoo once, optimises each model with the passes, asks before and after."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.saved_model import zoo
from tests.saved_model.answers import Answer, ask, ask_in_fresh_process
from tf_blade import passes, saved_model


@dataclass
class Built:
    """A model of the zoo: where it is, what to ask, what it answered, by loader."""

    name: str
    path: Path
    questions: list[zoo.Question]
    answers: dict[str, list[Answer]]


def apply_passes(source: Path, target: Path, budget: passes.FreezeBudget | None = None) -> Counter:
    """Optimises a SavedModel with the passes alone; returns their counts."""
    bundle = saved_model.read(source)
    counts: Counter[str] = Counter()
    budget = budget or passes.FreezeBudget()
    for region in bundle.regions():
        ctx = passes.PassContext(region.variables, region.arg_shapes, budget)
        region.replace(passes.run(region.graph, ctx))
        counts.update(ctx.counts)
    bundle.write(str(target))
    return counts


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Built]:
    """Every model of the zoo, as its framework wrote it. Not to be changed."""
    root = tmp_path_factory.mktemp("zoo")
    found = {}
    for name, build in zoo.BUILDERS.items():
        path = root / name
        questions = build(str(path))
        answers = {loader: ask(str(path), loader, questions) for loader in ("v2", "v1")}
        found[name] = Built(name, path, questions, answers)
    return found


@pytest.fixture(scope="session")
def optimised(
    models: dict[str, Built], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, list[Answer] | str]]:
    """Answers of the optimised models, by name and loader.

    Each was optimised, optimised again from that, and asked in a fresh process with the original
    and the first result deleted.
    """
    root = tmp_path_factory.mktemp("optimised")
    jobs = []
    for name, built in models.items():
        copy, once, twice = root / f"{name}.copy", root / f"{name}.once", root / name
        shutil.copytree(built.path, copy)
        apply_passes(copy, once)
        shutil.rmtree(copy)
        apply_passes(once, twice)
        shutil.rmtree(once)
        jobs += [(str(twice), loader, built.questions) for loader in ("v2", "v1")]
    answers = ask_in_fresh_process(jobs, root)
    found: dict[str, dict[str, list[Answer] | str]] = {name: {} for name in models}
    for (path, loader, _), answer in zip(jobs, answers, strict=True):
        found[Path(path).name][loader] = answer
    return found
