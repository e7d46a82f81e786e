"""How much memory one call needs at once: temporaries and results.

TensorFlow's CPU allocator counts it, from which TensorFlow's kernels and compiled ones have theirs;
what a library takes from the system by itself is not in it. Inputs are there before the call.
The allocator that TensorFlow has with oneDNN knows sizes; without (TF_ENABLE_ONEDNN_OPTS=0), it
counts nothing, and peaks are 0.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import native


def peak_bytes(call: Callable[[], object]) -> int:
    """The most bytes that a session's `call` has at once and that weren't there before."""
    counter = _counter()
    call()  # what the first call keeps for good is not part of it
    counter.start_counting()
    try:
        before = counter.bytes_in_use()
        call()
        return counter.peak_bytes_in_use() - before
    finally:
        counter.stop_counting()  # it takes time


@functools.cache
def _counter() -> Any:
    import tensorflow as tf

    # The allocator is TensorFlow's own, so its library has to be found.
    framework = Path(tf.sysconfig.get_lib()) / "libtensorflow_framework.so.2"
    ctypes.CDLL(str(framework), mode=ctypes.RTLD_GLOBAL)
    source = Path(__file__).with_name("allocator.cc")
    library = native.library(source, [tf.sysconfig.get_include()])
    library.bytes_in_use.restype = library.peak_bytes_in_use.restype = ctypes.c_int64
    return library
