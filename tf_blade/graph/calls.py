"""Which functions a node calls, what it passes them, and which calls may be inlined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tensorflow.core.framework import attr_value_pb2

from tf_blade.graph.graph import Graph, Library, Node, TensorRef

PLAIN_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
CONDITIONALS = ("If", "StatelessIf", "Case", "StatelessCase")
LOOPS = ("While", "StatelessWhile")
# Names of the functions that hold one loop and its lists (`tf_blade/loops.py`) begin with this.
LOOP_PREFIX = "blade_loop_"
# Of those that hold all that has to do with some complex numbers (`tf_blade/complexes.py`).
COMPLEX_PREFIX = "blade_complex_"
# Attributes that forbid inlining or say who compiles the body.
_KEEP_CALL = ("_noinline", "_XlaMustCompile", "_xla_compile_id")


@dataclass(frozen=True)
class Call:
    """One function a node calls.

    Attributes:
      function: the callee's name.
      arguments: tensors passed, in the order of the callee's arguments, or None where the op
        decides at run time what it passes (dataset transformations, gradients, …).
    """

    function: str
    arguments: tuple[TensorRef, ...] | None


def calls(node: Node, library: Library) -> list[Call]:
    """Every library function the node calls or names in an attribute."""
    found: list[Call] = []
    if not library:
        return found
    if node.op in library:
        found.append(Call(node.op, tuple(node.inputs)))
    if node.op in PLAIN_CALLS or node.op in LOOPS:
        arguments: tuple[TensorRef, ...] | None = tuple(node.inputs)
    elif node.op in CONDITIONALS:
        arguments = tuple(node.inputs[1:])
    else:
        arguments = None
    for value in node.attrs.values():
        for name in function_names(value):
            if name in library:
                found.append(Call(name, arguments))
    return found


def is_loop_call(node: Node) -> bool:
    """Whether the node calls a function that holds one loop which the compiler can lower."""
    return node.op == "PartitionedCall" and node.attrs["f"].func.name.startswith(LOOP_PREFIX)


def is_wrapped(node: Node) -> bool:
    """Whether the node calls a function of nodes that only go into a cluster together."""
    prefixes = LOOP_PREFIX, COMPLEX_PREFIX
    return node.op == "PartitionedCall" and node.attrs["f"].func.name.startswith(prefixes)


def callee(node: Node, library: Library) -> str | None:
    """The function a plain call runs: PartitionedCall, StatefulPartitionedCall, call by name."""
    if node.op in PLAIN_CALLS:
        name = node.attrs["f"].func.name
        return name if name in library else None
    return node.op if node.op in library else None


def called_functions(graph: Graph) -> list[str]:
    """Library functions that the graph reaches: in any attribute, by name, directly or not."""
    library = graph.library
    if not library:
        return []
    todo: list[str] = []
    for node in graph:
        todo += _references(node.op, node.attrs, library)
    return reachable(todo, library)


def reachable(functions: Iterable[str], library: Library) -> list[str]:
    """The functions and those that they reach."""
    todo = list(functions)
    found: dict[str, None] = {}
    while todo:
        name = todo.pop()
        if name not in found:
            found[name] = None
            for proto in library[name].node_def:
                todo += _references(proto.op, proto.attr, library)
    return list(found)


def compiled_by_xla(attrs: Mapping[str, attr_value_pb2.AttrValue]) -> bool:
    """Whether a call node's or a function's attributes hand the body to XLA."""
    return "_XlaMustCompile" in attrs and attrs["_XlaMustCompile"].b


def is_inlinable(node: Node, library: Library) -> bool:
    """Whether the node is a plain call that nothing asks to keep as a call."""
    name = callee(node, library)
    if name is None:
        return False
    return not any(
        key in attrs and (attrs[key].b or attrs[key].s)
        for attrs in (node.attrs, library[name].attr)
        for key in _KEEP_CALL
    )


def _references(
    op: str, attrs: Mapping[str, attr_value_pb2.AttrValue], library: Library
) -> Iterator[str]:
    if op in library:
        yield op
    if op != "Const":  # the commonest op, and its value may be big
        for value in attrs.values():
            yield from (name for name in function_names(value) if name in library)


def function_names(value: attr_value_pb2.AttrValue) -> Iterator[str]:
    """Functions that an attribute's value names."""
    kind = value.WhichOneof("value")
    if kind == "func":
        yield value.func.name
    elif kind == "list":
        for func in value.list.func:
            yield func.name
