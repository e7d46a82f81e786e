"""One row of a table: a function of an op, and what it is fed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

NAN, INF = float("nan"), float("inf")


@dataclass(frozen=True, eq=False)
class Behaviour:
    """Attributes:
    name: unique: the op, a dot, the form.
    function: of tensors, one for each array of a feed.
    feeds: by what is special of them.
    dims: what TensorFlow is told of the arguments' shapes, None for an unknown dim; by default it
      knows only their ranks.
    outside: part of the reason why the op stays in TensorFlow; "" if clusters take it.
    gone: whether passes on the graph may leave nothing of the op to compile.
    rtol: of floats.
    """

    name: str
    function: Callable[..., Any]
    feeds: Mapping[str, Sequence[np.ndarray]]
    dims: Sequence[Sequence[int | None]] | None = None
    outside: str = ""
    gone: bool = False
    rtol: float = 1e-5

    @property
    def op(self) -> str:
        """TensorFlow's name of the op."""
        return self.name.partition(".")[0]

    @property
    def shapes(self) -> list[list[int | None]]:
        """What TensorFlow is told of the arguments' shapes."""
        if self.dims is not None:
            return [list(d) for d in self.dims]
        first = next(iter(self.feeds.values()))
        return [[None] * a.ndim for a in first]


def f32(values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def f64(values: Any) -> np.ndarray:
    return np.array(values, np.float64)


def i32(values: Any) -> np.ndarray:
    return np.array(values, np.int32)


def i64(values: Any) -> np.ndarray:
    return np.array(values, np.int64)


def boolean(values: Any) -> np.ndarray:
    return np.array(values, np.bool_)


def zeros(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.zeros(shape, dtype)


def counted(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """0, 1, 2, … in a shape."""
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
