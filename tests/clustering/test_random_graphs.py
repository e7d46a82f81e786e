"""Random graphs, random sets of supported and eligible nodes: same answers, no cycles."""

import numpy as np
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tensorflow.core.framework import attr_value_pb2

from tests.clustering.graphs import ANY_GAIN, assert_same_answers, replace_with_calls
from tf_blade.clustering import CostModel, find_clusters, split_out
from tf_blade.graph.graph import Graph, Node, TensorRef
from tf_blade.graph.shapes import infer_types

FLOAT = attr_value_pb2.AttrValue(type=tf.float32.as_datatype_enum)
WIDTH = 4
LARGE = 300  # floats: more than fits a literal


def constant(name: str, value: np.ndarray) -> Node:
    tensor = tf.make_tensor_proto(value)
    return Node(
        name,
        "Const",
        attrs={
            "dtype": attr_value_pb2.AttrValue(type=tensor.dtype),
            "value": attr_value_pb2.AttrValue(tensor=tensor),
        },
    )


@st.composite
def graphs(draw):
    """A main graph of vectors of length 4; printed as text when a test fails."""
    graph = Graph("", {})
    shape = attr_value_pb2.AttrValue(shape=tf.TensorShape([WIDTH]).as_proto())
    graph.add(Node("x0", "Placeholder", attrs={"dtype": FLOAT, "shape": shape}))
    graph.add(constant("axis", np.int32(0)))
    graph.add(constant("small", np.full(WIDTH, 0.5, np.float32)))
    graph.add(constant("large", np.linspace(-1, 1, LARGE, dtype=np.float32)))
    graph.add(constant("large_axis", np.int32([0])))
    values = [TensorRef("x0"), TensorRef("small")]
    size = draw(st.integers(3, 22))
    for i in range(size):
        op = draw(st.sampled_from(["Relu", "Neg", "AddV2", "Mul", "Identity", "Split", "Sum"]))

        def value():
            # Near the end more often: deep graphs are the interesting ones.
            back = draw(st.integers(0, len(values) - 1)) if draw(st.booleans()) else 0
            return values[len(values) - 1 - back]

        name = f"n{i}"
        if op in ("Relu", "Neg", "Identity"):
            node = Node(name, op, [value()], attrs={"T": FLOAT})
        elif op in ("AddV2", "Mul"):
            node = Node(name, op, [value(), value()], attrs={"T": FLOAT})
        elif op == "Split":
            twice = Node(f"{name}c", "ConcatV2", [value(), value(), TensorRef("axis")])
            twice.attrs.update(
                T=FLOAT,
                N=attr_value_pb2.AttrValue(i=2),
                Tidx=attr_value_pb2.AttrValue(type=tf.int32.as_datatype_enum),
            )
            graph.add(twice)
            node = Node(name, op, [TensorRef("axis"), TensorRef(twice.name)], attrs={"T": FLOAT})
            node.attrs["num_split"] = attr_value_pb2.AttrValue(i=2)
            values.append(TensorRef(name, 1))
        else:
            total = Node(f"{name}s", op, [TensorRef("large"), TensorRef("large_axis")])
            total.attrs.update(
                T=FLOAT,
                Tidx=attr_value_pb2.AttrValue(type=tf.int32.as_datatype_enum),
                keep_dims=attr_value_pb2.AttrValue(b=False),
            )
            graph.add(total)
            node = Node(name, "AddV2", [value(), TensorRef(total.name)], attrs={"T": FLOAT})
        earlier = [n.name for n in graph if n.op != "Const"]
        node.controls = draw(st.lists(st.sampled_from(earlier), max_size=1))
        graph.add(node)
        values.append(TensorRef(name))
    count = draw(st.integers(1, 4))
    fetched = dict.fromkeys(draw(st.sampled_from(values)) for _ in range(count))
    fetched[values[-1]] = None
    graph.outputs = [(str(ref), ref) for ref in fetched]
    return graph


def text(graph: Graph) -> str:
    lines = []
    for n in graph:
        sources = [str(ref) for ref in n.inputs] + [f"^{name}" for name in n.controls]
        lines.append(f"{n.name} = {n.op}({', '.join(sources)})")
    return "\n".join([*lines, f"fetch {', '.join(name for name, _ in graph.outputs)}"])


