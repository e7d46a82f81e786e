"""A SavedModel run the way a server runs it: TensorFlow's C API, with feeds made once.

Feeding numpy arrays from Python costs more than a small recommendation model takes: every string
of a batch becomes a Python object, every array is looked at, every input copied. Timing through
`Session.run` would mostly time that, for the original and the optimised model alike, and press the
ratio of the two towards 1. This session loads the model as TensorFlow Serving does
(`TF_LoadSessionFromSavedModel`, a C++ DirectSession with Grappler), keeps the feeds as TF_Tensors
that are built once, and per call makes one C call to `TF_SessionRun` plus one to free each output.
Custom ops must be registered in the process beforehand (`tf.load_op_library`).
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

_STRING_BYTES = 24  # sizeof(TF_TString), fixed by TensorFlow's ABI


class _Output(ctypes.Structure):
    """TF_Output: one result of an operation of the graph."""

    _fields_ = (("operation", ctypes.c_void_p), ("index", ctypes.c_int))


class _Buffer(ctypes.Structure):
    """TF_Buffer: bytes that the C API hands out or takes in."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("length", ctypes.c_size_t),
        ("deallocator", ctypes.c_void_p),
    )


@functools.cache
def c_api() -> Any:
    """The C API of the TensorFlow that is imported, with the prototypes of what is used here."""
    library = ctypes.CDLL(os.path.join(tf.sysconfig.get_lib(), "libtensorflow_cc.so.2"))
    pointer, size, text = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p
    prototypes: dict[str, tuple[Any, list[Any]]] = {
        "TF_NewStatus": (pointer, []),
        "TF_DeleteStatus": (None, [pointer]),
        "TF_GetCode": (ctypes.c_int, [pointer]),
        "TF_Message": (text, [pointer]),
        "TF_NewGraph": (pointer, []),
        "TF_DeleteGraph": (None, [pointer]),
        "TF_GraphOperationByName": (pointer, [pointer, text]),
        "TF_NewSessionOptions": (pointer, []),
        "TF_DeleteSessionOptions": (None, [pointer]),
        "TF_SetConfig": (None, [pointer, text, size, pointer]),
        "TF_LoadSessionFromSavedModel": (
            pointer,
            [
                pointer,  # session options
                pointer,  # run options
                text,
                ctypes.POINTER(text),
                ctypes.c_int,
                pointer,  # graph
                ctypes.POINTER(_Buffer),  # MetaGraphDef
                pointer,  # status
            ],
        ),
        "TF_CloseSession": (None, [pointer, pointer]),
        "TF_DeleteSession": (None, [pointer, pointer]),
        "TF_NewBuffer": (ctypes.POINTER(_Buffer), []),
        "TF_DeleteBuffer": (None, [ctypes.POINTER(_Buffer)]),
        "TF_AllocateTensor": (
            pointer,
            [ctypes.c_int, ctypes.POINTER(ctypes.c_int64), ctypes.c_int, size],
        ),
        "TF_DeleteTensor": (None, [pointer]),
        "TF_TensorType": (ctypes.c_int, [pointer]),
        "TF_NumDims": (ctypes.c_int, [pointer]),
        "TF_Dim": (ctypes.c_int64, [pointer, ctypes.c_int]),
        "TF_TensorData": (pointer, [pointer]),
        "TF_TensorByteSize": (size, [pointer]),
        "TF_StringInit": (None, [pointer]),
        "TF_StringCopy": (None, [pointer, text, size]),
        "TF_StringGetDataPointer": (pointer, [pointer]),
        "TF_StringGetSize": (size, [pointer]),
        "TF_SessionRun": (
            None,
            [
                pointer,  # session
                pointer,  # run options
                ctypes.POINTER(_Output),
                ctypes.POINTER(pointer),
                ctypes.c_int,
                ctypes.POINTER(_Output),
                ctypes.POINTER(pointer),
                ctypes.c_int,
                ctypes.POINTER(pointer),  # target operations
                ctypes.c_int,
                pointer,  # run metadata
                pointer,  # status
            ],
        ),
    }
    for name, (result, arguments) in prototypes.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


class _Status:
    """Raises RuntimeError with TensorFlow's message when a call failed."""

    def __init__(self) -> None:
        self.pointer = c_api().TF_NewStatus()

    def check(self, doing: str) -> None:
        if c_api().TF_GetCode(self.pointer) != 0:
            message = c_api().TF_Message(self.pointer).decode(errors="replace")
            raise RuntimeError(f"{doing}: {message}")

    def __del__(self) -> None:
        c_api().TF_DeleteStatus(self.pointer)


