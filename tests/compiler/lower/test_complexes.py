"""Complex numbers and Fourier transforms in generated code give TensorFlow's answers; where they
come in or go out they stay in TensorFlow."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.compiler.ctypes_host import CtypesHost
from tests.compiler.harness import Prepared, graph_of, trace
from tests.compiler.values import Arg, Case, between, finite
from tests.compiler.wrapping import check_answers, compile_wrapped, wrapped
from tf_blade.compiler.lower.scope import COMPLEX
from tf_blade.loops import unwrap

X = Arg("f32", ("n", 12), finite)
SPECIAL = Arg("f32", ("n", "m"), between(-3, 3, np.inf, -np.inf, np.nan, 0.0, 1e30, -1e-30))
CLOSE: dict[str, Any] = {"relative": 1e-5, "absolute": 1e-5}


def transformed(x: Any, length: int) -> Any:
    return tf.raw_ops.RFFT(input=x, fft_length=[length])


def parts(z: Any) -> Any:
    return tf.math.real(z), tf.math.imag(z)


def spectra(x: Any) -> Any:
    """Even and odd lengths, of all numbers and of the first ones."""
    found = [parts(transformed(x, n)) for n in (12, 11, 8, 1)]
    return [x for pair in found for x in pair]


def of_any_length(x: Any) -> Any:
    return parts(transformed(x, 5))


def there_and_back(x: Any) -> Any:
    z = transformed(x, 12)
    return [tf.raw_ops.IRFFT(input=z * z, fft_length=[n]) for n in (12, 7, 1)]


def short_time(x: Any) -> Any:
    """A spectrogram, changed and turned into a signal again."""
    z = tf.signal.stft(x, 8, 3, 8)
    size = tf.abs(z)
    mask = tf.cast(tf.sigmoid(size), tf.complex64)
    return size, tf.math.angle(z), tf.signal.inverse_stft(z * mask, 8, 3, 8)


def between_them(x: Any) -> Any:
    """What lies between two nodes of complex numbers goes in with them."""
    z = transformed(x, 12)
    gain = tf.nn.softmax(tf.tanh(tf.abs(z)) * 2.0)
    return tf.raw_ops.IRFFT(input=tf.complex(gain, gain) * z, fft_length=[12])


def arithmetic(x: Any) -> Any:
    y = tf.complex(x, x[:, ::-1])
    z = tf.constant([1 + 2j] * 12, tf.complex64) * y - tf.math.conj(y) + tf.reduce_sum(y, 0) * 0.5
    w = tf.exp(tf.complex(x * 0.1, x)) + tf.square(z) - tf.add_n([y, z, y])
    return [*parts(z), *parts(w), *parts(-w), *parts(tf.reduce_sum(z, 1)), tf.cast(w, tf.float32)]


def moved(x: Any) -> Any:
    z = tf.complex(x, x + 1)
    cut = tf.concat([z[1:, ::2], tf.zeros_like(z[:1, ::2])], 0)
    flat = tf.reshape(tf.transpose(z), [-1])
    first, second = tf.split(z, 2, 1)
    chosen = tf.where(
        tf.math.real(first) > 0.0, first, tf.gather(second, [5, 4, 3, 2, 1, 0], axis=1)
    )
    stacked = tf.stack([first, tf.reverse(tf.roll(second, 1, 1), [1])])
    wide = tf.tile(tf.pad(tf.expand_dims(chosen, 1), [[0, 0], [0, 0], [1, 2]]), [1, 2, 1])
    kept = tf.slice(tf.squeeze(wide[:, :1], [1]), [0, 1], [-1, 3]) + tf.unstack(stacked)[0][:, :3]
    last = tf.split(tf.broadcast_to(kept[:1, None], [1, 2, 3]), [1, 2], 2)[1]
    shape = tf.shape(wide)[0] * tf.size(kept) + tf.raw_ops.Rank(input=last)
    found = [*parts(cut), *parts(flat), *parts(wide), *parts(kept), *parts(last), shape]
    return [*found, tf.math.real(tf.ensure_shape(z, [None, 12]))]


def sizes(x: Any) -> Any:
    """Also of numbers whose squares overflow, of infinite ones, and none."""
    z = tf.complex(x, tf.reverse(x, [0, 1]))
    return tf.abs(z), tf.math.angle(z)


CASES = [
    Case("spectra", spectra, (X,), **CLOSE),
    Case(
        "of_any_length",
        of_any_length,
        (Arg("f32", ("n", "m"), finite),),
        # Of no numbers TensorFlow's result is whatever was in memory.
        assumes=lambda dims, arrays: dims["m"] > 0,
        **CLOSE,
    ),
    Case("there_and_back", there_and_back, (X,), relative=1e-5, absolute=1e-4),
    Case("short_time", short_time, (Arg("f32", ("n", 23), finite),), relative=1e-4, absolute=1e-4),
    Case("between_them", between_them, (X,), **CLOSE),
    Case("arithmetic", arithmetic, (X,), relative=1e-5, absolute=1e-4),
    Case("moved", moved, (X,), assumes=lambda dims, arrays: dims["n"] > 0),
    Case("sizes", sizes, (SPECIAL,), ulps=8),
]


@functools.cache
def compiled() -> dict[str, tuple[Prepared, CtypesHost]]:
    return compile_wrapped(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_complex_numbers_give_tensorflows_answers_or_refuse_where_they_may(case: Case):
    check_answers(*compiled()[case.name], sizes=(0, 1, 2, 3, 17))


def test_every_op_of_complex_numbers_has_a_case():
    covered = {
        node.op for prepared, _ in compiled().values() for node in graph_of(prepared.concrete)
    }
    aliases = {"Add": "AddV2", "Select": "SelectV2", "Snapshot": "Identity"}
    untested = {aliases.get(op, op) for op in COMPLEX} - covered
    assert untested <= {"StopGradient"}  # the passes drop it


def test_an_unwrapped_call_is_what_it_was():
    concrete = trace(short_time, [Arg("f32", ("n", 23), finite)])
    before = sorted(n.op for n in graph_of(concrete) if n.op in COMPLEX and n.op != "Identity")
    _, graph, _, _ = wrapped(short_time, [Arg("f32", ("n", 23), finite)])
    assert not {"RFFT", "IRFFT", "ComplexAbs"} & {node.op for node in graph}
    unwrap(graph)
    after = [node.op for node in graph]
    for op in ("RFFT", "IRFFT", "ComplexAbs", "Angle"):
        assert after.count(op) == before.count(op) > 0


def goes_out(x: Any) -> Any:
    return transformed(x, 12) * 2.0


def comes_back(x: Any) -> Any:
    """A node between two of complex numbers that the compiler can't lower."""
    z = transformed(x, 12)
    new = tf.raw_ops.ListDiff(x=tf.reshape(tf.abs(z), [-1]), y=[0.0]).out[0]
    return tf.abs(z * tf.complex(new, 0.0))


def asserted_between(x: Any) -> Any:
    """An effect that waits for one node of complex numbers, and another one waits for it."""
    z = transformed(x, 12)
    with tf.control_dependencies([tf.debugging.assert_less(tf.abs(z), 1e9)]):
        return tf.math.real(tf.identity(z) * 2.0)


REFUSED: list[tuple[Callable[..., Any], str]] = [
    (goes_out, "complex numbers come in or go out"),
    (comes_back, "op ListDiff has no lowering"),
    (asserted_between, "If between complex numbers is stateful"),
    (lambda x: tf.abs(tf.signal.fft(tf.complex(x, x))), "FFT of complex numbers has no lowering"),
    (lambda x: tf.abs(transformed(x, tf.shape(x)[0])), "fft_length must be constant"),
]


@pytest.mark.parametrize(("function", "reason"), REFUSED)
def test_others_stay_in_tensorflow(function: Callable[..., Any], reason: str):
    _, graph, _, found = wrapped(function, [X])
    assert reason in " ".join(found.left.values())
    assert not any(node.op == "PartitionedCall" for node in graph)
