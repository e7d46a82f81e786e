"""Calling a TensorFlow op by name with positional inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import op_def_registry


def raw(op: str, **attrs: Any) -> Callable[..., Any]:
    """A function of the op's inputs in order."""
    names = [arg.name for arg in op_def_registry.get(op).input_arg]

    def call(*inputs: Any) -> Any:
        return getattr(tf.raw_ops, op)(**dict(zip(names, inputs, strict=True)), **attrs)

    return call
