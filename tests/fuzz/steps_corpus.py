"""Steps from the corpus of differential cases: every op that has a lowering, as part of a graph.

A case's function gets inputs of its own, or values of the graph that are computed exactly and fit
its arguments. What comes out may be of any size, so it is brought into the bounds of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tests.compiler.cases import CASES
from tests.compiler.random_programs.maker import EPSILON, MAX_RANK, MAX_SIZE, Fact
from tests.compiler.values import Arg, Case, anything, finite
from tests.fuzz.graph_maker import Call, GraphMaker
from tf_blade.compiler.ir.dims import Dim
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.ir.types import DType

NAMES = sorted(CASES)
LIMIT = 4.0  # floats are clipped to +-LIMIT
SLACK = 4.0  # fused and alone, an op may round differently


def corpus(m: GraphMaker) -> None:
    """One case of the corpus."""
    if m.nested:
        return
    case = CASES[m.choose(NAMES)]
    sizes = [n for n in case.sizes if n > 0] or list(case.sizes)
    dims = {f"{case.name}/{len(m.named)}/{n}": m.choose(sizes) for n in case.named_dims}
    full = dict(zip(case.named_dims, dims, strict=True))  # its own name of a dim -> the graph's
    outputs = _sample(m, case, {n: dims[full[n]] for n in full})
    if outputs is None:
        return
    inputs = [_argument(m, arg, full, dims) for arg in case.args]
    static = _static_shapes(case, inputs)
    if static is None:
        return
    results = []
    for array, shape in zip(outputs, static, strict=True):
        dtype = DType.from_numpy(array.dtype)
        fact = _fact(case, dtype)
        results.append(m.foreign(dtype, shape, fact, list(array.shape)))
    function = case.function

    def build(tensors: list[Any], bodies: list[Any]) -> Sequence[Any]:
        return list(tf.nest.flatten(function(*tensors)))

    m.call(Call(case.name, inputs, build, results=results))
    for result in results:
        m.values.remove(result)
        _tame(m, result)


def _sample(m: GraphMaker, case: Case, dims: dict[str, int]) -> list[np.ndarray] | None:
    """What TensorFlow gives for sizes as large as they get; None: an error, or not for us."""
    rng = np.random.default_rng(m.integer(0, 2**16))
    arrays = []
    for arg in case.args:
        shape = tuple(n if isinstance(n, int) else dims[n] for n in arg.dims)
        values = np.asarray(arg.values(rng, shape, DType(arg.dtype).numpy, dims))
        arrays.append(values.astype(DType(arg.dtype).numpy).reshape(shape))
    try:
        outputs = tf.nest.flatten(case.function(*(tf.constant(a) for a in arrays)))
    except (tf.errors.OpError, ValueError, TypeError):
        return None
    found = [x.numpy() for x in outputs]
    for x in found:
        if x.dtype not in (d.numpy for d in DType) or x.ndim > MAX_RANK or x.size > MAX_SIZE:
            return None
    return found


def _argument(m: GraphMaker, arg: Arg, full: dict[str, str], dims: dict[str, int]) -> Value:
    """A value of the graph that will do, or a new input."""
    dtype = DType(arg.dtype)
    if arg.values in (anything, finite) and m.flag():

        def fits(v: Value) -> bool:
            return v.type.dtype is dtype and m.exact(v) and _same(m, v, arg, full)

        found = m.value(fits)
        if found is not None:
            return found
    known: list[int | None] = [n if isinstance(n, int) else None for n in arg.dims]
    value = m.builder.param(dtype, known)
    for axis, n in enumerate(arg.dims):
        if isinstance(n, str):
            symbol = value.type.shape[axis]
            m.bindings[symbol] = dims[full[n]]
            if full[n] in m.named:
                m.builder.same_dim(m.named[full[n]], symbol, "one dim of the case")
            else:
                m.named[full[n]] = symbol
    own = dict(full)

    def draw(rng: np.random.Generator, shape: tuple[int, ...], sizes: dict[str, int]) -> Any:
        return arg.values(rng, shape, dtype.numpy, {n: sizes[name] for n, name in own.items()})

    m.placeholder(value, draw)
    return m.keep(value, _fact_of_input(arg, dtype)) if arg.values is finite else value


def _same(m: GraphMaker, value: Value, arg: Arg, full: dict[str, str]) -> bool:
    """Whether the dims are those that the case asks for, by static size or by name."""
    shape = m.shape(value)
    if len(shape) != len(arg.dims):
        return False
    for ours, wanted in zip(shape, arg.dims, strict=True):
        name = full[wanted] if isinstance(wanted, str) else None
        if name is None and ours != wanted:
            return False
        if name is not None and (name not in m.named or m.builder.canonical(m.named[name]) != ours):
            return False
    return True


def _static_shapes(case: Case, inputs: Sequence[Value]) -> list[list[Dim | None]] | None:
    """What TensorFlow knows of the results' shapes while it builds the graph."""
    with tf.Graph().as_default():
        made = [
            tf.compat.v1.placeholder(
                v.type.dtype.numpy, [n if isinstance(n, int) else None for n in v.type.shape]
            )
            for v in inputs
        ]
        try:
            outputs = tf.nest.flatten(case.function(*made))
        except (ValueError, TypeError):
            return None
    if any(x.shape.rank is None for x in outputs):
        return None
    return [x.shape.as_list() for x in outputs]


def _fact_of_input(arg: Arg, dtype: DType) -> Fact:
    return Fact(16.0, 0, 60) if dtype.is_float else Fact(9)


def _fact(case: Case, dtype: DType) -> Fact:
    if dtype is DType.BOOL:
        return Fact(1)
    if dtype.is_integer:
        return Fact(float(np.iinfo(dtype.numpy).max) + 1)
    error = case.ulps * EPSILON[dtype] * LIMIT + case.relative * LIMIT + case.absolute
    return Fact(LIMIT, SLACK * error + 1e-7, 0)


def _tame(m: GraphMaker, result: Value) -> None:
    """Floats clipped, NaN replaced by zero; integers brought near zero."""
    b, dtype, fact = m.builder, result.type.dtype, m.facts[result]
    if dtype is DType.BOOL:
        m.keep(result, fact)
        return
    if dtype.is_integer:
        m.keep(b.binary("floor_mod", result, b.constant(7, dtype)), Fact(6))
        return
    clipped = b.binary(
        "min", b.binary("max", result, b.constant(-LIMIT, dtype)), b.constant(LIMIT, dtype)
    )
    zero = b.splat(0, dtype, b.shape(clipped))
    m.keep(b.select(b.unary("is_nan", clipped), zero, clipped), fact)


STEPS: list[Callable[[GraphMaker], None]] = [corpus]
