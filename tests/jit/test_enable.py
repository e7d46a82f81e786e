"""What must be there before anything is compiled."""

from __future__ import annotations

import pytest
import tensorflow as tf

import tf_blade
from tests.jit.since import Since
from tf_blade import machine


def test_without_the_named_compiler_nothing_is_switched_on(config):
    since = Since()
    with pytest.raises(tf_blade.CompilerNotFoundError, match="no_such_compiler"):
        tf_blade.enable(config=tf_blade.Config(compiler="no_such_compiler"))
    tf.function(lambda x: tf.exp(tf.tanh(x) * 2.0) + 1.0)(tf.ones([3]))
    assert since.graphs == 0


def test_a_cpu_without_code_is_said(monkeypatch):
    monkeypatch.setattr(machine, "cpu_target", lambda: "")
    with pytest.raises(tf_blade.RuntimeLibraryError, match="AVX2"):
        tf_blade.enable()
