"""Where a function hands its arguments on: the calls in its body, and Identities before them.

A library can hold thousands of functions (Keras keeps several for each layer), and all of them have
to be looked at to know what every argument is bound to. So this reads the protos and parses nothing
but the nodes that call something.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorflow.core.framework import function_pb2, node_def_pb2

from tf_blade.graph.calls import function_names
from tf_blade.graph.graph import Library, Node, TensorRef

# Ops that hand a resource on as it is.
PASS_THROUGH = ("Identity", "RefIdentity")


@dataclass(frozen=True)
class CallSites:
    """What `call_sites` found in one function.

    Attributes:
      callers: the nodes that call or name functions. Their inputs say which node a tensor comes
        from, but always output 0 of it: an argument or an Identity has no other.
      results: what the function returns, in order; same restriction.
    """

    callers: list[Node]
    results: list[TensorRef]
    _arguments: dict[str, int]
    _identities: dict[str, str]

    def argument(self, ref: TensorRef) -> int | None:
        """The number of the argument that a tensor is, looked at through Identities."""
        name = ref.node
        while name in self._identities:
            name = self._identities[name]
        return self._arguments.get(name)


def call_sites(fdef: function_pb2.FunctionDef, library: Library) -> CallSites:
    """Finds the call sites of one function."""
    callers: list[Node] = []
    identities: dict[str, str] = {}
    for proto in fdef.node_def:
        if proto.op in PASS_THROUGH:
            identities[proto.name] = _source(proto.input[0])
        elif _names_functions(proto, library):
            inputs = [TensorRef(_source(text)) for text in proto.input if text[0] != "^"]
            callers.append(Node(proto.name, proto.op, inputs, attrs=dict(proto.attr)))
    return CallSites(
        callers,
        [TensorRef(_source(fdef.ret[out.name])) for out in fdef.signature.output_arg],
        {arg.name: i for i, arg in enumerate(fdef.signature.input_arg)},
        identities,
    )


def _source(text: str) -> str:
    return text.partition(":")[0]


def _names_functions(proto: node_def_pb2.NodeDef, library: Library) -> bool:
    if proto.op in library:
        return True
    if proto.op == "Const":  # the commonest op, and its value may be big
        return False
    return any(name in library for value in proto.attr.values() for name in function_names(value))
