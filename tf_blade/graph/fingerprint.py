"""Tells whether two functions compute the same, looking through calls and Identities.

Two functions with the same fingerprint give the same outputs and have the same effects for the
same arguments. Node names, the names of called functions and how the body is cut into functions
don't matter. The reverse doesn't hold: equal functions may have different fingerprints.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tensorflow.core.framework import attr_value_pb2

from tf_blade.graph.bodies import Bodies
from tf_blade.graph.calls import callee, is_inlinable
from tf_blade.graph.control_flow import is_v1_control_flow
from tf_blade.graph.effects import has_effect
from tf_blade.graph.graph import Node
from tf_blade.graph.types import ARG

# Effects whose order among each other can't be seen: they pass or they end the call.
_UNORDERED = ("Assert",)


@dataclass(frozen=True)
class Fingerprint:
    """Hashes of a function's outputs, and of the effects it has (sorted).

    `size` is the number of ops that compute, those of inlinable calls included; it isn't compared.
    """

    outputs: tuple[bytes, ...]
    effects: tuple[bytes, ...]
    size: int = field(default=0, compare=False)


class _NotComparable(Exception):
    """The body has something whose order matters or that recurses; it equals nothing but itself."""


class Fingerprints:
    """Computes fingerprints of one library's functions; remembers what it has seen."""

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self._known: dict[tuple[str, tuple[bytes, ...]], Fingerprint] = {}
        self._open: set[str] = set()

    def of(self, function: str, arguments: Sequence[str]) -> Fingerprint | None:
        """The fingerprint, given a text for each argument that tells it from other arguments.

        None if the function can't be compared: it writes state, or has v1 control flow.
        """
        try:
            return self._function(function, tuple(_hash(text) for text in arguments))
        except _NotComparable:
            return None

    def _function(self, name: str, arguments: tuple[bytes, ...]) -> Fingerprint:
        key = (name, arguments)
        if key in self._known:
            return self._known[key]
        if name in self._open:
            raise _NotComparable
        self._open.add(name)
        try:
            self._known[key] = self._compute(name, arguments)
        finally:
            self._open.remove(name)
        return self._known[key]

    def _compute(self, name: str, arguments: tuple[bytes, ...]) -> Fingerprint:
        graph = self._bodies[name]
        library = graph.library
        tensors: dict[str, tuple[bytes, ...]] = {}
        effects: list[bytes] = []
        size = 0
        for node in graph.topological_order():
            inputs = tuple(tensors[ref.node][ref.index] for ref in node.inputs)
            if node.op == ARG:
                tensors[node.name] = (arguments[node.attrs["index"].i],)
            elif is_v1_control_flow(node.op):
                raise _NotComparable
            elif node.op in ("Identity", "StopGradient", "PreventGradient"):
                tensors[node.name] = inputs
            elif node.op == "NoOp":
                tensors[node.name] = ()
            elif is_inlinable(node, library):
                called = callee(node, library)
                assert called is not None
                result = self._function(called, inputs)
                tensors[node.name] = result.outputs
                effects.extend(result.effects)
                size += result.size
            else:
                size += 1
                if node.op == "Assert":
                    inputs = inputs[:1]  # the message may name nodes
                own = _hash(node.op, *inputs, *self._attrs(node))
                count = len(graph.output_dtypes(node))
                tensors[node.name] = tuple(_hash(own, str(i)) for i in range(count))
                if has_effect(graph, node):
                    if node.op not in _UNORDERED:
                        raise _NotComparable
                    effects.append(own)
        return Fingerprint(
            tuple(tensors[ref.node][ref.index] for _, ref in graph.outputs),
            tuple(sorted(effects)),
            size,
        )

    def _attrs(self, node: Node) -> list[bytes]:
        found: list[bytes] = []
        for key in sorted(node.attrs):
            # Internal attributes are hints and records of the writer.
            if not key.startswith("_") and key != "output_shapes":
                found += [key.encode(), self._attr(node.attrs[key])]
        return found

    def _attr(self, value: attr_value_pb2.AttrValue) -> bytes:
        kind = value.WhichOneof("value")
        if kind == "func":
            return self._named(value.func)
        if kind == "list" and value.list.func:
            return _hash(*(self._named(func) for func in value.list.func))
        return value.SerializeToString(deterministic=True)

    def _named(self, func: attr_value_pb2.NameAttrList) -> bytes:
        library: Mapping[str, object] = self._bodies.library
        if func.name not in library:
            return func.SerializeToString(deterministic=True)
        count = len(self._bodies.library[func.name].signature.input_arg)
        arguments = tuple(_hash("argument", str(i)) for i in range(count))
        body = self._function(func.name, arguments)
        return _hash(*body.outputs, "effects", *body.effects)


def _hash(*parts: bytes | str) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.digest()
