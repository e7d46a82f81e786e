"""A matrix product as calls of the host's gemm: sizes, strides, and how batches collapse."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass

from tf_blade.compiler.fuse.index import mul
from tf_blade.compiler.fuse.matrices import MatrixView, result_view, view
from tf_blade.compiler.fuse.products import Epilogue, Product
from tf_blade.compiler.ir.dims import Dim
from tf_blade.compiler.ir.program import Program, Value


@dataclass(frozen=True)
class Batch:
    """A batch dim: how many entries, and the distance between them in a, b and c."""

    count: Dim
    a: Dim
    b: Dim
    c: Dim


@dataclass(frozen=True)
class GemmCall:
    """c = activation(scale * a * b + bias) + residual for every entry of `batch`, outermost dim
    first. The last batch dim goes into the call; loops run over the others.

    a is m x k, or k x m when transpose_a; b is k x n, or n x k when transpose_b.
    constant_input: the cluster's input that b is, if it is the same in every call, else -1.
    """

    a: MatrixView
    b: MatrixView
    c: MatrixView
    transpose_a: bool
    transpose_b: bool
    m: Dim
    n: Dim
    k: Dim
    batch: tuple[Batch, ...]
    epilogue: Epilogue
    constant_input: int


def gemm_call(
    root: Value,
    product: Product,
    program: Program,
    in_memory: Container[Value],
    constant_inputs: Mapping[int, int],
) -> GemmCall:
    """The call that writes `root`.

    Args:
      product: how.
      constant_inputs: the program's parameters that are the same in every call, and the numbers
        that they have among the cluster's inputs.
    """
    op = product.op
    a, b = view(op.operands[0], in_memory), view(op.operands[1], in_memory)
    c = result_view(root, product.written)
    assert a is not None and b is not None
    # In memory a matrix may lie the other way round than the op says.
    transpose_a = bool(op.attrs["transpose_a"]) != (a.column != 1)
    transpose_b = bool(op.attrs["transpose_b"]) != (b.column != 1)
    m, n = op.result.type.shape[-2:]
    k = op.operands[0].type.shape[-2 if op.attrs["transpose_a"] else -1]
    strides_b = b.batch or (0,) * len(a.batch)
    dims = [
        Batch(count, *strides)
        for count, *strides in zip(
            op.result.type.shape[:-2], a.batch, strides_b, c.batch, strict=True
        )
        if count != 1
    ]
    batch = _collapsed(dims)
    while batch and _is_taller(batch[-1], a, c, transpose_a, m):
        # One b for the whole batch: the rows of all its entries are one tall matrix.
        m = mul(batch.pop().count, m)
    return GemmCall(
        a,
        b,
        c,
        transpose_a,
        transpose_b,
        m,
        n,
        k,
        tuple(batch),
        product.epilogue,
        _constant_input(b, mul(k, n), program, constant_inputs),
    )


def _is_taller(last: Batch, a: MatrixView, c: MatrixView, transpose_a: bool, m: Dim) -> bool:
    in_step = last.a == mul(m, a.leading) and last.c == mul(m, c.leading)
    return last.b == 0 and not transpose_a and in_step


def _collapsed(dims: list[Batch]) -> list[Batch]:
    result: list[Batch] = []
    for dim in reversed(dims):
        inner = result[-1] if result else None
        if inner is not None and all(
            outside == mul(inside, inner.count)
            for outside, inside in ((dim.a, inner.a), (dim.b, inner.b), (dim.c, inner.c))
        ):
            result[-1] = Batch(mul(dim.count, inner.count), inner.a, inner.b, inner.c)
        else:
            result.append(dim)
    return result[::-1]


def _constant_input(
    b: MatrixView, size: Dim, program: Program, constant_inputs: Mapping[int, int]
) -> int:
    if b.buffer.op is not None or b.batch or b.offset != 0 or b.buffer.type.size != size:
        return -1
    return constant_inputs.get(program.params.index(b.buffer), -1)
