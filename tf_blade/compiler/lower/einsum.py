"""Einsum of one or two tensors, as transposes, sums and one matrix product."""

from __future__ import annotations

import string
from collections.abc import Sequence

from tf_blade.compiler.ir import dims as d
from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.dims import Dim
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.lower.registry import FLOATS, lower
from tf_blade.errors import UnsupportedError


@lower("Einsum", dtypes=FLOATS)
def einsum(b: Builder, *operands: Value, equation: str) -> Value:
    """The sum of products that the equation describes, for one or two tensors."""
    if len(operands) > 2:
        raise UnsupportedError("Einsum of more than two tensors is not supported", b.source)
    labels, output = _labels(b, equation.replace(" ", ""), operands)
    sizes: dict[str, Dim] = {}
    for value, names in zip(operands, labels, strict=True):
        for name, n in zip(names, b.shape(value), strict=True):
            sizes[name] = b.same_dim(sizes.get(name, n), n, f"dims called {name}")
    sizes = {name: b.canonical(n) for name, n in sizes.items()}
    values = [
        b.retype(value, [sizes[name] for name in names])
        for value, names in zip(operands, labels, strict=True)
    ]
    for i, names in enumerate(labels):
        # Labels that occur nowhere else are summed away before the product.
        others = {*output, *(name for j, x in enumerate(labels) if j != i for name in x)}
        gone = [axis for axis, name in enumerate(names) if name not in others]
        values[i] = b.reduce("sum", values[i], gone)
        labels[i] = [name for name in names if name in others]
    if len(values) == 1:
        return _transposed(b, values[0], labels[0], output)
    return _product(b, values, labels, output, sizes)


def _labels(
    b: Builder, equation: str, operands: Sequence[Value]
) -> tuple[list[list[str]], list[str]]:
    """Labels of each operand's dims and of the output's, an ellipsis written out."""
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if not arrow or len(terms) != len(operands):
        raise UnsupportedError(f"the equation '{equation}' does not fit the operands", b.source)
    free = [c for c in string.ascii_letters if c not in equation]
    written, widths = [], set()
    for term, value in zip(terms, operands, strict=True):
        width = value.type.rank - len(term.replace("...", ""))
        if "..." in term:
            widths.add(width)
        elif width != 0:
            raise UnsupportedError(f"the equation '{equation}' does not fit the ranks", b.source)
        written.append(list(term.replace("...", "".join(free[: max(width, 0)]))))
    if len(widths) > 1:
        raise UnsupportedError("dims under an ellipsis would broadcast", b.source)
    output = right.replace("...", "".join(free[: max(widths, default=0)]))
    for names in (*written, output):
        if len(set(names)) != len(names):
            raise UnsupportedError("a label occurs twice in one tensor", b.source)
    return written, list(output)


def _product(
    b: Builder,
    values: Sequence[Value],
    labels: Sequence[list[str]],
    output: list[str],
    sizes: dict[str, Dim],
) -> Value:
    left, right = labels
    batch = [n for n in left if n in right and n in output]
    contracted = [n for n in left if n in right and n not in output]
    rows = [n for n in left if n not in right]
    columns = [n for n in right if n not in left]
    x, transpose_a = _matrices(b, values[0], left, batch, rows, contracted, sizes)
    y, transpose_b = _matrices(b, values[1], right, batch, contracted, columns, sizes)
    product = b.dot_general(x, y, transpose_a=transpose_a, transpose_b=transpose_b)
    names = [*batch, *rows, *columns]
    return _transposed(b, b.reshape(product, [sizes[n] for n in names]), names, output)


def _matrices(
    b: Builder,
    value: Value,
    names: list[str],
    batch: list[str],
    rows: list[str],
    columns: list[str],
    sizes: dict[str, Dim],
) -> tuple[Value, bool]:
    """The value as matrices [*batch, rows, columns], and whether they are stored transposed."""
    transposed = names == [*batch, *columns, *rows] != [*batch, *rows, *columns]
    if transposed:
        rows, columns = columns, rows
    value = _transposed(b, value, names, [*batch, *rows, *columns])
    shape = [sizes[n] for n in batch]
    return b.reshape(value, [*shape, _size(rows, sizes), _size(columns, sizes)]), transposed


def _size(names: Sequence[str], sizes: dict[str, Dim]) -> Dim:
    return d.product([sizes[n] for n in names])


def _transposed(b: Builder, value: Value, names: list[str], wanted: list[str]) -> Value:
    return b.transpose(value, [names.index(n) for n in wanted])
