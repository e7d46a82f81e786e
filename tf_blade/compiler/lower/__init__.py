"""Lowerings from TensorFlow ops to the IR: `lower_graph`, `supports`, and the table they share."""

from tf_blade.compiler.lower import (
    comparison,
    einsum,
    elementwise,
    indexing,
    matmul,
    nn,
    reductions,
    shapes,
)
from tf_blade.compiler.lower.registry import LOWERINGS, lower, lower_graph, supports

__all__ = [
    "LOWERINGS",
    "comparison",
    "einsum",
    "elementwise",
    "indexing",
    "lower",
    "lower_graph",
    "matmul",
    "nn",
    "reductions",
    "shapes",
    "supports",
]
