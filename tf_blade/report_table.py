"""The report for people: what was clustered, what was left out and why, check, latency."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from tf_blade.report import (
    NOT_RUN,
    CheckReport,
    LatencyReport,
    RegionReport,
    Report,
    SignatureReport,
)

_WIDTH = 110
_MAX_CLUSTERS, _MAX_REASONS, _MAX_OPS = 12, 12, 6
_MAX_COLUMNS = 40


def render(report: Report) -> str:
    """The report as plain text, 110 columns wide."""
    return render_text(report_renderable(report))


def render_text(content: RenderableType) -> str:
    out = io.StringIO()
    Console(file=out, width=_WIDTH, force_terminal=False, color_system=None).print(content)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def report_renderable(report: Report) -> RenderableType:
    """The report as rich text and tables."""
    parts: list[RenderableType] = [_headline(report)]
    if report.regions:
        parts.append(_regions(report))
    clusters = [c for region in report.regions for c in region.clusters]
    if clusters:
        parts.append(_clusters(report))
    if any(region.columns for region in report.regions):
        parts.append(_columns(report))
    if any(region.nodes_left for region in report.regions):
        parts.append(_left_out(report))
    parts.append(checks_table(report))
    if any(found.latency for found in report.signatures):
        parts.append(_latency(report))
    parts.append(_footer(report))
    parts += [Text(f"! {warning}", style="yellow") for warning in report.warnings]
    return Group(*parts)


def _headline(report: Report) -> Text:
    text = Text()
    text.append(f"{report.source}: ", style="bold")
    text.append(report.outcome, style="green" if report.outcome == "optimized" else "yellow")
    if report.outcome == "unchanged":
        text.append(" (the output is the input)")
    if report.outcome_reason:
        text.append(f": {report.outcome_reason}")
    return text


def _regions(report: Report) -> Table:
    table = _table("Graphs", "signatures", "graph", "nodes", "after", "clusters", "inside", "left")
    for region in report.regions:
        users = [s.name for s in report.signatures if region.name in s.regions]
        table.add_row(
            ", ".join(users),
            _region_name(region),
            str(region.nodes_before),
            str(region.nodes_after),
            str(len(region.clusters)),
            str(region.nodes_clustered),
            str(region.nodes_left),
        )
    return table


def _clusters(report: Report) -> Table:
    table = _table("Clusters", "cluster", "nodes", "ops", "in/out", "kernels", "gemms", "compile")
    listed = [c for region in report.regions for c in region.clusters]
    listed.sort(key=lambda c: -len(c.nodes))
    for cluster in listed[:_MAX_CLUSTERS]:
        ops = sorted(cluster.ops.items(), key=lambda item: -item[1])
        shown = ", ".join(f"{op} {n}" if n > 1 else op for op, n in ops[:_MAX_OPS])
        fusions = Counter(kernel.fusion for kernel in cluster.kernels)
        table.add_row(
            cluster.name,
            str(len(cluster.nodes)),
            shown + (" …" if len(ops) > _MAX_OPS else ""),
            f"{len(cluster.inputs)}/{len(cluster.outputs)}",
            ", ".join(f"{name} {n}" for name, n in fusions.items()) or "0",
            str(cluster.gemms),
            "cached" if cluster.cached else f"{cluster.compile_seconds:.1f} s",
        )
    if len(listed) > _MAX_CLUSTERS:
        table.add_row(f"… {len(listed) - _MAX_CLUSTERS} more", *[""] * 6)
    return table


def _columns(report: Report) -> Table:
    """Fused columns by kind, and a line for each of the others."""
    table = _table("Embedding columns", "columns", "kind", "run by", "which, and why")
    listed = [column for region in report.regions for column in region.columns]
    fused = Counter(column.kind for column in listed if column.fused)
    for kind, count in fused.most_common():
        table.add_row(str(count), kind, "a fused lookup", "")
    others = [column for column in listed if not column.fused]
    for column in others[:_MAX_COLUMNS]:
        table.add_row("1", column.kind, "TensorFlow", f"{column.name}: {column.reason}")
    if len(others) > _MAX_COLUMNS:
        table.add_row(str(len(others) - _MAX_COLUMNS), "", "TensorFlow", "… more: see the JSON")
    return table


def _left_out(report: Report) -> Table:
    table = _table("Left in TensorFlow", "nodes", "reason", "ops")
    by_reason: dict[str, Counter[str]] = {}
    for region in report.regions:
        for node in region.left_out:
            if node.op in NOT_RUN:
                continue  # nothing to optimise about these; the JSON has them
            by_reason.setdefault(node.reason, Counter())[node.op] += 1
    listed = sorted(by_reason.items(), key=lambda item: -item[1].total())
    for reason, ops in listed[:_MAX_REASONS]:
        shown = ", ".join(f"{op} {n}" if n > 1 else op for op, n in ops.most_common(_MAX_OPS))
        table.add_row(str(ops.total()), reason, shown + (" …" if len(ops) > _MAX_OPS else ""))
    if len(listed) > _MAX_REASONS:
        rest = sum(ops.total() for _, ops in listed[_MAX_REASONS:])
        table.add_row(str(rest), f"… {len(listed) - _MAX_REASONS} more reasons", "")
    return table


def checks_table(report: Report) -> Table:
    """One row for each signature's check."""
    table = _table("Check", "signature", "result", "inputs", "max abs error", "max rel error", "")
    for found in report.signatures:
        table.add_row(*_check_row(found))
    return table


