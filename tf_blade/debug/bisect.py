"""`tf-blade bisect`: from a wrong answer of an optimised model to what makes it wrong.

First the clusters: TensorFlow runs the nodes of half of them, then of a quarter … until those are
left that make the model wrong. Then, in each of these, the compiler's changes (rewrites, inlining,
fusions): only the first half of them is made, then more or fewer … until one change makes the
difference. A cluster that is wrong without any is looked into tensor by tensor (`blame.py`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tf_blade import optimizer
from tf_blade.backends.cpu.clusters import compile_function
from tf_blade.check import FeedPlan, plan_feeds
from tf_blade.child import Child
from tf_blade.config import Config
from tf_blade.debug.alone import compile_kernels, crashes, only_for_this_machine
from tf_blade.debug.blame import wrong_code, wrong_columns, wrong_lowering
from tf_blade.debug.replay import replay
from tf_blade.debug.search import all_failing, first_failing
from tf_blade.debug.variants import Judge, variant
from tf_blade.dump import layout
from tf_blade.dump.read import Dump, DumpedCluster, read_dump
from tf_blade.dump.record import record_inputs
from tf_blade.errors import DumpError, InputError
from tf_blade.garbage import spared
from tf_blade.inputs import LikelyShapes, likely_shapes, read_inputs
from tf_blade.just_in_time.switch import SWITCH
from tf_blade.original import Original
from tf_blade.progress import Progress, silent
from tf_blade.report import CheckReport, OutputCheck, Report
from tf_blade.runner import Runner
from tf_blade.signatures import was_optimized
from tf_blade.sources import Source, open_source
from tf_blade.steps import Stage, Step, Steps
from tf_blade.trial import require_survival

# Wrong clusters, and wrong changes in each, that are looked for: more may well have one cause.
MOST_CULPRITS = 8

Status = Literal["equal", "random", "differs", "not possible"]
Kind = Literal[
    "rewrite", "inline", "fuse", "lowering", "code", "lookup", "pass", "clustering", "unknown"
]


@dataclass
class Culprit:
    """Something that makes the model wrong.

    Attributes:
      kind: a change of the compiler ("rewrite", "inline", "fuse"); a wrong "lowering" of an op;
        wrong "code" for the unchanged program; a fused "lookup"; a graph "pass"; "clustering", the
        cutting of the graph into functions; "unknown", with the reason in `message`.
      message: one sentence about what was found.
      cluster: the cluster or lookup, "" for passes.
      together_with: other clusters without which this one does no harm.
      nodes: names of the TensorFlow nodes that it is about.
      step: the change, for those kinds.
      replays: whether `tf-blade replay` of the dump shows an error of the cluster alone.
    """

    kind: Kind
    message: str
    cluster: str = ""
    together_with: list[str] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)
    step: Step | None = None
    replays: bool = False


@dataclass
class Bisection:
    """What was found.

    Attributes:
      status: `equal`: nothing is wrong; `random`: the answers differ only where the original
        disagrees with itself; `differs`: see `culprits`; `not possible`: nothing could be compared.
      reason: a sentence, where the status needs one.
      mismatches: signatures, and comparisons that fail.
      culprits: what makes them fail.
      clusters: how many clusters and lookups the model has.
      tries: how many models were run to find out.
      dump: the folder with every cluster, for `tf-blade replay`.
    """

    status: Status
    reason: str = ""
    mismatches: list[tuple[str, OutputCheck]] = field(default_factory=list)
    culprits: list[Culprit] = field(default_factory=list)
    clusters: int = 0
    tries: int = 0
    dump: str = ""


@SWITCH.paused()  # models are to run as they are
def bisect(
    saved_model: str | os.PathLike[str],
    dump_dir: str | os.PathLike[str],
    *,
    config: Config | None = None,
    inputs: Any = None,
    signatures: Iterable[str] | None = None,
    progress: Progress = silent,
) -> Bisection:
    """Optimises a SavedModel and, if its answers are wrong or it crashes, finds out why.

    What was optimised runs in a child process.

    Args:
      saved_model: a SavedModel folder. Nothing is written to it.
      dump_dir: a folder for the dump of every cluster.
      config: as for `optimize`; rtol and atol say what is wrong.
      inputs, signatures: as for `optimize`.

    Raises as `optimize` does on bad input, InputError for a model that was optimised before,
    DumpError if the dump can't be written.
    """
    config = dataclasses.replace(config or Config(), dump_dir=os.fspath(dump_dir))
    with open_source(saved_model) as source, spared():
        known = Original.read(source.directory, config.tags, signatures)
        if was_optimized(source.directory):
            raise InputError(
                f"'{source.directory}' was optimised before: bisect the model it was made from."
            )
        config = dataclasses.replace(config, tags=known.tags)
        given = {} if inputs is None else read_inputs(inputs, known.signatures)
        if known.risky:
            require_survival(source.directory, known.tags, known.signatures)
        progress("prepare inputs")
        original = Runner(source.directory, known.tags, False, known.prefers_session)
        with contextlib.closing(original):
            plans = plan_feeds(original, known.signatures, known.features, given, config)
        with (
            tempfile.TemporaryDirectory(prefix="tf_blade_bisect_") as scratch,
            contextlib.closing(Child()) as models,
            contextlib.closing(Child()) as kernels,
        ):
            likely, folder = likely_shapes(given), Path(scratch)
            job = _Bisector(source, known, config, plans, likely, progress, folder, models, kernels)
            return job.run()


class _Bisector:
    """One bisection with its arguments validated."""

    def __init__(
        self,
        source: Source,
        known: Original,
        config: Config,
        plans: Mapping[str, FeedPlan],
        likely: LikelyShapes,
        progress: Progress,
        scratch: Path,
        models: Child,
        kernels: Child,
    ) -> None:
        """Models run in one child, kernels alone in the other."""
        self._source = source
        self._known = known
        self._config = config
        self._plans = plans
        self._likely = likely
        self._progress = progress
        self._scratch = scratch
        self._kernels = kernels
        self._optimized = scratch / "optimized"
        self._judge = Judge(source.directory, known, plans, config, models)
        self._harm = "makes the answers wrong"
        self._crashing: set[str] = set()  # clusters that crash alone

    def run(self) -> Bisection:
        assert self._config.dump_dir is not None
        report = self._optimize(self._optimized, self._config)
        units = [c.name for region in report.regions for c in region.clusters]
        if not units:
            return Bisection("equal", "no cluster could be made, so nothing of the model changes")
        dump = read_dump(self._config.dump_dir)
        record_inputs(self._optimized, self._known.tags, self._plans, dump, self._progress)
        self._progress("check answers")
        found = self._first_look(self._judge.checks(self._optimized))
        if self._judge.crash:
            self._harm = f"makes the model crash (it {self._judge.crash})"
            self._crashing = {c.name for c in dump.clusters.values() if self._crashes(c)}
        found.clusters, found.dump = len(units), self._config.dump_dir
        if found.status == "differs":
            found.culprits = self._culprits(units, dump)
        found.tries = self._judge.tries
        return found

    def _optimize(self, folder: Path, config: Config, steps: Steps | None = None) -> Report:
        folder.mkdir()
        signatures = list(self._known.signatures)
        directory = str(self._source.directory)
        return optimizer.optimize_saved_model(
            directory, str(folder), config, signatures, self._progress, steps, likely=self._likely
        )

    def _first_look(self, checks: Mapping[str, CheckReport]) -> Bisection:
        """Whether there is anything to look for."""
        if any(found.mismatches for found in checks.values()):
            self._judge.find_random()
            wrong = self._judge.mismatches(checks)
            if not wrong:
                outputs = ", ".join(f"'{o}' of '{s}'" for s, o in sorted(self._judge.random))
                reason = f"the original itself gives different answers each time for {outputs}"
                return Bisection("random", reason)
            listed = [(name, checks[name].outputs[i]) for name, i in wrong]
            return Bisection("differs", mismatches=listed)
        unchecked = [f"'{n}': {c.reason}" for n, c in checks.items() if c.status != "passed"]
        if len(unchecked) == len(checks):
            return Bisection("not possible", "; ".join(unchecked))
        return Bisection("equal", "; ".join(f"not compared: {text}" for text in unchecked))

    # -- clusters -------------------------------------------------------------------------

    def _culprits(self, units: Sequence[str], dump: Dump) -> list[Culprit]:
        if self._fails([]):
            return [self._blame_passes()]
        groups, _ = all_failing(units, self._fails, MOST_CULPRITS)
        found: list[Culprit] = []
        for group in groups:
            for name in group:
                found += self._investigate(name, group, dump)
        return found

    def _fails(
        self, enabled: Collection[str], executables: Mapping[str, bytes] | None = None
    ) -> bool:
        """Whether the model is wrong when only these clusters are compiled."""
        self._progress("halve", self._judge.tries)
        # A crash of the model would cost a new process with TensorFlow in it.
        if self._crashing & set(enabled) - set(executables or ()):
            return True
        with variant(self._optimized, enabled, executables or {}) as folder:
            return self._judge.fails(folder)

    def _crashes(self, cluster: DumpedCluster) -> bool:
        if cluster.is_lookup or cluster.missing:
            return False
        config = only_for_this_machine(self._config)
        try:
            executable = compile_kernels(cluster.text(layout.KERNELS), config)
        except DumpError:  # then it isn't in the model
            return False
        return crashes(cluster, executable, self._kernels)

    def _investigate(self, name: str, group: Sequence[str], dump: Dump) -> list[Culprit]:
        cluster = dump.clusters[name]
        if cluster.is_lookup:
            found = [self._blame_lookup(name)]
            rtol, atol = self._config.rtol, self._config.atol
            columns = wrong_columns(dump, cluster, rtol, atol, self._kernels)
            if columns:
                found[0].nodes = columns
                found[0].message += f"; columns that differ: {len(columns)}"
        else:
            found = self._blame_changes(cluster, group)
        replays = self._replays(dump, name)
        for culprit in found:
            culprit.cluster = name
            culprit.replays = replays
            culprit.nodes = culprit.nodes or cluster.nodes
            culprit.together_with = [other for other in group if other != name]
        return found

    def _replays(self, dump: Dump, name: str) -> bool:
        try:
            (result,) = replay(dump, name, rtol=self._config.rtol, atol=self._config.atol)
        except DumpError:
            return False
        return not result.equal

    # -- changes in a cluster -------------------------------------------------------------

    def _blame_changes(self, cluster: DumpedCluster, group: Sequence[str]) -> list[Culprit]:
        """The first change that makes the answers wrong, the first one without its kind, …"""
        if self._fails_after(cluster, group, Steps(limit=0)):
            return [self._blame_base(cluster)]
        found: list[Culprit] = []
        without: frozenset[tuple[Stage, str]] = frozenset()
        while len(found) < MOST_CULPRITS:
            every = Steps(without=without)
            if not self._fails_after(cluster, group, every):
                break
            steps = every.made

            def fails(count: int, without: frozenset[tuple[Stage, str]] = without) -> bool:
                return self._fails_after(cluster, group, Steps(count, without))

            step = steps[first_failing(len(steps), fails) - 1]
            found.append(_wrong_change(step, len(steps), bool(without), self._harm))
            without |= {(step.stage, step.rule)}
        return found or [
            Culprit(
                "unknown",
                "compiled again the cluster gives right answers: its code isn't the same each "
                "time, or the kernel cache held something else",
            )
        ]

    def _fails_after(self, cluster: DumpedCluster, group: Sequence[str], steps: Steps) -> bool:
        """Whether the model is wrong when only some changes to the cluster are made."""
        compiled = compile_function(
            cluster.function, cluster.types, cluster.name, cluster.constant_inputs, steps
        )
        try:
            executable = compile_kernels(compiled.source, only_for_this_machine(self._config))
        except DumpError:
            return False  # code that nobody can run gives no wrong answers
        if crashes(cluster, executable, self._kernels):
            return True
        return self._fails(group, {cluster.name: executable})

    def _blame_base(self, cluster: DumpedCluster) -> Culprit:
        rtol, atol = self._config.rtol, self._config.atol
        lowering = wrong_lowering(cluster, rtol, atol)
        if lowering is not None:
            return Culprit(
                "lowering",
                f"the lowering of {lowering.op} is wrong: {lowering.check.describe()}",
                nodes=[lowering.node],
            )
        config = only_for_this_machine(self._config)
        code = wrong_code(cluster, config, rtol, atol, self._kernels)
        if code is not None:
            message = f"the code for {code.op.kind} {code.verdict}"
            return Culprit("code", message, nodes=_names(code.op.source))
        return Culprit(
            "unknown",
            f"the cluster {self._harm} before any change to its program, but no tensor in it "
            "differs on the recorded inputs",
        )

    # -- lookups and passes ---------------------------------------------------------------

    def _blame_lookup(self, name: str) -> Culprit:
        """Whether the plan of a lookup is wrong, or only the code for it."""
        if self._config.lookups == "codegen":
            folder = self._scratch / "library"
            if not folder.exists():
                config = dataclasses.replace(self._config, lookups="library", dump_dir=None)
                self._optimize(folder, config)
            with variant(folder, [name]) as edited:
                if not self._judge.fails(edited):
                    message = "the generated code of the lookup is wrong; with lookups = "
                    return Culprit("lookup", message + '"library" the answers are right')
        message = "the lookup doesn't compute what its nodes do, whichever kernels run it"
        return Culprit("lookup", message)

    def _blame_passes(self) -> Culprit:
        """The model is wrong although TensorFlow runs all of its nodes."""
        if not self._fails_after_passes(None):
            return Culprit(
                "lookup", f"cutting lookups out of the graph {self._harm}, not their code"
            )
        if self._fails_after_passes(0):
            return Culprit("clustering", f"cutting clusters out of the graph {self._harm}")
        steps = Steps()
        self._run_passes(steps)
        number = first_failing(len(steps.made), self._fails_after_passes)
        step = steps.made[number - 1]
        message = f"the graph pass '{step.rule}' {self._harm} ({step.before})"
        return Culprit("pass", message, step=step)

    def _run_passes(self, steps: Steps) -> Path:
        """The model after some of the passes; lookups stay as they are."""
        folder = Path(tempfile.mkdtemp(dir=self._scratch)) / "model"
        config = dataclasses.replace(self._config, lookups="off", dump_dir=None)
        self._optimize(folder, config, steps)
        return folder

    def _fails_after_passes(self, count: int | None) -> bool:
        folder = self._run_passes(Steps(limit=count))
        with variant(folder, []) as edited:
            return self._judge.fails(edited)


def _wrong_change(step: Step, count: int, not_the_first: bool, harm: str) -> Culprit:
    what = {
        "rewrite": f"the rewrite '{step.rule}'",
        "inline": f"computing a {step.rule} where it is read",
        "fuse": f"fusing two kernels into a {step.rule}",
    }[step.stage]
    once = "; so it does without the kind of change above" if not_the_first else ""
    message = f"{what} (change {step.number} of {count}) {harm}{once}"
    return Culprit(step.stage, message, nodes=_names(step.nodes), step=step)


def _names(source: str) -> list[str]:
    """Names of nodes, of a text that lists them."""
    return [name for name in source.split(", ") if name]
