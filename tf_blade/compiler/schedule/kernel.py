"""Kernels: groups as loop nests, ready to print.

What is computed is fixed by then; a kernel says in which order. `rows` are the loops whose
iterations are spread over threads. In each row come the passes, each a nest of its own loops
around stores and accumulations, then the stores that happen once a row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tf_blade.compiler.fuse.groups import Group
from tf_blade.compiler.fuse.index import Affine, LoopVar
from tf_blade.compiler.fuse.products import Product
from tf_blade.compiler.fuse.scalar import Scalar
from tf_blade.compiler.ir.dims import Dim
from tf_blade.compiler.ir.program import Value

if TYPE_CHECKING:
    from tf_blade.compiler.schedule.schedule import Schedule


@dataclass
class Store:
    """buffer(root)[index] = scalar"""

    root: Value
    index: Affine
    scalar: Scalar


@dataclass
class Accumulate:
    """root = root (kind) scalar, over the loops of the pass; kind as in ops.REDUCTIONS.

    local: how scalars refer to the finished result.
    """

    root: Value
    kind: str
    scalar: Scalar
    local: Scalar


@dataclass
class Inside:
    """A bound on rows: low <= row < low + extent of `inner`, which then is row - low."""

    row: LoopVar
    inner: LoopVar
    low: Dim


@dataclass
class Pass:
    """A loop nest in a row. The last loop of `loops` is the innermost, the one to vectorise.

    inside: run only in rows inside these bounds. outside: run only in rows that are not.
    """

    loops: tuple[LoopVar, ...]
    accumulates: list[Accumulate] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)
    inside: tuple[Inside, ...] = ()
    outside: tuple[Inside, ...] = ()

    def scalars(self) -> list[Scalar]:
        return [a.scalar for a in self.accumulates] + [s.scalar for s in self.stores]


@dataclass(frozen=True)
class Blocks:
    """A loop cut into blocks: row loop `block` counts them, each is `size` iterations."""

    block: LoopVar
    size: int


@dataclass
class Kernel:
    """A loop or row_reduce kernel, a concatenation or a padding.

    scratch: values kept for one row from pass to pass, with their elements a row.
    flat: the rows are the iterations of the only pass's only loop.
    blocks: loops of the only pass of which a row does only one block.
    transposed: what the only pass, over blocks of two loops, reads along the outer one. It is
      copied into tiles, so that it can be read along the inner one.
    """

    group: Group
    rows: tuple[LoopVar, ...]
    passes: list[Pass]
    row_stores: list[Store] = field(default_factory=list)
    scratch: dict[Value, Dim] = field(default_factory=dict)
    flat: bool = False
    blocks: dict[LoopVar, Blocks] = field(default_factory=dict)
    transposed: tuple[Scalar, ...] = ()


@dataclass
class ColumnReduce:
    """Reductions over outer loops, tile by tile of the innermost kept loop.

    rows: the other kept loops. tile: the innermost loop. reduced: the loops summed over.
    stores: one element for each iteration of rows and tile, when the sums are complete.
    row_passes: reductions of what doesn't depend on the tile, which each tile does once.
    blocks: as in Kernel, for loops in `reduced`.
    """

    group: Group
    rows: tuple[LoopVar, ...]
    reduced: tuple[LoopVar, ...]
    tile: LoopVar
    accumulates: list[Accumulate]
    stores: list[Store]
    row_passes: list[Pass] = field(default_factory=list)
    blocks: dict[LoopVar, Blocks] = field(default_factory=dict)


@dataclass
class Scan:
    """A running reduction along one loop.

    rows: loops whose iterations are independent. along: the loop of the scan. tile: another
    independent loop, many of whose iterations are done side by side, or None. store: what is
    scanned, and where its result goes.
    """

    group: Group
    kind: str
    exclusive: bool
    rows: tuple[LoopVar, ...]
    along: LoopVar
    tile: LoopVar | None
    store: Store


@dataclass
class Scatter:
    """Rows filled from a target, then updated one update after the other.

    row: the loop over rows. update: the loop over updates, in order. at: the row that an update
    is for, `index` as a number. fill and step: what is written to a row and what an update
    does to it, each over its loops; both are loops over a slice.
    """

    group: Group
    kind: str
    row: LoopVar
    update: LoopVar
    at: LoopVar
    index: Scalar
    fill_loops: tuple[LoopVar, ...]
    fill: Store
    step_loops: tuple[LoopVar, ...]
    step: Store


@dataclass
class TopK:
    """The largest elements of each row.

    rows: loops over rows. along: the loop over a row's elements, each of them `element`.
    rank: the loop over results; `place` is where the position of a row's rank-th element goes.
    """

    group: Group
    rows: tuple[LoopVar, ...]
    along: LoopVar
    element: Scalar
    rank: LoopVar
    place: Affine


@dataclass
class Gemm:
    """One call of the host's matrix product for the group's only root."""

    group: Group
    product: Product


@dataclass
class Conv:
    """One call of the host's convolution for the group's only root."""

    group: Group


@dataclass
class Fft:
    """One call of the host's Fourier transform for the group's only root."""

    group: Group


@dataclass
class Positions:
    """The calling thread lists where the operand of the group's only root is true."""

    group: Group


@dataclass
class FirstEqual:
    """The calling thread finds equal elements. table: room for their positions, by hash."""

    group: Group
    table: Value


@dataclass
class HostStores:
    """A few numbers that the calling thread writes: the group's root is a shape_value."""

    group: Group


@dataclass
class RowUpdate:
    """One row of an array is replaced by the calling thread."""

    group: Group


@dataclass
class WhileLoop:
    """A loop of the calling thread around the steps of its condition and its body."""

    group: Group
    condition: Schedule
    body: Schedule


Step = (
    Kernel
    | ColumnReduce
    | Scan
    | Scatter
    | TopK
    | Gemm
    | Conv
    | Fft
    | Positions
    | FirstEqual
    | HostStores
    | RowUpdate
    | WhileLoop
)
