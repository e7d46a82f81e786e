"""Steps from the corpus of differential cases: every op that has a lowering, as part of a graph.

A case's function gets inputs of its own, or values of the graph that are computed exactly and fit
its arguments. What comes out may be of any size, so it is brought into the bounds of the others.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tests.compiler.cases import CASES
from tests.compiler.harness import trace
from tests.compiler.random_programs.maker import EPSILON, MAX_RANK, MAX_SIZE, Fact
from tests.compiler.values import Arg, Case, anything, finite
from tests.fuzz.graph_maker import Call, GraphMaker
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.ir.types import DType

# By op: those with many cases come no more often than others.
BY_OP: dict[str, list[str]] = {}
for _name in sorted(CASES):
    if any(DType(arg.dtype).is_half for arg in CASES[_name].args):
        continue  # how far TensorFlow's roundings carry is not known here
    BY_OP.setdefault(_name.partition(".")[0], []).append(_name)
LIMIT = 4.0  # floats are clipped to +-LIMIT
_DTYPES = [d.numpy for d in DType if not d.is_half]
SLACK = 4.0  # fused and alone, an op may round differently


def corpus(m: GraphMaker) -> None:
    """One case of the corpus."""
    if m.nested:
        return
    case = CASES[m.choose(BY_OP[m.choose(list(BY_OP))])]
    sizes = [n for n in case.sizes if n > 0] or list(case.sizes)
    dims = {f"{case.name}/{len(m.named)}/{n}": m.choose(sizes) for n in case.named_dims}
    full = dict(zip(case.named_dims, dims, strict=True))  # its own name of a dim -> the graph's
    concrete = _traced(case)
    static = [x.shape for x in tf.nest.flatten(concrete.structured_outputs)]
    if any(shape.rank is None or shape.rank > MAX_RANK for shape in static):
        return
    outputs = _sample(m, case, {n: dims[full[n]] for n in full})
    if outputs is None:
        return
    inputs = [_argument(m, arg, full, dims) for arg in case.args]
    results = []
    for array, shape in zip(outputs, static, strict=True):
        dtype = DType.from_numpy(array.dtype)
        fact = _fact(case, dtype)
        results.append(m.foreign(dtype, shape.as_list(), fact, list(array.shape)))
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
        outputs = _traced(case)(*(tf.constant(a) for a in arrays))
    except tf.errors.OpError:
        return None
    found = [x.numpy() for x in tf.nest.flatten(outputs)]
    if any(x.dtype not in _DTYPES or x.size > MAX_SIZE for x in found):
        return None
    return found


@functools.cache
def _traced(case: Case) -> Any:
    return trace(case.function, case.args)


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
