"""What `replay` and `bisect` found, for people."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from tf_blade.debug.bisect import Bisection, Culprit
from tf_blade.debug.replay import ClusterReplay, SampleReplay
from tf_blade.debug.trace import step_renderable
from tf_blade.report import OutputCheck
from tf_blade.report_table import latency_table, plain_table

_MAX_NODES, _MAX_MISMATCHES = 12, 5
_COLUMNS = ("sample", "against", "output", "max abs", "max rel", "first differing", "")


def replay_renderable(clusters: Sequence[ClusterReplay]) -> RenderableType:
    """A table of comparisons for each cluster, one of latencies, and what couldn't be run."""
    parts: list[RenderableType] = []
    for cluster in clusters:
        if cluster.skipped:
            parts.append(Text(f"{cluster.name}: not run: {cluster.skipped}", style="yellow"))
            continue
        rows = [row for sample in cluster.samples for row in _rows(sample)]
        parts.append(plain_table(f"{cluster.name}: its compiled code", _COLUMNS, rows))
    timed = [(c.name, s.latency) for c in clusters for s in c.samples if s.latency is not None]
    if timed:
        latencies = latency_table(timed)
        latencies.columns[0].header = "cluster"
        parts.append(latencies)
    equal = all(cluster.equal for cluster in clusters)
    parts.append(Text("equal", "green") if equal else Text("the answers differ", "red bold"))
    return Group(*parts)


def _rows(sample: SampleReplay) -> list[tuple[str, ...]]:
    compared = {"TensorFlow": sample.tensorflow, "interpreter": sample.interpreter}
    rows = [(sample.sample, who, *_check(c)) for who, checks in compared.items() for c in checks]
    notes = [sample.failure]
    if sample.refused and not sample.failure:
        notes.append(f"refused: {sample.refused}")
    if sample.interpreter_refused:
        notes.append(f"the interpreter refuses: {sample.interpreter_refused}")
    rows += [(sample.sample, "", "", "", "", "", note) for note in notes if note]
    # Shapes look like rich's markup: f32[s0, 64].
    return [tuple(map(escape, row)) for row in rows]


def _check(check: OutputCheck) -> tuple[str, ...]:
    first = "" if check.first_index is None else str(check.first_index)
    verdict = check.message or ("ok" if check.ok else "differs")
    error = f"{check.max_abs_error:.2g}", f"{check.max_rel_error:.2g}"
    return check.output, *error, first, verdict


def bisection_renderable(model: str, found: Bisection) -> RenderableType:
    """The mismatch, then each culprit with what to do next."""
    if found.status != "differs":
        verdicts = {
            "equal": "the answers are the original's: there is nothing to find",
            "random": "no difference that isn't the original's own",
            "not possible": "the answers can't be compared",
        }
        text = f"{model}: {verdicts[found.status]}"
        return Text(f"{text} ({found.reason})" if found.reason else text)
    parts: list[RenderableType] = [Text(f"{model}: the answers differ", style="red bold")]
    for signature, check in found.mismatches[:_MAX_MISMATCHES]:
        parts.append(Text(f"  signature '{signature}', {check.describe()}"))
    if len(found.mismatches) > _MAX_MISMATCHES:
        parts.append(Text(f"  … {len(found.mismatches) - _MAX_MISMATCHES} more comparisons"))
    for culprit in found.culprits:
        parts += [Text(), *_culprit(culprit, found.dump)]
    tries = f"Found by running {found.tries} models; {found.clusters} clusters and lookups."
    return Group(*parts, Text(), Text(tries, style="dim"))


def _culprit(culprit: Culprit, dump: str) -> list[RenderableType]:
    where = f"{culprit.cluster}: " if culprit.cluster else ""
    parts: list[RenderableType] = [Text(f"{where}{culprit.message}", style="bold")]
    if culprit.nodes:
        shown = ", ".join(culprit.nodes[:_MAX_NODES])
        more = len(culprit.nodes) - _MAX_NODES
        parts.append(Text(f"  nodes: {shown}" + (f", … {more} more" if more > 0 else "")))
    if culprit.together_with:
        parts.append(Text(f"  only together with {', '.join(culprit.together_with)}"))
    if culprit.step is not None and culprit.kind != "pass":
        parts.append(step_renderable(culprit.step))
    if culprit.cluster:
        command = shlex.join(["tf-blade", "replay", dump, "--cluster", culprit.cluster])
        shows = "shows it alone" if culprit.replays else "alone it gives right answers"
        parts.append(Text(f"  {command}  ({shows})"))
    return parts
