"""CUDA kernels: what they are launched with, whether nvcc takes them, their answers on a GPU."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int64, c_void_p

import numpy as np
import pytest

from benchmarks.cuda.prepare import build_runner
from benchmarks.job_folder import JobFolder, Tensor
from tests.compiler import ctypes_host
from tests.compiler.batch import compile_batch
from tests.compiler.emit.example import Example
from tests.compiler.emit.jobs import add_runs
from tests.compiler.emit.programs import EXAMPLES
from tf_blade.compiler.build import build, find_compiler
from tf_blade.compiler.build.nvcc import build_image, find_nvcc
from tf_blade.compiler.emit.cuda import CudaSource, emit_cuda
from tf_blade.compiler.fuse import plan
from tf_blade.compiler.ir.parser import parse
from tf_blade.errors import CompileError, CompilerNotFoundError, UnsupportedError

SOFTMAX = """%0: f32[a] = reduce(%x, kind=max, dims=[1])
    %1: f32[a, b] = broadcast_in_dim(%0, shape=[a, b], dims=[0])
    %2: f32[a, b] = sub(%x, %1)
    %3: f32[a, b] = exp(%2)
    %4: f32[a] = reduce(%3, kind=sum, dims=[1])
    %6: f32[a, b] = broadcast_in_dim(%4, shape=[a, b], dims=[0])
    %7: f32[a, b] = div(%3, %6)"""
# Around the room of each version of a row kernel, and beyond all of them.
LONG_ROWS = Example(
    "softmax_of_long_rows_on_a_gpu",
    "(%x: f32[a, b]) -> (%7)",
    SOFTMAX,
    sizes=(("a", (1, 3)), ("b", (32, 33, 512, 513, 2052, 4095, 16384, 16385, 40000, 40001))),
    runs=10,
)
OFF_A_VECTOR = Example(
    "off_a_vector",
    "(%x: f32[a, 8]) -> (%2)",
    """%0: f32[a, 4] = slice(%x, start=[0, 1], limit=[a, 5], stride=[1, 1])
    %1: f32[a, 4] = slice(%x, start=[0, 4], limit=[a, 8], stride=[1, 1])
    %2: f32[a, 4] = add(%0, %1)""",
)
# Kernels that differ only in how much there is to do.
TWO_SIZES = Example(
    "two_sizes",
    "(%p0: f32[8], %p1: f32[20], %p2: f32[a], %p3: f32[2*a]) -> (%0, %1, %2, %3)",
    """%0: f32[8] = exp(%p0)
    %1: f32[20] = exp(%p1)
    %2: f32[a] = exp(%p2)
    %3: f32[2*a] = exp(%p3)""",
)
# One of each form, for nvcc takes seconds for each.
COMPILED = [
    *(e for e in EXAMPLES if e.name in {
        "flat", "bias_and_scale", "gathers", "integers", "conversions", "constant_results",
        "softmax", "layer_norm_of_a_residual", "reductions_of_rows", "long_sums", "transposed",
        "variance_of_everything",
    }),
    LONG_ROWS,
    OFF_A_VECTOR,
    TWO_SIZES,
]  # fmt: skip


def emitted(example: Example) -> CudaSource:
    program = example.program()
    return emit_cuda(program, plan(program))


def executables(sources: Sequence[CudaSource]) -> list[bytes]:
    """The host's part of each source, compiled."""
    built = build(
        [s.host for s in sources],
        compiler=find_compiler(),
        targets=["x86-64-v2"],
        cache_dir=None,
        jobs=2,
    )
    assert not [b for b in built if isinstance(b, CompileError)]
    return [b.executable for b in built if not isinstance(b, CompileError)]


# -- without a GPU --------------------------------------------------------------------------------


class Launch(Structure):
    _fields_ = [
        ("kernel", c_char_p),
        *((name, c_int) for name in ("lanes", "items")),
        *((name, c_int64) for name in ("blocks_x", "blocks_y")),
        *((name, c_int) for name in ("threads_x", "threads_y")),
        ("args", c_void_p),
    ]


LAUNCH = CFUNCTYPE(c_int, c_void_p, POINTER(Launch))
READ_REFUSED = CFUNCTYPE(c_int, c_void_p, POINTER(c_int))


class CudaHost(Structure):
    _fields_ = [
        ("base", ctypes_host.Host),
        ("refused", c_void_p),
        ("launch", LAUNCH),
        ("read_refused", READ_REFUSED),
    ]


@functools.cache
def host_of(name: str) -> ctypes_host.CtypesHost:
    example = next(e for e in COMPILED if e.name == name)
    return compile_batch([emitted(example).host], target="x86-64-v2")[0]


def launches(name: str, *inputs: np.ndarray, refused: int = 0) -> tuple[int, list[Launch]]:
    """What the example's `run` returns, and what it launches instead of running anything."""
    seen: list[Launch] = []

    def launch(ctx: object, what: object) -> int:
        copy = Launch()
        ctypes.memmove(ctypes.byref(copy), what, ctypes.sizeof(Launch))  # type: ignore[arg-type]
        seen.append(copy)
        return 0

    def read_refused(ctx: object, reason: object) -> int:
        reason[0] = refused  # type: ignore[index]
        return 0

    example = next(e for e in COMPILED if e.name == name)
    dtypes = [v.type.dtype for v in example.program().results]
    call = ctypes_host.Call(list(inputs), dtypes, 1)
    host = CudaHost(call.host, None, LAUNCH(launch), READ_REFUSED(read_refused))
    return host_of(name).run_on(host, inputs), seen


