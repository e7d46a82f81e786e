"""FeatureColumn and embedding lookups: recognised by data flow, run by fused kernels."""
