"""The passes in the order they run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tf_blade.graph.graph import Graph
from tf_blade.passes.context import PassContext
from tf_blade.passes.cse import cse
from tf_blade.passes.drop_controls import drop_controls
from tf_blade.passes.fold_batch_norms import fold_batch_norms
from tf_blade.passes.fold_constants import fold_constants
from tf_blade.passes.freeze_variables import freeze_variables
from tf_blade.passes.inline_calls import inline_calls
from tf_blade.passes.merge_matmuls import merge_matmuls
from tf_blade.passes.prune import prune
from tf_blade.passes.remove_noops import remove_noops
from tf_blade.passes.remove_true_asserts import remove_true_asserts
from tf_blade.passes.take_defaults import take_defaults
from tf_blade.steps import Description

PASSES: tuple[Callable[[Graph, PassContext], Graph], ...] = (
    take_defaults,  # they decide which branches are inlined
    inline_calls,  # all that follow see one graph
    prune,  # before freezing: no budget is spent on what nothing uses
    freeze_variables,
    drop_controls,  # frozen reads order nothing; their control edges would stop the next four
    cse,  # half of a model of many columns are equal Consts: fewer nodes for what follows
    remove_noops,  # constants hide behind Identities
    fold_constants,
    fold_batch_norms,  # their weights are constants now
    remove_true_asserts,  # folding decided some
    drop_controls,  # what waited for them is free now
    remove_noops,  # so, and because folding made shapes and permutations constant
    cse,  # equal Consts first become equal nodes
    merge_matmuls,  # equal operands are one node now
    prune,  # what the passes above left unused
)

# They take nodes and edges away and leave every other tensor what it is: its type stays right.
KEEPING_TYPES = frozenset({prune, drop_controls, remove_noops, remove_true_asserts, cse})


def run(graph: Graph, ctx: PassContext | None = None) -> Graph:
    """Runs all passes; what they did is counted in `ctx.counts`."""
    ctx = ctx or PassContext()
    with ctx.pipeline(graph) as graph:
        for apply in PASSES:
            if ctx.steps is not None:
                name = apply.__name__
                if not ctx.steps.allow("pass", name, partial(_describe, graph)):
                    break
            graph = apply(graph, ctx)
            if apply not in KEEPING_TYPES:
                ctx.forget_types()
    return graph


def _describe(graph: Graph) -> Description:
    where = f"function '{graph.name}'" if graph.is_function else "the main graph"
    return f"{where}, {len(graph)} nodes", "", ""
