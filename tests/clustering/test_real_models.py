"""Clustering whole models, where a folder of them is at hand."""

from pathlib import Path

import pytest
from tensorflow.core.protobuf import saved_model_pb2

from tests.clustering.graphs import partitioned_call
from tests.clustering.test_random_graphs import assert_contraction_is_acyclic
from tf_blade.clustering import find_clusters, outline, replace_all
from tf_blade.clustering.replace import Replacement
from tf_blade.graph.graph import Graph, TensorRef
from tf_blade.graph.shapes import infer_types

MODELS = Path(__file__).parents[3] / "shared" / "models"
FOUND = sorted(p.parent.parent for p in MODELS.glob("*/saved_model/saved_model.pb"))

# What the compiler is going to lower, by op family.
PLAUSIBLE = frozenset(
    """
    Abs Acos Acosh Add AddN AddV2 All Any ArgMax ArgMin Asin Asinh Atan Atanh BatchMatMul
    BatchMatMulV2 BiasAdd BroadcastTo Cast Ceil ClipByValue ConcatV2 Cos Cosh Div DivNoNan Elu
    Equal Erf Erfc Exp ExpandDims Expm1 Fill Floor FloorDiv FloorMod GatherV2 Greater GreaterEqual
    Identity IsFinite IsInf IsNan LeakyRelu Less LessEqual Log Log1p LogSoftmax LogicalAnd
    LogicalNot LogicalOr MatMul Max Maximum Mean Min Minimum Mul Neg NotEqual OnesLike Pack Pad
    PadV2 Pow Prod Range RealDiv Reciprocal Relu Relu6 Reshape Round Rsqrt Select SelectV2 Selu
    Shape Sigmoid Sign Sin Size Slice Softmax Softplus Softsign Split SplitV Sqrt Square
    SquaredDifference Squeeze StopGradient StridedSlice Sub Sum Tan Tanh Tile Transpose Unpack
    ZerosLike
    """.split()
)


def support(node):
    return None if node.op in PLAUSIBLE else f"no lowering for op {node.op}"


def regions(folder: Path):
    """Main graphs with the nodes that their signatures need, and the two largest functions."""
    proto = saved_model_pb2.SavedModel.FromString(
        (folder / "saved_model/saved_model.pb").read_bytes()
    )
    for meta in proto.meta_graphs:
        signatures = meta.signature_def.values()
        fetches = [t.name for s in signatures for t in s.outputs.values() if t.name]
        feeds = {t.name.partition(":")[0] for s in signatures for t in s.inputs.values()}
        refs = [TensorRef(n.partition(":")[0], int(n.partition(":")[2] or 0)) for n in fetches]
        graph = Graph.from_graph_def(meta.graph_def, dict.fromkeys(refs))
        bodies = sorted(graph.library.values(), key=lambda f: (-len(f.node_def), f.signature.name))
        yield graph, cone(graph) - feeds
        for fdef in bodies[:2]:
            yield Graph.from_function_def(fdef, graph.library), None


def cone(graph: Graph) -> set[str]:
    found: set[str] = set()
    stack = [ref.node for _, ref in graph.outputs]
    while stack:
        name = stack.pop()
        if name not in found:
            found.add(name)
            node = graph.nodes[name]
            stack += [ref.node for ref in node.inputs] + node.controls
    return found


@pytest.mark.skipif(not FOUND, reason="no folder of models beside the repository")
@pytest.mark.parametrize("folder", FOUND, ids=lambda p: p.name)
def test_every_graph_of_a_model_can_be_clustered(folder):
    for graph, eligible in regions(folder):
        types = infer_types(graph)
        clusters, left_out = find_clusters(graph, types, support, eligible=eligible)
        assert_contraction_is_acyclic(graph, clusters)
        covered = {n for c in clusters for n in c.members}
        assert not covered & left_out.keys()
        assert all(reason for reason in left_out.values())
        size = len(graph)
        outlined = [outline(graph, types, c) for c in clusters]
        replace_all(graph, [Replacement(o, b"") for o in outlined], make_node=partitioned_call)
        graph.topological_order()
        assert not clusters or len(graph) < size
