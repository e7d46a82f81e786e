"""A host for executables in pure Python: every callback of the C ABI by ctypes and numpy.

    results = CtypesHost(executable).run([x, y])

Slow and strict: it checks what generated code asks of it, and splits every parallel_for into
several ranges, so that a kernel that wrongly carries something from unit to unit is found out.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Sequence
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_int64, c_uint, c_void_p
from itertools import pairwise

import numpy as np

from tf_blade.compiler.build.container import unpack
from tf_blade.compiler.emit.abi import abi_version
from tf_blade.compiler.ir.interpreter import Refused
from tf_blade.compiler.ir.semantics import RULES
from tf_blade.compiler.ir.types import DType


class Tensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("dims", POINTER(c_int64)), ("rank", c_int), ("dtype", c_int)]


class Gemm(ctypes.Structure):
    _fields_ = [
        ("dtype", c_int),
        ("transpose_a", c_int),
        ("transpose_b", c_int),
        ("batch", c_int64),
        ("m", c_int64),
        ("n", c_int64),
        ("k", c_int64),
        ("a", c_void_p),
        ("lda", c_int64),
        ("a_stride", c_int64),
        ("b", c_void_p),
        ("ldb", c_int64),
        ("b_stride", c_int64),
        ("c", c_void_p),
        ("ldc", c_int64),
        ("c_stride", c_int64),
        ("bias", c_void_p),
        ("activation", c_int),
        ("scale", c_double),
        ("residual", c_void_p),
        ("b_constant_input", c_int),
    ]


SPATIAL = c_int64 * 3


class Conv(ctypes.Structure):
    _fields_ = [
        ("dtype", c_int),
        *((name, c_int64) for name in ("batch", "groups", "channels", "filters")),
        *((name, SPATIAL) for name in ("in_", "window", "out", "stride", "dilation", "low")),
        *((name, c_void_p) for name in ("x", "filter", "bias", "y")),
        ("activation", c_int),
        ("filter_constant_input", c_int),
    ]


class Fft(ctypes.Structure):
    _fields_ = [
        ("dtype", c_int),
        ("inverse", c_int),
        ("rows", c_int64),
        ("length", c_int64),
        ("x", c_void_p),
        ("imaginary", c_void_p),
        ("y", c_void_p),
    ]


BODY = ctypes.CFUNCTYPE(None, c_void_p, c_int64, c_int64)
ALLOCATE_OUTPUT = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_int, c_int, POINTER(c_int64))
FORWARD_INPUT = ctypes.CFUNCTYPE(c_int, c_void_p, c_int, c_int, c_int, POINTER(c_int64))
ALLOCATE_TEMP = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_int64)
PARALLEL_FOR = ctypes.CFUNCTYPE(None, c_void_p, c_int64, c_double, BODY, c_void_p)
GEMM = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(Gemm))
CONV = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(Conv))
FFT = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(Fft))
COUNT = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_int64)


class Host(ctypes.Structure):
    _fields_ = [
        ("abi_version", c_uint),
        ("allocate_output", ALLOCATE_OUTPUT),
        ("forward_input", FORWARD_INPUT),
        ("allocate_temp", ALLOCATE_TEMP),
        ("parallel_for", PARALLEL_FOR),
        ("gemm", GEMM),
        ("conv", CONV),
        ("fft", FFT),
        ("count", COUNT),
    ]


RUN = ctypes.CFUNCTYPE(c_int, POINTER(Host), c_void_p, POINTER(Tensor))


class Variant(ctypes.Structure):
    _fields_ = [("isa", c_char_p), ("run", RUN)]


class Description(ctypes.Structure):
    _fields_ = [
        ("abi_version", c_uint),
        ("n_inputs", c_int),
        ("n_outputs", c_int),
        ("n_variants", c_int),
        ("variants", POINTER(Variant)),
        ("n_refusals", c_int),
        ("refusals", POINTER(c_char_p)),
        ("name", c_char_p),
    ]


GUARD = 64  # bytes around every buffer that must stay as they are
PATTERN = 0xA5


class Buffer:
    """64-byte aligned memory with guards on both sides, filled with garbage."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.memory = np.full(size + 2 * GUARD + 64, PATTERN, np.uint8)
        offset = -(self.memory.ctypes.data + GUARD) % 64 + GUARD
        self.before = self.memory[offset - GUARD : offset]
        self.data = self.memory[offset : offset + size]
        self.after = self.memory[offset + size :]
        self.address = self.memory.ctypes.data + offset

    def check(self, what: str) -> None:
        intact = (self.before == PATTERN).all() and (self.after == PATTERN).all()
        assert intact, f"{what}: written outside its {self.size} bytes"


