"""Reading the operands that describe shapes: axes, permutations, begin and size vectors."""

from __future__ import annotations

import numpy as np

from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.dims import Dim
from tf_blade.compiler.ir.program import Value
from tf_blade.errors import UnsupportedError


def constant(b: Builder, value: Value, what: str) -> np.ndarray:
    """The elements of an integer constant. `what` names it in the UnsupportedError otherwise."""
    found = b.static_content(value)
    if found is None:
        raise UnsupportedError(f"{what} must be constant", b.source)
    return found


def content(b: Builder, value: Value, what: str) -> list[Dim]:
    """The elements of an integer tensor as dims, row-major."""
    found = b.content(value)
    if found is None:
        raise UnsupportedError(
            f"{what} depends on data in a way that shape arithmetic can't follow", b.source
        )
    return [x if isinstance(x, int) else b.canonical(x) for x in found.flat]


def one_axis(b: Builder, value: Value, rank: int, what: str = "the axis") -> int:
    """A constant axis of a tensor of `rank`, counted from the front."""
    elements = constant(b, value, what)
    if elements.size != 1:
        raise UnsupportedError(f"{what} must be one integer", b.source)
    return from_front(b, int(elements.flat[0]), rank)


def axes(b: Builder, value: Value, rank: int, what: str = "the axes") -> list[int]:
    """Constant axes of a tensor of `rank`, counted from the front, each once, in order."""
    found = [from_front(b, int(x), rank) for x in constant(b, value, what).flat]
    if len(set(found)) != len(found):
        raise UnsupportedError(f"{what} name a dim twice", b.source)
    return sorted(found)


def from_front(b: Builder, axis: int, rank: int) -> int:
    """The axis in [0, rank). Raises UnsupportedError when it lies outside [-rank, rank)."""
    if not -rank <= axis < rank:
        raise UnsupportedError(f"axis {axis} is out of range for rank {rank}", b.source)
    return axis % rank


def channels_last(b: Builder, data_format: str) -> None:
    """Raises UnsupportedError for the NC… formats, where TensorFlow itself reports an error unless
    it has oneDNN."""
    if not data_format.endswith("C") or data_format.startswith("NCHW"):
        raise UnsupportedError(
            f"data format {data_format}, which TensorFlow's own CPU kernels don't take", b.source
        )
