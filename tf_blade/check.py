"""Decides whether an optimised model gives the original's answers.

Both are loaded fresh and run through the same sequence of feeds, so that a model that keeps state
in variables is compared call by call.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tf_blade.compare import compare_answers
from tf_blade.config import Config
from tf_blade.errors import InputError
from tf_blade.inputs import FeedSet, with_other_batches
from tf_blade.parse_example import ExampleFeature
from tf_blade.progress import Progress, silent
from tf_blade.report import CheckReport, OutputCheck
from tf_blade.runner import Model, StoredModel, first_line
from tf_blade.saved_model import Signature
from tf_blade.signatures import computation, read_meta_graph
from tf_blade.synthesis import synthesise


@dataclass
class FeedPlan:
    """Feeds on which the original model of one signature runs, or why there are none."""

    signature: Signature
    inputs: str = ""  # "given" or "synthesised"
    sets: list[FeedSet] = field(default_factory=list)
    reason: str = ""


def plan_feeds(
    original: Model,
    signatures: Mapping[str, Signature],
    features: Mapping[str, Sequence[ExampleFeature]],
    given: Mapping[str, Sequence[FeedSet]],
    config: Config,
    progress: Progress = silent,
) -> dict[str, FeedPlan]:
    """Feeds for each signature: the given ones and variations of them, or made-up ones.

    Runs the original, so a stateful model's variables change: load it afresh before comparing.

    Args:
      features: for each signature, what its ParseExample nodes ask for.

    Raises InputError if the original fails on given feeds.
    """
    plans: dict[str, FeedPlan] = {}
    for i, (name, signature) in enumerate(signatures.items()):
        progress("prepare inputs", i, len(signatures))
        key = computation(signature)
        twin = next((p for p in plans.values() if computation(p.signature) == key), None)
        if twin is not None:
            plans[name] = dataclasses.replace(twin, signature=signature)
            continue
        if name in given:
            plans[name] = _plan_given(original, signature, given[name])
            continue

        def runs(feeds: FeedSet, name: str = name) -> None:
            original.run(name, feeds.values)

        made = synthesise(signature, features[name], config.batch_sizes, runs)
        plans[name] = FeedPlan(signature, "synthesised", made.sets, made.reason)
    return plans


def _plan_given(original: Model, signature: Signature, given: Sequence[FeedSet]) -> FeedPlan:
    plan = FeedPlan(signature, "given", list(given))
    for feeds in given:
        try:
            original.run(signature.name, feeds.values)
        except Exception as error:
            raise InputError(
                f"signature '{signature.name}': the original model itself fails on {feeds.label}: "
                f"{first_line(error)}"
            ) from error
    for feeds in with_other_batches(given, signature)[len(given) :]:
        try:
            original.run(signature.name, feeds.values)
            plan.sets.append(feeds)
        except Exception:  # another batch size was our idea: the model need not take it
            continue
    return plan


def check(
    original: Model,
    optimized: StoredModel,
    plans: Mapping[str, FeedPlan],
    config: Config,
    progress: Progress = silent,
) -> dict[str, CheckReport]:
    """Runs both models through the plans, in the same order, and compares every output.

    Signatures that are one computation under two names, in both models, are run once.

    Args:
      original, optimized: with equal variables, freshly loaded if calls change them.
      plans: signature name -> feeds.

    Returns: signature name -> result. An output on which the original disagrees with itself (a
    random op) can't be compared; then the status is "not possible".
    """
    reports: dict[str, CheckReport] = {}
    total = sum(len(plan.sets) for plan in plans.values())
    done = 0
    compared_to = read_meta_graph(optimized.directory, optimized.tags).signatures
    runs: dict[tuple[tuple[str, ...], ...], str] = {}
    for name, plan in plans.items():
        other = computation(compared_to[name]) if name in compared_to else (name,)
        twin = runs.setdefault((computation(plan.signature), other), name)
        if twin != name:
            reports[name] = copy.deepcopy(reports[twin])
            done += len(plan.sets)
            continue
        report = CheckReport("passed", plan.reason, plan.inputs, config.rtol, config.atol)
        reports[name] = report
        if not plan.sets:
            report.status = "not possible"
            report.reason = plan.reason or "there are no feeds"
            continue
        compared = False
        for feeds in plan.sets:
            progress("check answers", done, total)
            done += 1
            outputs, reason = _run_both(original, optimized, name, feeds, config)
            report.outputs.extend(outputs)
            compared = compared or (not reason and bool(outputs))
            if reason:
                report.reason = "; ".join(filter(None, (report.reason, reason)))
        if report.mismatches:
            report.status = "mismatch"
        elif not compared:
            report.status = "not possible"
    return reports


def _run_both(
    original: Model, optimized: StoredModel, name: str, feeds: FeedSet, config: Config
) -> tuple[list[OutputCheck], str]:
    """Output checks, and a reason if the original fails."""
    try:
        expected = original.run(name, feeds.values)
    except Exception as error:
        return [], f"{feeds.label}: the original model fails on it ({first_line(error)})"
    try:
        answers = optimized.run(name, feeds.values)
    except Exception as error:
        message = f"the optimised model fails where the original runs: {first_line(error)}"
        failed = compare_answers(feeds.label, expected, {}, config.rtol, config.atol)
        for output in failed:
            output.message = message
        return failed, ""
    return compare_answers(feeds.label, expected, answers, config.rtol, config.atol), ""


def excuse_random_outputs(
    reports: Mapping[str, CheckReport],
    first: Model,
    second: StoredModel,
    plans: Mapping[str, FeedPlan],
    config: Config,
) -> None:
    """Turns mismatches into "not possible" where the original doesn't repeat its own answers.

    Args:
      reports: of `check`; changed in place.
      first, second: two fresh copies of the original.
    """
    if not any(report.mismatches for report in reports.values()):
        return
    itself = check(first, second, plans, config)
    for name, report in reports.items():
        # Errors of the optimised model are real whatever the original does.
        random = {(o.output, o.feeds) for o in itself[name].mismatches}
        excused = [o for o in report.mismatches if (o.output, o.feeds) in random and not o.message]
        for output in excused:
            output.ok = True
            output.message = "the original gives different answers when run twice: not compared"
        if excused and not report.mismatches:
            report.status = "not possible"
            names = ", ".join(sorted({o.output for o in excused}))
            report.reason = (
                f"the original model is random: it gives different answers for {names} when it is "
                "run twice on the same inputs"
            )
