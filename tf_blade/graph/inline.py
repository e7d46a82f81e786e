"""Puts a called function's body in place of the call."""

from __future__ import annotations

from tensorflow.core.framework import attr_value_pb2

from tf_blade.graph.calls import callee
from tf_blade.graph.effects import has_effect
from tf_blade.graph.graph import Graph, Node, TensorRef
from tf_blade.graph.types import ARG


def inline_call(graph: Graph, call: Node, body: Graph) -> dict[str, str]:
    """Replaces a plain call by the nodes of its callee, named `call/…`.

    What the call waited for, everything stateful in the body waits for; what waited for the call
    waits for the body's control outputs and stateful nodes. In a function, ops with an effect run
    whether or not anything waits for them. In a main graph only what is fetched runs: there the
    call's results wait for the effects.

    Returns: the new name of each node of the body.
    """
    if callee(call, graph.library) != body.name:
        raise ValueError(f"node '{call.name}' does not call '{body.name}'")
    arguments = {arg.name: call.inputs[arg.attrs["index"].i] for arg in body.args}
    names: dict[str, str] = {}
    stateful: list[str] = []
    for node in body:
        if node.op == ARG:
            continue
        new = node.copy()
        new.name = graph.unique_name(f"{call.name}/{node.name}")
        names[node.name] = new.name
        if body.is_stateful(node):
            stateful.append(new.name)
        new.device = node.device or call.device
        new.attrs.pop("_class", None)  # colocates with nodes by the names they had in the body
        graph.add(new)

    def moved(ref: TensorRef) -> TensorRef:
        return arguments.get(ref.node) or TensorRef(names[ref.node], ref.index)

    for name in names.values():
        new = graph.nodes[name]
        new.inputs = [moved(ref) for ref in new.inputs]
        new.controls = [arguments[c].node if c in arguments else names[c] for c in new.controls]
        if name in stateful:
            new.controls += [c for c in call.controls if c not in new.controls]

    results = [moved(ref) for _, ref in body.outputs]
    waits = [names[n] for _, n in body.control_outputs if n in names]
    hold = not graph.is_function and any(has_effect(body, n) for n in body if n.op != ARG)
    waited_for = any(call.name in node.controls for node in graph)
    if hold or waited_for or any(name == call.name for _, name in graph.control_outputs):
        done = _done(graph, call, list(dict.fromkeys(waits + stateful)))
        for node in graph:
            node.controls = [done if c == call.name else c for c in node.controls]
        graph.control_outputs = [
            (key, done if name == call.name else name) for key, name in graph.control_outputs
        ]
        if hold:
            results = [_held(graph, call, i, ref, done) for i, ref in enumerate(results)]
    graph.redirect({TensorRef(call.name, i): ref for i, ref in enumerate(results)})
    del graph.nodes[call.name]
    return names


def _done(graph: Graph, call: Node, waits: list[str]) -> str:
    node = graph.add(Node(graph.unique_name(f"{call.name}/done"), "NoOp"))
    node.controls = waits + [name for name in call.controls if name not in waits]
    return node.name


def _held(graph: Graph, call: Node, index: int, ref: TensorRef, done: str) -> TensorRef:
    """The result once the call's effects are over."""
    dtype = graph.output_dtypes(graph.nodes[ref.node])[ref.index]
    node = Node(graph.unique_name(f"{call.name}/result_{index}"), "Identity", [ref], [done])
    node.attrs["T"] = attr_value_pb2.AttrValue(type=dtype)
    graph.add(node)
    return TensorRef(node.name)
