"""v1 loops as While nodes: the reverse of what TensorFlow does to a While before it runs it.

    a, b = Enter(i), Enter(h)                        j, g = StatelessWhile(i, h, w)
    m, n = Merge(a, next_i), Merge(b, next_h)   ->       cond: i, h, w -> i < 9
    Switch(m, LoopCond(m < 9)) …                         body: i, h, w -> i + 1, h * w, w
    j, g = Exit(…), Exit(…)

Only loops without effects are raised. Variables that they read are read before them: nothing in the
loop writes them, and what outside does waits for the loop or is waited for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from tensorflow.core.framework import attr_value_pb2, function_pb2, types_pb2

from tf_blade.graph.control_flow import is_v1_control_flow
from tf_blade.graph.graph import Graph, Node, TensorRef

_Attr = attr_value_pb2.AttrValue


class _Unfit(Exception):
    """The loop stays as it is."""


def raise_loops(graph: Graph, left: Collection[str] = ()) -> dict[str, str]:
    """Replaces v1 loops by StatelessWhile nodes, innermost first.

    Args:
      graph: changed; its library gets the conditions and bodies.
      left: names of frames whose loops are to stay.

    Returns: the frame of each loop that is a node of the graph now, by the node's name. Loops stay
      that have effects, conditionals or such loops in them, or that something else looks into.
    """
    raised: dict[str, str] = {}
    todo = list(dict.fromkeys(_frame(node) for node in graph if node.op == "Enter"))
    while True:
        before = len(raised)
        for frame in [frame for frame in todo if frame not in left]:
            try:
                raised[_Loop(graph, frame).replace()] = frame
            except _Unfit:
                continue
            todo.remove(frame)
        if len(raised) == before:
            # Others are in the bodies of those.
            return {name: frame for name, frame in raised.items() if name in graph.nodes}


def _frame(enter: Node) -> str:
    return enter.attrs["frame_name"].s.decode()


@dataclass
class _Carried:
    """One value that goes through the loop: where it enters, and what comes back."""

    enter: Node
    merge: Node
    back: TensorRef
    switch: Node | None = None
    exits: list[Node] = field(default_factory=list)


class _Loop:
    """One frame. Raises _Unfit if it isn't a loop of the form above."""

    def __init__(self, graph: Graph, frame: str) -> None:
        self._graph = graph
        self._enters = {n.name: n for n in graph if n.op == "Enter" and _frame(n) == frame}
        self._inside, exits = self._reached()
        self._check_edges()
        self._carried = self._find_carried(exits)
        entered = {c.enter.name for c in self._carried.values()}
        self._fixed = [node for name, node in self._enters.items() if name not in entered]
        self._reads = self._find_reads()
        self._frame = frame

    # -- reading --------------------------------------------------------------------------

    def _reached(self) -> tuple[dict[str, Node], list[Node]]:
        """The nodes in the frame behind its Enters, and its Exits."""
        consumers = self._graph.consumers()
        inside: dict[str, Node] = {}
        exits: dict[str, Node] = {}
        todo = list(self._enters)
        while todo:
            for node in consumers[todo.pop()]:
                if node.op == "Exit":
                    exits[node.name] = node
                elif node.name not in inside:
                    inside[node.name] = node
                    todo.append(node.name)
        return inside, list(exits.values())

    def _check_edges(self) -> None:
        known = self._inside.keys() | self._enters.keys()
        for node in self._inside.values():
            if not {ref.node for ref in node.inputs} | set(node.controls) <= known:
                raise _Unfit
        named = {ref.node for _, ref in self._graph.outputs}
        named |= {name for _, name in self._graph.control_outputs}
        if named & known:
            raise _Unfit

    def _of(self, op: str) -> list[Node]:
        return [node for node in self._inside.values() if node.op == op]

    def _find_carried(self, exits: list[Node]) -> dict[str, _Carried]:
        """By the names of the Merges."""
        conditions = self._of("LoopCond")
        if len(conditions) != 1:
            raise _Unfit
        self._condition = conditions[0]
        found: dict[str, _Carried] = {}
        for merge in self._of("Merge"):
            enters = [r.node for r in merge.inputs if r.node in self._enters]
            backs = [
                self._inside[r.node]
                for r in merge.inputs
                if r.node in self._inside and self._inside[r.node].op == "NextIteration"
            ]
            if len(merge.inputs) != 2 or len(enters) != 1 or len(backs) != 1:
                raise _Unfit
            found[merge.name] = _Carried(self._enters[enters[0]], merge, backs[0].inputs[0])
        for switch in self._of("Switch"):
            carried = found.get(switch.inputs[0].node)
            if carried is None or switch.inputs != [
                TensorRef(carried.merge.name),
                TensorRef(self._condition.name),
            ]:
                raise _Unfit
            if carried.switch is not None:
                raise _Unfit
            carried.switch = switch
        switches = {c.switch.name: c for c in found.values() if c.switch is not None}
        for node in exits:
            ref = node.inputs[0]
            if ref.node not in switches or ref.index != 0 or node.controls:
                raise _Unfit
            switches[ref.node].exits.append(node)
        if not found:
            raise _Unfit
        return found

    def _find_reads(self) -> list[Node]:
        """Reads of variables that are the same in each iteration."""
        fixed = {node.name for node in self._fixed}
        expected = {"Merge", "Switch", "NextIteration", "LoopCond"}
        reads: list[Node] = []
        for node in self._inside.values():
            if node.op == "ReadVariableOp" and node.inputs[0].node in fixed:
                reads.append(node)
            elif node.op not in expected and (
                is_v1_control_flow(node.op) or self._graph.is_stateful(node)
            ):
                raise _Unfit
        return reads

    # -- writing --------------------------------------------------------------------------

    def replace(self) -> str:
        """Puts the While in the place of the loop; its name."""
        graph, carried = self._graph, list(self._carried.values())
        fixed = [n for n in self._fixed if n.attrs["T"].type != types_pb2.DT_RESOURCE]
        reads = [self._read_before(node) for node in self._reads]
        arguments = {TensorRef(c.merge.name): i for i, c in enumerate(carried)}
        for i, c in enumerate(carried):
            if c.switch is not None:
                arguments[TensorRef(c.switch.name, 1)] = i
        for i, node in enumerate([*fixed, *self._reads], len(carried)):
            arguments[TensorRef(node.name)] = i
        dtypes = [node.attrs["T"].type for node in [*(c.enter for c in carried), *fixed]]
        dtypes += [node.attrs["dtype"].type for node in self._reads]
        kept = [ref for ref, i in arguments.items() if i >= len(carried)]
        results = {
            "cond": ([self._condition.inputs[0]], [types_pb2.DT_BOOL]),
            "body": ([c.back for c in carried] + kept, dtypes),
        }
        name = graph.unique_name(f"{self._frame}/raised")
        prefix = self._unused(f"blade_raised_{name.replace('/', '_')}")
        library = graph.library
        assert isinstance(library, dict)
        library.update(
            {
                f"{prefix}_{attr}": self._function(f"{prefix}_{attr}", dtypes, arguments, *result)
                for attr, result in results.items()
            }
        )
        # Nothing is refused from here on.
        first = carried[0].enter
        loop = Node(name, "StatelessWhile", device=first.device)
        loop.inputs = [node.inputs[0] for node in [*(c.enter for c in carried), *fixed]]
        loop.inputs += [TensorRef(node.name) for node in reads]
        loop.controls = list(dict.fromkeys(c for e in self._enters.values() for c in e.controls))
        for attr in results:
            func = attr_value_pb2.NameAttrList(name=f"{prefix}_{attr}")
            loop.attrs[attr] = _Attr(func=func)
        loop.attrs["T"] = _Attr(list=_Attr.ListValue(type=dtypes))
        loop.attrs["output_shapes"] = _Attr(list=_Attr.ListValue())
        loop.attrs["parallel_iterations"] = first.attrs["parallel_iterations"]
        loop.attrs["_lower_using_switch_merge"] = _Attr(b=True)  # where TensorFlow runs it
        for node in [*reads, loop]:
            graph.add(node)
        self._redirect(name, carried)
        return name

    def _redirect(self, name: str, carried: list[_Carried]) -> None:
        """Has the While's results read instead of the Exits, and removes the loop."""
        graph = self._graph
        exits = {n.name: i for i, c in enumerate(carried) for n in c.exits}
        graph.redirect({TensorRef(e): TensorRef(name, i) for e, i in exits.items()})
        gone = {*self._enters, *self._inside, *exits}
        graph.remove(gone)
        for node in graph:
            if gone & set(node.controls):
                node.controls = list(dict.fromkeys(name if c in gone else c for c in node.controls))

    def _read_before(self, node: Node) -> Node:
        enter = self._enters[node.inputs[0].node]
        name = self._graph.unique_name(f"{node.name}/before")
        controls = list(enter.controls)
        return Node(name, node.op, [enter.inputs[0]], controls, node.attrs, node.device)

    def _function(
        self,
        name: str,
        dtypes: list[int],
        arguments: dict[TensorRef, int],
        results: list[TensorRef],
        result_dtypes: list[int],
    ) -> function_pb2.FunctionDef:
        """A function of what the loop carries and reads."""
        nodes = self._needed(results, arguments)
        prefix = "argument"
        while any(node.startswith(prefix) for node in nodes):
            prefix += "_x"
        moved = {ref: TensorRef(f"{prefix}_{i}") for ref, i in arguments.items()}
        return Graph.new_function(
            name,
            self._graph.library,
            [(f"{prefix}_{i}", dtype) for i, dtype in enumerate(dtypes)],
            [
                (f"output_{i}", dtype, moved.get(ref, ref))
                for i, (ref, dtype) in enumerate(zip(results, result_dtypes, strict=True))
            ],
            [_plain(node, moved) for node in nodes.values()],
        ).to_function_def()

    def _needed(
        self, results: Iterable[TensorRef], arguments: Collection[TensorRef]
    ) -> dict[str, Node]:
        found: dict[str, Node] = {}
        todo = [ref for ref in results if ref not in arguments]
        while todo:
            node = self._inside.get(todo.pop().node)
            if node is None or is_v1_control_flow(node.op) or node.op == "ReadVariableOp":
                raise _Unfit  # no argument, and nothing that a function can hold
            if node.name not in found:
                found[node.name] = node
                todo += [ref for ref in node.inputs if ref not in arguments]
        return found

    def _unused(self, name: str) -> str:
        number, found = 0, name
        while f"{found}_cond" in self._graph.library or f"{found}_body" in self._graph.library:
            number += 1
            found = f"{name}_{number}"
        return found


def _plain(node: Node, moved: dict[TensorRef, TensorRef]) -> Node:
    """The node in a function: nothing in it has an effect, so nothing need wait for anything."""
    attrs = {key: value for key, value in node.attrs.items() if not key.startswith("_")}
    return Node(node.name, node.op, [moved.get(ref, ref) for ref in node.inputs], [], attrs)
