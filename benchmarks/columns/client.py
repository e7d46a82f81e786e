"""The C++ clients: calls of a session without Python between them, and the row gather.

Python, even with feeds made once, adds some 50 µs a call and lets one thread run at a time; the
library of `client.cc` adds nothing and takes any number of clients.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks import native, session
from benchmarks.columns.feeds import ColumnRows
from benchmarks.columns.model import Column

_SOURCE = Path(__file__).with_name("client.cc")
_ERROR_BYTES = 1000


class _Api(ctypes.Structure):
    """Addresses of TensorFlow's functions, in the order of client.cc."""

    _names = (
        "TF_SessionRun",
        "TF_DeleteTensor",
        "TF_NewStatus",
        "TF_DeleteStatus",
        "TF_GetCode",
        "TF_Message",
    )
    _fields_ = tuple((name, ctypes.c_void_p) for name in _names)


class _Call(ctypes.Structure):
    _fields_ = (
        ("session", ctypes.c_void_p),
        ("inputs", ctypes.c_void_p),
        ("tensors", ctypes.c_void_p),
        ("input_count", ctypes.c_int),
        ("outputs", ctypes.c_void_p),
        ("output_count", ctypes.c_int),
    )


class _Gather(ctypes.Structure):
    _fields_ = (
        ("table", ctypes.c_void_p),
        ("ids", ctypes.c_void_p),
        ("splits", ctypes.c_void_p),
        ("dim", ctypes.c_int64),
        ("offset", ctypes.c_int64),
    )


@functools.cache
def _library() -> Any:
    """client.cc."""
    library = native.library(_SOURCE, [tf.sysconfig.get_include()])
    library.bench_run.restype = ctypes.c_double
    library.bench_gather.restype = ctypes.c_double
    return library


@dataclass(frozen=True)
class Block:
    """What some calls took: seconds of each [calls], and of all from first to last."""

    seconds: np.ndarray
    wall: float

    @property
    def calls(self) -> int:
        return len(self.seconds)


class Clients:
    """Calls of one model that go round its feeds.

    Args:
      calls: the signature bound to each of the feeds (`session.Session.bind`).
    """

    def __init__(self, calls: Sequence[session.Call]) -> None:
        api = session.c_api()
        self._calls = list(calls)  # they own the tensors
        self._api = _Api(
            *(ctypes.cast(getattr(api, name), ctypes.c_void_p).value for name in _Api._names)
        )
        self._array = (_Call * len(calls))(*(_call(call) for call in calls))

    def run(self, rounds: int, clients: int = 1) -> Block:
        """`rounds` calls from each of `clients` threads. Raises RuntimeError when one fails."""
        seconds = np.empty(rounds * clients)
        error = ctypes.create_string_buffer(_ERROR_BYTES)
        wall = _library().bench_run(
            ctypes.byref(self._api),
            self._array,
            len(self._array),
            clients,
            ctypes.c_int64(rounds),
            ctypes.c_void_p(seconds.ctypes.data),
            error,
            ctypes.c_size_t(_ERROR_BYTES),
        )
        if wall < 0:
            raise RuntimeError(f"running the model: {error.value.decode(errors='replace')}")
        return Block(seconds, wall)


def _call(call: session.Call) -> _Call:
    handle, _, inputs, tensors, input_count, outputs, _, output_count, *_ = call.arguments
    return _Call(
        handle,
        ctypes.cast(inputs, ctypes.c_void_p),
        ctypes.cast(tensors, ctypes.c_void_p),
        input_count,
        ctypes.cast(outputs, ctypes.c_void_p),
        output_count,
    )


class Gather:
    """The floor: the same rows of tables of the same sizes, added up and written side by side.

    No hashing, no checks, no tensors to make; what is left is waiting for memory.

    Args:
      columns: the model's.
      batches: what each feed looks up; all of as many rows.
      tables: each column's [rows, dim]; None: made up.
    """

    def __init__(
        self,
        columns: list[Column],
        batches: Sequence[list[ColumnRows]],
        tables: Sequence[np.ndarray] | None = None,
    ) -> None:
        if tables is None:
            tables = make_tables(columns)
        offsets = np.concatenate([[0], np.cumsum([column.dim for column in columns])])
        self._rows = len(batches[0][0].splits) - 1
        self._counts = (len(columns), len(batches))
        self._keep = (tables, batches)  # their memory is what the columns point to
        self.output = np.zeros((self._rows, int(offsets[-1])), np.float32)
        self._columns = (_Gather * (len(columns) * len(batches)))(
            *(
                _Gather(
                    table.ctypes.data,
                    rows.ids.ctypes.data,
                    rows.splits.ctypes.data,
                    column.dim,
                    int(offset),
                )
                for batch in batches
                for column, table, rows, offset in zip(
                    columns, tables, batch, offsets[:-1], strict=True
                )
            )
        )
        read = [
            len(rows.ids) * column.dim * 4
            for batch in batches
            for column, rows in zip(columns, batch, strict=True)
        ]
        self.bytes_per_call = sum(read) / len(batches) + self.output.nbytes

    def run(self, rounds: int, threads: int = 1) -> float:
        """Seconds of `rounds` batches, their rows divided among the threads."""
        return float(
            _library().bench_gather(
                self._columns,
                *self._counts,
                ctypes.c_int64(self._rows),
                ctypes.c_int64(self.output.shape[1]),
                ctypes.c_void_p(self.output.ctypes.data),
                threads,
                ctypes.c_int64(rounds),
            )
        )


def make_tables(columns: list[Column]) -> list[np.ndarray]:
    """Tables of the columns' sizes, every page of them written to, on cache lines of their own."""
    return [_aligned_table(column.rows, column.dim) for column in columns]


def _aligned_table(rows: int, dim: int) -> np.ndarray:
    memory = np.full(rows * dim + 16, 0.01, np.float32)
    first = -memory.ctypes.data % 64 // 4
    return memory[first : first + rows * dim].reshape(rows, dim)
