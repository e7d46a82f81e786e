"""The compiler's changes for people: lines for a terminal, and one page."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from tf_blade.debug.trace import ClusterTrace, read_trace, trace_page, trace_renderable
from tf_blade.dump import layout
from tf_blade.dump.read import Dump
from tf_blade.report_table import render_text
from tf_blade.steps import Step

VOID = {"meta", "input"}


class Page(HTMLParser):
    """A page's tags, held to be balanced, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.classes: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.attributes += attrs
        self.classes.append(dict(attrs).get("class") or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text += data


@pytest.fixture(scope="module")
def traces(three_dump: Dump) -> list[ClusterTrace]:
    return read_trace(three_dump)


def test_the_terminal_shows_every_change_in_order(traces):
    lines = render_text(trace_renderable(traces)).splitlines()
    assert lines[0].startswith("blade_cluster_0 (5 nodes): ")
    heads = [line.split() for line in lines if line[:5].strip().isdigit()]
    made = [step for trace in traces for step in trace.steps]
    assert [(int(n), stage, rule) for n, stage, rule, *_ in heads] == [
        (step.number, step.stage, step.rule) for step in made
    ]
    text = "\n".join(lines)
    (bias,) = [step for step in made if step.rule == "dot_with_bias"]
    assert "BiasAdd" in bias.nodes
    for sign, side in (("-", bias.before), ("+", bias.after)):
        for line in side.splitlines():
            assert f"      {sign} {line[:90]}" in text


def test_a_long_line_is_cut_in_the_terminal_only():
    step = Step(1, "rewrite", "rule", "%0 = " + "x" * 500, "%1", "node")
    trace = ClusterTrace("blade_cluster_0", ["node"], [step], "l", "r", "f")
    shown = render_text(trace_renderable([trace])).replace("\n", "")
    assert "x" * 100 in shown and "x" * 200 not in shown
    assert "x" * 500 in trace_page("t", [trace])


def test_a_cluster_without_changes_says_so():
    assert "nothing was changed" in render_text(trace_renderable([ClusterTrace("c", ["n"])]))


def test_the_page_holds_all_of_it_and_needs_nothing_else(traces, three_dump: Dump):
    text = trace_page("A <title> & more", traces)
    page = Page(text)
    assert "A <title> & more" in page.text
    for trace in traces:
        for step in trace.steps:
            assert step.before in page.text and step.after in page.text
        assert three_dump.clusters[trace.name].text(layout.LOWERED) in page.text
    for stage in ("rewrite", "inline", "fuse"):
        count = sum(step.stage == stage for trace in traces for step in trace.steps)
        assert page.classes.count(f"step {stage}") == count > 0
    assert not {name for name, _ in page.attributes} & {"src", "href"}
    assert "url(" not in text and "http" not in text and "<script" not in text


def test_the_page_escapes_what_models_are_named():
    step = Step(1, "rewrite", "<rule>", "<b>", "&amp;", "</pre><script>")
    page = Page(trace_page("t", [ClusterTrace("<c>", ["<n>"], [step], "<l>", "<r>", "<f>")]))
    assert "</pre><script>" in page.text and "&amp;" in page.text
