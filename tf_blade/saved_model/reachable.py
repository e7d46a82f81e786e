"""Which functions of a library anything refers to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tensorflow.core.framework import attr_value_pb2, function_pb2, node_def_pb2
from tensorflow.core.protobuf import meta_graph_pb2

Library = Mapping[str, function_pb2.FunctionDef]


def reachable_functions(
    proto: meta_graph_pb2.MetaGraphDef, library: Library, more: Iterable[str] = ()
) -> set[str]:
    """Functions reached from the main graph, the object graph, the library's gradients or `more`.

    An attribute counts as a reference if it is a function, or a string equal to a function's name
    (TensorFlow links forward and backward functions that way).
    """
    if not library:
        return set()
    roots: list[str] = list(more)
    for node in proto.graph_def.node:
        roots += _references(node, library)
    roots += [name for name in proto.object_graph_def.concrete_functions if name in library]
    for gradient in proto.graph_def.library.gradient:
        roots += [gradient.function_name, gradient.gradient_func]
    for registered in proto.graph_def.library.registered_gradients:
        roots.append(registered.gradient_func)
    found: set[str] = set()
    while roots:
        name = roots.pop()
        if name in found or name not in library:
            continue
        found.add(name)
        fdef = library[name]
        for value in fdef.attr.values():
            roots += _names(value, library)
        for node in fdef.node_def:
            roots += _references(node, library)
    return found


def _references(node: node_def_pb2.NodeDef, library: Library) -> Iterator[str]:
    if node.op in library:
        yield node.op
    if node.op != "Const":
        for value in node.attr.values():
            yield from _names(value, library)


def _names(value: attr_value_pb2.AttrValue, library: Library) -> Iterator[str]:
    kind = value.WhichOneof("value")
    if kind == "func":
        yield value.func.name
    elif kind == "list":
        for func in value.list.func:
            yield func.name
    elif kind == "s" and len(value.s) < 256:
        name = value.s.decode("utf-8", "replace")
        if name in library:
            yield name
