"""Where v1 control flow (Switch, Merge, Enter, Exit …) rules in a graph.

A node behind a Switch may be dead, and one behind an Enter runs in a loop's frame; which of them it
is can hang on a control input alone. Passes leave such nodes alone. Function-based control flow
(If, While, Case) needs none of this.
"""

from __future__ import annotations

from tf_blade.graph.graph import Graph, Node, TensorRef

# ("cond", predicate, branch), ("loop", frame name) or ("unknown", node name)
Token = tuple[str, ...]
Context = frozenset[Token]

_OPS = frozenset(
    prefix + op
    for prefix in ("", "Ref")
    for op in ("Switch", "Merge", "Enter", "Exit", "NextIteration")
) | {"LoopCond", "_SwitchN"}


def is_v1_control_flow(op: str) -> bool:
    """Whether the op is one of the primitive v1 control flow ops."""
    return op in _OPS


def v1_controlled(graph: Graph) -> set[str]:
    """Names of the v1 control flow ops and of all nodes inside a v1 conditional or loop.

    Nodes behind the Merge that ends a conditional, or the Exit that leaves a loop, are outside.
    A Merge that isn't the end of one well-formed conditional keeps what is behind it inside.
    """
    if not any(is_v1_control_flow(n.op) for n in graph):
        return set()
    contexts: dict[str, Context] = {}
    outside_of_frame: dict[str, Context] = {}
    found: set[str] = set()
    for node in graph.topological_order():
        inner = _inner_context(graph, node, contexts, outside_of_frame)
        contexts[node.name] = inner
        if inner or is_v1_control_flow(node.op):
            found.add(node.name)
    return found


def _inner_context(
    graph: Graph,
    node: Node,
    contexts: dict[str, Context],
    outside_of_frame: dict[str, Context],
) -> Context:
    """The context of a node's outputs (a Switch's own, before its branch is added)."""

    def of(ref: TensorRef) -> Context:
        context = contexts[ref.node]
        source = graph.nodes[ref.node]
        if source.op in ("Switch", "RefSwitch"):
            return context | {("cond", _predicate(graph, source), str(ref.index))}
        if source.op == "_SwitchN":
            return context | {("unknown", source.name)}
        return context

    # Only a loop's back edge can be missing here.
    data = [of(ref) for ref in node.inputs if ref.node in contexts]
    control: Context = frozenset()
    for name in node.controls:
        control |= contexts[name]
        if graph.nodes[name].op in ("Switch", "RefSwitch", "_SwitchN"):
            control |= {("unknown", name)}
    merged: Context = frozenset().union(*data)
    if node.op in ("Enter", "RefEnter"):
        frame = node.attrs["frame_name"].s.decode()
        outside_of_frame.setdefault(frame, merged | control)
        return merged | control | {("loop", frame)}
    if node.op in ("Exit", "RefExit"):
        frames = [t[1] for t in merged if t[0] == "loop"]
        innermost = max(frames, key=lambda f: len(outside_of_frame[f]), default=None)
        return merged if innermost is None else outside_of_frame[innermost]
    if node.op in ("Merge", "RefMerge") and len(data) == 2:
        return _after_merge(node.name, data[0], data[1]) | control
    return merged | control


def _predicate(graph: Graph, switch: Node) -> str:
    """The tensor that decides; tf.cond gives each Switch its own Identity of it or none."""
    ref = switch.inputs[1]
    while graph.nodes[ref.node].op == "Identity":
        ref = graph.nodes[ref.node].inputs[0]
    return str(ref)


def _after_merge(name: str, first: Context, second: Context) -> Context:
    common = first & second
    only_first, only_second = first - common, second - common
    if len(only_first) == len(only_second) == 1:
        (a,), (b,) = only_first, only_second
        if a[0] == b[0] == "cond" and a[1] == b[1] and a[2] != b[2]:
            return common
    return first | second | {("unknown", name)}
