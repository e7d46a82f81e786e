"""Bags side by side and added up, and what keeps the layout of their rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tf_blade.feature_column.interpret import Interpreter, Result, compatible, rule
from tf_blade.feature_column.rules.shapes import constant_axis, resolve
from tf_blade.feature_column.sources import constants_fit, leaves_of
from tf_blade.feature_column.values import Dims, Elements, Num, Piece, PiecePart, product
from tf_blade.graph.graph import Node, TensorRef


@rule("Reshape")
def reshape(m: Interpreter, node: Node) -> Result:
    """Rows stay rows: their dims are kept, merged into one, or split up again."""
    piece, target = m.value(node.inputs[0]), m.vector(node.inputs[1])
    if not isinstance(piece, Piece) or target is None:
        return None
    dims = resolve(target, product(piece.dims))
    if dims is None:
        return None
    for rows in (piece.row_dims, (product(piece.row_dims),)):
        tail = tuple(dim.const for dim in dims[len(rows) :])
        if dims[: len(rows)] == rows and None not in tail:
            return _with_tail(piece, tuple(d for d in tail if d is not None), rows)
    return None


def _with_tail(piece: Piece, tail: tuple[int, ...], rows: Dims | None = None) -> Piece:
    """The piece in another shape: what was known of its steps no longer holds."""
    return Piece(piece.parts, rows or piece.rows, piece.row_dims, tail, piece.add)


@rule("ExpandDims")
def expand_dims(m: Interpreter, node: Node) -> Result:
    """One more dim of 1 behind the rows' dims."""
    piece, axis = m.value(node.inputs[0]), m.scalar(node.inputs[1])
    if not isinstance(piece, Piece) or not isinstance(axis, int):
        return None
    at = (axis if axis >= 0 else len(piece.dims) + 1 + axis) - len(piece.rows)
    if at < 0:
        return None
    return _with_tail(piece, (*piece.tail[:at], 1, *piece.tail[at:]))


@rule("Squeeze")
def squeeze(m: Interpreter, node: Node) -> Result:
    """Dims of 1 behind the rows' dims go."""
    piece = m.value(node.inputs[0])
    axes = list(node.attrs["squeeze_dims"].list.i)
    if not isinstance(piece, Piece) or not axes:
        return None
    gone = {axis % len(piece.dims) - len(piece.rows) for axis in axes}
    if any(i < 0 or piece.tail[i] != 1 for i in gone):
        return None
    return _with_tail(piece, tuple(d for i, d in enumerate(piece.tail) if i not in gone))


@rule("ConcatV2")
def concat(m: Interpreter, node: Node) -> Result:
    """Side by side."""
    refs = node.inputs[:-1]
    first = _first_piece(m, refs)
    if first is None:
        return None
    pieces = [piece_of(m, ref, len(first.rows)) for ref in refs]
    return side_by_side(m, first, pieces, node.inputs[-1])


def side_by_side(
    m: Interpreter, first: Piece, pieces: Sequence[Piece | None], axis_ref: TensorRef
) -> Piece | None:
    """Along the first dim of a row that is not 1 (in memory: one after another).

    Args:
      first: one of the pieces, which says what the rows are.
    """
    axis = constant_axis(m, axis_ref, len(first.dims))
    if axis is None or axis < len(first.rows):
        return None
    at = axis - len(first.rows)
    parts: list[PiecePart] = []
    length = 0
    for piece in pieces:
        if piece is None or piece.add or len(piece.tail) != len(first.tail):
            return None
        if len(piece.rows) != len(first.rows):
            return None
        if piece.tail[:at] != (1,) * at or piece.tail[at + 1 :] != first.tail[at + 1 :]:
            return None
        parts += piece.parts
        length += piece.tail[at]
    tail = (*first.tail[:at], length, *first.tail[at + 1 :])
    return Piece(tuple(parts), first.rows, first.row_dims, tail)


@rule("Pack")
def pack(m: Interpreter, node: Node) -> Result:
    """Side by side along a new dim right behind the rows' dims."""
    first = _first_piece(m, node.inputs)
    if first is None:
        return None
    axis = m.attr_int(node, "axis")
    if axis % (len(first.dims) + 1) != len(first.rows):
        return None
    parts: list[PiecePart] = []
    for ref in node.inputs:
        piece = piece_of(m, ref, len(first.rows))
        if piece is None or piece.add or piece.tail != first.tail:
            return None
        parts += piece.parts
    return Piece(tuple(parts), first.rows, first.row_dims, (len(node.inputs), *first.tail))


@rule("AddN", "AddV2", "Add")
def add(m: Interpreter, node: Node) -> Result:
    """Added up."""
    first = _first_piece(m, node.inputs)
    if first is None:
        return None
    parts: list[PiecePart] = []
    for ref in node.inputs:
        piece = piece_of(m, ref, len(first.rows))
        if piece is None or piece.tail != first.tail or not (piece.add or len(piece.parts) == 1):
            return None
        parts += piece.parts
    return Piece(tuple(parts), first.rows, first.row_dims, first.tail, add=len(parts) > 1)


def _first_piece(m: Interpreter, refs: list[TensorRef]) -> Piece | None:
    """The first operand with a bag in it, if its rows' dims are those of the streams."""
    for ref in refs:
        value = m.value(ref)
        if isinstance(value, Piece):
            return value if len(value.rows) == len(value.row_dims) else None
    return None


def piece_of(m: Interpreter, ref: TensorRef, row_rank: int) -> Piece | None:
    """An operand as rows of bags, or of floats that come from outside."""
    value = m.value(ref)
    if isinstance(value, Piece):
        same = len(value.rows) == len(value.row_dims) == row_rank
        return value if same else None
    x = m.elements(ref)
    if x is None or x.expr.dtype != "f32" or x.keep is not None or x.filled is not None:
        return None
    return _dense_piece(m, x, row_rank)


def _dense_piece(m: Interpreter, x: Elements, row_rank: int) -> Piece | None:
    leaves = leaves_of([x.expr])
    tail = tuple(dim.const for dim in x.dims[row_rank:])
    if not leaves or None in tail or len(x.dims) < row_rank:
        return None
    width = int(np.prod([d for d in tail if d is not None], dtype=np.int64))
    if not constants_fit([x.expr], (Num(width),)):
        return None
    rows = x.dims[:row_rank]
    for leaf in leaves:
        dims = m.tensor_dims(m.leaves[leaf])
        if dims is None or not compatible(dims[:row_rank], rows):
            return None
        if product(dims[row_rank:]) != Num(width):
            return None
    return Piece(
        (PiecePart(width, dense=x.expr),), rows, rows, tuple(d for d in tail if d is not None)
    )
