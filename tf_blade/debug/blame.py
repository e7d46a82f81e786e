"""What is wrong with a cluster that is wrong before any change was made to its program.

Either a lowering doesn't mean what TensorFlow's op does, or the code isn't what the program means.
Both are found on the recorded inputs: the first tensor that differs, in order of computation. Of a
fused lookup, it is those columns that differ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tf_blade import _runtime
from tf_blade.compare import compare
from tf_blade.compiler.emit import emit
from tf_blade.compiler.fuse import plan
from tf_blade.compiler.ir.program import Op
from tf_blade.compiler.lower import LOWERINGS, lower_graph
from tf_blade.compiler.rewrite import RewriteLog, rewrite
from tf_blade.config import Config
from tf_blade.debug.alone import (
    AloneLookup,
    Refused,
    all_tensors,
    compile_kernels,
    feeds_of,
    run_executable,
    run_interpreter,
)
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
    """The first op of the program whose compiled form differs from its meaning."""

    op: Op
    check: OutputCheck


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
    cluster: DumpedCluster, config: Config, rtol: float, atol: float
) -> WrongCode | None:
    """Holds every value that the plain kernels compute against the interpreter's.

    Plain: one kernel for each op, nothing rewritten, inlined or fused.
    """
    program = lower_graph(cluster.function, cluster.types, cluster.name, cluster.constant_inputs)
    rewrite(program, RewriteLog(steps=Steps(limit=0)))
    shown = [op for op in program.ops if op.kind not in _NOT_IN_MEMORY]
    watched = replace(program, results=[op.result for op in shown])
    kernels = compile_kernels(emit(watched, plan(watched, Steps(limit=0))), config)
    executable = _runtime.Executable(kernels)
    dtypes = [np.dtype(value.type.dtype.numpy) for value in watched.results]
    for sample in cluster.samples:
        arrays = cluster.arrays(sample)
        try:
            meant = run_interpreter(watched, arrays)
            got = run_executable(executable, arrays, dtypes, sorted(watched.constant_params))
        except Refused:
            continue
        for op, a, b in zip(shown, meant, got, strict=True):
            check = compare(str(op.result), sample.label, a, b, rtol, atol)
            if not check.ok:
                return WrongCode(op, check)
    return None


def wrong_columns(dump: Dump, cluster: DumpedCluster, rtol: float, atol: float) -> list[str]:
    """Names of a lookup's columns that its code computes differently from TensorFlow."""
    alone = AloneLookup(dump, cluster)
    found: dict[str, None] = {}
    for sample in cluster.samples:
        try:
            outputs = alone.compiled(cluster.arrays(sample))
        except Refused:
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
