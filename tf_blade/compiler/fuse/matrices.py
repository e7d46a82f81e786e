"""Matrix products read and write memory through strides, so transposes, reshapes and slices
around them need not be carried out."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from tf_blade.compiler.fuse import index as ix
from tf_blade.compiler.fuse.groups import spread, squeezed
from tf_blade.compiler.fuse.index import LoopVar
from tf_blade.compiler.fuse.scalar import Pool, Tracer
from tf_blade.compiler.ir.dims import Dim
from tf_blade.compiler.ir.program import Value

# These move no data when a matrix product reads through them.
_VIEWS = frozenset(["reshape", "transpose", "slice"])
# Results that are in memory anyway.
_STORED = frozenset(
    "reduce dot_general conv rfft irfft concatenate pad scan scatter top_k positions "
    "first_equal dynamic_update carried".split()
)


@dataclass(frozen=True)
class MatrixView:
    """A tensor of matrices in a buffer, in elements.

    offset: of the first element. batch: the distance between entries in each leading dim.
    row, column: the distance between rows and between columns; one of them is 1.
    """

    buffer: Value
    offset: Dim
    batch: tuple[Dim, ...]
    row: Dim
    column: Dim

    @property
    def leading(self) -> Dim:
        """The distance between the lines that are contiguous: a BLAS leading dimension."""
        return self.row if self.column == 1 else self.column


def base(value: Value) -> Value:
    """The value whose buffer holds this one's elements: reshapes move nothing."""
    while value.op is not None and value.op.kind == "reshape":
        value = value.op.operands[0]
    return value


def operand_root(value: Value) -> Value:
    """What must be in memory for a matrix product to read `value`."""
    origin = value
    while origin.op is not None and origin.op.kind in _VIEWS:
        inner = origin.op.operands[0]
        if origin.op.kind == "slice":
            # Computing all of it for a part's sake would be waste.
            source = base(inner).op
            if source is not None and source.kind not in _STORED and source.kind not in _VIEWS:
                break
        origin = inner
    if view(value, {base(origin)}) is not None:
        return base(origin)
    return base(value)


class _WithConstants(Container[Value]):
    """Values in memory, and constants: their data is part of the code."""

    def __init__(self, values: Container[Value]) -> None:
        self._values = values

    def __contains__(self, value: object) -> bool:
        constant = isinstance(value, Value) and value.op is not None and value.op.kind == "constant"
        return constant or value in self._values


def view(value: Value, in_memory: Container[Value]) -> MatrixView | None:
    """`value` as matrices in a buffer out of `in_memory` or a parameter, when it is that."""
    shape = value.type.shape
    origin = base(value)
    if origin.op is None or origin in _WithConstants(in_memory):
        strides = _contiguous(shape)
        return MatrixView(origin, 0, strides[:-2], strides[-2], strides[-1])
    loops = tuple(LoopVar(f"i{i}", n) for i, n in enumerate(squeezed(shape)))
    index = spread(loops, shape)
    try:
        element = Tracer(Pool(), _WithConstants(in_memory)).at(value, index)
    except KeyError:
        return None  # reaches something that is neither in memory nor can be computed in place
    place = element.index
    if element.kind != "load" or place is None or element.value is None:
        return None
    if not all(isinstance(atom, LoopVar) for atom, _ in place.terms):
        return None
    strides = tuple(place.coefficient(x.terms[0][0]) if x.terms else None for x in index)
    row, column = strides[-2], strides[-1]
    # A dim of size 1 has no stride of its own: any will do.
    if column is None and row is None:
        row, column = 1, 1
    elif column is None:
        row, column = (1, shape[-2]) if row == 1 else (row, 1)
    elif row is None:
        row, column = (shape[-1], 1) if column == 1 else (1, column)
    if row == 0 or column == 0 or 1 not in (row, column):
        return None
    if not all(ix.is_nonnegative(s) for s in (row, column)):
        return None
    batch = tuple(0 if s is None else s for s in strides[:-2])
    return MatrixView(element.value, place.const, batch, row, column)


def _contiguous(shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    strides: list[Dim] = []
    stride: Dim = 1
    for n in reversed(shape):
        strides.append(stride)
        stride = ix.mul(stride, n)
    return tuple(reversed(strides))


def result_view(root: Value, written: Value) -> MatrixView:
    """Where the matrix product that writes `root` puts its results: `written`, which is the product
    or its transpose, has them in the same order."""
    assert written.op is not None
    strides = _contiguous(written.type.shape)
    if written.op.kind == "transpose":
        perm = list(written.op.attrs["perm"])
        strides = tuple(strides[perm.index(axis)] for axis in range(len(perm)))
    return MatrixView(root, 0, strides[:-2], strides[-2], strides[-1])
