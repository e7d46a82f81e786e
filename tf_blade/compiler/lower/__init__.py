"""Lowerings from TensorFlow ops to the IR: `lower_graph`, `supports`, and the table they share."""

from tf_blade.compiler.lower import (
    blocks,
    comparison,
    einsum,
    elementwise,
    images,
    indexing,
    matmul,
    matrices,
    nn,
    reductions,
    reordering,
    scans,
    scatters,
    segments,
    shapes,
    windows,
)
from tf_blade.compiler.lower.registry import LOWERINGS, lower, lower_graph, supports

__all__ = [
    "LOWERINGS",
    "blocks",
    "comparison",
    "einsum",
    "elementwise",
    "images",
    "indexing",
    "lower",
    "lower_graph",
    "matmul",
    "matrices",
    "nn",
    "reductions",
    "reordering",
    "scans",
    "scatters",
    "segments",
    "shapes",
    "supports",
    "windows",
]
