"""TensorFlow's C API, which is stable across versions, called through ctypes.

What Python does for each node of a graph (an object, its devices, its colocation) costs more than
the work itself once a graph has 100,000 nodes. Calls that may take long release Python's lock. The
others keep it: a busy thread gives it back only after milliseconds, at each of thousands of calls.
"""

from __future__ import annotations

import ctypes
import functools
import os
import types
from typing import Any

import tensorflow as tf

_LONG = frozenset(
    {
        "TF_CloseSession",
        "TF_DeleteGraph",
        "TF_DeleteSession",
        "TF_GraphImportGraphDef",
        "TF_LoadSessionFromSavedModel",
        "TF_SessionRun",
    }
)


class Output(ctypes.Structure):
    """TF_Output: one result of an operation of the graph."""

    _fields_ = (("operation", ctypes.c_void_p), ("index", ctypes.c_int))


class Buffer(ctypes.Structure):
    """TF_Buffer: bytes that the C API hands out or takes in."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("length", ctypes.c_size_t),
        ("deallocator", ctypes.c_void_p),
    )


@functools.cache
def c_api() -> Any:
    """The C API of the TensorFlow that is imported, with the prototypes of what is used here."""
    path = os.path.join(tf.sysconfig.get_lib(), "libtensorflow_cc.so.2")
    letting_go, holding = ctypes.CDLL(path), ctypes.PyDLL(path)
    api = types.SimpleNamespace()
    pointer, size, text = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p
    prototypes: dict[str, tuple[Any, list[Any]]] = {
        "TF_NewStatus": (pointer, []),
        "TF_DeleteStatus": (None, [pointer]),
        "TF_GetCode": (ctypes.c_int, [pointer]),
        "TF_Message": (text, [pointer]),
        "TF_NewGraph": (pointer, []),
        "TF_DeleteGraph": (None, [pointer]),
        "TF_GraphOperationByName": (pointer, [pointer, text]),
        "TF_GraphNextOperation": (pointer, [pointer, ctypes.POINTER(size)]),
        "TF_OperationName": (text, [pointer]),
        "TF_OperationNumOutputs": (ctypes.c_int, [pointer]),
        "TF_OperationOutputType": (ctypes.c_int, [Output]),
        "TF_GraphGetTensorNumDims": (ctypes.c_int, [pointer, Output, pointer]),
        "TF_GraphGetTensorShape": (
            None,
            [pointer, Output, ctypes.POINTER(ctypes.c_int64), ctypes.c_int, pointer],
        ),
        "TF_NewImportGraphDefOptions": (pointer, []),
        "TF_DeleteImportGraphDefOptions": (None, [pointer]),
        "TF_GraphImportGraphDef": (
            None,
            [pointer, ctypes.POINTER(Buffer), pointer, pointer],  # graph, GraphDef, options, status
        ),
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
                ctypes.POINTER(Buffer),  # MetaGraphDef
                pointer,  # status
            ],
        ),
        "TF_CloseSession": (None, [pointer, pointer]),
        "TF_DeleteSession": (None, [pointer, pointer]),
        "TF_NewBuffer": (ctypes.POINTER(Buffer), []),
        "TF_NewBufferFromString": (ctypes.POINTER(Buffer), [text, size]),
        "TF_DeleteBuffer": (None, [ctypes.POINTER(Buffer)]),
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
                ctypes.POINTER(Output),
                ctypes.POINTER(pointer),
                ctypes.c_int,
                ctypes.POINTER(Output),
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
        function = getattr(letting_go if name in _LONG else holding, name)
        function.restype = result
        function.argtypes = arguments
        setattr(api, name, function)
    return api


class Status:
    """TF_Status: `check` raises RuntimeError with TensorFlow's message when a call failed."""

    def __init__(self) -> None:
        self.pointer = c_api().TF_NewStatus()

    def check(self, doing: str) -> None:
        if c_api().TF_GetCode(self.pointer) != 0:
            message = c_api().TF_Message(self.pointer).decode(errors="replace")
            raise RuntimeError(f"{doing}: {message}")

    def __del__(self) -> None:
        c_api().TF_DeleteStatus(self.pointer)
