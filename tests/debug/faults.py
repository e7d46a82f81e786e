"""Bugs, one in each stage of the compiler, for as long as a test runs."""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any

import pytest

from tf_blade.backends.cpu import lookups as cpu_lookups
from tf_blade.compiler.emit import scope
from tf_blade.compiler.fuse.scalar import Tracer
from tf_blade.compiler.lower import LOWERINGS
from tf_blade.compiler.rewrite import pipeline as rewrites
from tf_blade.compiler.rewrite.rules import RuleSet, op, value
from tf_blade.feature_column import raising
from tf_blade.passes import pipeline as passes


def rewrite(
    patch: pytest.MonkeyPatch,
    node: str,
    kind: str = "max",
    becomes: str = "min",
    name: str = "wrong_rule",
) -> None:
    """A rule of this name that turns one op into another, at one TensorFlow node."""
    wrong = RuleSet("wrong")

    def at_node(v: Any) -> bool:
        return v.op.source == node

    def function(m: Any) -> Any:
        return m.make(becomes, [m.a, m.b])

    function.__name__ = name
    wrong.rule(op(kind, value("a"), value("b"), test=at_node))(function)
    step = rewrites.Pass("wrong", wrong.apply)
    patch.setattr(rewrites, "PIPELINE", (*rewrites.PIPELINE, step))


def lowering(patch: pytest.MonkeyPatch) -> None:
    """Tanh means the sine."""
    wrong = dataclasses.replace(LOWERINGS["Tanh"], function=lambda b, x: b.unary("sin", x))
    patch.setitem(LOWERINGS, "Tanh", wrong)


def code(patch: pytest.MonkeyPatch) -> None:
    """The code for tanh computes the sine."""
    right = scope.operation

    def wrong(kind: str, *args: Any) -> Any:
        return right("sin" if kind == "tanh" else kind, *args)

    patch.setattr(scope, "operation", wrong)


def crashing_code(patch: pytest.MonkeyPatch, crashing: str) -> None:
    """The code for one kind of op stores to nowhere."""
    right = scope.operation

    def wrong(kind: str, *args: Any) -> Any:
        found = right(kind, *args)
        if kind != crashing:
            return found
        return dataclasses.replace(found, text=f"(*(volatile int*)8 = 1, {found.text})")

    patch.setattr(scope, "operation", wrong)


def inlining(patch: pytest.MonkeyPatch) -> None:
    """A negation that is computed where it is read is forgotten."""
    right = Tracer._at

    def wrong(self: Tracer, v: Any, index: Any) -> Any:
        inlined = v.op is not None and v not in self._in_memory and v not in self._local
        if inlined and v.op.kind == "neg":
            return self.at(v.op.operands[0], index)
        return right(self, v, index)

    patch.setattr(Tracer, "_at", wrong)


def fusion(patch: pytest.MonkeyPatch) -> None:
    """A kernel of several reductions takes the largest element for the sum."""
    # By name: the package has a function called like this module.
    scheduling = importlib.import_module("tf_blade.compiler.schedule.schedule")
    right = scheduling.row_reduce_kernel

    def wrong(group: Any, *args: Any) -> Any:
        kernel = right(group, *args)
        accumulates = [a for part in kernel.passes for a in part.accumulates]
        if len(accumulates) > 1:
            for accumulate in accumulates:
                accumulate.kind = "max" if accumulate.kind == "sum" else accumulate.kind
        return kernel

    patch.setattr(scheduling, "row_reduce_kernel", wrong)


def graph_pass(patch: pytest.MonkeyPatch) -> None:
    """A pass that turns Softmax into LogSoftmax."""

    def wrong_pass(graph: Any, ctx: Any) -> Any:
        graph = ctx.editable(graph)
        for node in graph:
            if node.op == "Softmax":
                node.op = "LogSoftmax"
        return graph

    patch.setattr(passes, "PASSES", (*passes.PASSES[:4], wrong_pass, *passes.PASSES[4:]))


def lookup_code(patch: pytest.MonkeyPatch) -> None:
    """Generated code of lookups adds up where it should take the mean, in columns of words."""
    right = cpu_lookups.emit_lookup

    def wrong(name: str, lookup: Any, **options: Any) -> str:
        return right(name, _summed(lookup, "words"), **options)

    patch.setattr(cpu_lookups, "emit_lookup", wrong)


def lookup_plan(patch: pytest.MonkeyPatch) -> None:
    """Lookups are taken for sums where they are means."""
    right = raising.LookupCall

    def wrong(name: str, lookup: Any, *args: Any) -> Any:
        return right(name, _summed(lookup, ""), *args)

    patch.setattr(raising, "LookupCall", wrong)


def _summed(lookup: Any, columns: str) -> Any:
    bags = tuple(
        dataclasses.replace(bag, combiner="sum") if columns in bag.column else bag
        for bag in lookup.bags
    )
    return dataclasses.replace(lookup, bags=bags)
