"""What is wrong with a cluster that is wrong before any change was made to its program.

Either a lowering doesn't mean what TensorFlow's op does, or the code isn't what the program means.
Both are found on the recorded inputs: the first tensor that differs, in order of computation. Of a
fused lookup, it is those columns that differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tf_blade.child import Child, Crashed
from tf_blade.compare import compare
from tf_blade.compiler.emit import emit
from tf_blade.compiler.fuse import plan
from tf_blade.compiler.ir.program import Op, Program
from tf_blade.compiler.lower import LOWERINGS, lower_graph
from tf_blade.compiler.rewrite import RewriteLog, rewrite
from tf_blade.config import Config
from tf_blade.debug.alone import (
    AloneLookup,
    all_tensors,
    compile_kernels,
    feeds_of,
    run_interpreter,
)
from tf_blade.debug.search import first_failing
from tf_blade.debug.suspects import Refused, run_executable
from tf_blade.dump.read import Dump, DumpedCluster
from tf_blade.graph.types import ARG
from tf_blade.report import OutputCheck
from tf_blade.steps import Steps

# They have no memory of their own, so they can't be looked at in it.
_NOT_IN_MEMORY = frozenset(["constant", "shape_value", "reshape"])


@dataclass(frozen=True)
class WrongLowering:
    """The first node whose lowered form differs from what TensorFlow computes."""

    node: str
    op: str
    check: OutputCheck


@dataclass(frozen=True)
class WrongCode:
    """The first op of the program whose compiled form differs from its meaning, or crashes.

    `verdict` says how: "is wrong: output …", "crashed with SIGSEGV".
    """

    op: Op
    verdict: str


def wrong_lowering(cluster: DumpedCluster, rtol: float, atol: float) -> WrongLowering | None:
    """Holds every tensor of the lowered program, run by the interpreter, against TensorFlow's."""
    function = cluster.function.copy()
    with all_tensors(cluster) as (nodes, tensors):
        # A lowering need not compute all of its op's outputs.
        lowered = [ref for ref in tensors if ref.index < _computed(function.nodes[ref.node].op)]
        function.outputs = [(str(ref), ref) for ref in lowered]
        constants = cluster.constant_inputs
        program = lower_graph(function, cluster.types, cluster.name, constants)
        for sample in cluster.samples:
            arrays = cluster.arrays(sample)
            try:
                ours = run_interpreter(program, arrays)
            except Refused:
                continue
            theirs = nodes.run(feeds_of(cluster, arrays))
            for ref, value in zip(lowered, ours, strict=True):
                check = compare(str(ref), sample.label, theirs[str(ref)], value, rtol, atol)
                if not check.ok:
                    return WrongLowering(ref.node, function.nodes[ref.node].op, check)
    return None


def _computed(op: str) -> int:
    """How many of an op's outputs its lowering computes, at most."""
    outputs = LOWERINGS[op].outputs if op in LOWERINGS and op != ARG else None
    return 1 << 30 if outputs is None else outputs


def wrong_code(
    cluster: DumpedCluster, config: Config, rtol: float, atol: float, child: Child
) -> WrongCode | None:
    """Holds every value that the plain kernels compute against the interpreter's.

    Plain: one kernel for each op, nothing rewritten, inlined or fused. They run in `child`.
    """
    program = lower_graph(cluster.function, cluster.types, cluster.name, cluster.constant_inputs)
    rewrite(program, RewriteLog(steps=Steps(limit=0)))
    shown = [op for op in program.ops if op.kind not in _NOT_IN_MEMORY]
    run = _plain_kernels(program, shown, config, child)
    for sample in cluster.samples:
        arrays = cluster.arrays(sample)
        try:
            meant = run_interpreter(replace(program, results=[op.result for op in shown]), arrays)
            got = run(arrays)
        except Refused:
            continue
        except Crashed as crash:
            return WrongCode(_crashing(program, shown, arrays, config, child), str(crash))
        for op, a, b in zip(shown, meant, got, strict=True):
            check = compare(str(op.result), sample.label, a, b, rtol, atol)
            if not check.ok:
                return WrongCode(op, f"is wrong: {check.describe()}")
    return None


def _plain_kernels(
    program: Program, shown: Sequence[Op], config: Config, child: Child
) -> Callable[[Sequence[np.ndarray]], list[np.ndarray]]:
    """Runs the program up to the last of the ops; gives the results of these."""
    ops = program.ops[: program.ops.index(shown[-1]) + 1]
    watched = replace(program, ops=ops, results=[op.result for op in shown])
    kernels = compile_kernels(emit(watched, plan(watched, Steps(limit=0))), config)
    dtypes = [np.dtype(value.type.dtype.numpy) for value in watched.results]
    constants = sorted(watched.constant_params)
    return lambda arrays: child.call(run_executable, kernels, arrays, dtypes, constants)


def _crashing(
    program: Program,
    shown: Sequence[Op],
    arrays: Sequence[np.ndarray],
    config: Config,
    child: Child,
) -> Op:
    """The op without which the kernels don't crash."""

    def crashes(count: int) -> bool:
        try:
            _plain_kernels(program, shown[:count], config, child)(arrays)
        except Crashed:
            return True
        except Refused:
            pass
        return False

    return shown[first_failing(len(shown), crashes) - 1]


def wrong_columns(
    dump: Dump, cluster: DumpedCluster, rtol: float, atol: float, child: Child
) -> list[str]:
    """Names of a lookup's columns that its code, run in `child`, computes differently from
    TensorFlow."""
    alone = AloneLookup(dump, cluster, child)
    found: dict[str, None] = {}
    for sample in cluster.samples:
        try:
            outputs = alone.compiled(cluster.arrays(sample))
        except (Refused, Crashed):
            continue
        for i, (ours, theirs) in enumerate(zip(outputs, cluster.expected(sample), strict=True)):
            width, columns = cluster.columns(i)
            if ours.shape != theirs.shape or not width:
                continue
            ours, theirs = ours.reshape(-1, width), theirs.reshape(-1, width)
            for name, offset, size in columns:
                part = slice(offset, offset + size)
                check = compare(name, sample.label, theirs[:, part], ours[:, part], rtol, atol)
                if not check.ok:
                    found[name] = None
    return list(found)
