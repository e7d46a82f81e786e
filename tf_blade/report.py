"""What `optimize` did and why, as data: plain dataclasses that go to JSON and back.

The optimizer fills in regions, clusters and signatures; the API adds the check, the timing, sizes
and the baseline's identity. `str(report)` is a table for people (report_table.py).
"""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["faster", "slower", "same", "unclear"]
CheckStatus = Literal["passed", "mismatch", "not possible", "skipped", "unchanged"]
Outcome = Literal["optimized", "unchanged"]
TimedIn = Literal["session", "Python"]

# TensorFlow Serving refuses graphs of 1 GB and protobuf ends at 2 GB: said in time.
LARGE_PROTO_BYTES = 512 << 20

# Where a SavedModel carries its report, relative to its folder.
REPORT_FILE = "assets.extra/tf_blade_report.json"

# Nodes that have a value without being run: they count on neither side of `clustered_share`.
NOT_RUN = ("Const", "NoOp", "Placeholder", "_Arg", "_Retval")


@dataclass
class KernelReport:
    """One generated kernel: the nodes that became a single loop nest.

    Attributes:
      name: the kernel's name, as in the generated source.
      fusion: `loop`, `row_reduce`, `column_reduce` …
      nodes: names of the TensorFlow nodes that it computes.
    """

    name: str
    fusion: str
    nodes: list[str] = field(default_factory=list)


@dataclass
class ClusterReport:
    """A group of nodes that was compiled into one executable.

    Attributes:
      name: the BladeCluster node's name.
      nodes: names of the TensorFlow nodes inside.
      ops: how many of each op type are inside.
      inputs, outputs: tensors that cross the border, as text such as "x:0 float32[?,8]".
      kernels: the generated kernels, in launch order.
      gemms: matrix products that call the host's GEMM.
      executable_bytes: size of the executable stored in the model.
      compile_seconds: time spent in the C++ compiler (0 when all came from the cache).
      cached: whether the executable came from the disk cache.
    """

    name: str
    nodes: list[str] = field(default_factory=list)
    ops: dict[str, int] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    kernels: list[KernelReport] = field(default_factory=list)
    gemms: int = 0
    executable_bytes: int = 0
    compile_seconds: float = 0.0
    cached: bool = False


@dataclass
class LeftOutNode:
    """A node that stays in TensorFlow, and why."""

    name: str
    op: str
    reason: str


@dataclass
class ColumnReport:
    """A feature column, or another embedding lookup.

    Attributes:
      name: the node that combines its rows.
      kind: "embedding", "gather", "linear", "indicator" …
      fused: whether a fused lookup does its work.
      reason: why not, if it isn't fused.
    """

    name: str
    kind: str
    fused: bool
    reason: str = ""


@dataclass
class RegionReport:
    """One graph that was worked on: the main graph or a function body.

    Attributes:
      name: the function's name; "" for the main graph.
      nodes_before: nodes as they were saved (calls to other functions not counted in).
      nodes_after: nodes now, each cluster counting as one.
      equal_regions: functions with an equal body, which got the same result.
      clusters, left_out: together every node that remained after the passes. A fused lookup is a
        cluster with one kernel, of fusion "lookup".
      columns: the embedding columns that were found.
    """

    name: str
    nodes_before: int = 0
    nodes_after: int = 0
    equal_regions: list[str] = field(default_factory=list)
    clusters: list[ClusterReport] = field(default_factory=list)
    columns: list[ColumnReport] = field(default_factory=list)
    left_out: list[LeftOutNode] = field(default_factory=list)

    @property
    def nodes_clustered(self) -> int:
        return sum(len(cluster.nodes) for cluster in self.clusters)

    @property
    def nodes_left(self) -> int:
        """Nodes outside the clusters that are run; constants and arguments are not."""
        return sum(node.op not in NOT_RUN for node in self.left_out)


