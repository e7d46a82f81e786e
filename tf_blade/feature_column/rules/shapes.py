"""Shape arithmetic: integer vectors and scalars, element by element."""

from __future__ import annotations

import numpy as np

from tf_blade.feature_column.interpret import Interpreter, IntsResult, ints_rule
from tf_blade.feature_column.values import Ints, Num, OpenInts, product
from tf_blade.graph.graph import Node, TensorRef


@ints_rule("Shape")
def shape(m: Interpreter, node: Node) -> IntsResult:
    """Shape: the dims of a tensor."""
    dims = m.dims(node.inputs[0])
    return None if dims is None else Ints(dims)


@ints_rule("Size")
def size(m: Interpreter, node: Node) -> IntsResult:
    """Size: the product of the dims."""
    dims = m.dims(node.inputs[0])
    return None if dims is None else Ints((product(dims),), scalar=True)


@ints_rule("Identity", "Cast")
def same(m: Interpreter, node: Node) -> IntsResult:
    """Cast between integers. A dim that an i32 can't hold makes TensorFlow's own reshape fail."""
    if node.op == "Cast" and m.types[TensorRef(node.name)].dtype.name not in ("int32", "int64"):
        return None
    found = m.ints(node.inputs[0])
    if isinstance(found, OpenInts) and m.types[node.inputs[0]].shape not in (None, (None,)):
        return None
    return found


@ints_rule("StridedSlice")
def strided_slice(m: Interpreter, node: Node) -> IntsResult:
    """v[i] and v[a:b] with constant bounds."""
    found = m.ints(node.inputs[0])
    bounds = [m.constant(ref) for ref in node.inputs[1:]]
    masks = {
        name: m.attr_int(node, f"{name}_mask")
        for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    }
    if found is None or any(b is None or b.size != 1 for b in bounds):
        return None
    begin, end, step = (int(b.reshape(-1)[0]) for b in bounds if b is not None)
    if masks["ellipsis"] or masks["new_axis"]:
        return None
    if isinstance(found, OpenInts):
        if masks["shrink_axis"]:
            return Ints((found.at(begin),), scalar=True) if begin >= 0 else None
        start = 0 if masks["begin"] else begin
        if masks["end"] or start < 0 or end < start or step != 1:
            return None
        return Ints(tuple(found.at(i) for i in range(start, end)))
    if found.scalar:
        return None
    if masks["shrink_axis"]:
        inside = -len(found.values) <= begin < len(found.values)
        return Ints((found.values[begin],), scalar=True) if inside else None
    bound = slice(None if masks["begin"] else begin, None if masks["end"] else end, step)
    return Ints(found.values[bound])


@ints_rule("Slice")
def slice_(m: Interpreter, node: Node) -> IntsResult:
    """Slice(v, [begin], [size]) with constants."""
    found = m.ints(node.inputs[0])
    begin, length = m.scalar(node.inputs[1]), m.scalar(node.inputs[2])
    if not isinstance(begin, int) or not isinstance(length, int) or begin < 0:
        return None
    if isinstance(found, OpenInts) and length >= 0:
        return Ints(tuple(found.at(begin + i) for i in range(length)))
    if isinstance(found, Ints) and not found.scalar:
        end = len(found.values) if length < 0 else begin + length
        return Ints(found.values[begin:end]) if end <= len(found.values) else None
    return None


@ints_rule("GatherV2")
def gather(m: Interpreter, node: Node) -> IntsResult:
    """GatherV2(v, constant, axis=0)."""
    found, at = m.ints(node.inputs[0]), m.constant(node.inputs[1])
    if at is None or at.ndim > 1 or m.scalar(node.inputs[2]) != 0 or (at < 0).any():
        return None
    places = [int(i) for i in at.reshape(-1)]
    if isinstance(found, OpenInts):
        return Ints(tuple(found.at(i) for i in places), at.ndim == 0)
    if isinstance(found, Ints) and not found.scalar and all(i < len(found.values) for i in places):
        return Ints(tuple(found.values[i] for i in places), at.ndim == 0)
    return None


@ints_rule("Prod")
def prod(m: Interpreter, node: Node) -> IntsResult:
    """Prod(v, 0)."""
    values = m.vector(node.inputs[0])
    axis = m.constant(node.inputs[1])
    if values is None or axis is None or axis.size != 1 or node.attrs["keep_dims"].b:
        return None
    return Ints((product(values),), scalar=True)


@ints_rule("Mul")
def mul(m: Interpreter, node: Node) -> IntsResult:
    """The product of two scalars."""
    a, b = m.ints(node.inputs[0]), m.ints(node.inputs[1])
    if isinstance(a, Ints) and isinstance(b, Ints) and a.scalar and b.scalar:
        return Ints((a.values[0] * b.values[0],), scalar=True)
    return None


@ints_rule("Pack")
def pack(m: Interpreter, node: Node) -> IntsResult:
    """Pack of scalars."""
    found = [m.ints(ref) for ref in node.inputs]
    values: list[Num] = []
    for item in found:
        if not isinstance(item, Ints) or not item.scalar:
            return None
        values += item.values
    return Ints(tuple(values))


@ints_rule("ConcatV2")
def concat(m: Interpreter, node: Node) -> IntsResult:
    """ConcatV2 of vectors."""
    if m.types[TensorRef(node.name)].rank not in (1, None) or m.scalar(node.inputs[-1]) != 0:
        return None
    values: list[Num] = []
    for ref in node.inputs[:-1]:
        item = m.vector(ref)
        if item is None:
            return None
        values += item
    return Ints(tuple(values))


@ints_rule("Reshape", "ExpandDims", "Squeeze")
def rank(m: Interpreter, node: Node) -> IntsResult:
    """Between a scalar and a vector of one element."""
    found = m.ints(node.inputs[0])
    to = m.types[TensorRef(node.name)].rank
    if not isinstance(found, Ints) or to not in (0, 1) or len(found.values) != 1:
        return None
    return Ints(found.values, scalar=to == 0)


def resolve(target: tuple[Num, ...], total: Num) -> tuple[Num, ...] | None:
    """The dims that Reshape gives, with the -1 of its target filled in.

    None if it isn't known that the numbers of elements agree.
    """
    unknown = [i for i, dim in enumerate(target) if dim.const == -1]
    known = product(tuple(dim for dim in target if dim.const != -1))
    if not unknown:
        return target if known == total else None
    rest = total.over(known)
    if len(unknown) > 1 or rest is None:
        return None
    return tuple(rest if i == unknown[0] else dim for i, dim in enumerate(target))


def constant_axis(m: Interpreter, ref: TensorRef, rank: int) -> int | None:
    """A constant axis of a tensor of that rank, counted from the front."""
    axis = m.scalar(ref)
    if not isinstance(axis, (int, np.integer)) or not -rank <= axis < rank:
        return None
    return int(axis) % rank if rank else 0
