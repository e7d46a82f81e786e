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

import copy
import ctypes
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tf_blade.c_api import Output, Status, c_api
from tf_blade.garbage import trim

_STRING_BYTES = 24  # sizeof(TF_TString), fixed by TensorFlow's ABI


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
        api, status = c_api(), Status()
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
        except RuntimeError:
            self.close()
            raise
        finally:
            api.TF_DeleteBuffer(meta_graph)
            api.TF_DeleteSessionOptions(options)
        meta = tf.compat.v1.MetaGraphDef.FromString(serialized)
        # Copies: a part of a message keeps all of it in memory.
        self.signatures = {key: copy.deepcopy(found) for key, found in meta.signature_def.items()}
        del meta, serialized
        trim()  # of what loading took a good part is free again

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

    def _output(self, tensor_name: str) -> Output:
        operation_name, _, index = tensor_name.partition(":")
        operation = c_api().TF_GraphOperationByName(self._graph, operation_name.encode())
        if not operation:
            raise KeyError(f"the graph has no node '{operation_name}'")
        return Output(operation, int(index or 0))

    def close(self) -> None:
        api = c_api()
        if self._session:
            status = Status()
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
        inputs: list[Output],
        tensors: list[int],
        output_names: list[str],
        outputs: list[Output],
    ) -> None:
        self._session = session  # keeps graph and session alive
        self._names = output_names
        self._status = Status()
        self._tensors = tensors
        self._results = (ctypes.c_void_p * len(outputs))()
        self.arguments = (
            session._session,
            None,
            (Output * len(inputs))(*inputs),
            (ctypes.c_void_p * len(tensors))(*tensors),
            len(inputs),
            (Output * len(outputs))(*outputs),
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