@dataclass
class OutputCheck:
    """How far one output of the optimised model is from the original's, for one set of feeds.

    Attributes:
      output: the output's name in the signature.
      feeds: which feeds, such as "batch 7" or "inputs[0]".
      dtype, shape: of the original's output.
      max_abs_error: largest |optimised - original| (nan: dtypes or shapes differ).
      max_rel_error: largest |optimised - original| / max(|original|, rms of the output).
      worst_index: index of the element furthest beyond its tolerance, None for an empty output.
      worst_original, worst_optimized: that element, as text.
      first_index: index of the first element beyond its tolerance, None if there is none.
      ok: within tolerance (strings, integers and booleans: equal).
      message: what is wrong when the tensors cannot be compared element by element.
    """

    output: str
    feeds: str
    dtype: str
    shape: list[int]
    max_abs_error: float = 0.0
    max_rel_error: float = 0.0
    worst_index: list[int] | None = None
    worst_original: str = ""
    worst_optimized: str = ""
    first_index: list[int] | None = None
    ok: bool = True
    message: str = ""

    def describe(self) -> str:
        """One sentence that names output, feeds and the worst element."""
        if self.message:
            return f"output '{self.output}' ({self.feeds}): {self.message}"
        text = (
            f"output '{self.output}' ({self.feeds}): max abs error {self.max_abs_error:.3g}, "
            f"max rel error {self.max_rel_error:.3g}"
        )
        if self.worst_index is not None and (self.worst_original or self.worst_optimized):
            text += (
                f", worst element {self.worst_index}: original {self.worst_original}, "
                f"optimised {self.worst_optimized}"
            )
        return text


@dataclass
class CheckReport:
    """The comparison of original and optimised model on one signature.

    Attributes:
      status: `passed`, `mismatch`, `not possible` (the reason says why and what to do),
        `skipped` (check=False) or `unchanged` (nothing was optimised, so nothing to compare).
      inputs: `given`, `synthesised` or "".
      rtol, atol: the tolerance used.
    """

    status: CheckStatus = "skipped"
    reason: str = ""
    inputs: str = ""
    rtol: float = 0.0
    atol: float = 0.0
    outputs: list[OutputCheck] = field(default_factory=list)

    @property
    def mismatches(self) -> list[OutputCheck]:
        return [out for out in self.outputs if not out.ok]


@dataclass
class LatencyReport:
    """Original and optimised model timed in turn, in one process with the same threads.

    Attributes:
      feeds: which feeds, such as "batch 32".
      original_ms, optimized_ms: medians, in milliseconds.
      original_spread_ms, optimized_spread_ms: interquartile ranges, in milliseconds.
      speedup: median of the paired ratios original / optimised.
      speedup_low, speedup_high: 95 % confidence interval of that median.
      pairs: how many pairs were timed.
      verdict: `faster` or `slower` when the interval excludes 1, `same` when it lies within 2 % of
        1, else `unclear`.
      timed_in: `session`: a C++ session, as in a server; `Python`: functions called from Python,
        for the reason in `timed_in_reason`.
    """

    feeds: str
    original_ms: float
    optimized_ms: float
    original_spread_ms: float
    optimized_spread_ms: float
    speedup: float
    speedup_low: float
    speedup_high: float
    pairs: int
    verdict: Verdict
    timed_in: TimedIn = "session"
    timed_in_reason: str = ""


@dataclass
class SignatureReport:
    """One signature: the regions it runs, how it was checked and how fast it is.

    Attributes:
      name: the signature's key.
      regions: names of the regions it reaches (see `Report.regions`).
    """

    name: str
    regions: list[str] = field(default_factory=list)
    check: CheckReport = field(default_factory=CheckReport)
    latency: list[LatencyReport] = field(default_factory=list)


