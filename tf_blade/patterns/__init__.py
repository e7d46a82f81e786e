"""Subgraphs that a kernel from outside runs: see docs/patterns.md.

@tf_blade.register_pattern("libdense_gelu.so", [tf.TensorSpec([None, None]), …])
def dense_gelu(x, w, b):
    return tf.nn.gelu(x @ w + b)
"""

from tf_blade.patterns.apply import AppliedPattern, AppliedPatterns, apply_patterns
from tf_blade.patterns.registry import include_dir, register_pattern, unregister_pattern

__all__ = [
    "AppliedPattern",
    "AppliedPatterns",
    "apply_patterns",
    "include_dir",
    "register_pattern",
    "unregister_pattern",
]
