"""Under which condition, and in which loop, each node of a v1 control-flow graph runs.

TensorFlow's v1 control flow sends dead tensors down the branch not taken, and a node with a dead
input is dead itself. A cluster is one node: it would be dead when any of its inputs is. So only
nodes that are alive under exactly the same condition, once per iteration of the same loop, may
share a cluster. The condition of a node is kept as a set of symbols, all of which must hold:

  ("if", predicate, k)    output k of a Switch on that predicate is taken
  ("loop", frame, class)  an iteration of the loop is running
  ("merge", node)         a Merge that this analysis can't see through, or the like
"""

from __future__ import annotations

from dataclasses import dataclass

from tf_blade.clustering.edges import is_loop_merge
from tf_blade.graph.graph import Graph, Node, TensorRef

SWITCHES = frozenset({"Switch", "RefSwitch", "_SwitchN"})
MERGES = frozenset({"Merge", "RefMerge"})
ENTERS = frozenset({"Enter", "RefEnter"})
EXITS = frozenset({"Exit", "RefExit"})
V1_CONTROL_FLOW = (
    SWITCHES
    | MERGES
    | ENTERS
    | EXITS
    | {"NextIteration", "RefNextIteration", "LoopCond", "ControlTrigger"}
)

Symbol = tuple[str | int, ...]


@dataclass(frozen=True)
class Place:
    """Where a node runs: the nest of v1 loop frames, and the symbols that must all hold."""

    frame: tuple[str, ...] = ()
    conditions: frozenset[Symbol] = frozenset()


_EVERYWHERE = Place()


def find_places(graph: Graph, order: list[Node]) -> dict[str, Place]:
    """The place of every node. `order` is the graph's topological order.

    Two nodes of equal place run equally often and are dead together. The reverse need not hold:
    where the analysis can't tell, it gives a place of its own.
    """
    if not any(node.op in V1_CONTROL_FLOW for node in order):
        return dict.fromkeys(graph.nodes, _EVERYWHERE)
    # Loop variables are assumed to be alive together until their inputs say otherwise.
    loop_merges = [node for node in order if is_loop_merge(graph, node)]
    classes = {node.name: 0 for node in loop_merges}
    while True:
        analysis = _Analysis(graph, classes)
        for node in order:
            analysis.places[node.name] = analysis.place(node)
        refined: dict[tuple[object, ...], int] = {}
        for node in loop_merges:
            key = (classes[node.name], *(analysis.of_tensor(ref) for ref in node.inputs))
            classes[node.name] = refined.setdefault(key, len(refined))
        if len(refined) == analysis.class_count:
            return analysis.places


class _Analysis:
    def __init__(self, graph: Graph, classes: dict[str, int]) -> None:
        self.graph = graph
        self.classes = dict(classes)
        self.class_count = len(set(classes.values()))
        self.places: dict[str, Place] = {}

    def of_tensor(self, ref: TensorRef) -> Place:
        place = self.places[ref.node]
        node = self.graph.nodes[ref.node]
        if node.op not in SWITCHES:
            return place
        taken: Symbol = ("if", str(self._origin(node.inputs[1])), ref.index)
        return Place(place.frame, place.conditions | {taken})

    def place(self, node: Node) -> Place:
        if node.op in MERGES:
            return self._merge(node)
        places = [self.of_tensor(ref) for ref in node.inputs]
        places += [self.places[name] for name in node.controls]
        if not places:
            return _EVERYWHERE
        first = places[0]
        if all(place is first or place == first for place in places):
            joined = first
        else:
            frame = max((place.frame for place in places), key=len)
            joined = Place(frame, frozenset().union(*(p.conditions for p in places)))
        if node.op in ENTERS:
            return Place((*joined.frame, node.attrs["frame_name"].s.decode()), joined.conditions)
        if node.op in EXITS:
            return self._exit(node, joined)
        if node.op == "ControlTrigger":  # runs even if its control inputs are dead
            return Place(joined.frame, frozenset({("merge", node.name)}))
        return joined

    def _merge(self, node: Node) -> Place:
        if node.name in self.classes:
            enters = [self.of_tensor(r) for r in node.inputs if r.node in self.places]
            if not enters:
                return Place((node.name,), frozenset({("merge", node.name)}))
            outer = enters[0]
            loop: Symbol = ("loop", "/".join(outer.frame), self.classes[node.name])
            return Place(outer.frame, outer.conditions | {loop})
        places = [self.of_tensor(ref) for ref in node.inputs]
        common = frozenset.intersection(*(place.conditions for place in places))
        rest = [place.conditions - common for place in places]
        frame = places[0].frame
        if len(rest) == 2 and len(rest[0]) == len(rest[1]) == 1:
            (a,), (b,) = rest
            both_branches = a[0] == b[0] == "if" and a[1] == b[1] and {a[2], b[2]} == {0, 1}
            if both_branches and not node.controls:
                return Place(frame, common)
        return Place(frame, common | {("merge", node.name)})

    def _exit(self, node: Node, inside: Place) -> Place:
        """An Exit runs once, whenever its loop was entered, if the loop's own test feeds it."""
        frame = inside.frame[:-1]
        loop = "/".join(inside.frame)
        of_loop = {s for s in inside.conditions if s[0] == "loop" and s[1] == loop}
        left = {s for s in inside.conditions if s[0] == "if" and s[2] == 0 and self._is_test(s)}
        if len(of_loop) == 1 and len(left) == 1:
            return Place(frame, inside.conditions - of_loop - left)
        return Place(frame, inside.conditions - of_loop | {("merge", node.name)})

    def _is_test(self, symbol: Symbol) -> bool:
        name = str(symbol[1]).rpartition(":")[0]
        return self.graph.nodes[name].op == "LoopCond"

    def _origin(self, ref: TensorRef) -> TensorRef:
        while self.graph.nodes[ref.node].op == "Identity":
            ref = self.graph.nodes[ref.node].inputs[0]
        return ref
