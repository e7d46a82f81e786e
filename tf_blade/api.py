"""`optimize`: from a model to a checked, timed and atomically written SavedModel."""

from __future__ import annotations

import dataclasses
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from tf_blade import library, machine
from tf_blade.check import FeedPlan, check, excuse_random_outputs, plan_feeds
from tf_blade.config import Config
from tf_blade.errors import ConfigError, InputError, MismatchError
from tf_blade.garbage import give_back, rarely_collected, spared
from tf_blade.inputs import FeedSet, LikelyShapes, likely_shapes, read_inputs
from tf_blade.just_in_time.switch import SWITCH
from tf_blade.latency import ServingError, measure_latency
from tf_blade.loaded_models import LoadedModels
from tf_blade.optimized_model import OptimizedModel
from tf_blade.original import Original
from tf_blade.output_dir import atomic_output, check_output
from tf_blade.progress import Progress, silent
from tf_blade.report import LARGE_PROTO_BYTES, REPORT_FILE, CheckReport, Report, SignatureReport
from tf_blade.runner import Model, first_line
from tf_blade.signatures import was_optimized
from tf_blade.sources import Source, open_source
from tf_blade.timing import worth_keeping
from tf_blade.trial import require_survival


class Driver(Protocol):
    """What does the actual work; `tf_blade.optimizer.optimize_saved_model` is the one in use.

    Reads the SavedModel in `source_dir`, writes the optimised one into the empty folder
    `staging_dir`, and returns a report with regions and, for each signature, the regions it runs.
    `likely` are shapes of inputs that the result is to be good for, beside all others.
    """

    def __call__(
        self,
        source_dir: str,
        staging_dir: str,
        config: Config,
        signatures: Sequence[str],
        progress: Progress,
        *,
        likely: LikelyShapes,
    ) -> Report: ...


def optimize(
    saved_model: Any,
    output_dir: str | os.PathLike[str] | None = None,
    *,
    config: Config | None = None,
    inputs: Any = None,
    signatures: Iterable[str] | None = None,
    overwrite: bool = False,
) -> OptimizedModel:
    """Makes a TensorFlow model faster, and checks that it still gives the same answers.

    Args:
      saved_model: a SavedModel folder (TF1 or TF2 format), a loaded SavedModel, a Keras model, a
        tf.function or ConcreteFunction, or a frozen GraphDef with output names; see
        `tf_blade.sources.open_source`.
      output_dir: the folder to write; it is absent or complete at any time. None: a temporary
        folder that lives as long as the result (`result.save` keeps it).
      config: options; None: `Config()`.
      inputs: sample feeds for checking and timing: a dict of input name -> array, a list of such
        dicts, the path of an .npz file or of a folder of TensorProto files; see
        `tf_blade.inputs.read_inputs`. None: made up from the signature. Sizes that are the same in
        all of them are taken for likely ones, which kernels may have a version for.
      signatures: names of the signatures to optimise; None: all.
      overwrite: replace an output folder that exists.

    Returns: the optimised model. Where nothing could be gained it is the original, unchanged, and
    `result.report` says so.

    Raises:
      InputError, SavedModelError, SignatureError, ConfigError, OutputExistsError: something given
        can't be used. Nothing was written.
      CompilerNotFoundError: there is no C++ compiler.
      MismatchError: the optimised model's answers differ (see Config.allow_mismatch). Nothing was
        written; the exception's `report` has the details.
    """
    return run(
        default_driver(),
        saved_model,
        output_dir,
        config=config,
        inputs=inputs,
        signatures=signatures,
        overwrite=overwrite,
    )


def default_driver() -> Driver:
    """The optimizer. Imported late: it brings the whole compiler."""
    from tf_blade.optimizer import optimize_saved_model

    return optimize_saved_model


