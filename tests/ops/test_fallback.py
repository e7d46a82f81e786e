"""Whatever is wrong with an executable, the model gives TensorFlow's answer and says why."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.cc.programs import ABI_VERSION, ADD, DENSE, HUGE, executable, shared_object
from tests.ops.calls import add, add_fallback, counts
from tf_blade import library
from tf_blade.compiler.build.container import pack


def check_falls_back(cluster: str, container: bytes) -> str:
    """Runs twice; both answers are right, neither is a launch. Returns the cause."""
    a = tf.constant([1.0, 2.0])
    for _ in range(2):
        y, row = add(a, a, cluster=cluster, container=container)
        np.testing.assert_array_equal(y, [2, 4])
        np.testing.assert_array_equal(row, [1, 2])
    assert counts(cluster).launches == 0
    ((cause, count),) = counts(cluster).fallbacks.items()
    assert count == 2
    return cause


def test_a_refused_shape_runs_the_original_and_is_said_once(cluster, capfd):
    a = tf.ones([2, 3])
    for _ in range(3):
        y, _ = add(a, tf.ones([3]), cluster=cluster)
        np.testing.assert_array_equal(y, np.full((2, 3), 2))
    assert counts(cluster).fallbacks == {"Add (head/add): ranks differ": 3}
    warnings = [line for line in capfd.readouterr().err.splitlines() if f"'{cluster}'" in line]
    assert len(warnings) == 1
    assert "Add (head/add): ranks differ" in warnings[0]


def test_each_cause_is_counted_by_itself(cluster):
    add(tf.ones([2]), tf.ones([1]), cluster=cluster)
    add(tf.ones([2, 2]), tf.ones([2]), cluster=cluster)
    add(tf.ones([2, 2]), tf.ones([2]), cluster=cluster)
    assert counts(cluster).fallbacks == {
        "Add (head/add): ranks differ": 2,
        "Add (head/add): input dims differ": 1,
    }
    assert sum(library.counters().fallbacks.values()) == 3


def test_an_error_is_tensorflow_s_own(cluster):
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"Incompatible shapes: \[2\] vs. \[3\]"
    ):
        add(tf.ones([2]), tf.ones([3]), cluster=cluster)


def test_damaged_bytes(cluster):
    container = bytearray(executable(ADD))
    container[-100] ^= 1
    assert "doesn't match its hash" in check_falls_back(cluster, bytes(container))


@pytest.mark.parametrize("size", [0, 7, 8, 12, 20, 60, 500])
def test_cut_off_bytes(cluster, size):
    cause = check_falls_back(cluster, executable(ADD)[:size])
    assert "truncated" in cause or "bad magic" in cause


def test_bytes_that_are_no_shared_object(cluster):
    isa = "aarch64" if "aarch64" in str(executable(ADD)[:40]) else "x86-64-v2"
    container = pack(ABI_VERSION, [isa], b"not an ELF file")
    assert "can't open the executable" in check_falls_back(cluster, container)


def test_another_abi_version(cluster):
    container = pack(ABI_VERSION + 1, ["x86-64-v2"], shared_object(ADD))
    cause = check_falls_back(cluster, container)
    assert f"ABI version {ABI_VERSION + 1}" in cause and "optimize the model again" in cause


def test_a_processor_that_is_not_this_one(cluster):
    container = pack(ABI_VERSION, ["riscv64", "x86-64-v9"], shared_object(ADD))
    assert "built for riscv64, x86-64-v9" in check_falls_back(cluster, container)


def test_a_payload_without_a_variant_its_header_promised(cluster):
    header_isa = "aarch64" if "aarch64" in str(executable(ADD)[:40]) else "x86-64-v2"
    container = pack(ABI_VERSION, [header_isa], shared_object(ADD, isa="x86-64-v9"))
    assert "no variant for this processor" in check_falls_back(cluster, container)


def test_another_number_of_inputs(cluster):
    assert "3 inputs and 1 outputs" in check_falls_back(cluster, executable(DENSE))


def test_inputs_after_the_executable_s_are_the_fallback_s(ops, cluster):
    @tf.function(input_signature=[tf.TensorSpec(None), tf.TensorSpec(None), tf.TensorSpec(None)])
    def fallback(a, b, scale):
        return (a + b) * scale, a

    def call(a, b):
        return ops.blade_cluster(
            inputs=[a, b, tf.constant(10.0)],
            Tout=[tf.float32] * 2,
            fallback=fallback.get_concrete_function(),
            executable=executable(ADD),
            cluster=cluster,
        )

    np.testing.assert_array_equal(call(tf.ones([2]), tf.ones([2]))[0], [2, 2])
    assert counts(cluster).launches == 1
    np.testing.assert_array_equal(call(tf.ones([2]), tf.ones([1]))[0], [20, 20])
    assert sum(counts(cluster).fallbacks.values()) == 1


def test_a_dtype_without_compiled_form(cluster):
    a = tf.constant(["x", "y"])
    y, row = add(a, a, cluster=cluster, fallback=add_fallback(tf.string))
    assert y.numpy().tolist() == [b"xx", b"yy"]
    assert row.numpy().tolist() == [b"x", b"y"]
    assert list(counts(cluster).fallbacks) == [
        "output 0 has dtype string, which has no compiled form"
    ]


def test_running_out_of_memory_runs_the_original(ops, cluster):
    @tf.function(input_signature=[tf.TensorSpec(None, tf.float32)])
    def fallback(a):
        return a * 2

    (y,) = ops.blade_cluster(
        inputs=[tf.ones([2])],
        Tout=[tf.float32],
        fallback=fallback.get_concrete_function(),
        executable=executable(HUGE),
        cluster=cluster,
    )
    np.testing.assert_array_equal(y, [2, 2])
    assert counts(cluster).fallbacks == {"out of memory": 1}


def test_a_fallback_of_other_dtypes_fails_with_tensorflow_s_error(cluster):
    a = tf.constant([1, 2])
    with pytest.raises(tf.errors.InvalidArgumentError, match="int32"):
        add(a, a, cluster=cluster, container=b"")


def test_constant_inputs_out_of_range_are_refused_when_the_model_loads(cluster):
    a = tf.ones([2])
    with pytest.raises(tf.errors.InvalidArgumentError, match="constant_inputs has 2"):
        add(a, a, cluster=cluster, constant_inputs=[2])
