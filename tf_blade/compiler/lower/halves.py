"""Nodes of half precision (f16, bf16): computed in f32, their results rounded as TensorFlow's are.

An op that computes with a type names the types that it can be (`Lowering.dtypes`): where those
hold f32, it can also be a half. All other ops only move elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.ir.types import DType

# TensorFlow's kernels use the processor's own instructions for these.
_PRODUCTS = frozenset(
    "MatMul BatchMatMul BatchMatMulV2 BatchMatMulV3 _FusedMatMul Einsum SparseTensorDenseMatMul "
    "Conv2D Conv3D DepthwiseConv2dNative Conv2DBackpropInput Conv3DBackpropInputV2".split()
)
_REFUSALS = {
    **dict.fromkeys(_PRODUCTS, "products of half precision are TensorFlow's"),
    **dict.fromkeys(
        ("FloorDiv", "FloorMod", "Mod", "TruncateDiv", "TruncateMod"),
        "TensorFlow rounds the quotient to a half before it takes the whole part",
    ),
    **dict.fromkeys(
        ("Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2"),
        "0 and -0 are different halves there",
    ),
    **dict.fromkeys(
        ("UnsortedSegmentMax", "UnsortedSegmentMin"),
        "empty segments hold the limits of their own dtype, which f32 rounds to infinity",
    ),
}


def refusal(op: str) -> str | None:
    """Why an op that computes can't be of half precision, or None."""
    return _REFUSALS.get(op)


def widened(b: Builder, value: Value) -> Value:
    """The value in f32 if it is of half precision."""
    if not value.type.dtype.is_half:
        return value
    if value.op is not None and value.op.kind == "constant":  # may have to be one
        return b.constant(value.op.attrs["value"].astype(np.float32))
    return b.convert(value, DType.F32)


def widened_attr(attr: Any) -> Any:
    """A decoded attribute with f32 for a half."""
    return DType.F32 if isinstance(attr, DType) and attr.is_half else attr


def rounded(b: Builder, value: Value, dtype: DType | None) -> Value:
    """A result of f32 as what TensorFlow gives, if that is a half."""
    return b.convert(value, dtype) if dtype is not None and dtype.is_half else value
