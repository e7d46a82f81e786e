"""tf_blade._runtime: executables and matrix products from Python, without TensorFlow."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cc.programs import ABI_VERSION, ADD, BASE_ISA, DENSE, HUGE, executable, shared_object
from tf_blade import _runtime
from tf_blade.compiler.build.container import pack, unpack

F32 = np.dtype(np.float32)


def floats(*shape: int, seed: int = 0, dtype: type = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def test_both_sides_agree_on_the_container():
    container = executable(ADD)
    unpacked = unpack(container)
    assert unpacked.isas == (BASE_ISA,)
    assert unpacked.abi_version == ABI_VERSION == _runtime.ABI_VERSION
    assert unpacked.payload[:4] == b"\x7fELF"
    program = _runtime.Executable(container)
    assert (program.name, program.n_inputs, program.n_outputs) == ("tiny", 2, 2)
    assert program.isa == BASE_ISA
    assert program.refusals == [
        "Add (head/add): ranks differ",
        "Add (head/add): input dims differ",
    ]


def test_both_sides_agree_on_the_hash():
    for size in (0, 1, 55, 56, 63, 64, 65, 119, 120, 1000):
        data = bytes(i % 251 for i in range(size))
        assert _runtime.sha256(data) == hashlib.sha256(data).digest()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 4, 5), (300_000,)])
def test_an_executable_runs_on_arrays(shape, threads):
    a, b = floats(*shape), floats(*shape, seed=1)
    program = _runtime.Executable(executable(ADD, cost="50.0"))
    y, row = program.run([a, b], [F32, F32], threads=threads)
    np.testing.assert_array_equal(y, a + b)
    assert y.shape == shape and y.dtype == np.float32
    np.testing.assert_array_equal(row, a.reshape(-1))


def test_arrays_in_another_order_or_not_aligned_are_copied():
    program = _runtime.Executable(executable(ADD))
    a = floats(6, 4).T
    unaligned = floats(25)[1:].reshape(4, 6)
    assert unaligned.ctypes.data % 16 != 0
    y, _ = program.run([a, unaligned], [F32, F32])
    np.testing.assert_array_equal(y, a + unaligned)


def test_a_refusal_is_an_exception_with_its_reason():
    program = _runtime.Executable(executable(ADD))
    with pytest.raises(_runtime.Refused, match=r"Add \(head/add\): input dims differ"):
        program.run([floats(2), floats(3)], [F32, F32])
    assert issubclass(_runtime.Refused, RuntimeError)


def test_a_container_for_another_machine_is_refused_with_the_reason():
    with pytest.raises(_runtime.Refused, match=r"built for riscv64"):
        _runtime.Executable(pack(ABI_VERSION, ["riscv64"], shared_object(ADD)))
    with pytest.raises(_runtime.Refused, match=r"doesn't match its hash"):
        _runtime.Executable(executable(ADD)[:-1] + b"x")


def test_misuse_is_an_exception_that_says_what():
    program = _runtime.Executable(executable(ADD))
    with pytest.raises(ValueError, match="inputs has 1 entries, should have 2"):
        program.run([floats(2)], [F32, F32])
    with pytest.raises(ValueError, match="output_dtypes has 1 entries, should have 2"):
        program.run([floats(2), floats(2)], [F32])
    with pytest.raises(TypeError, match="input 1 has dtype"):
        program.run([floats(2), np.array(["a", "b"])], [F32, F32])
    with pytest.raises(IndexError, match="no input 5"):
        program.run([floats(2), floats(2)], [F32, F32], constant_inputs=[5])
    with pytest.raises(ValueError, match="threads"):
        program.run([floats(2), floats(2)], [F32, F32], threads=0)
    with pytest.raises(MemoryError):
        _runtime.Executable(executable(HUGE)).run([floats(1)], [F32])


def test_constants_are_packed_once_and_answers_stay_right():
    program = _runtime.Executable(executable(DENSE))
    w, bias = floats(70, 33, seed=1), floats(33, seed=2)
    for m in (1, 3, 40):
        x = floats(m, 70, seed=m)
        (packed,) = program.run([x, w, bias], [F32], constant_inputs=[1])
        (plain,) = program.run([x, w, bias], [F32])
        expected = np.maximum(x @ w + bias, 0)
        np.testing.assert_allclose(packed, expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(plain, expected, rtol=1e-4, atol=1e-5)


def test_threads_run_one_executable_at_the_same_time():
    program = _runtime.Executable(executable(DENSE))
    w, bias = floats(64, 50, seed=1), floats(50, seed=2)
    wrong: list[int] = []

    def work(seed: int) -> None:
        x = floats(1 + seed, 64, seed=seed)
        for _ in range(30):
            (y,) = program.run([x, w, bias], [F32], threads=1 + seed % 2, constant_inputs=[1])
            if not np.allclose(y, np.maximum(x @ w + bias, 0), rtol=1e-4, atol=1e-4):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(1, 3), max_size=2),
    *[st.integers(1, 70)] * 2,
    st.integers(0, 400),
    *[st.booleans()] * 6,
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from([1, 2]),
)
def test_gemm_equals_numpy(
    batch, m, n, k, ta, tb, has_bias, relu, one_b, constant_b, dtype, threads
):
    a = floats(*batch, *((k, m) if ta else (m, k)), dtype=dtype)
    b_batch = [] if one_b else batch
    b = floats(*b_batch, *((n, k) if tb else (k, n)), seed=1, dtype=dtype)
    bias = floats(n, seed=2, dtype=dtype) if has_bias else None
    c = _runtime.gemm(a, b, ta, tb, bias, relu, threads, constant_b)
    left = np.swapaxes(a, -1, -2) if ta else a
    right = np.swapaxes(b, -1, -2) if tb else b
    expected = left.astype(np.float64) @ right.astype(np.float64)
    expected = expected + (0 if bias is None else bias)
    expected = np.maximum(expected, 0) if relu else expected
    assert c.dtype == dtype and c.shape == expected.shape
    tolerance = 2e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(c, expected, rtol=tolerance, atol=tolerance * (k + 1) ** 0.5)


def test_gemm_says_what_does_not_fit():
    with pytest.raises(ValueError, match="inner dims differ"):
        _runtime.gemm(floats(2, 3), floats(4, 5))
    with pytest.raises(ValueError, match="leading dims differ"):
        _runtime.gemm(floats(2, 3, 4), floats(3, 4, 5))
    with pytest.raises(TypeError, match="float32 or float64"):
        _runtime.gemm(floats(2, 3), floats(3, 4, dtype=np.float64))
    with pytest.raises(ValueError, match="bias"):
        _runtime.gemm(floats(2, 3), floats(3, 4), bias=floats(5))


@pytest.mark.skipif(BASE_ISA == "aarch64", reason="levels of x86-64")
def test_a_lower_level_can_be_asked_for_and_gives_the_same_answers():
    code = (
        "import numpy as np; from tf_blade import _runtime as r\n"
        "a = np.arange(35 * 20, dtype=np.float32).reshape(35, 20) % 13\n"
        "b = np.arange(20 * 33, dtype=np.float32).reshape(20, 33) % 11\n"
        "assert (r.gemm(a, b) == a @ b).all() and (r.gemm(a, b, constant_b=True) == a @ b).all()\n"
        "print(*r.cpu_features())"
    )
    environment = {**os.environ, "TF_BLADE_MAX_ISA": "x86-64-v2"}
    output = subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True
    )
    assert output.stdout.split() == ["x86-64-v2"]


@pytest.mark.skipif(BASE_ISA == "aarch64", reason="levels of x86-64")
def test_levels_follow_from_the_processor_s_flags():
    with open("/proc/cpuinfo") as file:
        flags = set(next(line for line in file if line.startswith("flags")).split(":")[1].split())
    v3 = {"avx2", "bmi1", "bmi2", "fma", "f16c", "movbe", "abm"} <= flags
    v4 = v3 and {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= flags
    limit = os.environ.get("TF_BLADE_MAX_ISA")
    if limit is None:
        assert ("x86-64-v3" in _runtime.cpu_features()) == v3
        assert ("x86-64-v4" in _runtime.cpu_features()) == v4


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("length", [1, 2, 3, 8, 97, 400, 512])
def test_fourier_transforms_there_and_back(length, threads):
    rng = np.random.default_rng(length)
    for rows in (0, 1, 5, 40):
        x = rng.standard_normal((rows, length)).astype(np.float32)
        spectrum = _runtime.fft(x, inverse=False, length=length, threads=threads)
        want = (
            np.fft.rfft(x.astype(np.float64)) if rows else np.zeros((0, length // 2 + 1), complex)
        )
        np.testing.assert_allclose(spectrum[0], want.real, atol=1e-4)
        np.testing.assert_allclose(spectrum[1], want.imag, atol=1e-4)
        back = _runtime.fft(spectrum, inverse=True, length=length, threads=threads)
        np.testing.assert_allclose(back, x, atol=1e-5)
    with pytest.raises(ValueError, match="dtype or shape"):
        _runtime.fft(x, inverse=True, length=length)