def load(executable: bytes) -> ctypes.CDLL:
    """The payload of a container, mapped."""
    with tempfile.NamedTemporaryFile(suffix=".so", delete=False) as file:
        file.write(unpack(executable).payload)
    library = ctypes.CDLL(file.name)
    os.unlink(file.name)
    return library


class CtypesHost:
    """Runs one executable.

    library: what exports the executable, as `symbol`; or the container's bytes.
    isa: the variant to run; None: the last in the table, which needs the least of the processor.
    pieces: ranges that every parallel_for is split into.
    """

    def __init__(
        self,
        library: ctypes.CDLL | bytes,
        symbol: str = "blade_executable",
        isa: str | None = None,
        pieces: int = 3,
    ) -> None:
        self._library = load(library) if isinstance(library, bytes) else library
        function = getattr(self._library, symbol)
        function.restype = POINTER(Description)
        self.description: Description = function().contents
        d = self.description
        variants = {d.variants[i].isa.decode(): d.variants[i].run for i in range(d.n_variants)}
        self.isas = list(variants)
        self._run = variants[isa or self.isas[-1]]
        self._pieces = pieces
        self.refusals = [d.refusals[i].decode() for i in range(d.n_refusals)]
        self.calls: list[tuple[int, float]] = []  # (units, cycles of one) of each parallel_for
        self.gemms: list[Gemm] = []
        self.convs: list[Conv] = []

    def run(self, inputs: Sequence[np.ndarray], dtypes: Sequence[DType]) -> list[np.ndarray]:
        """The results, of the given dtypes. Raises Refused when the executable refuses."""
        arrays = [np.array(x, order="C") for x in inputs]  # own copies: they must not change
        call = Call(arrays, list(dtypes), self._pieces)
        status = self.run_on(call.host, arrays)
        self.calls, self.gemms, self.convs = call.calls, call.gemms, call.convs
        call.check()
        for before, after in zip(inputs, arrays, strict=True):
            assert before.tobytes() == after.tobytes(), "an input was written to"
        if status > 0:
            raise Refused(self.refusals[status - 1])
        assert status == 0, f"run returned {status}"
        return [call.outputs[i] for i in range(self.description.n_outputs)]

    def run_on(self, host: ctypes.Structure, inputs: Sequence[np.ndarray]) -> int:
        """Runs with the callbacks of `host`, which begins with a Host. Returns the status."""
        assert len(inputs) == self.description.n_inputs
        tensors = (Tensor * max(1, len(inputs)))()
        dims = [(c_int64 * max(1, x.ndim))(*x.shape) for x in inputs]
        for tensor, array, shape in zip(tensors, inputs, dims, strict=False):
            tensor.data, tensor.dims, tensor.rank = array.ctypes.data, shape, array.ndim
            tensor.dtype = DType.from_numpy(array.dtype).tf_enum
        return self._run(ctypes.cast(byref(host), POINTER(Host)), None, tensors)


