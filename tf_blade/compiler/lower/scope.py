"""The values of a function's tensors while it is lowered, and the ops whose lowering needs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.dims import Dim
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.ir.types import DType
from tf_blade.errors import UnsupportedError
from tf_blade.graph.graph import Graph, Node, TensorRef
from tf_blade.graph.shapes import Types


@dataclass(frozen=True)
class TensorList:
    """A variant tensor that is a list of tensors of one shape.

    element: what TensorFlow knows of the elements' shape; where it isn't all, an unset element has
      none. array: the elements [length, *element]; None until their shape is known.
    grown_at: where the one write of an iteration is that may have made the list longer.
    grows: it is as long as it will be in the end, while a loop that makes it longer runs.
    """

    dtype: DType
    length: Dim
    element: tuple[Dim | None, ...] | None
    array: Value | None
    grown_at: Value | None = None
    grows: bool = False


@dataclass(frozen=True)
class Complex:
    """A tensor of complex numbers: its parts, of one shape."""

    real: Value
    imaginary: Value


# What a tensor of a function is while it is lowered.
Item = Value | TensorList | Complex


@dataclass
class Scope:
    """One function's tensors. types: of all of them. values: of those lowered so far."""

    graph: Graph
    types: Types
    values: dict[TensorRef, Item] = field(default_factory=dict)

    def any(self, ref: TensorRef) -> Item:
        if ref not in self.values:
            raise UnsupportedError(f"its output {ref.index} is not computed", ref.node)
        return self.values[ref]

    def tensor(self, ref: TensorRef) -> Value:
        found = self.any(ref)
        if not isinstance(found, Value):
            raise UnsupportedError("a list or complex numbers are used as a tensor", ref.node)
        return found

    def tensor_list(self, ref: TensorRef) -> TensorList:
        found = self.any(ref)
        if not isinstance(found, TensorList):
            raise UnsupportedError("a tensor is used as a list", ref.node)
        return found

    def function(self, name: str) -> Graph:
        """The body of a library function."""
        return Graph.from_function_def(self.graph.library[name], self.graph.library)


def arrays(values: Iterable[Item]) -> list[Value]:
    """The tensors among the values, the elements of the lists that have any yet, and the parts of
    complex numbers."""
    found: list[Value] = []
    for v in values:
        if isinstance(v, Complex):
            found += [v.real, v.imaginary]
        elif isinstance(v, Value):
            found.append(v)
        elif v.array is not None:
            found.append(v.array)
    return found


# (builder, node, scope, lowers the nodes of a scope) -> a value an output
Structured = Callable[[Builder, Node, Scope, Callable[[Builder, Scope], None]], "list[Item]"]
STRUCTURED: dict[str, Structured] = {}
# Those of nodes that read or give complex numbers.
COMPLEX: dict[str, Structured] = {}


def structured(*ops: str) -> Callable[[Structured], Structured]:
    """Registers a lowering that needs more than the values of the node's inputs."""

    def register(function: Structured) -> Structured:
        STRUCTURED.update(dict.fromkeys(ops, function))
        return function

    return register
