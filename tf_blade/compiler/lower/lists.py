"""Lists of tensors, which loops read and write (tf.TensorArray is made of them).

A list is an array of its elements, which all have one shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.dims import Dim
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.ir.types import DType
from tf_blade.compiler.lower.functions import Lower
from tf_blade.compiler.lower.indexing import row
from tf_blade.compiler.lower.scope import Item, Scope, TensorList, structured
from tf_blade.errors import UnsupportedError
from tf_blade.graph.graph import Node


@dataclass(frozen=True)
class _Shape:
    """A partly known shape: None for an unknown rank, and for unknown dims in it."""

    dims: tuple[Dim | None, ...] | None

    @classmethod
    def of(cls, b: Builder, value: Value) -> _Shape:
        """The shape that an element_shape input describes; -1 is unknown."""
        content = b.content(value)
        if content is None:
            raise UnsupportedError("a list's element shape is computed", b.source)
        if content.ndim == 0:
            if content[()] != -1:
                raise UnsupportedError("a list's element shape is a scalar", b.source)
            return cls(None)
        return cls(tuple(None if n == -1 else n for n in content))

    def require(self, b: Builder, shape: Sequence[Dim]) -> None:
        """A tensor's shape must be a case of it."""
        if self.dims is None:
            return
        if len(self.dims) != len(shape):
            raise UnsupportedError("an element of another rank than its list", b.source)
        for ours, theirs in zip(self.dims, shape, strict=True):
            if ours is not None:
                b.same_dim(ours, theirs, "elements of a list have its shape")


def _dtype(b: Builder, node: Node) -> DType:
    dtype = DType.from_tf_enum(node.attrs["element_dtype"].type)
    if dtype is None:
        raise UnsupportedError("a list of a dtype that the compiler doesn't have", b.source)
    return dtype


def _known_dim(b: Builder, value: Value) -> Dim:
    content = b.content(value)
    if content is None or content.ndim != 0:
        raise UnsupportedError("the length of a list is computed", b.source)
    length: Dim = content[()]
    return length


@structured("TensorListReserve")
def reserve(b: Builder, node: Node, scope: Scope, lower: Lower) -> list[Item]:
    """A list of unset elements, which read as zeros if their shape is known."""
    shape = _Shape.of(b, scope.tensor(node.inputs[0]))
    length = _known_dim(b, scope.tensor(node.inputs[1]))
    b.require_le(0, length, "the length of a list")
    made = TensorList(_dtype(b, node), length, shape.dims, None)
    # An empty list says what its elements are when it has grown.
    if length != 0 and shape.dims is not None and None not in shape.dims:
        element = tuple(n for n in shape.dims if n is not None)
        return [replace(made, array=b.splat(0, made.dtype, (length, *element)))]
    return [made]


@structured("TensorListFromTensor")
def from_tensor(b: Builder, node: Node, scope: Scope, lower: Lower) -> list[Item]:
    """A list of the rows of a tensor."""
    array = scope.tensor(node.inputs[0])
    if array.type.rank == 0:
        raise UnsupportedError("a list of a scalar's rows", b.source)
    shape = _Shape.of(b, scope.tensor(node.inputs[1]))
    shape.require(b, b.shape(array)[1:])
    length, *element = b.shape(array)
    return [TensorList(array.type.dtype, length, tuple(element), array)]


@structured("TensorListGetItem")
def get_item(b: Builder, node: Node, scope: Scope, lower: Lower) -> list[Item]:
    """The row at an index; outside the list the run is refused."""
    array = _elements(b, node, scope)
    return [row(b, array, scope.tensor(node.inputs[1]))]


@structured("TensorListGather")
def gather(b: Builder, node: Node, scope: Scope, lower: Lower) -> list[Item]:
    """The rows at several indices; outside the list the run is refused."""
    array, indices = _elements(b, node, scope), scope.tensor(node.inputs[1])
    return [b.gather(array, _inside(b, indices, b.shape(array)[0]), 0)]


def _elements(b: Builder, node: Node, scope: Scope) -> Value:
    """The elements that an op with the inputs (list, indices, element_shape) picks some of."""
    source = scope.tensor_list(node.inputs[0])
    if source.array is None or source.element is None or None in source.element or source.grows:
        raise UnsupportedError("reads elements that may have no shape", b.source)
    shape = _Shape.of(b, scope.tensor(node.inputs[2]))
    shape.require(b, b.shape(source.array)[1:])
    return source.array


def _inside(b: Builder, indices: Value, length: Dim) -> Value:
    """The indices; the run is refused where one is outside of a list."""
    size = b.shape_value(length, indices.type.dtype)
    low = b.compare("GE", indices, b.constant(0, indices.type.dtype))
    return b.checked(indices, b.binary("and", low, b.compare("LT", indices, size)))


@structured("TensorListScatterIntoExistingList")
def scatter(b: Builder, node: Node, scope: Scope, lower: Lower) -> list[Item]:
    """The list with other rows at several indices, the last one for a place; outside the list,
    which TensorFlow makes longer then, the run is refused."""
    target, rows = scope.tensor_list(node.inputs[0]), scope.tensor(node.inputs[1])
    indices = scope.tensor(node.inputs[2])
    if rows.type.rank == 0 or target.length == 0 or target.grows:
        raise UnsupportedError("a list that grows", b.source)
    _Shape(target.element).require(b, b.shape(rows)[1:])
    array = target.array
    if array is None:  # as long as no element is set, none has a shape
        b.require_le(1, b.shape(rows)[0], "an element gives the others their shape")
        array = b.splat(0, target.dtype, (target.length, *b.shape(rows)[1:]))
    made = b.scatter(array, _inside(b, indices, target.length), rows, "set")
    return [replace(target, array=made)]


@structured("TensorListSetItem")
def set_item(b: Builder, node: Node, scope: Scope, lower: Lower) -> list[Item]:
    """The list with another row at an index; outside the list the run is refused."""
    target, item = scope.tensor_list(node.inputs[0]), scope.tensor(node.inputs[2])
    index = scope.tensor(node.inputs[1])
    _Shape(target.element).require(b, b.shape(item))
    if target.array is None:
        grows = node.attrs["resize_if_index_out_of_bounds"].b and target.length == 0
        if target.grown_at is not None:
            raise UnsupportedError("a list that grows by several elements", b.source)
        return [replace(target, element=b.shape(item), grown_at=index if grows else None)]
    if target.array.type.rank != item.type.rank + 1:
        raise UnsupportedError("an element of another rank than its list", b.source)
    array = b.dynamic_update(target.array, index, item)
    return [replace(target, array=array)]


@structured("TensorListStack")
def stack(b: Builder, node: Node, scope: Scope, lower: Lower) -> list[Item]:
    """The elements of a list as the rows of a tensor."""
    source = scope.tensor_list(node.inputs[0])
    if source.array is None or source.grows:
        raise UnsupportedError("the elements of a list have no known shape", b.source)
    shape = _Shape.of(b, scope.tensor(node.inputs[1]))
    shape.require(b, b.shape(source.array)[1:])
    count = node.attrs["num_elements"].i
    if count >= 0:
        b.same_dim(b.shape(source.array)[0], count, "the length of a list")
    return [source.array]


@structured("TensorListLength")
def length(b: Builder, node: Node, scope: Scope, lower: Lower) -> list[Item]:
    """The number of elements."""
    source = scope.tensor_list(node.inputs[0])
    if source.grows:
        raise UnsupportedError("reads the length of a list that grows", b.source)
    return [b.shape_value(source.length, DType.I32)]
