"""What a cluster saves, by estimate, against running its nodes one by one in TensorFlow.

Times are in microseconds on one CPU core. The numbers are of the size measured for TensorFlow's
executor on server CPUs; only their proportions matter, as a margin decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tf_blade.graph.calls import is_loop_call, is_wrapped
from tf_blade.graph.graph import Node, TensorRef
from tf_blade.graph.shapes import Types

# The result is the input's buffer under another shape; TensorFlow copies nothing.
VIEW_OPS = frozenset(
    {"Identity", "Reshape", "ExpandDims", "Squeeze", "StopGradient", "PreventGradient", "Snapshot"}
)
# Nothing worth waiting for.
_TRIVIAL_OPS = VIEW_OPS | {
    "_Arg",
    "Const",
    "NoOp",
    "Placeholder",
    "PlaceholderV2",
    "PlaceholderWithDefault",
    "ReadVariableOp",
    "Shape",
    "VarHandleOp",
    "Variable",
    "VariableV2",
}
_HEAVY_PARTS = ("MatMul", "Conv", "Einsum", "LSTM", "GRU", "While", "Call", "FFT", "Pool", "Exit")
_HEAVY_OPS = frozenset({"If", "StatelessIf", "Case", "StatelessCase"})
_SLOW_PER_ELEMENT = frozenset(
    {"Exp", "Expm1", "Log", "Log1p", "Tanh", "Sigmoid", "Softplus", "Softmax", "LogSoftmax", "Pow"}
    | {"Erf", "Erfc", "Elu", "Selu", "Sin", "Cos", "Rsqrt", "Sqrt", "RealDiv", "Div", "FloorMod"}
)
# Ops that TensorFlow goes over memory for several times, one kernel of ours once. Measured on 2
# cores: LogSoftmax is 2 to 4 times as fast from 100,000 elements on, Softmax 1.1 to 3.5 times up to
# 400,000, but 0.7 to 1 times beyond (the library's is fast there). Rows of 7 are slower in both.
_WORTH_IT_ALONE = frozenset({"Softmax", "LogSoftmax"})
_WRAPPED_OPS = 4  # about so many ops have to do with the same complex numbers
_SMALL_INTEGERS = 64  # elements of a host-side shape computation at most


@dataclass(frozen=True)
class Estimate:
    """What running some nodes as one cluster saves. `refusal` is None if it is worth it."""

    gain_us: float
    refusal: str | None


@dataclass(frozen=True)
class CostModel:
    """Constants of the estimate.

    Attributes:
      op_us: executing one small TensorFlow op: executor, allocation, kernel.
      view_us: the same for an op that only renames a buffer.
      loop_us: executing one loop's ops, over a few iterations.
      launch_us: executing one cluster.
      io_us: each input and each output of a cluster.
      margin_us: what a cluster must save at least.
      bytes_per_us: bandwidth of reading or writing an intermediate result.
      flops_per_us: speed of matrix products.
      unknown_dim: what an unknown dimension is taken for.
      light_us: the most work that a piece may do to be merged with unconnected pieces.
    """

    op_us: float = 1.5
    view_us: float = 1.0
    loop_us: float = 100.0
    launch_us: float = 2.0
    io_us: float = 0.15
    margin_us: float = 1.0
    bytes_per_us: float = 10_000.0
    flops_per_us: float = 20_000.0
    unknown_dim: int = 32
    light_us: float = 20.0

    def is_heavy(self, node: Node) -> bool:
        """Whether the op alone may be worth a thread of its own."""
        return node.op in _HEAVY_OPS or any(part in node.op for part in _HEAVY_PARTS)

    def delay(self, node: Node) -> int:
        """How long others wait for a node outside all clusters, in units of a small op."""
        if node.op in _TRIVIAL_OPS:
            return 0
        return 100 if self.is_heavy(node) else 1

    def dispatch_us(self, node: Node) -> float:
        """What TensorFlow spends on the node besides its arithmetic."""
        if is_loop_call(node):
            return self.loop_us
        if is_wrapped(node):
            return _WRAPPED_OPS * self.op_us
        return self.view_us if node.op in VIEW_OPS else self.op_us

    def elements(self, types: Types, ref: TensorRef) -> int:
        """The number of elements of a tensor, by estimate."""
        info = types.get(ref)
        if info is None or info.shape is None:
            return self.unknown_dim**2
        count = 1
        for dim in info.shape:
            count *= self.unknown_dim if dim is None else dim
        return count

    def traffic_us(self, types: Types, ref: TensorRef) -> float:
        """Time to write or read a tensor once; nothing for the integers that describe shapes."""
        info = types.get(ref)
        count = self.elements(types, ref)
        if info is None:
            return 0.0
        small = info.dtype.is_integer and info.rank in (0, 1) and count <= _SMALL_INTEGERS
        return 0.0 if small else count * info.dtype.size / self.bytes_per_us

    def work_us(self, types: Types, node: Node, outputs: Sequence[TensorRef]) -> float:
        """Time of the node's own arithmetic and memory traffic, without dispatch."""
        if node.op in VIEW_OPS:
            return 0.0
        refs = [*outputs, *node.inputs]
        traffic = sum(self.traffic_us(types, ref) for ref in refs)
        if "MatMul" in node.op and outputs and node.inputs:
            info = types.get(node.inputs[0])
            inner = info.shape[-1] if info is not None and info.shape else None
            flops = 2 * self.elements(types, outputs[0]) * (inner or self.unknown_dim)
            return traffic + flops / self.flops_per_us
        return traffic * (4 if node.op in _SLOW_PER_ELEMENT else 1)

    def estimate(
        self,
        types: Types,
        members: Sequence[Node],
        inputs: Sequence[TensorRef],
        outputs: Sequence[TensorRef],
        fused: Sequence[TensorRef],
        names_kept: int = 0,
    ) -> Estimate:
        """What a cluster of `members` saves.

        Args:
          types: dtypes and shapes.
          members: its nodes, without the small constants copied into it.
          inputs, outputs: what it reads and writes.
          fused: results of members that only members read.
          names_kept: nodes that stay as an Identity because somebody fetches them by name.
        """
        ops = _ops_text(members)
        if not outputs:
            return Estimate(0.0, "nothing outside reads its results")
        dispatch = sum(self.dispatch_us(node) for node in members)
        views = {node.name for node in members if node.op in VIEW_OPS}
        traffic = sum(2 * self.traffic_us(types, ref) for ref in fused if ref.node not in views)
        boundary = self.io_us * (len(inputs) + len(outputs)) + self.view_us * names_kept
        gain = dispatch + traffic - self.launch_us - boundary
        if any(node.op in _WORTH_IT_ALONE for node in members):
            gain = max(gain, self.margin_us)
        elif len(members) == 1 and not is_wrapped(members[0]):
            return Estimate(gain, f"alone: a cluster of one {members[0].op} can't win")
        if gain >= self.margin_us:
            return Estimate(gain, None)
        if gain + boundary >= self.margin_us and len(outputs) > len(members):
            return Estimate(
                gain,
                f"a cluster of {ops} has {len(inputs)} inputs and {len(outputs)} outputs, "
                f"too many for what it computes",
            )
        return Estimate(
            gain,
            f"a cluster of {ops} would save {gain:.1f} µs by estimate, "
            f"less than the margin of {self.margin_us:.1f} µs",
        )


def _ops_text(members: Sequence[Node]) -> str:
    names = list(dict.fromkeys(node.op for node in members))
    shown = ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
    return f"{len(members)} ops ({shown})"
