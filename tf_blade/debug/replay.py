"""`tf-blade replay`: clusters alone, compiled against TensorFlow and against the IR's reference."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tf_blade.child import Child, Crashed
from tf_blade.compare import compare
from tf_blade.debug.alone import (
    Alone,
    AloneCluster,
    AloneLookup,
    compiled_node,
    feeds_of,
)
from tf_blade.debug.suspects import Refused
from tf_blade.dump import layout
from tf_blade.dump.read import Dump, DumpedCluster, Sample
from tf_blade.errors import DumpError
from tf_blade.just_in_time.switch import SWITCH
from tf_blade.progress import Progress, silent
from tf_blade.report import LatencyReport, OutputCheck
from tf_blade.runner import Runner, first_line
from tf_blade.timing import compare_latency


@dataclass
class SampleReplay:
    """One cluster on one recorded sample.

    Attributes:
      sample: where the inputs come from.
      inputs: the inputs' names, dtypes and shapes, as text.
      tensorflow: the compiled code's outputs held against TensorFlow's.
      interpreter: and against those of its reference: the IR's, run on the rewritten program; of a
        lookup, the library's kernels.
      refused: why the compiled code doesn't answer. In a model TensorFlow's nodes then do.
      interpreter_refused: why the reference doesn't.
      failure: what is wrong beyond single outputs.
      crashed: whether it is a crash of the compiled code. Then the cluster isn't timed.
      latency: TensorFlow's nodes (original) and the compiled op (optimized), each in a session.
    """

    sample: str
    inputs: list[str] = field(default_factory=list)
    tensorflow: list[OutputCheck] = field(default_factory=list)
    interpreter: list[OutputCheck] = field(default_factory=list)
    refused: str = ""
    interpreter_refused: str = ""
    failure: str = ""
    crashed: bool = False
    latency: LatencyReport | None = None

    @property
    def equal(self) -> bool:
        return not self.failure and all(c.ok for c in [*self.tensorflow, *self.interpreter])


@dataclass
class ClusterReplay:
    """One cluster on all of its samples. `skipped` says why it wasn't run."""

    name: str
    nodes: list[str] = field(default_factory=list)
    samples: list[SampleReplay] = field(default_factory=list)
    skipped: str = ""

    @property
    def equal(self) -> bool:
        return all(sample.equal for sample in self.samples)


@SWITCH.paused()  # TensorFlow's nodes are to run as they are
def replay(
    dump: Dump,
    cluster: str | None = None,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    seconds: float = 0.0,
    progress: Progress = silent,
) -> list[ClusterReplay]:
    """Runs clusters of a dump alone: compiled code in a child process, which it may crash.

    Args:
      cluster: the only one to run; None: all.
      rtol, atol: tolerance, as in `Config`; None: the dump's.
      seconds: time to spend on timing in all; 0: none.

    Raises DumpError if nothing can be run: no such cluster, no recorded inputs, a damaged dump.
    """
    chosen = dump.choose(cluster)
    rtol = dump.rtol if rtol is None else rtol
    atol = dump.atol if atol is None else atol
    count = sum(len(c.samples) for c in chosen)
    results = []
    with contextlib.closing(Child()) as child:
        for i, each in enumerate(chosen):
            progress("replay clusters", i, len(chosen))
            reason = each.missing
            if reason and (cluster is not None or len(chosen) == 1):
                raise DumpError(f"{each.name} can't be replayed: {reason}.")
            if reason:
                results.append(ClusterReplay(each.name, skipped=reason))
                continue
            results.append(_replay_cluster(dump, each, rtol, atol, seconds / count, child))
    if all(result.skipped for result in results):
        reasons = "; ".join(f"{result.name}: {result.skipped}" for result in results)
        raise DumpError(f"no cluster of '{dump.folder}' can be replayed: {reasons}.")
    return results


def _replay_cluster(
    dump: Dump,
    cluster: DumpedCluster,
    rtol: float,
    atol: float,
    seconds: float,
    child: Child,
) -> ClusterReplay:
    result = ClusterReplay(cluster.name, cluster.nodes)
    alone: Alone = (AloneLookup if cluster.is_lookup else AloneCluster)(dump, cluster, child)
    with contextlib.closing(alone):
        for sample in cluster.samples:
            result.samples.append(_compare(alone, cluster, sample, rtol, atol))
    crashed = any(sample.crashed for sample in result.samples)
    if seconds > 0 and isinstance(alone, AloneCluster) and not crashed:
        _time(cluster, alone.container, result, seconds)
    return result


def _compare(
    alone: Alone, cluster: DumpedCluster, sample: Sample, rtol: float, atol: float
) -> SampleReplay:
    arrays = cluster.arrays(sample)
    pairs = zip(cluster.inputs, arrays, strict=True)
    result = SampleReplay(sample.label, [f"{t.tensor} {a.dtype}{list(a.shape)}" for t, a in pairs])

    def held_against(expected: Sequence[np.ndarray]) -> list[OutputCheck]:
        triples = zip(cluster.outputs, expected, outputs, strict=True)
        return [compare(t.tensor, sample.label, a, b, rtol, atol) for t, a, b in triples]

    reference = None
    try:
        reference = alone.reference(arrays)
    except Refused as refusal:
        result.interpreter_refused = str(refusal)
    try:
        outputs = alone.compiled(arrays)
    except Refused as refusal:
        result.refused = str(refusal)
        if reference is not None:
            result.failure = f"the compiled code refuses what the reference answers: {refusal}"
        return result
    except Crashed as crash:
        result.crashed, result.failure = True, f"the compiled code {crash}"
        return result
    if reference is not None:
        result.interpreter = held_against(reference)
    try:
        result.tensorflow = held_against(alone.tensorflow(sample, arrays))
    except RuntimeError as error:
        result.failure = f"TensorFlow fails where the compiled code answers: {first_line(error)}"
    return result


def _time(cluster: DumpedCluster, container: bytes, result: ClusterReplay, seconds: float) -> None:
    """Adds latencies to the samples that the compiled code answers."""
    original = Runner(cluster.original, ("serve",), in_session=True)
    with contextlib.closing(original), compiled_node(cluster, container) as node:
        for sample, replayed in zip(cluster.samples, result.samples, strict=True):
            if replayed.refused or replayed.failure:
                continue
            feeds = feeds_of(cluster, cluster.arrays(sample))
            replayed.latency = compare_latency(
                sample.label,
                original.call(layout.SIGNATURE, feeds),
                node.runner.call(layout.SIGNATURE, feeds),
                seconds,
            )
