"""What small integer tensors hold, as symbolic dims: `Shape -> StridedSlice -> Pack -> Reshape`
is evaluated here while a program is built, and never runs.

Contents are numpy object arrays of `Dim`. A primitive without a rule below, or a rule that
raises, gives unknown content: always safe.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tf_blade.compiler.ir import dims as d

# Shapes have a handful of elements; larger integer tensors are data.
MAX_ELEMENTS = 64
# A dim of a real shape is short; arithmetic on data that looks like a shape grows without end.
MAX_OPERATIONS = 24

Content = np.ndarray  # dtype object, elements are Dim


def _map(function: Callable[..., d.Dim], *operands: Content) -> Content:
    """The function of each element. (numpy's own answer for a rank-0 array is no array.)"""
    return np.asarray(np.frompyfunc(function, len(operands), 1)(*operands), dtype=object)


def _compare_free(value: d.Dim) -> int:
    """Elements that decide which element is taken must be plain integers."""
    if not isinstance(value, int):
        raise ValueError("not a constant")
    return value


def _take(params: Content, indices: Content, axis: int, batch_dims: int) -> Content:
    if batch_dims:
        raise ValueError("batched gather")
    plain = _map(_compare_free, indices).astype(np.int64)
    if plain.size and (plain.min() < 0 or plain.max() >= params.shape[axis]):
        raise ValueError("index out of range")
    return np.take(params, plain, axis=axis)


def _reduce(x: Content, kind: str, dims: tuple[int, ...]) -> Content:
    functions = {
        "sum": np.add,
        "prod": np.multiply,
        "max": np.frompyfunc(d.larger, 2, 1),
        "min": np.frompyfunc(d.smaller, 2, 1),
    }
    start = {"sum": 0, "prod": 1}
    result = x
    for dim in sorted(dims, reverse=True):
        if kind in start:
            result = functions[kind].reduce(result, axis=dim, initial=start[kind], dtype=object)
        else:
            if result.shape[dim] == 0:
                raise ValueError("empty maximum or minimum")
            result = functions[kind].reduce(result, axis=dim, dtype=object)
    return np.asarray(result, dtype=object)


def _broadcast(x: Content, shape: tuple[d.Dim, ...], dims: tuple[int, ...]) -> Content:
    if not all(isinstance(n, int) for n in shape):
        raise ValueError("dynamic shape")
    view = [1] * len(shape)
    for i, dim in enumerate(dims):
        view[dim] = x.shape[i]
    return np.broadcast_to(x.reshape(view), shape)


def _slice(x: Content, start: Any, limit: Any, stride: Any) -> Content:
    index = tuple(
        slice(_compare_free(a), _compare_free(b), s)
        for a, b, s in zip(start, limit, stride, strict=True)
    )
    return x[index]


RULES: dict[str, Callable[..., Content]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "neg": lambda x: -x,
    "max": lambda x, y: _map(d.larger, x, y),
    "min": lambda x, y: _map(d.smaller, x, y),
    "floor_div": lambda x, y: _map(_checked_div, x, y),
    "floor_mod": lambda x, y: _map(_checked_mod, x, y),
    "convert": lambda x, dtype: x,
    "reshape": lambda x, shape: x.reshape([_compare_free(n) for n in shape]),
    "transpose": lambda x, perm: np.transpose(x, perm),
    "reverse": lambda x, dims: np.flip(x, dims),
    "slice": _slice,
    "concatenate": lambda *x, dim: np.concatenate(x, axis=dim),
    "broadcast_in_dim": _broadcast,
    "gather": _take,
    "reduce": _reduce,
}


def _checked_div(a: d.Dim, b: d.Dim) -> d.Dim:
    if not isinstance(b, int) or b <= 0:
        raise ValueError("divisor may be zero")
    return d.floor_div(a, b)


def _checked_mod(a: d.Dim, b: d.Dim) -> d.Dim:
    if not isinstance(b, int) or b <= 0:
        raise ValueError("divisor may be zero")
    return d.floor_mod(a, b)


def evaluate(kind: str, operands: list[Content | None], attrs: dict[str, Any]) -> Content | None:
    """The result's content, or None when it isn't known symbolically."""
    rule = RULES.get(kind)
    if rule is None or any(x is None for x in operands):
        return None
    try:
        result = np.array(rule(*operands, **attrs), dtype=object)  # not a view: written to
    except (ValueError, IndexError, TypeError):
        return None
    if result.size > MAX_ELEMENTS:
        return None
    for index in np.ndindex(result.shape):
        result[index] = dim = d.simplify(result[index])
        if not isinstance(dim, int) and dim.count_ops() > MAX_OPERATIONS:
            return None
    return result
