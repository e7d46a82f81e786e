"""The hypothesis strategy of fuzz cases."""

from __future__ import annotations

from collections.abc import Callable
from unittest import mock

import numpy as np
import tensorflow as tf
from hypothesis import reject
from hypothesis import strategies as st
from tensorflow.python.ops import control_flow_util

from tests.compiler.random_programs import STEPS
from tests.fuzz.case import Feeds, FuzzCase
from tests.fuzz.graph_maker import GraphMaker
from tests.fuzz.spelling import Speller
from tests.fuzz.steps_control import control_steps
from tests.fuzz.steps_corpus import corpus
from tests.whole_graphs import host_targets
from tf_blade.errors import UnsupportedError

RUNS = 8
MIN_STEPS, MAX_STEPS = 4, 40
ALL_STEPS: list[Callable[[GraphMaker], None]] = [
    *STEPS,
    *control_steps(STEPS),
    *control_steps(STEPS),
    *[corpus] * 10,
]


@st.composite
def fuzz_cases(draw: st.DrawFn) -> FuzzCase:
    """Graphs of 5 to some 60 ops with inputs for RUNS runs."""
    m = GraphMaker(draw)
    try:
        for _ in range(draw(st.integers(1, 3))):
            m.param()
        for _ in range(draw(st.integers(MIN_STEPS, MAX_STEPS))):
            draw(st.sampled_from(ALL_STEPS))(m)
    except UnsupportedError:
        reject()  # dims that were taken to be equal can't be
    results = m.results()
    # TensorFlow 1's loops and branches (Enter, Switch, …) now and then.
    functional = m.integer(0, 3) > 0
    with (
        mock.patch.object(control_flow_util, "ENABLE_CONTROL_FLOW_V2", functional),
        tf.Graph().as_default() as graph,
    ):
        speller = Speller(m)
        try:
            outputs = [tf.identity(x, name=f"y{i}") for i, x in enumerate(speller.write(results))]
        except (ValueError, TypeError):
            reject()  # TensorFlow finds dims that can't fit, or has no such op for the dtype
    names = [x.op.name for x in speller.inputs]
    case = FuzzCase(
        graph.as_graph_def(),
        [x.name for x in outputs],
        [2 * m.facts[v].error for v in results],
        [_feeds(m, names, run, draw(st.integers(0, 2**16))) for run in range(RUNS)],
        target=m.choose(host_targets()),
        any_gain=m.integer(0, 3) > 0,
        calls=sorted(m.called),
    )
    return case.part(range(len(results)), range(RUNS))


def _feeds(m: GraphMaker, names: list[str], run: int, seed: int) -> Feeds:
    """Run 0 has the sizes that the bounds hold for, run 1 ones; others any up to these, and some
    have a 1 where a dim was taken to be another's: TensorFlow broadcasts it, or reports it."""
    rng = np.random.default_rng(seed)
    bindings = dict(m.bindings)
    sizes: dict[str, int] = {}
    for name, symbol in m.named.items():
        largest = m.bindings[symbol]
        smallest = 0 if m.empty_runs and run > 1 else min(1, largest)
        size = {0: largest, 1: min(1, largest)}.get(run, int(rng.integers(smallest, largest + 1)))
        bindings[symbol] = sizes[name] = size
    found: Feeds = {}
    for name, placeholder in zip(names, m.placeholders, strict=True):
        kind = placeholder.value.type
        shape = tuple(m.size_in(n, bindings) for n in kind.shape)
        if placeholder.free and run > 4 and rng.random() < 0.3:
            one = int(rng.integers(0, len(shape) + 1))
            shape = tuple(
                min(1, n) if axis == one and placeholder.static[axis] is None else n
                for axis, n in enumerate(shape)
            )
        values = placeholder.draw(rng, shape, sizes)
        found[name] = np.asarray(values, kind.dtype.numpy).reshape(shape)
    return found
