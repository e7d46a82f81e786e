"""What each command of `tf-blade` does: from parsed arguments to something to print."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from tf_blade import api, doctor, machine
from tf_blade.check import FeedPlan, check, excuse_random_outputs, plan_feeds
from tf_blade.cli_progress import show_progress
from tf_blade.config import Config
from tf_blade.errors import InputError
from tf_blade.inputs import FeedSet, read_inputs
from tf_blade.original import Original
from tf_blade.progress import Progress
from tf_blade.report import LatencyReport, Report, SignatureReport, TimedIn, to_plain
from tf_blade.report_table import checks_table, latency_table, plain_table, report_renderable
from tf_blade.runner import Runner
from tf_blade.signatures import choose_signatures, read_meta_graph
from tf_blade.timing import compare_latency, geometric_mean, measure


@dataclass
class Outcome:
    """What a command has to say: JSON data, the same for people, and the exit code."""

    data: dict[str, Any]
    content: RenderableType
    exit_code: int = 0


def optimize(options: argparse.Namespace, driver: api.Driver | None) -> Outcome:
    config = read_config(options)
    if options.allow_mismatch:
        config = dataclasses.replace(config, allow_mismatch=True)
    with show_progress(options.json) as progress:
        model = api.run(
            driver or api.default_driver(),
            options.input,
            options.output,
            config=config,
            inputs=options.inputs,
            signatures=options.signature,
            overwrite=options.overwrite,
            progress=progress,
        )
    report = model.report
    mismatch = any(found.check.status == "mismatch" for found in report.signatures)
    written = Text(f"written: {options.output}", style="bold")
    return Outcome(
        {"output": options.output, "report": report.to_dict()},
        Group(report_renderable(report), written),
        exit_code=1 if mismatch and not options.allow_mismatch else 0,
    )


def inspect(options: argparse.Namespace, driver: api.Driver | None) -> Outcome:
    with show_progress(options.json) as progress:
        report = api.inspect(
            driver or api.default_driver(),
            options.input,
            config=read_config(options),
            signatures=options.signature,
            progress=progress,
        )
    return Outcome({"report": report.to_dict()}, report_renderable(report))


def verify(options: argparse.Namespace, driver: api.Driver | None) -> Outcome:
    config = read_config(options)
    with show_progress(options.json) as progress:
        model = _Model(options.original, options, config)
        plans = model.plans(progress)
        choose_signatures(read_meta_graph(options.optimized, config.tags), model.signatures)
        checks = check(model.load(), _load(options.optimized, config), plans, config, progress)
        if any(found.mismatches for found in checks.values()):
            excuse_random_outputs(checks, model.load(), model.load(), plans, config)
    report = Report(source=options.original, baseline=machine.baseline())
    report.signatures = [SignatureReport(name, check=found) for name, found in checks.items()]
    statuses = {found.status for found in checks.values()}
    for name, found in checks.items():
        if found.status == "not possible" and "mismatch" not in statuses:
            raise InputError(f"signature '{name}' can't be verified: {found.reason}.")
    mismatch = "mismatch" in statuses
    data = {
        "equal": not mismatch,
        "original": options.original,
        "optimized": options.optimized,
        "signatures": {name: to_plain(found) for name, found in checks.items()},
    }
    verdict = Text("the answers differ", "red bold") if mismatch else Text("equal", "green")
    return Outcome(data, Group(checks_table(report), verdict), exit_code=1 if mismatch else 0)


def bench(options: argparse.Namespace, driver: api.Driver | None) -> Outcome:
    config = read_config(options)
    base = machine.baseline()
    data: dict[str, Any] = {"model": options.input, "baseline": to_plain(base)}
    with show_progress(options.json) as progress:
        model = _Model(options.input, options, config)
        plans = model.plans(progress)
        cases = [(name, feeds) for name, plan in plans.items() for feeds in plan.sets]
        if not cases:
            reasons = "; ".join(f"'{name}': {plan.reason}" for name, plan in plans.items())
            raise InputError(f"there is nothing to time: {reasons}.")
        seconds = options.seconds / len(cases)
        paths = [path for path in (options.input, options.against) if path is not None]
        in_session = all(_servable(path, config, model.signatures) for path in paths)
        timed_in: TimedIn = "session" if in_session else "Python"
        data["timed_in"] = timed_in
        runner = _load(options.input, config, in_session)
        if options.against is None:
            return _bench_alone(data, runner, cases, seconds, progress)
        data["against"] = options.against
        original = _load(options.against, config, in_session)
        rows: list[tuple[str, LatencyReport]] = []
        for i, (name, feeds) in enumerate(cases):
            progress("measure latency", i, len(cases))
            calls = original.call(name, feeds.values), runner.call(name, feeds.values)
            latency = compare_latency(feeds.label, *calls, seconds)
            rows.append((name, dataclasses.replace(latency, timed_in=timed_in)))
    mean = geometric_mean([item.speedup for _, item in rows])
    data["rows"] = [{"signature": name, **to_plain(item)} for name, item in rows]
    data["geomean_speedup"] = mean
    return Outcome(data, Group(latency_table(rows), Text(f"geometric mean {mean:.2f}x")))


def _bench_alone(
    data: dict[str, Any],
    runner: Runner,
    cases: list[tuple[str, FeedSet]],
    seconds: float,
    progress: Progress,
) -> Outcome:
    rows = []
    for i, (name, feeds) in enumerate(cases):
        progress("measure latency", i, len(cases))
        median, spread = measure(runner.call(name, feeds.values), seconds)
        rows.append({"signature": name, "feeds": feeds.label, "ms": median, "spread_ms": spread})
    data["rows"] = rows
    lines = [
        (str(row["signature"]), str(row["feeds"]), f"{row['ms']:.3f}", f"{row['spread_ms']:.3f}")
        for row in rows
    ]
    columns = ("signature", "feeds", "median ms", "interquartile range ms")
    return Outcome(data, plain_table(f"Latency in {data['timed_in']}", columns, lines))


def show_doctor(options: argparse.Namespace, driver: api.Driver | None) -> Outcome:
    findings = doctor.examine()
    lines = [(item.name, item.status, item.detail) for item in findings]
    ready = all(item.status != "missing" for item in findings)
    data = {"ready": ready, "findings": [to_plain(item) for item in findings]}
    table = plain_table("tf-blade doctor", ("what", "status", "found"), lines)
    return Outcome(data, table, exit_code=0 if ready else 2)


COMMANDS: Mapping[str, Callable[[argparse.Namespace, api.Driver | None], Outcome]] = {
    "optimize": optimize,
    "inspect": inspect,
    "verify": verify,
    "bench": bench,
    "doctor": show_doctor,
}


class _Model:
    """A SavedModel that a command was given, with the signatures and inputs it was given for it."""

    def __init__(self, directory: str, options: argparse.Namespace, config: Config) -> None:
        self.directory = directory
        self.config = config
        self._known = Original.read(directory, config.tags, options.signature)
        self.signatures = self._known.signatures
        self.given = read_inputs(options.inputs, self.signatures) if options.inputs else {}

    def load(self) -> Runner:
        return Runner(self.directory, self._known.tags)

    def plans(self, progress: Progress) -> dict[str, FeedPlan]:
        progress("load the original")
        runner = self.load()
        return plan_feeds(
            runner, self.signatures, self._known.features, self.given, self.config, progress
        )


def _load(directory: str, config: Config, in_session: bool | None = None) -> Runner:
    return Runner(directory, read_meta_graph(directory, config.tags).tags, in_session=in_session)


def _servable(directory: str, config: Config, signatures: Iterable[str]) -> bool:
    """Whether a C++ session, where servers run models, runs all of the signatures.

    Raises SignatureError if the model lacks one.
    """
    return not any(Original.read(directory, config.tags, signatures).no_session.values())


def read_config(options: argparse.Namespace) -> Config:
    """The configuration that the command line names. Raises ConfigError."""
    return Config.from_toml(options.config) if options.config else Config()