def assert_contraction_is_acyclic(graph: Graph, clusters) -> None:
    group = {name: c.name for c in clusters for name in c.members}
    out: dict[str, set[str]] = {}
    for node in graph:
        for source in [ref.node for ref in node.inputs] + node.controls:
            a, b = group.get(source, source), group.get(node.name, node.name)
            if a != b:
                out.setdefault(a, set()).add(b)
    state: dict[str, int] = {}
    for root in list(out):
        stack = [] if root in state else [(root, iter(sorted(out[root])))]
        state.setdefault(root, 1)
        while stack:
            name, rest = stack[-1]
            for target in rest:
                assert state.get(target) != 1, f"a cycle through {target}"
                if target not in state:
                    state[target] = 1
                    stack.append((target, iter(sorted(out.get(target, ())))))
                    break
            else:
                state[name] = 2
                stack.pop()


COSTS = [ANY_GAIN, CostModel(margin_us=-1e9, light_us=0), CostModel()]


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(graphs(), st.data())
def test_answers_stay_the_same_and_no_cycle_comes_about(graph, data):
    names = [n.name for n in graph if n.op not in ("Placeholder",)]
    unsupported = data.draw(st.sets(st.sampled_from(names), max_size=6))
    outside = data.draw(st.sets(st.sampled_from(names), max_size=3))
    cost = data.draw(st.sampled_from(COSTS))
    before, types = graph.copy(), infer_types(graph)
    eligible = [n for n in graph.nodes if n not in outside]

    def support(node):
        return "chosen to be unsupported" if node.name in unsupported else None

    clusters, left_out = find_clusters(graph, types, support, eligible=eligible, cost=cost)
    covered = [name for c in clusters for name in c.members]
    assert len(covered) == len(set(covered))
    assert not set(covered) & (unsupported | outside | left_out.keys())
    copied = {r.node for n in covered for r in graph.nodes[n].inputs if r.node not in covered}
    missing = set(eligible) - set(covered) - left_out.keys()
    assert all(graph.nodes[name].op == "Const" and name in copied for name in missing)
    assert_contraction_is_acyclic(graph, clusters)

    if clusters and data.draw(st.booleans()):
        chosen = data.draw(st.sampled_from(clusters))
        bad = data.draw(st.sampled_from(chosen.members))
        pieces, reasons = split_out(chosen, bad, "refused")
        inside = {name for piece in pieces for name in piece.members}
        assert inside | reasons.keys() == set(chosen.members) and not inside & reasons.keys()
        clusters = [c for c in clusters if c is not chosen] + pieces
        assert_contraction_is_acyclic(graph, clusters)

    replace_with_calls(graph, types, data.draw(st.permutations(clusters)))
    values = [f"{n.name}:0" for n in before if n.name in outside]
    fetches = [name for name, _ in before.outputs] + values
    fetches += [f"{n.name}:1" for n in before if n.op == "Split" and n.name in outside]
    feed = np.array([0.5, -1.0, 1.25, -0.25], np.float32)
    try:
        assert_same_answers(before, graph, {"x0": feed}, fetches)
    except Exception as error:
        raise AssertionError(f"before:\n{text(before)}\nafter:\n{text(graph)}") from error


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graphs(), st.data())
def test_what_ran_before_a_node_still_runs_before_it(graph, data):
    """Every path between two nodes that stay is still there after the clusters are replaced."""
    names = [n.name for n in graph if n.op not in ("Placeholder", "Const")]
    unsupported = data.draw(st.sets(st.sampled_from(names), min_size=2, max_size=8))
    before, types = graph.copy(), infer_types(graph)
    clusters, _ = find_clusters(
        graph, types, lambda n: "no" if n.name in unsupported else None, cost=ANY_GAIN
    )
    replace_with_calls(graph, types, clusters)
    old, new = ancestors(before), ancestors(graph)
    for name in unsupported:
        assert old[name] & unsupported <= new[name], text(before)


def ancestors(graph: Graph) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for node in graph.topological_order():
        sources = {ref.node for ref in node.inputs} | set(node.controls)
        found[node.name] = sources.union(*(found[s] for s in sources))
    return found
