"""Runs cases both ways whose nodes go into a cluster together: loops, and all about some complex
numbers, which the optimizer wraps before it looks for clusters.

    ways = compile_wrapped(cases)                # each traced, wrapped, lowered and compiled
    check_answers(*ways[name], sizes)            # TensorFlow's answers, or refusals where they may
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.compiler.batch import compile_batch
from tests.compiler.ctypes_host import CtypesHost
from tests.compiler.harness import Prepared, check, draw_inputs, graph_of, reference, trace
from tests.compiler.values import Arg, Case
from tf_blade.compiler import compile_program
from tf_blade.compiler.ir.interpreter import Refused, run
from tf_blade.compiler.ir.verifier import verify
from tf_blade.compiler.lower import lower_graph
from tf_blade.compiler.rewrite import rewrite
from tf_blade.complexes import wrap_complex
from tf_blade.graph.graph import Graph
from tf_blade.graph.shapes import Types, infer_types
from tf_blade.loops import WrappedLoops, wrap_loops
from tf_blade.passes import PassContext, pipeline

RUNS = 8


def wrapped(function: Any, args: Sequence[Arg]) -> tuple[Any, Graph, Types, WrappedLoops]:
    """The concrete function, its body after the passes and the wrapping, what was found."""
    concrete = trace(function, args)
    graph = graph_of(concrete)
    shapes = {
        arg.name: tuple(tensor.shape.as_list())
        for arg, tensor in zip(graph.args, concrete.inputs, strict=True)
    }
    context = PassContext(arg_shapes=shapes)
    graph = pipeline.run(graph, context)
    types = infer_types(graph, shapes)
    graph, found = wrap_loops(graph, types, context)
    found.left.update(wrap_complex(graph, types))
    return concrete, graph, types, found


def compile_wrapped(cases: Sequence[Case]) -> dict[str, tuple[Prepared, CtypesHost]]:
    prepared: list[Prepared] = []
    programs = []
    for case in cases:
        concrete, graph, types, found = wrapped(case.function, case.args)
        assert not found.left, f"{case.name}: {found.left}"
        assert any(node.op == "PartitionedCall" for node in graph), f"{case.name}: nothing wrapped"
        program = lower_graph(graph, types, case.name)
        verify(program)
        prepared.append(Prepared(case, concrete, concrete, program))
        programs.append(rewrite(lower_graph(graph, types, case.name)))
    hosts = compile_batch([compile_program(p) for p in programs])
    return {p.case.name: (p, host) for p, host in zip(prepared, hosts, strict=True)}


def check_answers(prepared: Prepared, host: CtypesHost, sizes: Sequence[int]) -> None:
    """Generated code and the interpreter answer as TensorFlow does for random sizes and inputs."""
    case = prepared.case
    rng = np.random.default_rng(len(case.name))
    answered = 0
    for _ in range(RUNS):
        dims = {n: int(rng.choice(sizes)) for n in case.named_dims}
        inputs = draw_inputs(case, dims, int(rng.integers(2**31)))
        want = reference(prepared, inputs)
        for execute in (
            lambda x: host.run(x, [v.type.dtype for v in prepared.program.results]),
            lambda x: run(prepared.program, x),
        ):
            try:
                got = execute(inputs)
            except Refused as refusal:
                assert want is None or not case.assumes(dims, inputs), refusal.reason
                continue
            assert want is not None, f"TensorFlow reports an error for {dims}"
            check(case, got, want)
            answered += 1
    assert answered > 2