@SWITCH.paused()  # the original is to run as it is
def inspect(
    driver: Driver,
    saved_model: str | os.PathLike[str],
    *,
    config: Config | None = None,
    signatures: Iterable[str] | None = None,
    progress: Progress = silent,
) -> Report:
    """What `optimize` would do with a SavedModel folder: a report without check and timing.

    Writes nothing. Raises as `optimize` does on bad input.
    """
    with open_source(saved_model) as source, tempfile.TemporaryDirectory() as scratch:
        job = _prepare(driver, source, config or Config(), signatures, progress)
        return job.dry_run(Path(scratch))


@SWITCH.paused()
def run(
    driver: Driver,
    saved_model: Any,
    output_dir: str | os.PathLike[str] | None = None,
    *,
    config: Config | None = None,
    inputs: Any = None,
    signatures: Iterable[str] | None = None,
    overwrite: bool = False,
    progress: Progress = silent,
) -> OptimizedModel:
    """`optimize` with a given driver, telling its progress."""
    config = Config() if config is None else config
    if not isinstance(config, Config):
        raise ConfigError(
            f"config is a {type(config).__name__}; pass a tf_blade.Config, as in "
            "Config.from_toml(path)."
        )
    target = Path(output_dir) if output_dir is not None else None
    if target is not None and not isinstance(saved_model, str | os.PathLike):
        check_output(target, None, overwrite)  # before a long save
    with open_source(saved_model) as source, rarely_collected(), spared():
        if target is not None:
            check_output(target, None if source.temporary else source.directory, overwrite)
        job = _prepare(driver, source, config, signatures, progress)
        given = {} if inputs is None else read_inputs(inputs, job.original.signatures)
        if target is not None:
            with atomic_output(target, overwrite) as staging:
                report = job.run(staging, given)
            return OptimizedModel(target, report, job.config.tags)
        folder = Path(tempfile.mkdtemp(prefix="tf_blade_"))
        try:
            report = job.run(folder, given)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return OptimizedModel(folder, report, job.config.tags, temporary=True)


def _prepare(
    driver: Driver,
    source: Source,
    config: Config,
    signatures: Iterable[str] | None,
    progress: Progress,
) -> _Job:
    original = Original.read(source.directory, config.tags, signatures)
    return _Job(
        driver=driver,
        source=source,
        original=original,
        config=dataclasses.replace(config, tags=original.tags),
        progress=progress,
    )


