"""Merging nodes of a DAG: never a cycle, never a refusal without a path that proves it."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_blade.clustering.cycles import MergeableDag


@st.composite
def dags(draw):
    size = draw(st.integers(2, 14))
    pairs = [(a, b) for a in range(size) for b in range(a + 1, size)]
    edges = draw(st.lists(st.sampled_from(pairs), max_size=40))
    renamed = draw(st.permutations(range(size)))
    merges = draw(
        st.lists(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)), max_size=25)
    )
    return size, [(renamed[a], renamed[b]) for a, b in edges], merges


def has_cycle(groups: list[int], edges: list[tuple[int, int]]) -> bool:
    out: dict[int, set[int]] = {}
    for a, b in edges:
        if groups[a] != groups[b]:
            out.setdefault(groups[a], set()).add(groups[b])
    state: dict[int, int] = {}

    def visit(node: int) -> bool:
        state[node] = 1
        for target in out.get(node, ()):
            if state.get(target) == 1 or (target not in state and visit(target)):
                return True
        state[node] = 2
        return False

    return any(node not in state and visit(node) for node in set(groups))


@settings(max_examples=300, deadline=None)
@given(dags())
def test_a_merge_is_refused_exactly_if_it_makes_a_cycle(case):
    size, edges, merges = case
    dag = MergeableDag(size, edges)
    groups = list(range(size))  # the id each node lives on under
    for x, y in merges:
        a, b = groups[x], groups[y]
        if a == b:
            continue
        trial = [a if g == b else g for g in groups]
        merged, path = dag.merge(a, b)
        assert (merged < 0) == has_cycle(trial, edges)
        if merged < 0:
            assert path and not {a, b} & set(path)
            contracted = {(groups[p], groups[q]) for p, q in edges}
            ends = [[a, *path, b], [b, *path, a]]
            assert any(all(e in contracted for e in pairwise(p)) for p in ends)
        else:
            groups = [merged if g in (a, b) else g for g in groups]
        order = dag.order()
        assert sorted(order) == sorted(set(groups))
        position = {node: i for i, node in enumerate(order)}
        for p, q in edges:
            if groups[p] != groups[q]:
                assert position[groups[p]] < position[groups[q]]
                assert dag.label(groups[p]) < dag.label(groups[q])
                assert groups[q] in dag.out[groups[p]] and groups[p] in dag.into[groups[q]]


def test_many_merges_at_one_spot_run_out_of_labels_and_are_numbered_anew():
    columns = 200  # column i: 2i -> 2i+1 -> last
    last = 2 * columns
    edges = [(2 * i, 2 * i + 1) for i in range(columns)]
    edges += [(2 * i + 1, last) for i in range(columns)] + [
        (2 * i, last + 1) for i in range(columns)
    ]
    dag = MergeableDag(last + 2, edges)
    target = last
    for i in range(columns):
        target, path = dag.merge(2 * i + 1, target)
        assert not path
    for i in range(columns):
        target, path = dag.merge(2 * i, target)
        assert not path
    assert sorted(dag.order()) == sorted([target, last + 1])
    assert dag.label(target) < dag.label(last + 1)


def test_a_cycle_in_the_edges_is_an_error():
    with pytest.raises(ValueError, match="cycle"):
        MergeableDag(3, [(0, 1), (1, 2), (2, 0)])
