"""Times the result of `optimize` against the original, where a server would run them.

That is in a C++ session. What Python takes to feed a function hides a good part of what a small
model gains, and may tell a gain for a loss. Signatures that no session can run are timed in Python,
and the report says why.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from tf_blade.check import FeedPlan
from tf_blade.compare import compare_answers
from tf_blade.config import Config
from tf_blade.errors import RuntimeLibraryError, SavedModelError, TfBladeError
from tf_blade.inputs import FeedSet
from tf_blade.loaded_models import LoadedModels
from tf_blade.progress import Progress
from tf_blade.report import Report, SignatureReport, TimedIn
from tf_blade.runner import Answers, Runner, first_line
from tf_blade.saved_model import Signature
from tf_blade.signatures import computation
from tf_blade.timing import compare_latency

_Cases = dict[str, list[FeedSet]]  # signature -> what it is timed on


class ServingError(TfBladeError):
    """The result doesn't do in a C++ session what the original does. Not for users."""


def measure_latency(
    models: LoadedModels,
    plans: Mapping[str, FeedPlan],
    no_session: Mapping[str, str],
    report: Report,
    config: Config,
    progress: Progress,
) -> None:
    """Fills in the latencies of every signature that has feeds.

    Args:
      no_session: signature -> why a session can't run it, "" if it can.

    Raises ServingError if the original runs in a session and the result doesn't, or gives other
    answers there.
    """
    cases, same = _choose_cases(plans, report)
    reasons = {name: no_session[name] for name in cases}
    served = {name: sets for name, sets in cases.items() if not reasons[name]}
    seconds = config.timing_seconds / max(1, sum(len(sets) for sets in cases.values()))
    pairs: list[tuple[TimedIn, _Cases]] = []
    if served:
        served = _try_in_session(models, served, reasons, report, config)
        pairs.append(("session", served))
    pairs.append(("Python", {name: cases[name] for name in cases if name not in served}))
    for timed_in, chosen in pairs:
        if chosen:
            in_session = timed_in == "session"
            original, optimized = models.original(in_session), models.optimized(in_session)
            _time(original, optimized, timed_in, chosen, seconds, report, progress)
    for name, reason in reasons.items():
        if reason:
            report.warnings.append(
                f"Signature '{name}' was timed in Python, which hides part of a gain: {reason}."
            )
            for latency in report.signature(name).latency:
                latency.timed_in_reason = reason
    for name, first in same.items():
        report.signature(name).latency = list(report.signature(first).latency)


def _choose_cases(plans: Mapping[str, FeedPlan], report: Report) -> tuple[_Cases, dict[str, str]]:
    """Feeds to time each signature on, and signatures that are one computation with another."""
    cases: _Cases = {}
    same: dict[str, str] = {}
    keys: dict[object, str] = {}
    for name, plan in plans.items():
        first = keys.setdefault(_computation(report.signature(name), plan.signature), name)
        if first != name:
            same[name] = first
        elif plan.sets:
            sizes = sorted(plan.sets, key=_elements)
            # The smallest and the largest: call overhead and throughput.
            cases[name] = [sizes[0], sizes[-1]] if len(sizes) > 1 else sizes
    return cases, same


def _try_in_session(
    models: LoadedModels,
    cases: _Cases,
    reasons: dict[str, str],
    report: Report,
    config: Config,
) -> _Cases:
    """Loads both models into sessions and holds their answers against each other, once.

    The check has run TF2 models in Python, by their object graph. A server goes by the main graph.

    Returns: the cases that a session runs; `reasons` tells of the others.
    """
    expected: dict[str, list[Answers]] = {}
    try:
        original = models.original(in_session=True)
    except SavedModelError as error:
        reasons.update(dict.fromkeys(cases, first_line(error).rstrip(".")))
        return {}
    for name, sets in cases.items():
        try:
            expected[name] = [original.run(name, feeds.values) for feeds in sets]
        except Exception as error:  # anything that TensorFlow or the binding of feeds raises
            reasons[name] = f"a session fails on it ({first_line(error).rstrip('.')})"
    served = {name: cases[name] for name in expected}
    if not served:
        return {}
    try:
        optimized = models.optimized(in_session=True)
        answers = {name: _answers(optimized, name, sets) for name, sets in served.items()}
    except RuntimeLibraryError:
        raise
    except Exception as error:
        raise ServingError(f"it fails in a C++ session: {first_line(error)}") from error
    for name, sets in served.items():
        # Random outputs can't be compared, and mismatches of the check were allowed.
        if report.signature(name).check.status == "passed":
            for feeds, wanted, found in zip(sets, expected[name], answers[name], strict=True):
                _require_equal(feeds.label, wanted, found, config)
    return served


def _answers(model: Runner, name: str, sets: Sequence[FeedSet]) -> list[Answers]:
    return [model.run(name, feeds.values) for feeds in sets]


def _require_equal(label: str, wanted: Answers, found: Answers, config: Config) -> None:
    for output in compare_answers(label, wanted, found, config.rtol, config.atol):
        if not output.ok:
            raise ServingError(f"its answers differ in a C++ session: {output.describe()}")


def _time(
    original: Runner,
    optimized: Runner,
    timed_in: TimedIn,
    cases: _Cases,
    seconds: float,
    report: Report,
    progress: Progress,
) -> None:
    listed = [(name, feeds) for name, sets in cases.items() for feeds in sets]
    for i, (name, feeds) in enumerate(listed):
        progress("measure latency", i, len(listed))
        latency = compare_latency(
            feeds.label,
            original.call(name, feeds.values),
            optimized.call(name, feeds.values),
            seconds,
        )
        report.signature(name).latency.append(dataclasses.replace(latency, timed_in=timed_in))


def _computation(found: SignatureReport, signature: Signature) -> object:
    """Equal for signatures that run the same graph from the same inputs to the same outputs."""
    if found.regions and "" not in found.regions:
        return (
            tuple(sorted(found.regions)),
            tuple(sorted(signature.inputs)),
            tuple(sorted(signature.outputs)),
        )
    return computation(signature)


def _elements(feeds: FeedSet) -> int:
    return sum(getattr(value, "size", 1) for value in feeds.values.values())
