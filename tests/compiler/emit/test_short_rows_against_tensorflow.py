"""Graphs whose rows are short give TensorFlow's answers at any size."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.compiler.graphs import GRAPHS
from tests.compiler.batch import compile_batch
from tests.compiler.ctypes_host import CtypesHost
from tests.compiler.harness import lower_concrete
from tf_blade.compiler import compile_program
from tf_blade.compiler.ir.types import DType
from tf_blade.compiler.rewrite import rewrite

NAMES = "layer_norm group_norm masked_softmax gelu_bias swiglu batch_norm_relu heads".split()
SPECIAL = (np.nan, np.inf, -np.inf, 0.0)


@functools.cache
def compiled() -> dict[str, tuple[Any, CtypesHost]]:
    functions = {n: tf.function(GRAPHS[n].function) for n in NAMES}
    concrete = {n: f.get_concrete_function(**GRAPHS[n].specs()) for n, f in functions.items()}
    programs = [rewrite(lower_concrete(f, name)) for name, f in concrete.items()]
    hosts = compile_batch([compile_program(p) for p in programs])
    return dict(zip(NAMES, zip(concrete.values(), hosts, strict=True), strict=True))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=20, deadline=None)
@given(rows=st.integers(0, 400), width=st.integers(1, 140), special=st.sampled_from([0, 0, 1]))
def test_gives_tensorflows_answer(name: str, rows: int, width: int, special: int):
    concrete, host = compiled()[name]
    feeds = GRAPHS[name].feeds(rows, width)
    x = feeds["x"].reshape(-1)
    if special and x.size:
        x[x.size // 2] = SPECIAL[rows % len(SPECIAL)]
    want = concrete(**{n: tf.constant(v) for n, v in feeds.items()}).numpy()
    inputs = [feeds[tensor.name.partition(":")[0]] for tensor in concrete.inputs]
    (got,) = host.run(inputs, [DType.F32])
    assert got.shape == want.shape
    # An element near its row's mean is a rounded difference, which normalising magnifies up to 300
    # times (1e-5 is added to a variance that is 0 in rows of few elements).
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-5)
