"""Calling a TensorFlow op by name with positional inputs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import tensorflow as tf


def raw(op: str, **attrs: Any) -> Callable[..., Any]:
    """A function of the op's inputs in order."""
    function = getattr(tf.raw_ops, op)
    names = list(inspect.signature(function).parameters)

    def call(*inputs: Any) -> Any:
        return function(**dict(zip(names, inputs, strict=False)), **attrs)

    return call
