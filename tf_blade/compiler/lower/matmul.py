"""Matrix products."""

from __future__ import annotations

from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.lower.registry import FLOATS, lower
from tf_blade.errors import UnsupportedError


@lower("MatMul", dtypes=FLOATS, ignores=["grad_a", "grad_b"])
def matmul(b: Builder, x: Value, y: Value, *, transpose_a: bool, transpose_b: bool) -> Value:
    """The product of two matrices, each transposed on request."""
    return b.dot_general(x, y, transpose_a=transpose_a, transpose_b=transpose_b)


@lower(
    "BatchMatMul",
    "BatchMatMulV2",
    "BatchMatMulV3",
    dtypes={"T": FLOATS, "Ta": FLOATS, "Tb": FLOATS, "Tout": FLOATS},
    ignores=["grad_x", "grad_y"],
)
def batch_matmul(b: Builder, x: Value, y: Value, *, adj_x: bool, adj_y: bool) -> Value:
    """Products of the matrices in the last two dims; leading dims broadcast."""
    if x.type.dtype is not y.type.dtype:
        raise UnsupportedError("the operands have different dtypes", b.source)
    if x.type.rank < 2 or y.type.rank < 2:
        raise UnsupportedError("the operands must be matrices", b.source)
    x_batch, y_batch = b.shape(x)[:-2], b.shape(y)[:-2]
    batch = b.broadcast_shapes(x_batch, y_batch)
    x = b.broadcast_to(x, (*batch, *b.shape(x)[-2:]))
    if all(n == 1 for n in y_batch):
        y = b.reshape(y, b.shape(y)[-2:])  # one matrix, shared by the whole batch
    else:
        y = b.broadcast_to(y, (*batch, *b.shape(y)[-2:]))
    return b.dot_general(x, y, transpose_a=adj_x, transpose_b=adj_y)