@pytest.mark.parametrize("width", [1, 3, 31, 32, 33, 127, 128, 1024, 4095, 4096, 16383, 16384])
def test_a_row_kernels_threads_have_room_for_a_row_but_not_for_much_more(width: int):
    _, (launch,) = launches("softmax", np.zeros((7, width), np.float32))
    room = launch.lanes * launch.items * launch.threads_x
    assert launch.blocks_x == 7
    assert launch.lanes == (4 if width % 4 == 0 else 1)
    assert width <= room <= max(128, 4 * width)


@pytest.mark.parametrize("width", [16385, 16388, 10**6])
def test_rows_beyond_the_registers_stay_in_memory(width: int):
    _, (launch,) = launches("softmax", np.zeros((1, width), np.float32))
    assert launch.items == 0


@pytest.mark.parametrize("rows, width", [(1, 1), (3, 5), (100, 4), (1, 10**6), (4096, 64)])
def test_a_loop_kernels_threads_are_enough_but_not_many_more_than_its_elements(rows, width):
    bias, scale = np.zeros(width, np.float32), np.zeros((), np.float32)
    x, row = np.zeros((rows, width), np.float32), np.zeros(rows, np.float32)
    _, seen = launches("bias_and_scale", x, bias, scale, row)
    for launch in seen:
        assert launch.threads_x * launch.threads_y == 256
        per_row = launch.blocks_x * launch.threads_x * launch.lanes
        assert launch.blocks_y * launch.threads_y >= min(rows, 65535)
        assert per_row <= 4 * 256 + 2 * width


def test_loops_of_different_extents_are_different_kernels():
    inputs = [np.zeros(n, np.float32) for n in (8, 20, 5, 10)]
    _, seen = launches("two_sizes", *inputs)
    assert len({launch.kernel for launch in seen}) == 4


def test_nothing_is_launched_for_no_rows():
    assert launches("softmax", np.zeros((0, 5), np.float32)) == (0, [])
    assert launches("flat", *[np.zeros((3, 0), np.float32)] * 2) == (0, [])


def test_a_slice_that_begins_off_a_vector_is_read_element_by_element():
    _, (launch,) = launches("off_a_vector", np.zeros((3, 8), np.float32))
    assert launch.lanes == 1


def test_what_a_kernel_refuses_is_what_run_returns():
    gathers = next(e for e in EXAMPLES if e.name == "gathers")
    inputs = gathers.inputs(gathers.program(), np.random.default_rng(0))
    assert launches("gathers", *inputs, refused=1)[0] == 1


@pytest.mark.parametrize(
    "name, kind", [("long_column_sums", "column_reduce"), ("concatenated_columns", "concatenate")]
)
def test_other_kernels_are_refused_with_their_kind(name: str, kind: str):
    (example,) = [e for e in EXAMPLES if e.name == name]
    with pytest.raises(UnsupportedError, match=f"no CUDA printer for {kind}"):
        emitted(example)


def test_a_size_that_is_in_the_devices_memory_is_refused():
    program = parse(
        """program fed(%x: f32[a], %shape: i64[1]) -> (%0) {
          symbol a = dim(%x, 0)
          symbol n = element(%shape, 0)
          %0: f32[n, a] = broadcast_in_dim(%x, shape=[n, a], dims=[1])
        }"""
    )
    with pytest.raises(UnsupportedError, match="element of an input"):
        emit_cuda(program, plan(program))


def test_the_same_program_gives_the_same_text():
    assert emitted(LONG_ROWS) == emitted(LONG_ROWS)


# -- with CUDA's compiler, and with a GPU ---------------------------------------------------------


@functools.cache
def images() -> list[bytes]:
    try:
        find_nvcc()
    except CompilerNotFoundError as error:
        pytest.skip(str(error))
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda e: build_image(emitted(e).kernels), COMPILED))


def fill(folder: JobFolder) -> None:
    """Adds runs of all examples."""
    hosts = executables([emitted(e) for e in COMPILED])
    for example, host, image in zip(COMPILED, hosts, images(), strict=True):
        add_runs(folder, example, host, image)


def test_nvcc_compiles_every_form_of_kernel_for_two_generations_of_gpus():
    for image in images():
        assert b"sm_80" in image and b"sm_90" in image


def has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def runner() -> str:
    """What runs the kernels. Skips the test where it can't be built."""
    try:
        return str(build_runner())
    except CompileError as error:
        pytest.skip(str(error))


def test_a_gpu_computes_what_the_interpreter_computes(tmp_path):
    if not has_driver():
        pytest.skip("there is no CUDA driver on this machine")
    folder = JobFolder(tmp_path)
    fill(folder)
    outcomes = folder.run([runner()])
    assert [(o.name, o.message) for o in outcomes if o.message] == []


def test_without_a_driver_the_runner_says_so(tmp_path):
    if has_driver():
        pytest.skip("there is a CUDA driver on this machine")
    folder = JobFolder(tmp_path)
    x = np.zeros((1, 4), np.float32)
    folder.add("any", executables([emitted(LONG_ROWS)])[0], [Tensor(x)], [Tensor(x)], image=b"?")
    with pytest.raises(RuntimeError, match="there is no CUDA driver"):
        folder.run([runner()])
