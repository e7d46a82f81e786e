"""`tf-blade inspect --trace`: what the compiler changed in each cluster, in order."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from string import Template

from rich.console import Group, RenderableType
from rich.text import Text

from tf_blade.dump import layout
from tf_blade.dump.read import Dump
from tf_blade.steps import Step

# Characters of a line that the terminal shows; pages and JSON have all.
_LINE = 160
_NUMBERED_ANEW = f"values are numbered anew, as in {layout.REWRITTEN}"


@dataclass
class ClusterTrace:
    """One cluster's way from what was lowered to kernels.

    Attributes:
      name: the cluster's. nodes: of TensorFlow's nodes in it.
      steps: the changes, in order; none for a lookup, which isn't made by rewriting.
      lowered, rewritten, fused: the text of the stages; "" for a lookup.
    """

    name: str
    nodes: list[str]
    steps: list[Step] = field(default_factory=list)
    lowered: str = ""
    rewritten: str = ""
    fused: str = ""


def read_trace(dump: Dump) -> list[ClusterTrace]:
    """The traces of all clusters. Raises DumpError if a file is missing or damaged."""
    return [
        ClusterTrace(cluster.name, cluster.nodes)
        if cluster.is_lookup
        else ClusterTrace(
            cluster.name,
            cluster.nodes,
            cluster.steps,
            cluster.text(layout.LOWERED),
            cluster.text(layout.REWRITTEN),
            cluster.text(layout.FUSED),
        )
        for cluster in dump.clusters.values()
    ]


def trace_renderable(traces: Iterable[ClusterTrace]) -> RenderableType:
    """The changes as text for a terminal."""
    lines: list[Text] = []
    for trace in traces:
        lines += [Text(), Text(_heading(trace), style="bold")]
        if not trace.steps:
            lines.append(Text("  nothing was changed"))
        for step in trace.steps:
            if step is _first_after_rewrites(trace.steps):
                lines.append(Text(f"      {_NUMBERED_ANEW}", style="dim"))
            lines += _step_lines(step)
    return Group(*lines[1:])


def step_renderable(step: Step) -> RenderableType:
    """One change as text for a terminal."""
    return Group(*_step_lines(step))


def _first_after_rewrites(steps: Sequence[Step]) -> Step | None:
    return next((step for step in steps if step.stage != "rewrite"), None)


def _heading(trace: ClusterTrace) -> str:
    text = f"{trace.name} ({len(trace.nodes)} nodes)"
    if trace.steps:
        counts = Counter(step.stage for step in trace.steps)
        text += ": " + ", ".join(f"{stage} {count}" for stage, count in counts.items())
    return text


def _step_lines(step: Step) -> list[Text]:
    head = Text.assemble(
        (f"{step.number:5} ", "dim"),
        f"{step.stage} ",
        (step.rule, "bold"),
        (f"  {step.nodes}", "dim"),
    )
    lines = [head]
    # An inlining changes no op: the first line says which it is about.
    before = step.before.splitlines()[:1] if step.stage == "inline" else step.before.splitlines()
    lines += [Text(f"      - {_cut(line)}", style="red") for line in before]
    if step.stage != "inline":
        lines += [Text(f"      + {_cut(x)}", style="green") for x in step.after.splitlines()]
    return lines


def _cut(line: str) -> str:
    return line if len(line) <= _LINE else f"{line[: _LINE - 1]}…"


# -- as a page ----------------------------------------------------------------------------


_PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>$title</title>
<style>
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem;
  color: #1c1c1c; background: #fff; overflow-wrap: anywhere; }
pre { font: 12.5px/1.4 ui-monospace, monospace; margin: 0; overflow-x: auto; padding: .5rem;
  background: #f5f5f3; border-radius: 4px; }
h2 { font-size: 1.15rem; margin: 2rem 0 .3rem; }
summary { cursor: pointer; }
.nodes, .source { color: #666; }
.step { margin: .8rem 0; }
.sides { display: grid; grid-template-columns: 1fr 1fr; gap: .5rem; margin-top: .2rem; }
.before { border-left: 3px solid #c4453c; }
.after { border-left: 3px solid #3a8f4d; }
.stage { font-size: .8rem; padding: .05rem .4rem; border-radius: 3px; background: #e6e6ef; }
body:has(#rewrite:not(:checked)) .step.rewrite, body:has(#inline:not(:checked)) .step.inline,
body:has(#fuse:not(:checked)) .step.fuse { display: none; }
@media (prefers-color-scheme: dark) {
  body { color: #ddd; background: #191919; }
  pre { background: #242424; }
  .stage { background: #38384a; }
}
</style>
</head>
<body>
<h1>$title</h1>
<p>Every change on the way from what was lowered to kernels, in order.
Show: $boxes</p>
$clusters
</body>
</html>
""")
_STAGES = {"rewrite": "rewrites", "inline": "what is computed where it is read", "fuse": "fusions"}


def trace_page(title: str, traces: Sequence[ClusterTrace]) -> str:
    """The changes as one HTML page that needs no other file."""
    boxes = " ".join(
        f'<label><input type="checkbox" id="{stage}" checked> {text}</label>'
        for stage, text in _STAGES.items()
    )
    clusters = "\n".join(_cluster_html(trace) for trace in traces)
    return _PAGE.substitute(title=html.escape(title), boxes=boxes, clusters=clusters)


def _cluster_html(trace: ClusterTrace) -> str:
    parts = [
        f'<h2 id="{html.escape(trace.name)}">{html.escape(_heading(trace))}</h2>',
        f'<p class="nodes">{html.escape(", ".join(trace.nodes))}</p>',
    ]
    if not trace.lowered:
        parts.append("<p>A fused lookup: it isn't made by rewriting.</p>")
        return "\n".join(parts)
    parts.append(_folded("lowered", trace.lowered))
    for step in trace.steps:
        if step is _first_after_rewrites(trace.steps):
            parts.append(f'<p class="source">{_NUMBERED_ANEW}</p>')
        parts.append(_step_html(step))
    parts += [_folded("rewritten", trace.rewritten), _folded("fused", trace.fused)]
    return "\n".join(parts)


def _folded(title: str, text: str) -> str:
    return f"<details><summary>{title}</summary><pre>{html.escape(text)}</pre></details>"


def _step_html(step: Step) -> str:
    return (
        f'<div class="step {step.stage}">{step.number}. <span class="stage">{step.stage}</span> '
        f'<b>{html.escape(step.rule)}</b> <span class="source">{html.escape(step.nodes)}</span>'
        f'<div class="sides"><pre class="before">{html.escape(step.before)}</pre>'
        f'<pre class="after">{html.escape(step.after)}</pre></div></div>'
    )
