"""Nodes that TensorFlow's own Grappler fuses into a neighbour: better left beside it.

The remapper turns Conv2D + BiasAdd + Relu (and its relatives) into one _FusedConv2D, and
MatMul + BiasAdd + Relu into _FusedMatMul, when each inner result has one reader. If the anchor
stays outside a cluster, taking its followers into one would cost a pass over memory that stock
TensorFlow doesn't pay.

The Add of a residual is an exception where a Pad feeds it or the convolution. The oneDNN graph pass
of TensorFlow 2.21 (MklLayoutRewritePass) merges any Pad that _FusedConv2D reads as if it were the
convolution's, and crashes when there is an Add among what was fused. A model may be served on a
machine with oneDNN, whatever it was optimised on; so such an Add may go into a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tf_blade.graph.graph import Graph, Node

_CONVOLUTIONS = frozenset({"Conv2D", "DepthwiseConv2dNative", "Conv3D"})
_BIASES = frozenset({"BiasAdd", "Add", "AddV2", "FusedBatchNorm", "FusedBatchNormV3"})
_RESIDUALS = frozenset({"Add", "AddV2"})
_ACTIVATIONS = frozenset({"Relu", "Relu6", "Elu", "LeakyRelu"})
_MATMUL_ACTIVATIONS = _ACTIVATIONS | {"Tanh", "Sigmoid"}


def find_stock_fusions(
    graph: Graph,
    uses: Mapping[str, list[tuple[int, str]]],
    is_outside: Callable[[str], bool],
    fetched: Mapping[str, set[int]],
) -> dict[str, str]:
    """Reason by node name, for the nodes that Grappler fuses into an anchor left outside.

    Args:
      graph: the graph.
      uses: per node the (output index or -1 for control, reader) pairs.
      is_outside: whether a node can't be in any cluster.
      fetched: output indices of the nodes whose results must exist under their own names.
    """

    def only_reader(node: Node) -> Node | None:
        """The one node that reads `node`'s first output, if nothing else sees any of it."""
        if node.name in fetched:
            return None
        found = uses[node.name]
        return graph.nodes[found[0][1]] if len(found) == 1 and found[0][0] == 0 else None

    def reads_pad(convolution: Node, add: Node) -> bool:
        refs = [convolution.inputs[0], *add.inputs]
        return any(graph.nodes[ref.node].op == "Pad" for ref in refs)

    reasons: dict[str, str] = {}
    for anchor in graph:
        is_conv = anchor.op in _CONVOLUTIONS
        if not (is_conv or anchor.op == "MatMul") or not is_outside(anchor.name):
            continue
        reason = f"TensorFlow fuses it into {anchor.op} '{anchor.name}', which stays outside"
        steps = (
            (_BIASES, _RESIDUALS, _ACTIVATIONS)
            if is_conv
            else (frozenset({"BiasAdd"}), _MATMUL_ACTIVATIONS)
        )
        node = only_reader(anchor)
        for ops in steps:
            if node is None:
                break
            if node.op in ops:
                if ops is _RESIDUALS and reads_pad(anchor, node):
                    break
                reasons[node.name] = reason
                node = only_reader(node)
            elif ops is steps[0] and not is_conv:
                break  # an activation right behind a MatMul isn't fused
        if is_conv:
            before = graph.nodes[anchor.inputs[0].node]
            if before.op == "Pad" and only_reader(before) is anchor:
                reasons[before.name] = reason
    return reasons