@dataclass
class Baseline:
    """What the original was measured with: numbers mean nothing without it.

    Attributes:
      onednn: whether TensorFlow's oneDNN kernels were on.
      intra_op_threads, inter_op_threads: as TensorFlow used them (0 resolved to the CPUs it has).
      cpu: the CPU's model name. cpu_count: CPUs this process may use.
    """

    tensorflow: str = ""
    onednn: bool = False
    intra_op_threads: int = 0
    inter_op_threads: int = 0
    cpu: str = ""
    cpu_count: int = 0


@dataclass
class Report:
    """Everything `optimize` has to say about one model.

    Attributes:
      source: where the model came from.
      tf_blade: version of this package.
      outcome: `unchanged` when the output is the input, byte for byte.
      outcome_reason: one sentence that says why.
      regions: the graphs that were worked on, each once.
      compiler: the C++ compiler's path and version; "" when none was needed.
      cpu_targets: instruction sets the executables carry code for.
      compile_seconds: wall time of compiling kernels. optimize_seconds: of everything.
      saved_model_bytes_before, saved_model_bytes_after: size of saved_model.pb.
      peak_memory_bytes: largest resident size of this process so far.
      fallbacks: cause -> how often a cluster ran its fallback while it was checked and timed.
      warnings: sentences that the user should read.
    """

    source: str = ""
    tf_blade: str = ""
    outcome: Outcome = "optimized"
    outcome_reason: str = ""
    signatures: list[SignatureReport] = field(default_factory=list)
    regions: list[RegionReport] = field(default_factory=list)
    compiler: str = ""
    cpu_targets: list[str] = field(default_factory=list)
    compile_seconds: float = 0.0
    optimize_seconds: float = 0.0
    saved_model_bytes_before: int = 0
    saved_model_bytes_after: int = 0
    peak_memory_bytes: int = 0
    fallbacks: dict[str, int] = field(default_factory=dict)
    baseline: Baseline = field(default_factory=Baseline)
    warnings: list[str] = field(default_factory=list)

    # -- reading --------------------------------------------------------------------------

    @property
    def cluster_count(self) -> int:
        return sum(len(region.clusters) for region in self.regions)

    @property
    def clustered_share(self) -> float:
        """Clustered nodes as a share of the nodes that are run, 0 to 1."""
        inside = sum(region.nodes_clustered for region in self.regions)
        total = inside + sum(region.nodes_left for region in self.regions)
        return inside / total if total else 0.0

    def signature(self, name: str) -> SignatureReport:
        """The report of one signature. Raises KeyError if there is none of that name."""
        for found in self.signatures:
            if found.name == name:
                return found
        raise KeyError(name)

    def regions_of(self, signature: SignatureReport) -> list[RegionReport]:
        by_name = {region.name: region for region in self.regions}
        return [by_name[name] for name in signature.regions if name in by_name]

    def __str__(self) -> str:
        from tf_blade.report_table import render

        return render(self)

    # -- JSON -----------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists, numbers and strings (numbers that are not finite become strings)."""
        return to_plain(self)

    def to_json(self) -> str:
        """The whole report as strict JSON: every node, every output, every measurement."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Report:
        """Inverse of `to_json`; keys that this version does not know are ignored."""
        report: Report = _decode(cls, json.loads(text))
        return report


def to_plain(value: Any) -> dict[str, Any]:
    """A dataclass as plain dicts and lists that strict JSON can hold."""
    encoded: dict[str, Any] = _encode(dataclasses.asdict(value))
    return encoded


def _encode(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _encode(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_encode(item) for item in value]
    return value


def _decode(hint: Any, value: Any) -> Any:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None:
            return None
        return _decode(next(arg for arg in args if arg is not type(None)), value)
    if origin is list:
        return [_decode(args[0], item) for item in value]
    if origin is dict:
        return {key: _decode(args[1], item) for key, item in value.items()}
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint)
        known = {f.name for f in dataclasses.fields(hint)}
        return typing.cast(Any, hint)(
            **{key: _decode(hints[key], item) for key, item in value.items() if key in known}
        )
    return float(value) if hint is float else value