class Session:
    """One SavedModel in a C++ session.

    Args:
      directory: the SavedModel folder.
      tags: tags of the MetaGraph.
      config: a serialized `tf.compat.v1.ConfigProto` (threads, Grappler); empty: the defaults.

    Raises RuntimeError with TensorFlow's own message if it cannot be loaded.
    """

    def __init__(
        self, directory: Path | str, tags: tuple[str, ...] = ("serve",), config: bytes = b""
    ) -> None:
        api, status = c_api(), _Status()
        self._session: int | None = None
        self._graph = api.TF_NewGraph()
        options = api.TF_NewSessionOptions()
        meta_graph = api.TF_NewBuffer()
        try:
            api.TF_SetConfig(options, config, len(config), status.pointer)
            status.check("session options")
            names = (ctypes.c_char_p * len(tags))(*[tag.encode() for tag in tags])
            self._session = api.TF_LoadSessionFromSavedModel(
                options,
                None,
                os.fsencode(directory),
                names,
                len(tags),
                self._graph,
                meta_graph,
                status.pointer,
            )
            status.check(f"loading '{directory}'")
            serialized = ctypes.string_at(meta_graph.contents.data, meta_graph.contents.length)
        finally:
            api.TF_DeleteBuffer(meta_graph)
            api.TF_DeleteSessionOptions(options)
        meta = tf.compat.v1.MetaGraphDef.FromString(serialized)
        self.signatures = dict(meta.signature_def)

    def bind(self, signature: str, feeds: Mapping[str, np.ndarray]) -> Call:
        """A call of `signature` on `feeds` (input name -> array), which are copied once, now.

        Raises KeyError if the signature or one of its inputs is missing.
        """
        definition = self.signatures[signature]
        missing = [name for name in definition.inputs if name not in feeds]
        if missing:
            raise KeyError(f"signature '{signature}' needs the inputs {missing}")
        return Call(
            self,
            [self._output(info.name) for info in definition.inputs.values()],
            [_tensor(feeds[name], info.dtype) for name, info in definition.inputs.items()],
            list(definition.outputs),
            [self._output(info.name) for info in definition.outputs.values()],
        )

    def _output(self, tensor_name: str) -> _Output:
        operation_name, _, index = tensor_name.partition(":")
        operation = c_api().TF_GraphOperationByName(self._graph, operation_name.encode())
        if not operation:
            raise KeyError(f"the graph has no node '{operation_name}'")
        return _Output(operation, int(index or 0))

    def close(self) -> None:
        api = c_api()
        if self._session:
            status = _Status()
            api.TF_CloseSession(self._session, status.pointer)
            api.TF_DeleteSession(self._session, status.pointer)
            self._session = None
        if self._graph:
            api.TF_DeleteGraph(self._graph)
            self._graph = None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Call:
    """A signature bound to its feeds. `run()` is what is timed; `outputs()` gives the values.

    `arguments` are those of TF_SessionRun, for clients that are not Python's.
    """

    def __init__(
        self,
        session: Session,
        inputs: list[_Output],
        tensors: list[int],
        output_names: list[str],
        outputs: list[_Output],
    ) -> None:
        self._session = session  # keeps graph and session alive
        self._names = output_names
        self._status = _Status()
        self._tensors = tensors
        self._results = (ctypes.c_void_p * len(outputs))()
        self.arguments = (
            session._session,
            None,
            (_Output * len(inputs))(*inputs),
            (ctypes.c_void_p * len(tensors))(*tensors),
            len(inputs),
            (_Output * len(outputs))(*outputs),
            self._results,
            len(outputs),
            None,
            0,
            None,
            self._status.pointer,
        )
        self._run = c_api().TF_SessionRun
        self._delete = c_api().TF_DeleteTensor

    def run(self) -> None:
        """Runs the signature once and drops its outputs."""
        self._run(*self.arguments)
        self._status.check("running the model")
        for result in self._results:
            self._delete(result)

    def outputs(self) -> dict[str, np.ndarray]:
        """Runs the signature once: output name -> array (strings: an object array of bytes)."""
        self._run(*self.arguments)
        self._status.check("running the model")
        values = {
            name: _array(result) for name, result in zip(self._names, self._results, strict=True)
        }
        for result in self._results:
            self._delete(result)
        return values

    def __del__(self) -> None:
        for tensor in getattr(self, "_tensors", ()):
            self._delete(tensor)


def _tensor(array: np.ndarray, dtype: int) -> int:
    """A new TF_Tensor with the values of `array`, which must be of the DataType `dtype`."""
    api = c_api()
    array = np.asarray(array)
    dims = (ctypes.c_int64 * array.ndim)(*array.shape)
    if dtype == tf.string.as_datatype_enum:
        strings = [_bytes(value) for value in array.ravel()]
        tensor = api.TF_AllocateTensor(dtype, dims, array.ndim, _STRING_BYTES * len(strings))
        data = api.TF_TensorData(tensor)
        for index, value in enumerate(strings):
            place = data + index * _STRING_BYTES
            api.TF_StringInit(place)
            api.TF_StringCopy(place, value, len(value))
        return int(tensor)
    expected = tf.dtypes.as_dtype(dtype).as_numpy_dtype
    if array.dtype != expected:
        raise TypeError(f"a feed is {array.dtype}, the signature wants {np.dtype(expected)}")
    array = array.copy(order="C")  # not ascontiguousarray: that makes a scalar a vector
    tensor = api.TF_AllocateTensor(dtype, dims, array.ndim, array.nbytes)
    ctypes.memmove(api.TF_TensorData(tensor), array.ctypes.data, array.nbytes)
    return int(tensor)


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _array(tensor: int) -> np.ndarray:
    """The values of a TF_Tensor, copied."""
    api = c_api()
    shape = [api.TF_Dim(tensor, axis) for axis in range(api.TF_NumDims(tensor))]
    dtype = tf.dtypes.as_dtype(api.TF_TensorType(tensor))
    data = api.TF_TensorData(tensor)
    if dtype == tf.string:
        count = int(np.prod(shape, dtype=np.int64))
        places = [data + index * _STRING_BYTES for index in range(count)]
        values = np.empty(count, object)
        for index, place in enumerate(places):
            values[index] = ctypes.string_at(
                api.TF_StringGetDataPointer(place), api.TF_StringGetSize(place)
            )
        return values.reshape(shape)
    raw = ctypes.string_at(data, api.TF_TensorByteSize(tensor))
    return np.frombuffer(raw, dtype.as_numpy_dtype).reshape(shape).copy()
