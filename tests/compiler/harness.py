"""Runs a case (cases.py) both ways: through TensorFlow, and lowered to a program.

    prepared = prepare(case)                 # traced and lowered once a process
    inputs = draw_inputs(case, dims, seed)   # arrays for chosen sizes of the named dims
    want = reference(prepared, inputs)       # TensorFlow's results, None where it reports an error
    check(case, got, want)                   # AssertionError that shows the worst element

The program comes from `prepared.program`; what runs it (the interpreter, generated code) is the
test's choice.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import tensorflow as tf

from tests.compiler.values import Arg, Case
from tf_blade.compiler.ir.program import Program
from tf_blade.compiler.ir.types import DType
from tf_blade.compiler.ir.verifier import verify
from tf_blade.compiler.lower import lower_graph
from tf_blade.graph.graph import Graph
from tf_blade.graph.shapes import infer_types


@dataclass(frozen=True)
class Prepared:
    case: Case
    concrete: Any  # the traced function, with unknown sizes of named dims
    plain: Any  # what TensorFlow runs: the same, but for ops without kernels
    program: Program


@functools.cache
def prepare(case: Case) -> Prepared:
    """The case traced by TensorFlow and lowered, the program verified."""
    concrete = trace(case.function, case.args)
    program = lower_concrete(concrete, case.name)
    verify(program)
    plain = trace(case.plain, case.args) if case.plain is not None else concrete
    return Prepared(case, concrete, plain, program)


def trace(function: Any, args: Sequence[Arg]) -> Any:
    """The concrete function for arguments whose named dims are unknown."""
    signature = [
        tf.TensorSpec([n if isinstance(n, int) else None for n in a.dims], DType(a.dtype).numpy)
        for a in args
    ]
    return tf.function(function, input_signature=signature, autograph=False).get_concrete_function()


def graph_of(concrete: Any) -> Graph:
    """The body of a concrete function."""
    library = {f.signature.name: f for f in concrete.graph.as_graph_def().library.function}
    return Graph.from_function_def(concrete.function_def, library)


def lower_concrete(concrete: Any, name: str) -> Program:
    graph = graph_of(concrete)
    shapes = {
        arg.name: tuple(tensor.shape.as_list())
        for arg, tensor in zip(graph.args, concrete.inputs, strict=True)
    }
    return lower_graph(graph, infer_types(graph, shapes), name)


def draw_inputs(case: Case, dims: Mapping[str, int], seed: int) -> list[np.ndarray]:
    """One array for each argument."""
    rng = np.random.default_rng(seed)
    arrays = []
    for arg in case.args:
        shape = tuple(n if isinstance(n, int) else dims[n] for n in arg.dims)
        dtype = DType(arg.dtype)
        array = arg.values(rng, shape, np.dtype(np.float32) if dtype.is_half else dtype.numpy, dims)
        with np.errstate(over="ignore"):  # the largest floats are infinite as halves
            arrays.append(np.asarray(array).astype(dtype.numpy).reshape(shape))
    return arrays


def reference(prepared: Prepared, inputs: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    """TensorFlow's results; None when it reports an error for these inputs."""
    try:
        results = prepared.plain(*(tf.constant(x) for x in inputs))
    except (tf.errors.InvalidArgumentError, tf.errors.InternalError):
        return None
    return [x.numpy() for x in tf.nest.flatten(results)]


def check(
    case: Case, got: Sequence[np.ndarray], want: Sequence[np.ndarray], *, slack: float = 1.0
) -> None:
    """Asserts equal dtypes and shapes, and elements within the case's tolerance times `slack`."""
    assert len(got) == len(want), f"{case.name}: {len(got)} results, TensorFlow has {len(want)}"
    for i, (ours, theirs) in enumerate(zip(got, want, strict=True)):
        where = f"{case.name}, result {i}"
        assert ours.dtype == theirs.dtype, f"{where}: {ours.dtype}, TensorFlow {theirs.dtype}"
        assert ours.shape == theirs.shape, f"{where}: {ours.shape}, TensorFlow {theirs.shape}"
        wrong = ~_close(ours, theirs, case, slack)
        if np.any(wrong):
            at = tuple(int(n) for n in np.argwhere(wrong)[0])
            raise AssertionError(
                f"{where}: {int(wrong.sum())} of {wrong.size} elements differ, first at {at}: "
                f"{ours[at]!r}, TensorFlow {theirs[at]!r}"
            )


def _close(ours: np.ndarray, theirs: np.ndarray, case: Case, slack: float) -> np.ndarray:
    dtype = DType.from_numpy(ours.dtype)
    if not (dtype.is_float or dtype.is_half):
        return np.asarray(ours == theirs)
    info = ml_dtypes.finfo(dtype.numpy)
    ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(theirs), info.tiny)
        # Below the smallest normal number TensorFlow flushes to zero.
        allowed = case.ulps * slack * info.eps * size + case.relative * slack * size + info.tiny
        near = np.abs(ours - theirs) <= allowed + case.absolute * slack
        # A last-ulp difference may round to infinity on one side.
        return np.asarray((ours == theirs) | (np.isnan(ours) & np.isnan(theirs)) | near)
