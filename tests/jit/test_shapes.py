"""Which sizes traces of a function have in common."""

from __future__ import annotations

from tf_blade.graph.graph import Graph, Node
from tf_blade.just_in_time.shapes import SeenShapes


def graph(*ops: str) -> Graph:
    made = Graph("f", {})
    for i, op in enumerate(ops):
        made.add(Node(f"n{i}", op))
    return made


def test_the_first_size_is_unknown_at_once_and_others_when_they_differ():
    seen, ops = SeenShapes(), graph("Relu")
    assert seen.common("f", ops, {"x": (8, 5, 3)}) == {"x": (None, 5, 3)}
    assert seen.common("f", ops, {"x": (4, 5, 3)}) == {"x": (None, 5, 3)}
    assert seen.common("f", ops, {"x": (4, 6, 3)}) == {"x": (None, None, 3)}
    assert seen.common("f", ops, {"x": (4, 5, 3)}) == {"x": (None, None, 3)}


def test_a_size_of_one_stays():
    seen, ops = SeenShapes(), graph("Relu")
    assert seen.common("f", ops, {"x": (1, 5)}) == {"x": (1, 5)}
    assert seen.common("f", ops, {"x": (8, 5)}) == {"x": (None, 5)}
    assert seen.common("f", ops, {"x": (8, 1)}) == {"x": (None, 1)}
    assert seen.common("f", ops, {"x": (8, 7)}) == {"x": (None, None)}


def test_scalars_and_unknown_ranks_stay_what_they_are():
    seen, ops = SeenShapes(), graph("Relu")
    shapes = {"x": (), "y": None, "z": (None, 4)}
    assert seen.common("f", ops, shapes) == shapes


def test_other_functions_have_shapes_of_their_own():
    seen = SeenShapes()
    seen.common("f", graph("Relu"), {"x": (8, 5)})
    assert seen.common("g", graph("Relu"), {"x": (8, 6)}) == {"x": (None, 6)}
    assert seen.common("f", graph("Relu", "Exp"), {"x": (8, 6)}) == {"x": (None, 6)}
    assert seen.common("f", graph("Relu"), {"x": (8, 6, 1)}) == {"x": (None, 6, 1)}


def test_old_functions_are_forgotten(monkeypatch):
    monkeypatch.setattr("tf_blade.just_in_time.shapes._MAX_KNOWN", 2)
    seen, ops = SeenShapes(), graph("Relu")
    for name in "abc":
        seen.common(name, ops, {"x": (8, 5)})
    assert seen.common("a", ops, {"x": (8, 6)}) == {"x": (None, 6)}
    assert seen.common("c", ops, {"x": (8, 6)}) == {"x": (None, None)}
