"""How many copies of a model are in memory, and when."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api import fakes
from tf_blade import Config, api, loaded_models, original
from tf_blade.errors import MismatchError
from tf_blade.runner import Runner

QUICK = Config(timing_seconds=0.1, keep_slower=True)


@dataclasses.dataclass
class Memory:
    """Copies in memory now, the most there were at once, and where each was loaded, in order."""

    now: int = 0
    most: int = 0
    loads: list[str] = dataclasses.field(default_factory=list)
    grappler: list[bool] = dataclasses.field(default_factory=list)  # of each load


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Memory]:
    found = Memory()

    class Counted(Runner):
        def __init__(self, directory, tags, grappler=True, in_session=None) -> None:
            found.now += 1  # from the moment that loading begins
            found.most = max(found.most, found.now)
            super().__init__(directory, tags, grappler, in_session)
            found.loads.append("session" if self.in_session else "Python")
            found.grappler.append(grappler)

        def close(self) -> None:
            found.now -= 1
            super().close()

    monkeypatch.setattr(loaded_models, "Runner", Counted)
    yield found
    assert found.now == 0


def watched(memory: Memory, copies: set[int]) -> api.Driver:
    """A driver that is told how many copies may be loaded while it runs."""

    def driver(source_dir, staging_dir, config, signatures, progress, **_):
        assert memory.now in copies
        return fakes.copying(source_dir, staging_dir, config, signatures, progress)

    return driver


def test_a_tf2_model_is_checked_in_python_then_timed_in_sessions(
    two_signatures: Path, memory: Memory
):
    api.run(watched(memory, {0}), two_signatures, config=QUICK)
    # The original answers the feeds; the result is checked; both are timed.
    assert memory.loads == ["Python", "Python", "session", "session"]
    assert memory.grappler == [False, True, True, True]
    assert memory.most == 2


def test_a_tf1_model_is_loaded_once(tf1_model: Path, memory: Memory):
    api.run(watched(memory, {0, 1}), tf1_model, config=QUICK)
    assert memory.loads == ["session", "session"]
    assert memory.grappler == [True, True]


def test_a_tf1_model_that_is_not_timed_is_let_go_before_the_check(tf1_model: Path, memory: Memory):
    api.run(watched(memory, {0}), tf1_model, config=dataclasses.replace(QUICK, timing_seconds=0))
    assert memory.loads == ["session", "session"]
    assert memory.most == 1


def test_without_timing_a_tf2_model_needs_one_copy_at_a_time(two_signatures: Path, memory: Memory):
    config = dataclasses.replace(QUICK, timing_seconds=0)
    api.run(watched(memory, {0}), two_signatures, config=config)
    assert memory.loads == ["Python", "Python"]
    assert memory.most == 1


def test_a_model_with_state_starts_afresh_for_the_check_and_for_the_timing(
    stateful: Path, memory: Memory
):
    model = api.run(watched(memory, {0}), stateful, config=QUICK)
    assert memory.loads == ["Python"] * 3 + ["session"] * 2
    assert memory.most == 2
    assert model.report.signature("serving_default").latency[0].timed_in == "session"


def test_signatures_for_sessions_and_for_python_are_timed_one_after_the_other(
    dense_and_sparse: Path, memory: Memory
):
    api.run(watched(memory, {0}), dense_and_sparse, config=QUICK)
    assert memory.loads == ["Python", "Python", "session", "session", "Python", "Python"]
    assert memory.most == 2


def test_a_random_model_is_never_loaded_more_than_twice(random_model: Path, memory: Memory):
    api.run(watched(memory, {0}), random_model, config=QUICK)
    assert memory.most == 2


def test_a_model_with_state_that_only_python_runs_is_timed_with_grappler(
    stateful: Path, memory: Memory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(original, "why_not_servable", lambda *_: "it can't be fed")
    api.run(watched(memory, {0}), stateful, config=QUICK)
    # To plan feeds, to check both, and the original once more to be timed.
    assert memory.loads == ["Python"] * 4
    assert memory.grappler == [False, False, True, True]


def test_every_copy_is_let_go_after_an_error(stateful: Path, two_signatures: Path, memory: Memory):
    with pytest.raises(MismatchError):
        api.run(fakes.adding_to_constants(0.5), stateful, config=QUICK)
    with pytest.raises(ZeroDivisionError):
        api.run(fakes.failing, two_signatures, config=QUICK)
