"""The prelude's f32 functions: errors in ulps on dense sweeps, exact at special values."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
import pytest

from tests.compiler.batch import TARGET, compile_batch
from tests.compiler.ctypes_host import CtypesHost
from tf_blade import machine
from tf_blade.compiler import compile_program
from tf_blade.compiler.build import Built, build, find_compiler
from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.interpreter import Refused
from tf_blade.compiler.ir.types import DType

Function = Callable[[np.ndarray], np.ndarray]
HALVES = (DType.F16, DType.BF16)


def logistic(x: np.ndarray) -> np.ndarray:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, small) / (1.0 + small)


# The function in f64, and the most that ours may be off, in ulps of f32.
FUNCTIONS: dict[str, tuple[Function, float]] = {
    "exp": (np.exp, 1.0),
    "expm1": (np.expm1, 1.5),
    "log": (np.log, 1.0),
    "log1p": (np.log1p, 1.5),
    "tanh": (np.tanh, 1.5),
    "logistic": (logistic, 2.0),
    "erf": (np.vectorize(math.erf, otypes=[np.float64]), 1.5),
    "erfc": (np.vectorize(math.erfc, otypes=[np.float64]), 2.0),
    "sin": (np.sin, 2.0),
    "cos": (np.cos, 2.0),
    "tan": (np.tan, 1.0),
    "asin": (np.arcsin, 1.0),
    "acos": (np.arccos, 1.0),
    "atan": (np.arctan, 2.0),
    "sinh": (np.sinh, 2.0),
    "cosh": (np.cosh, 2.0),
    "asinh": (np.arcsinh, 1.0),
    "acosh": (np.arccosh, 1.0),
    "atanh": (np.arctanh, 1.0),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1.5),
}


# Those that GCC compiles to other code for AVX-512 than for the rest.
AVX512 = "x86-64-v4"
OF_AVX512 = ("tanh", "erf", "erfc")
avx512 = pytest.mark.skipif(machine.cpu_target() != AVX512, reason="the processor lacks AVX-512")
CASES = [
    *((kind, TARGET) for kind in FUNCTIONS),
    *(pytest.param(kind, AVX512, marks=avx512) for kind in OF_AVX512),
]


@functools.cache
def hosts(target: str) -> dict[str, CtypesHost]:
    kinds = OF_AVX512 if target == AVX512 else tuple(FUNCTIONS)
    sources = []
    for kind in kinds:
        b = Builder(kind)
        sources.append(compile_program(b.finish([b.unary(kind, b.param(DType.F32, [None]))])))
    if target != AVX512:
        return dict(zip(kinds, compile_batch(sources, optimize="-O3"), strict=True))
    # A batch's namespaces would hide the vector functions.
    built = build(sources, compiler=find_compiler(), targets=[target], cache_dir=None)
    assert all(isinstance(b, Built) for b in built), built
    return {
        kind: CtypesHost(b.executable, isa=target)
        for kind, b in zip(kinds, built, strict=True)
        if isinstance(b, Built)
    }


def computed(kind: str, x: np.ndarray, target: str = TARGET) -> np.ndarray:
    return hosts(target)[kind].run([x], [DType.F32])[0]


@functools.cache
def binary_host(kind: str) -> CtypesHost:
    b = Builder(f"{kind}_of_two")
    x, y = b.param(DType.F32, [None]), b.param(DType.F32, [None])
    program = b.finish([b.binary(kind, x, y)])
    return compile_batch([compile_program(program)], optimize="-O3")[0]


def sweep() -> np.ndarray:
    """Numbers of every magnitude up to 2^45, and densely where the functions vary."""
    magnitudes = np.arange(0, 2**32, 9973, dtype=np.uint64).astype(np.uint32).view(np.float32)
    magnitudes = magnitudes[np.abs(magnitudes) <= 2.0**45]  # drops NaN too
    dense = [np.linspace(-110, 110, 300_001), np.linspace(-2, 2, 200_001)]
    return np.concatenate([magnitudes, *dense]).astype(np.float32)


def ulps(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        want = exact.astype(np.float32)
        one = np.spacing(np.abs(want)).astype(np.float64)
        error = np.abs(got.astype(np.float64) - exact) / one
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    return np.where(same, 0.0, np.where(np.isfinite(error), error, np.inf))


@pytest.mark.parametrize(("kind", "target"), CASES)
def test_error_stays_within_its_bound(kind: str, target: str):
    function, bound = FUNCTIONS[kind]
    x = sweep()
    with np.errstate(all="ignore"):
        exact = function(x.astype(np.float64))
    got = computed(kind, x, target)
    error = ulps(got, exact)
    worst = int(np.argmax(error))
    assert error[worst] <= bound, f"{kind}({x[worst]!r}) = {got[worst]!r}, exact {exact[worst]!r}"


@pytest.mark.parametrize(("kind", "target"), CASES)
def test_special_values_are_exact(kind: str, target: str):
    tiny, largest = np.float32(1e-45), np.finfo(np.float32).max
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1, -1, tiny, -tiny], np.float32)
    if kind not in ("sin", "cos", "tan"):
        special = np.append(special, [largest, -largest]).astype(np.float32)
    got = computed(kind, special, target)
    with np.errstate(all="ignore"):
        want = FUNCTIONS[kind][0](special.astype(np.float64)).astype(np.float32)
    assert ulps(got, want.astype(np.float64)).max() <= FUNCTIONS[kind][1]
    exact = ~np.isfinite(want) | (want == 0) | ~np.isfinite(special)
    np.testing.assert_array_equal(got[exact], want[exact])
    signed = exact & ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[signed]), np.signbit(want[signed]))


def test_results_below_the_normal_numbers_are_rounded_once():
    x = np.linspace(-103.9, -87.4, 10_001).astype(np.float32)
    assert ulps(computed("exp", x), np.exp(x.astype(np.float64))).max() <= 1.0


@pytest.mark.parametrize("kind", ["sin", "cos", "tan"])
def test_trigonometry_beyond_its_range_refuses_the_run(kind: str):
    with pytest.raises(Refused, match=rf"{kind} of a number beyond 2\^45"):
        computed(kind, np.array([1e30], np.float32))


@avx512
@pytest.mark.parametrize("kind", OF_AVX512)
def test_a_result_does_not_depend_on_its_neighbours(kind: str):
    x = np.linspace(-12, 12, 1024).astype(np.float32)
    alone = computed(kind, np.repeat(x, 64), AVX512).reshape(-1, 64)
    np.testing.assert_array_equal(alone, np.repeat(alone[:, :1], 64, 1))
    mixed = np.random.default_rng(0).permutation(x.size)
    np.testing.assert_array_equal(computed(kind, x[mixed], AVX512), alone[mixed, 0])


@pytest.mark.parametrize(("kind", "target"), CASES)
def test_nan_of_every_kind_stays_nan(kind: str, target: str):
    payloads = np.random.default_rng(0).integers(1, 1 << 23, 1000)
    bits = np.concatenate([0x7F800000 + payloads, 0xFF800000 + payloads]).astype(np.uint32)
    assert np.isnan(computed(kind, bits.view(np.float32), target)).all()


BINARY = {"pow": np.power, "atan2": np.arctan2}


@pytest.mark.parametrize("kind", BINARY)
def test_functions_of_two_stay_within_an_ulp(kind: str):
    rng = np.random.default_rng(0)
    x = np.exp(rng.uniform(-20, 20, 200_000)).astype(np.float32)
    y = rng.uniform(-4, 4, x.size).astype(np.float32)
    (got,) = binary_host(kind).run([x, y], [DType.F32])
    assert ulps(got, BINARY[kind](x.astype(np.float64), y.astype(np.float64))).max() <= 1.0


@pytest.mark.parametrize("kind", BINARY)
def test_functions_of_two_are_exact_at_special_values(kind: str):
    values = np.array(
        [np.nan, np.inf, -np.inf, 0.0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, -3, 2.5, -2.5, 1e9, -1e9],
        np.float32,
    )
    x, y = (a.reshape(-1).copy() for a in np.meshgrid(values, values))
    (got,) = binary_host(kind).run([x, y], [DType.F32])
    with np.errstate(all="ignore"):
        want = BINARY[kind](x.astype(np.float64), y.astype(np.float64)).astype(np.float32)
    error = ulps(got, want.astype(np.float64))
    assert error.max() <= 1.0, list(zip(x[error > 1], y[error > 1], got[error > 1], strict=True))
    zeros = want == 0
    np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(want[zeros]))


@functools.cache
def conversions() -> dict[tuple[DType, DType], CtypesHost]:
    pairs = [(half, DType.F32) for half in HALVES] + [(DType.F32, half) for half in HALVES]
    sources = []
    for source, target in pairs:
        b = Builder(f"{target.value}_from_{source.value}")
        result = b.convert(b.param(source, [None]), target)
        sources.append(compile_program(b.finish([result])))
    return dict(zip(pairs, compile_batch(sources, optimize="-O3"), strict=True))


@pytest.mark.parametrize("half", HALVES)
def test_every_half_has_its_value_in_f32(half: DType):
    x = np.arange(1 << 16, dtype=np.uint16).view(half.numpy)
    (got,) = conversions()[half, DType.F32].run([x], [DType.F32])
    want = x.astype(np.float32)
    known = ~np.isnan(want)
    assert np.isnan(got[~known]).all()
    np.testing.assert_array_equal(got.view(np.uint32)[known], want.view(np.uint32)[known])


@pytest.mark.parametrize("half", HALVES)
def test_f32_becomes_the_nearest_half(half: DType):
    # Every combination of sign, exponent and the bits that can decide, and what is between halves.
    high = np.arange(1 << 20, dtype=np.uint32) << 12
    ends = np.array([0, 1, 0x7FF, 0x800, 0x801, 0xFFF], np.uint32)
    x = (high[:, None] | ends).reshape(-1).view(np.float32)
    (got,) = conversions()[DType.F32, half].run([x], [half])
    with np.errstate(over="ignore"):
        want = x.astype(half.numpy)
    known = ~np.isnan(x)
    # Where the processor flushes f32 subnormals to zero, it does so here too.
    tiny = (np.abs(x) < np.finfo(np.float32).tiny) & (got.astype(np.float32) == 0)
    wrong = known & ~tiny & (got.view(np.uint16) != want.view(np.uint16))
    assert not wrong.any(), (x[wrong][:5], got[wrong][:5], want[wrong][:5])
    assert np.isnan(got[~known].astype(np.float32)).all()
