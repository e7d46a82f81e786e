"""Splits joins of which only some operands are columns, so that these can become one output.

ConcatV2(a, b, x, c, d)  ->  ConcatV2(ConcatV2(a, b), x, ConcatV2(c, d))
AddN(a, x, b)            ->  AddN(x, AddN(a, b))
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from tensorflow.core.framework import attr_value_pb2

from tf_blade.feature_column.interpret import Interpreter
from tf_blade.feature_column.rules.pieces import piece_of
from tf_blade.feature_column.rules.shapes import constant_axis
from tf_blade.feature_column.values import Piece
from tf_blade.graph.graph import Graph, Node, TensorRef


def split_joins(graph: Graph, m: Interpreter) -> Graph | None:
    """The graph with such joins split, None if there are none.

    Args:
      graph: the graph that `m` interprets. Not changed.
    """
    result = graph.copy()
    changed = False
    for node in graph:
        if node.op not in ("ConcatV2", "AddN") or not m.may_replace(node.name):
            continue
        if isinstance(m.value(TensorRef(node.name)), Piece):
            continue
        changed |= _split(result, m, node)
    return result if changed else None


def _split(result: Graph, m: Interpreter, node: Node) -> bool:
    is_concat = node.op == "ConcatV2"
    refs = node.inputs[:-1] if is_concat else node.inputs
    marks = _columns(m, node, refs)
    kept: list[TensorRef] = []
    added: list[TensorRef] = []
    if is_concat:
        for key, items in groupby(zip(marks, refs, strict=True), key=lambda item: item[0]):
            run = [ref for _, ref in items]
            if key and len(run) > 1 and any(isinstance(m.value(ref), Piece) for ref in run):
                run = [_join(result, node, run)]
                added += run
            kept += run
    else:
        run = [ref for mark, ref in zip(marks, refs, strict=True) if mark]
        kept = [ref for mark, ref in zip(marks, refs, strict=True) if not mark]
        if len(run) > 1 and any(isinstance(m.value(ref), Piece) for ref in run):
            added = [_join(result, node, run)]
            kept += added
    if not added:
        return False
    changed = result.nodes[node.name]
    changed.inputs = kept + node.inputs[len(refs) :]
    changed.attrs["N"] = attr_value_pb2.AttrValue(i=len(kept))
    return True


def _join(result: Graph, node: Node, run: list[TensorRef]) -> TensorRef:
    new = node.copy()
    new.name = result.unique_name(f"{node.name}/columns")
    new.inputs = run + (node.inputs[-1:] if node.op == "ConcatV2" else [])
    new.attrs["N"] = attr_value_pb2.AttrValue(i=len(run))
    return TensorRef(result.add(new).name)


def _columns(m: Interpreter, node: Node, refs: Sequence[TensorRef]) -> list[int]:
    """For each operand a number, equal for those that fit side by side; 0 for other tensors."""
    first = next((v for v in map(m.value, refs) if isinstance(v, Piece)), None)
    if first is None or len(first.rows) != len(first.row_dims):
        return [0] * len(refs)
    at = 0
    if node.op == "ConcatV2":
        axis = constant_axis(m, node.inputs[-1], len(first.dims))
        if axis is None or axis < len(first.rows):
            return [0] * len(refs)
        at = axis - len(first.rows)
    marks: list[int] = []
    for ref in refs:
        piece = piece_of(m, ref, len(first.rows))
        fits = piece is not None and len(piece.tail) == len(first.tail)
        if fits and piece is not None and node.op == "ConcatV2":
            fits = piece.tail[:at] == (1,) * at and piece.tail[at + 1 :] == first.tail[at + 1 :]
            fits = fits and not piece.add
        elif fits and piece is not None:
            fits = piece.tail == first.tail and (piece.add or len(piece.parts) == 1)
        marks.append(int(fits))
    return marks