class Call:
    """The callbacks for one run, as `host`, and what they have done."""

    def __init__(self, inputs: list[np.ndarray], dtypes: list[DType], pieces: int) -> None:
        self.inputs, self.dtypes, self.pieces = inputs, dtypes, pieces
        self.outputs: dict[int, np.ndarray] = {}
        self.buffers: list[tuple[str, Buffer]] = []
        self.calls: list[tuple[int, float]] = []
        self.gemms: list[Gemm] = []
        self.convs: list[Conv] = []
        self.errors: list[str] = []
        self.temp_calls = 0
        self.host = Host(
            abi_version(),
            ALLOCATE_OUTPUT(self._allocate_output),
            FORWARD_INPUT(self._forward_input),
            ALLOCATE_TEMP(self._allocate_temp),
            PARALLEL_FOR(self._parallel_for),
            GEMM(self._gemm),
            CONV(self._conv),
            FFT(self._fft),
            COUNT(lambda ctx, event, times: None),
        )

    def check(self) -> None:
        assert not self.errors, self.errors
        for what, buffer in self.buffers:
            buffer.check(what)

    def _allocate_output(self, ctx: object, index: int, rank: int, dims: object) -> int:
        shape = [dims[i] for i in range(rank)]  # type: ignore[index]
        dtype = self.dtypes[index].numpy
        buffer = Buffer(int(np.prod(shape, dtype=np.int64)) * dtype.itemsize)
        self.buffers.append((f"output {index}", buffer))
        if index in self.outputs:
            self.errors.append(f"output {index} was allocated twice")
        self.outputs[index] = buffer.data.view(dtype).reshape(shape)
        return buffer.address

    def _forward_input(self, ctx: object, index: int, number: int, rank: int, dims: object) -> int:
        shape = [dims[i] for i in range(rank)]  # type: ignore[index]
        self.outputs[index] = self.inputs[number].reshape(shape)
        return 0

    def _allocate_temp(self, ctx: object, size: int) -> int:
        self.temp_calls += 1
        if self.temp_calls > 1:
            self.errors.append("temporary memory was asked for twice")
        buffer = Buffer(size)
        self.buffers.append(("temporaries", buffer))
        return buffer.address

    def _parallel_for(
        self, ctx: object, total: int, cycles: float, body: object, args: object
    ) -> None:
        if total <= 0 or not cycles > 0:
            self.errors.append(f"parallel_for over {total} units of {cycles} cycles")
        self.calls.append((total, cycles))
        bounds = np.linspace(0, total, min(self.pieces, total) + 1).astype(int)
        for begin, end in reversed(list(pairwise(bounds))):
            body(args, int(begin), int(end))  # type: ignore[operator]

    def _gemm(self, ctx: object, pointer: object) -> int:
        g = pointer.contents  # type: ignore[attr-defined]
        copy = Gemm()
        ctypes.memmove(byref(copy), byref(g), ctypes.sizeof(Gemm))
        self.gemms.append(copy)
        if min(g.batch, g.m, g.n, g.k) <= 0:
            self.errors.append(f"gemm of batch {g.batch}, {g.m} x {g.n} x {g.k}")
            return 1
        dtype = DType.from_tf_enum(g.dtype).numpy  # type: ignore[union-attr]

        def matrices(address: int, rows: int, columns: int, ld: int, stride: int) -> np.ndarray:
            size = (g.batch - 1) * stride + (rows - 1) * ld + columns
            flat = np.ctypeslib.as_array(
                (ctypes.c_char * (size * dtype.itemsize)).from_address(address)
            )
            strides = (stride * dtype.itemsize, ld * dtype.itemsize, dtype.itemsize)
            return np.lib.stride_tricks.as_strided(
                flat.view(dtype), (g.batch, rows, columns), strides
            )

        a = matrices(g.a, *((g.k, g.m) if g.transpose_a else (g.m, g.k)), g.lda, g.a_stride)
        b = matrices(g.b, *((g.n, g.k) if g.transpose_b else (g.k, g.n)), g.ldb, g.b_stride)
        c = matrices(g.c, g.m, g.n, g.ldc, g.c_stride)
        left = a.swapaxes(1, 2) if g.transpose_a else a
        right = b.swapaxes(1, 2) if g.transpose_b else b
        result = g.scale * (left.astype(np.float64) @ right.astype(np.float64))
        if g.bias:
            result = result + matrices(g.bias, 1, g.n, g.n, 0)[0]
        if g.activation == 1:
            result = np.where(result < 0, 0, result)
        if g.residual:
            result = result + matrices(g.residual, g.m, g.n, g.ldc, g.c_stride)
        c[...] = result
        return 0

    def _conv(self, ctx: object, pointer: object) -> int:
        c = pointer.contents  # type: ignore[attr-defined]
        copy = Conv()
        ctypes.memmove(byref(copy), byref(c), ctypes.sizeof(Conv))
        self.convs.append(copy)
        if min(c.batch, c.groups, c.channels, c.filters, *c.window, *c.out, *c.stride) <= 0:
            self.errors.append(f"conv of batch {c.batch}, {c.channels} to {c.filters}")
            return 1
        dtype = DType.from_tf_enum(c.dtype).numpy  # type: ignore[union-attr]

        def array(address: int, *shape: int) -> np.ndarray:
            return _array(address, dtype, *shape)

        filters = c.groups * c.filters
        y = array(c.y, c.batch, *c.out, filters)
        y[...] = RULES["conv"](
            array(c.x, c.batch, *c.in_, c.groups * c.channels),
            array(c.filter, *c.window, c.channels, filters),
            array(c.bias, filters) if c.bias else None,
            strides=tuple(c.stride),
            dilations=tuple(c.dilation),
            low=tuple(c.low),
            sizes=tuple(c.out),
            groups=c.groups,
            activation="relu" if c.activation == 1 else "none",
        )
        return 0

    def _fft(self, ctx: object, pointer: object) -> int:
        f = pointer.contents  # type: ignore[attr-defined]
        if f.rows == 0:
            return 0
        dtype = np.dtype(np.float32)
        numbers, plane = (f.rows, f.length), (f.rows, f.length // 2 + 1)
        if f.inverse:
            parts = (_array(address, dtype, *plane) for address in (f.x, f.imaginary))
            _array(f.y, dtype, *numbers)[...] = RULES["irfft"](*parts, length=f.length)
        else:
            _array(f.y, dtype, 2, *plane)[...] = RULES["rfft"](_array(f.x, dtype, *numbers))
        return 0


def _array(address: int, dtype: np.dtype, *shape: int) -> np.ndarray:
    """A view of a call's operand."""
    size = int(np.prod(shape)) * dtype.itemsize
    memory = (ctypes.c_char * size).from_address(address)
    return np.ctypeslib.as_array(memory).view(dtype).reshape(shape)
