"""What a differential case is made of: arguments, how their values are drawn, tolerances."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Dims = Mapping[str, int]
Values = Callable[[np.random.Generator, tuple[int, ...], np.dtype, Dims], Any]


# A shape: integers, and the names of dims that are unknown until a request comes.
NamedShape = tuple[int | str, ...]


@dataclass(frozen=True)
class Arg:
    """One argument. Dims are integers, or names of dims that are unknown until run time."""

    dtype: str  # a dtype of the IR: "f32", "i64", …
    dims: NamedShape
    values: Values


@dataclass(frozen=True, eq=False)
class Case:
    """A function to run through TensorFlow and through the compiler.

    Attributes:
      name: unique; op, dtype and form.
      function: of tensors, one for each of args; returns a tensor or a list of tensors.
      plain: what to compare with, if TensorFlow's CPU kernels don't cover `function` itself.
      ulps: allowed error of floats, in units of the last place of TensorFlow's answer.
      relative, absolute: allowed error beyond that.
      sizes: from what each named dim is drawn.
      assumes: whether the program must answer for these dims and arrays. Where it says no, the
        program may refuse; where TensorFlow reports an error, it must refuse.
    """

    name: str
    function: Callable[..., Any]
    args: tuple[Arg, ...]
    ulps: float = 0
    relative: float = 0
    absolute: float = 0
    sizes: Sequence[int] = (0, 1, 2, 3, 5, 8, 17)
    plain: Callable[..., Any] | None = None
    assumes: Callable[[Dims, Sequence[np.ndarray]], bool] = lambda dims, arrays: True

    @property
    def named_dims(self) -> list[str]:
        names = {n: None for arg in self.args for n in arg.dims if isinstance(n, str)}
        return list(names)


def _mixed(
    rng: np.random.Generator, common: np.ndarray, special: Sequence[Any], share: float = 0.3
) -> np.ndarray:
    """`common` with a share of its elements replaced by special values."""
    if common.size:
        chosen = rng.choice(np.asarray(special, common.dtype), common.shape)
        common = np.where(rng.random(common.shape) < share, chosen, common)
    return common


def anything(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype, dims: Dims
) -> np.ndarray:
    """The whole range of the dtype, with its special values."""
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind == "f":
        big = np.finfo(dtype).max
        spread = (rng.normal(size=shape) * 10.0 ** rng.integers(-3, 4, shape)).astype(dtype)
        special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -1.5, big, -big]
        return _mixed(rng, spread, special)
    info = np.iinfo(dtype)
    wide = rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    low = 0 if info.min == 0 else -5
    near = rng.integers(low, 6, shape).astype(dtype)
    mixed = np.where(rng.random(shape) < 0.5, wide, near)
    return _mixed(rng, mixed, [info.min, info.max, 0, 1], 0.1)


def finite(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype, dims: Dims
) -> np.ndarray:
    """Moderate numbers without infinities and NaN; small integers."""
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind == "f":
        return _mixed(rng, rng.normal(size=shape).astype(dtype) * 2, [0.0, 1.0, -1.0], 0.1)
    low = -9 if dtype.kind == "i" else 0
    return rng.integers(low, 10, shape).astype(dtype)


def between(low: float, high: float, *special: float) -> Values:
    """Uniform numbers in [low, high), some of them replaced by the special values."""

    def draw(
        rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype, dims: Dims
    ) -> np.ndarray:
        if dtype.kind in "iu":
            return rng.integers(int(low), int(high), shape).astype(dtype)
        uniform = rng.uniform(low, high, shape).astype(dtype)
        return _mixed(rng, uniform, special) if special else uniform

    return draw


def nonzero(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype, dims: Dims
) -> np.ndarray:
    """Like anything, without zeros: divisors."""
    found = anything(rng, shape, dtype, dims)
    return np.where(found == 0, np.asarray(3, dtype), found)


def below(name: str | int, *, out_of_range: float = 0.0) -> Values:
    """Indices in [0, the named dim), a share of the draws with one index out of range."""

    def draw(
        rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype, dims: Dims
    ) -> np.ndarray:
        limit = name if isinstance(name, int) else dims[name]
        found = rng.integers(0, max(limit, 1), shape).astype(dtype)
        if found.size and rng.random() < out_of_range:
            found.flat[rng.integers(found.size)] = rng.choice([-1, limit, limit + 7])
        return found

    return draw


def computed(function: Callable[..., Any]) -> Values:
    """Elements computed from the rng and the dims: shapes, begins, paddings."""

    def draw(
        rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype, dims: Dims
    ) -> np.ndarray:
        return np.asarray(function(rng, dims), dtype)

    return draw
