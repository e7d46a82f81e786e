"""Fusion: which values are stored, and which kernels compute them."""

from tf_blade.compiler.fuse.plan import Plan, plan

__all__ = ["Plan", "plan"]