def _check_row(found: SignatureReport) -> list[RenderableType]:
    check = found.check
    if not check.outputs:
        return [found.name, _status(check), check.inputs, "", "", check.reason]
    detail = check.reason
    if check.mismatches:
        detail = "; ".join(out.describe() for out in check.mismatches[:3])
    return [
        found.name,
        _status(check),
        f"{check.inputs}: {', '.join(dict.fromkeys(out.feeds for out in check.outputs))}",
        f"{max(out.max_abs_error for out in check.outputs):.2g}",
        f"{max(out.max_rel_error for out in check.outputs):.2g}",
        detail,
    ]


def _status(check: CheckReport) -> Text:
    style = {"passed": "green", "mismatch": "red bold", "not possible": "yellow bold"}
    return Text(check.status, style=style.get(check.status, ""))


def _latency(report: Report) -> Table:
    return latency_table([(s.name, item) for s in report.signatures for item in s.latency])


def latency_table(rows: Sequence[tuple[str, LatencyReport]]) -> Table:
    """Latencies of two models in turn; a row is a signature's name and the measurement."""
    table = _table(
        "Latency, ms (median ± half the interquartile range)",
        "signature",
        "feeds",
        "original",
        "optimised",
        "speed-up (95 %)",
        "verdict",
        "timed in",
    )
    for name, item in rows:
        table.add_row(
            name,
            item.feeds,
            f"{item.original_ms:.3f} ± {item.original_spread_ms / 2:.3f}",
            f"{item.optimized_ms:.3f} ± {item.optimized_spread_ms / 2:.3f}",
            f"{item.speedup:.2f}x ({item.speedup_low:.2f}-{item.speedup_high:.2f})",
            item.verdict,
            item.timed_in,
        )
    return table


def plain_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = _table(title, *columns)
    for row in rows:
        table.add_row(*row)
    return table


def _footer(report: Report) -> Text:
    base = report.baseline
    lines = [
        f"compile {report.compile_seconds:.1f} s of {report.optimize_seconds:.1f} s in all, "
        f"saved_model.pb {_size(report.saved_model_bytes_before)} -> "
        f"{_size(report.saved_model_bytes_after)}, "
        f"peak memory {_size(report.peak_memory_bytes)}",
    ]
    if report.compiler:
        lines.append(f"compiler {report.compiler}, targets {', '.join(report.cpu_targets)}")
    if base.tensorflow:
        lines.append(
            f"baseline TensorFlow {base.tensorflow}, oneDNN {'on' if base.onednn else 'off'}, "
            f"{base.intra_op_threads} intra-op / {base.inter_op_threads} inter-op threads, "
            f"{base.cpu}"
        )
    return Text("\n".join(lines), style="dim")


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", expand=False)
    for column in columns:
        numeric = column in (
            "nodes",
            "after",
            "clusters",
            "inside",
            "left",
            "gemms",
            "compile",
            "columns",
        )
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    return table


def _region_name(region: RegionReport) -> str:
    name = region.name or "main graph"
    if region.equal_regions:
        name += f" (= {len(region.equal_regions)} more)"
    return name


def _size(count: int) -> str:
    size, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
