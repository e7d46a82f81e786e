"""Random graphs, compiled in a session and as traces of a function."""

from __future__ import annotations

from functools import partial

import numpy as np
import tensorflow as tf
from hypothesis import HealthCheck, Phase, assume, given, settings
from tensorflow.python.eager import context

import tf_blade
from tests.fuzz.case import Feeds, FuzzCase
from tests.fuzz.strategy import fuzz_cases
from tests.fuzz.subject import Unfit, _compare, _run
from tests.whole_graphs import ANY_GAIN, session
from tf_blade.clustering import find_clusters
from tf_blade.just_in_time import compile_graph

TRACES = 3


def traced(case: FuzzCase):
    """The case as a function of its inputs, in the order of the first run's."""
    names = list(case.runs[0])
    for function in case.graph_def.library.function:
        context.context().add_function_def(function)

    def body(*arguments):
        feeds = {f"{name}:0": x for name, x in zip(names, arguments, strict=True)}
        return tf.graph_util.import_graph_def(
            case.graph_def, input_map=feeds, return_elements=case.fetches, name=""
        )

    return tf.function(body)


def call(function, feeds: Feeds) -> list[np.ndarray] | Exception:
    try:
        return [np.asarray(x) for x in function(*map(tf.constant, feeds.values()))]
    except (tf.errors.OpError, ValueError) as error:  # ValueError: shapes that can't be, in tracing
        return error


@settings(
    max_examples=2,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(case=fuzz_cases())
def test_random_graphs(config, case):
    with session(case.graph_def) as plain:
        try:
            wanted = [_run(plain, case.fetches, feeds) for feeds in case.runs]
        except Unfit:
            assume(False)
    functions = traced(case), traced(case)
    wanted_of_traces = [call(functions[0], feeds) for feeds in case.runs[:TRACES]]
    before = compile_graph.find_clusters
    compile_graph.find_clusters = partial(find_clusters, cost=ANY_GAIN)
    try:
        with tf_blade.jit(wait=True, config=config):
            with session(case.graph_def) as compiled:
                got = [_run(compiled, case.fetches, feeds) for feeds in case.runs]
            got_of_traces = [call(functions[1], feeds) for feeds in case.runs[:TRACES]]
    finally:
        compile_graph.find_clusters = before
    for number, pair in enumerate(zip(wanted, got, strict=True)):
        _compare(case, number, *pair)
    for number, pair in enumerate(zip(wanted_of_traces, got_of_traces, strict=True)):
        _compare(case, number, *pair)