@dataclasses.dataclass
class _Job:
    """One call of `optimize` with its arguments validated."""

    driver: Driver
    source: Source
    original: Original
    config: Config
    progress: Progress

    def run(self, staging: Path, given: Mapping[str, Sequence[FeedSet]]) -> Report:
        """Fills the staging folder with a complete SavedModel and reports.

        Raises MismatchError if the check fails and the configuration doesn't allow it.
        """
        start = time.perf_counter()
        self.progress("load the original")
        no_session = self._try_out()
        models = LoadedModels(self.source.directory, staging, self.original, self._times)
        try:
            plans, report = models.ask_beside(
                lambda original, progress: self._plan(original, given, progress),
                lambda progress: self._drive(staging, progress, likely_shapes(given)),
                self.progress,
            )
            give_back()  # the graphs that the driver made
            if report.cluster_count == 0:
                reason = "no cluster could be made; see the reasons of each node"
                self._restore(staging, report, reason)
            else:
                if self.config.dump_dir and plans:
                    self._record(staging, plans, report)
                before = _fallbacks()
                try:
                    self._check(models, plans, report)
                    if self._times:
                        self._choose_faster(models, plans, no_session, staging, report)
                finally:
                    self._count_fallbacks(before, report)
        finally:
            models.release()
        self._finish(staging, report, time.perf_counter() - start)
        return report

    def dry_run(self, scratch: Path) -> Report:
        """The optimizer's report alone; `scratch` is thrown away."""
        start = time.perf_counter()
        with rarely_collected():
            report = self._drive(scratch, self.progress, {})
        report.outcome_reason = "a dry run: neither checked nor timed, nothing written"
        report.saved_model_bytes_after = _proto_bytes(scratch)
        report.optimize_seconds = time.perf_counter() - start
        report.peak_memory_bytes = machine.peak_memory_bytes()
        for found in report.signatures:
            found.check = CheckReport("skipped", "a dry run")
        return report

    def _drive(self, staging: Path, progress: Progress, likely: LikelyShapes) -> Report:
        report = self.driver(
            str(self.source.directory),
            str(staging),
            self.config,
            list(self.original.signatures),
            progress,
            likely=likely,
        )
        self._describe(report)
        return report

    @property
    def _times(self) -> bool:
        return self.config.timing_seconds > 0

    def _describe(self, report: Report) -> None:
        from tf_blade import __version__

        report.source = self.source.description
        report.tf_blade = __version__
        report.baseline = machine.baseline()
        report.saved_model_bytes_before = _proto_bytes(self.source.directory)
        known = {found.name for found in report.signatures}
        for name in self.original.signatures:
            if name not in known:
                report.signatures.append(SignatureReport(name))

    def _record(self, staging: Path, plans: Mapping[str, FeedPlan], report: Report) -> None:
        """Adds the clusters' inputs to the dump, before a failing check can end the run."""
        from tf_blade.dump.read import read_dump
        from tf_blade.dump.record import record_inputs

        assert self.config.dump_dir is not None
        try:
            if was_optimized(self.source.directory):
                raise InputError("the model was optimised before, make a dump of the original")
            dump = read_dump(self.config.dump_dir)
            record_inputs(staging, self.original.tags, plans, dump, self.progress)
        except Exception as error:  # what the dump lacks doesn't make the model worse
            report.warnings.append(f"The dump has no recorded inputs ({first_line(error)}).")

    # -- checking -------------------------------------------------------------------------

    def _try_out(self) -> dict[str, str]:
        """Why a session can't run each signature; "" if it can.

        Raises SavedModelError if TensorFlow crashes on the model.
        """
        known = self.original
        crash = ""
        if known.risky:
            crash = require_survival(self.source.directory, known.tags, known.signatures)
        return {name: crash or reason for name, reason in known.no_session.items()}

    def _plan(
        self, original: Model, given: Mapping[str, Sequence[FeedSet]], progress: Progress
    ) -> dict[str, FeedPlan]:
        if not given and not self.config.check and not self._times:
            return {}
        known = self.original
        return plan_feeds(original, known.signatures, known.features, given, self.config, progress)

    def _check(self, models: LoadedModels, plans: Mapping[str, FeedPlan], report: Report) -> None:
        if not self.config.check:
            self._skip_check(report)
            return
        original, optimized = models.to_check()
        checks = check(original, optimized, plans, self.config, self.progress)
        if any(found.mismatches for found in checks.values()):
            with models.two_originals() as (first, second):
                excuse_random_outputs(checks, first, second, plans, self.config)
        self._judge(checks, report)

    def _skip_check(self, report: Report) -> None:
        report.warnings.append("The answers were not checked: check is off in the configuration.")
        for found in report.signatures:
            found.check = CheckReport("skipped", "check is off in the configuration")

    def _judge(self, checks: Mapping[str, CheckReport], report: Report) -> None:
        for name, found in checks.items():
            report.signature(name).check = found
            if found.status == "not possible":
                # Written all the same, and said loudly: refusing would leave nothing to try with
                # real inputs, and the original is still there.
                report.warnings.append(
                    f"NOT CHECKED: signature '{name}': {found.reason}. Check it before you serve "
                    "it: tf-blade verify ORIGINAL OUTPUT --inputs FEEDS.npz"
                )
        bad = [(n, out) for n, found in checks.items() for out in found.mismatches]
        if not bad:
            return
        name, worst = max(bad, key=lambda item: _badness(item[1].max_rel_error))
        message = (
            f"signature '{name}', {worst.describe()} (rtol {self.config.rtol:g}, "
            f"atol {self.config.atol:g}; {len(bad)} of "
            f"{sum(len(found.outputs) for found in checks.values())} comparisons fail)"
        )
        if not self.config.allow_mismatch:
            raise MismatchError(
                f"the optimised model's answers differ: {message}. Nothing was written. "
                "'tf-blade bisect' finds out why (docs/debugging.md). Set allow_mismatch=True "
                "(--allow-mismatch) to write it all the same.",
                report,
            )
        report.warnings.append(f"MISMATCH, written because it was allowed: {message}.")

    def _count_fallbacks(self, before: Mapping[str, int], report: Report) -> None:
        """Those of the check and of the timing: a session may refuse what Python runs."""
        report.fallbacks = {
            cause: count - before.get(cause, 0)
            for cause, count in _fallbacks().items()
            if count > before.get(cause, 0)
        }
        if report.fallbacks:
            causes = ", ".join(f"{cause}: {count}" for cause, count in report.fallbacks.items())
            report.warnings.append(
                f"Clusters ran their TensorFlow fallback when they were tried ({causes})."
            )

    # -- timing ---------------------------------------------------------------------------

    def _choose_faster(
        self,
        models: LoadedModels,
        plans: Mapping[str, FeedPlan],
        no_session: Mapping[str, str],
        staging: Path,
        report: Report,
    ) -> None:
        """Times both models and makes the output the input where nothing is gained."""
        try:
            measure_latency(models, plans, no_session, report, self.config, self.progress)
        except ServingError as error:
            report.warnings.append(f"The optimised model was dropped: {error}.")
            self._restore(staging, report, f"the optimised model can't be served: {error}")
            return
        timed = [latency for found in report.signatures for latency in found.latency]
        if not timed:
            report.outcome_reason = "not timed: there are no feeds that the model takes"
            return
        keep, reason = worth_keeping(timed)
        report.outcome_reason = reason
        if keep or self.config.keep_slower:
            if not keep:
                report.warnings.append(f"Kept because keep_slower is set: {reason}.")
            return
        self._restore(staging, report, reason)

    # -- writing --------------------------------------------------------------------------

    def _restore(self, staging: Path, report: Report, reason: str) -> None:
        """Makes the output the input, byte for byte."""
        for path in staging.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        shutil.copytree(
            self.source.directory, staging, copy_function=_link_or_copy, dirs_exist_ok=True
        )
        report.outcome, report.outcome_reason = "unchanged", reason
        if report.cluster_count == 0:
            for found in report.signatures:
                found.check = CheckReport("unchanged", "the output is the input")

    def _finish(self, staging: Path, report: Report, seconds: float) -> None:
        report.optimize_seconds = seconds
        report.saved_model_bytes_after = _proto_bytes(staging)
        report.peak_memory_bytes = machine.peak_memory_bytes()
        if report.saved_model_bytes_after >= LARGE_PROTO_BYTES:
            report.warnings.append(
                f"saved_model.pb has {report.saved_model_bytes_after >> 20} MiB. TensorFlow "
                "Serving refuses 1 GiB, protobuf ends at 2 GiB: lower freeze_threshold_bytes."
            )
        file = staging / REPORT_FILE
        # A model that was optimised earlier keeps the report of that run.
        if not (report.outcome == "unchanged" and file.exists()):
            file.parent.mkdir(exist_ok=True)
            file.unlink(missing_ok=True)  # it may be a hard link to the source's own report
            file.write_text(report.to_json())


def _link_or_copy(source: str, target: str) -> None:
    """A hard link, so that large weights lie on the disk once; a copy where that can't be."""
    try:
        os.link(os.path.realpath(source), target)
    except OSError:
        shutil.copyfile(source, target)


def _badness(relative_error: float) -> float:
    return float("inf") if relative_error != relative_error else relative_error


def _proto_bytes(directory: Path) -> int:
    for name in ("saved_model.pb", "saved_model.pbtxt"):
        if (directory / name).exists():
            return (directory / name).stat().st_size
    return 0


def _fallbacks() -> dict[str, int]:
    """Fallbacks of clusters in this process so far, by cause."""
    return library.counters().fallbacks
