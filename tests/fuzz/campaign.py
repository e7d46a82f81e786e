"""Fuzzing for a while: cases are drawn, checked, shrunk when they fail, and written down.

The work is done in a child process, so that a crash of TensorFlow or of generated code is one
more failure: the case at work lies in `running.pbtxt` and `.json` until it is through.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import signal
import time
import traceback
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings

from tests.fuzz.case import FuzzCase
from tests.fuzz.subject import Mismatch, Outcome, Unfit, check
from tf_blade.compiler.lower import LOWERINGS

HANGS_AFTER = 1800.0  # seconds that one seed may take: its cases, and five minutes of shrinking
BATCH = 40  # cases for one hypothesis seed: what is shrunk starts afresh then
_RUNNING = "running"


@dataclass
class Summary:
    """What a campaign saw. failures: what each one is called and its message."""

    seed: int
    seconds: float = 0.0
    cases: int = 0
    unfit: int = 0
    outcome: Outcome = field(default_factory=Outcome)
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def never(self) -> list[str]:
        """Lowered ops that no cluster held."""
        return sorted(op for op in LOWERINGS if op not in self.outcome.ops)

    def __str__(self) -> str:
        o = self.outcome
        lines = [
            f"seed {self.seed}: {self.cases} graphs in {self.seconds:.0f} s "
            f"({self.unfit} more that TensorFlow can't run), {len(self.failures)} failures",
            f"{o.clusters} clusters, {o.launches} launches, {sum(o.fallbacks.values())} of them "
            f"fell back; TensorFlow answered {o.answered} runs and reported {o.raised} errors",
            f"{len(LOWERINGS) - len(self.never)} of {len(LOWERINGS)} lowered ops were in clusters",
        ]
        if self.never:
            lines.append(f"never: {', '.join(self.never)}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """As JSON takes it."""
        return vars(self) | {"outcome": vars(self.outcome), "never": self.never}


def campaign(folder: Path, *, seconds: float, first_seed: int) -> Summary:
    """Fuzzes for about `seconds`, from the seed on; failures are written into the folder.

    What has begun when the time is over is finished, shrinking too.
    """
    folder.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + seconds
    total, number = Summary(first_seed), 0
    start = time.monotonic()
    context = multiprocessing.get_context("spawn")
    while time.monotonic() < end:
        ours, theirs = context.Pipe(duplex=False)
        arguments = (theirs, str(folder), first_seed + number, end - time.monotonic())
        child = context.Process(target=_child, args=arguments)
        child.start()
        theirs.close()
        number += _listen(ours, total, child)
        child.join()
        if child.exitcode:
            _note_crash(folder, first_seed + number, child.exitcode, total)
            number += 1
    total.seconds = time.monotonic() - start
    (folder / "summary.json").write_text(json.dumps(total.to_dict(), indent=1) + "\n")
    return total


def _listen(pipe: Connection, total: Summary, child: BaseProcess) -> int:
    """Adds up what the child reports, a message a seed; how many seeds are done. A child that
    says nothing for too long hangs, and is ended."""
    done = 0
    while True:
        if not pipe.poll(HANGS_AFTER):
            child.kill()
        try:
            part: Summary = pipe.recv()
        except EOFError:
            return done
        done += 1
        total.cases += part.cases
        total.unfit += part.unfit
        total.outcome.add(part.outcome)
        total.failures |= part.failures


def _note_crash(folder: Path, number: int, code: int, total: Summary) -> None:
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    name = f"crash_{number}"
    for suffix in (".pbtxt", ".json"):
        running = folder / f"{_RUNNING}{suffix}"
        if running.exists():
            running.replace(folder / f"{name}{suffix}")
    message = f"the process ended with {how}"
    (folder / f"{name}.txt").write_text(message + "\n")
    total.failures[name] = message
    print(f"{name}: {message}", flush=True)


def _child(pipe: Connection, folder: str, first_seed: int, seconds: float) -> None:
    end, number = time.monotonic() + seconds, first_seed
    while time.monotonic() < end:
        pipe.send(fuzz_seed(Path(folder), number, end))
        number += 1
    pipe.close()


def fuzz_seed(
    folder: Path,
    number: int,
    end: float = math.inf,
    count: int = BATCH,
    kernels: Path | None = None,
) -> Summary:
    """Up to `count` cases of one seed, none that begins after `end` (of time.monotonic); the first
    that fails is shrunk and written.

    Args:
      kernels: where compiled code is kept; by default in the folder.
    """
    from tests.fuzz.strategy import fuzz_cases

    cache = str(kernels or folder / "kernels")
    summary = Summary(number)
    failed: list[FuzzCase] = []  # the last is the smallest

    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
        report_multiple_bugs=False,
        print_blob=False,
        verbosity=Verbosity.quiet,  # what failed is written by us
    )
    @given(fuzz_cases())
    def run(case: FuzzCase) -> None:
        if time.monotonic() > end and not failed:
            return
        case.save(folder / _RUNNING)
        try:
            outcome = check(case, cache)
        except Unfit:
            summary.unfit += 1
            return
        except Exception:
            failed.append(case)
            raise
        summary.cases += 1
        summary.outcome.add(outcome)

    try:
        run()
    except Exception as error:
        if not failed:
            raise  # the generator's own mistake
        name = f"failure_{number}"
        summary.failures[name] = _write(folder, name, failed[-1], error, cache)
    for suffix in (".pbtxt", ".json"):
        (folder / f"{_RUNNING}{suffix}").unlink(missing_ok=True)
    return summary


def reduced(case: FuzzCase, cache_dir: str) -> FuzzCase:
    """The case with one output and one run, where that fails too, and without unread nodes."""
    smaller = [case.part([i], [k]) for i in range(len(case.fetches)) for k in range(len(case.runs))]
    smaller += [case.part([i], range(len(case.runs))) for i in range(len(case.fetches))]
    smaller.append(case.part(range(len(case.fetches)), range(len(case.runs))))
    for candidate in smaller:
        try:
            check(candidate, cache_dir)
        except Unfit:
            continue
        except Exception:
            return candidate
    return case


def _write(folder: Path, name: str, case: FuzzCase, error: Exception, cache: str) -> str:
    """Writes the case, its message and the IR of its clusters."""
    case = reduced(case, cache)
    case.save(folder / name)
    message = str(error) if isinstance(error, Mismatch) else traceback.format_exc(limit=-8)
    programs = []
    dump = folder / f"{name}.dump"
    try:
        check(case, cache, str(dump))
    except Exception:
        programs = [p.read_text() for p in sorted(dump.glob("*/1_lowered.ir"))]
    text = "\n".join([message, *programs, repr(case)])
    (folder / f"{name}.txt").write_text(text)
    print(f"{name}: {text}", flush=True)
    return message.splitlines()[0]
