"""Loops (While with its tensor lists), in the form that `tf_blade/loops.py` brings them into.

That is a call of a function that makes the lists, loops, and stacks what the lists hold.

A list is an array of its elements, which all have one shape. The shape of the elements of an empty
list (TensorListReserve) may be known from what the body puts into it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.dims import Dim
from tf_blade.compiler.ir.loops import is_bounded
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.ir.types import DType
from tf_blade.compiler.lower.functions import Lower, lower_function
from tf_blade.compiler.lower.indexing import row
from tf_blade.compiler.lower.scope import Scope, TensorList, structured
from tf_blade.errors import UnsupportedError
from tf_blade.graph.calls import LOOPS
from tf_blade.graph.graph import Graph, Node, TensorRef


@structured(*LOOPS)
def while_loop(b: Builder, node: Node, scope: Scope, lower: Lower) -> list[Value | TensorList]:
    """While; what the body hands on unchanged is no longer carried."""
    return _Loop(b, node, scope, lower).lower()


class _Loop:
    def __init__(self, b: Builder, node: Node, scope: Scope, lower: Lower) -> None:
        self.b = b
        self.lower_nodes = lower
        self.condition = scope.function(node.attrs["cond"].func.name)
        self.body = scope.function(node.attrs["body"].func.name)
        self.inputs = [scope.any(ref) for ref in node.inputs]
        args = [arg.name for arg in self.body.args]
        self.carried = [
            i for i, (_, ref) in enumerate(self.body.outputs) if self._origin(ref) != args[i]
        ]
        self.fixed = [i for i in range(len(args)) if i not in self.carried]

    def lower(self) -> list[Value | TensorList]:
        b, carried = self.b, self.carried
        some_trips = self._make_arrays()
        fixed = [i for i in self.fixed if not self._is_known(self.inputs[i])]
        initial = [self._array(self.inputs[i]) for i in carried]
        test = partial(self._run, self.condition, fixed)
        step = partial(self._run, self.body, fixed)
        results = b.while_loop(
            initial,
            [self._array(self.inputs[i]) for i in fixed],
            lambda params: [_tensor(test(params)[0])],
            lambda params: [self._array(x) for x in self._pick(step(params))],
            min_trips=int(some_trips),
        )
        if results:
            assert results[0].op is not None
            loop = results[0].op.operands[0].op
            assert loop is not None
            if not is_bounded(loop.attrs["condition"], loop.attrs["body"]):
                raise UnsupportedError("the number of iterations has no bound", b.source)
        found = list(self.inputs)
        for i, value in zip(carried, results, strict=True):
            before = found[i]
            found[i] = replace(before, array=value) if isinstance(before, TensorList) else value
        return found

    def _origin(self, ref: TensorRef) -> str:
        while self.body.nodes[ref.node].op == "Identity":
            ref = self.body.nodes[ref.node].inputs[0]
        return ref.node

    def _pick(self, results: list[Value | TensorList]) -> list[Value | TensorList]:
        return [results[i] for i in self.carried]

    def _array(self, value: Value | TensorList) -> Value:
        if isinstance(value, Value):
            return value
        if value.array is None:
            raise UnsupportedError("the elements of a list have no known shape", self.b.source)
        return value.array

    def _is_known(self, value: Value | TensorList) -> bool:
        """Whether the value is written out where it is read."""
        if isinstance(value, TensorList):
            return False
        op = value.op
        return op is not None and op.kind in ("constant", "shape_value")

    def _run(
        self, graph: Graph, fixed: Sequence[int], params: Sequence[Value]
    ) -> list[Value | TensorList]:
        """Lowers the condition or the body for the parameters of its program."""
        arguments = list(self.inputs)
        for i, param in zip([*self.carried, *fixed], params, strict=True):
            before = self.inputs[i]
            if isinstance(before, TensorList):
                arguments[i] = replace(before, array=param)
            else:
                arguments[i] = param
                if i in fixed:
                    self.b.same_content(param, before)
        for i, value in enumerate(arguments):
            if isinstance(value, Value) and value is self.inputs[i] and value.op is not None:
                arguments[i] = self.b.op(value.op.kind, [], **value.op.attrs)
        return lower_function(self.b, graph, arguments, self.lower_nodes)

    def _make_arrays(self) -> bool:
        """Gives empty lists their arrays; says whether any of them needs an iteration for that."""
        empty = [
            i
            for i in self.carried
            if isinstance(x := self.inputs[i], TensorList) and x.array is None
        ]
        if not empty:
            return False
        kept: list[list[Value | TensorList]] = []
        tensors = [i for i in self.carried if i not in empty]
        fixed = [i for i in self.fixed if not self._is_known(self.inputs[i])]
        inputs = [self._array(self.inputs[i]) for i in (*tensors, *fixed)]

        def trial(params: list[Value]) -> list[Value]:
            carried, self.carried = self.carried, tensors
            try:
                kept.append(self._run(self.body, fixed, params))
            finally:
                self.carried = carried
            return []

        self.b.nested("trial", inputs, trial)
        for i in empty:
            before, after = self.inputs[i], kept[0][i]
            assert isinstance(before, TensorList) and isinstance(after, TensorList)
            if after.element is None or None in after.element:
                raise UnsupportedError("the body sets no element of a list", self.b.source)
            element = tuple(n for n in after.element if n is not None)
            self.inputs[i] = replace(
                before, array=self.b.splat(0, before.dtype, (before.length, *element))
            )
        return True


def _tensor(value: Value | TensorList) -> Value:
    assert isinstance(value, Value)
    return value


# -- tensor lists -----------------------------------------------------------------------------


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
def reserve(b: Builder, node: Node, scope: Scope, lower: Lower) -> list[Value | TensorList]:
    """A list of unset elements, which read as zeros if their shape is known."""
    shape = _Shape.of(b, scope.tensor(node.inputs[0]))
    length = _known_dim(b, scope.tensor(node.inputs[1]))
    b.require_le(0, length, "the length of a list")
    made = TensorList(_dtype(b, node), length, shape.dims, None, from_tensor=False)
    if shape.dims is not None and None not in shape.dims:
        element = tuple(n for n in shape.dims if n is not None)
        return [replace(made, array=b.splat(0, made.dtype, (length, *element)))]
    return [made]


@structured("TensorListFromTensor")
def from_tensor(b: Builder, node: Node, scope: Scope, lower: Lower) -> list[Value | TensorList]:
    """A list of the rows of a tensor."""
    array = scope.tensor(node.inputs[0])
    if array.type.rank == 0:
        raise UnsupportedError("a list of a scalar's rows", b.source)
    shape = _Shape.of(b, scope.tensor(node.inputs[1]))
    shape.require(b, b.shape(array)[1:])
    length, *element = b.shape(array)
    return [TensorList(array.type.dtype, length, tuple(element), array, from_tensor=True)]


@structured("TensorListGetItem")
def get_item(b: Builder, node: Node, scope: Scope, lower: Lower) -> list[Value | TensorList]:
    """The row at an index; outside the list the run is refused."""
    source = scope.tensor_list(node.inputs[0])
    if source.array is None or source.element is None or None in source.element:
        raise UnsupportedError("reads elements that may have no shape", b.source)
    shape = _Shape.of(b, scope.tensor(node.inputs[2]))
    shape.require(b, b.shape(source.array)[1:])
    return [row(b, source.array, scope.tensor(node.inputs[1]))]


@structured("TensorListSetItem")
def set_item(b: Builder, node: Node, scope: Scope, lower: Lower) -> list[Value | TensorList]:
    """The list with another row at an index; outside the list the run is refused."""
    target, item = scope.tensor_list(node.inputs[0]), scope.tensor(node.inputs[2])
    if node.attrs["resize_if_index_out_of_bounds"].b:
        raise UnsupportedError("a list that grows", b.source)
    _Shape(target.element).require(b, b.shape(item))
    if target.array is None:
        return [replace(target, element=b.shape(item))]
    if target.array.type.rank != item.type.rank + 1:
        raise UnsupportedError("an element of another rank than its list", b.source)
    array = b.dynamic_update(target.array, scope.tensor(node.inputs[1]), item)
    return [replace(target, array=array, from_tensor=False)]


@structured("TensorListStack")
def stack(b: Builder, node: Node, scope: Scope, lower: Lower) -> list[Value | TensorList]:
    """The elements of a list as the rows of a tensor."""
    source = scope.tensor_list(node.inputs[0])
    if source.array is None:
        raise UnsupportedError("the elements of a list have no known shape", b.source)
    shape = _Shape.of(b, scope.tensor(node.inputs[1]))
    shape.require(b, b.shape(source.array)[1:])
    count = node.attrs["num_elements"].i
    if count >= 0:
        b.same_dim(b.shape(source.array)[0], count, "the length of a list")
    return [source.array]


@structured("TensorListLength")
def length(b: Builder, node: Node, scope: Scope, lower: Lower) -> list[Value | TensorList]:
    """The number of elements."""
    return [b.shape_value(scope.tensor_list(node.inputs[0]).length, DType.I32)]
