"""Diagonals and bands of the matrices in a tensor's last two dims, and cross products.

Bands of several diagonals stay in TensorFlow: what is common is one.
"""

from __future__ import annotations

from tf_blade.compiler.ir import dims as d
from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.dims import Dim, Shape
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.ir.types import DType
from tf_blade.compiler.lower.elementwise import number
from tf_blade.compiler.lower.operands import constant, content
from tf_blade.compiler.lower.registry import FLOATS, INDICES, NUMBERS, lower
from tf_blade.errors import UnsupportedError

_DIAG = FLOATS | INDICES


def _one_diagonal(b: Builder, k: Value) -> int:
    """The number of the diagonal, counted upwards from the main one."""
    found = {int(n) for n in constant(b, k, "the diagonal's number").flat}
    if len(found) != 1:
        raise UnsupportedError("a band of several diagonals is not supported", b.source)
    return found.pop()


def _on_diagonal(b: Builder, shape: Shape, k: int) -> Value:
    """Whether an element of [..., rows, columns] lies on diagonal k."""
    rows = b.iota(DType.I64, shape, len(shape) - 2)
    columns = b.iota(DType.I64, shape, len(shape) - 1)
    return b.compare("EQ", columns, b.add(rows, b.constant(k, DType.I64)))


def _spread(b: Builder, diagonal: Value, shape: Shape, k: int) -> Value:
    """Diagonal [..., n] as [..., rows, columns], right on diagonal k; n is its length there."""
    along = len(shape) - (2 if k >= 0 else 1)  # rows count a diagonal above, columns one below
    missing = d.simplify(shape[along] - b.shape(diagonal)[-1])
    if missing != 0:
        b.require_le(0, missing, "the matrix has the diagonal")
        low = [0] * diagonal.type.rank
        fill = b.constant(0, diagonal.type.dtype)
        diagonal = b.pad(diagonal, fill, low, [*low[:-1], missing])
        diagonal = b.retype(diagonal, (*b.shape(diagonal)[:-1], shape[along]))
    kept = [*range(len(shape) - 2), along]
    return b.broadcast_in_dim(diagonal, shape, kept)


def _length(b: Builder, rows: Dim, columns: Dim, k: int) -> Dim:
    """The length of diagonal k, which TensorFlow wants to begin inside the matrix."""
    if k > 0:
        b.require_le(k + 1, columns, "the matrix has the diagonal")
    elif k < 0:
        b.require_le(1 - k, rows, "the matrix has the diagonal")
    return d.smaller(rows + min(k, 0), columns - max(k, 0))


def _diagonal_of(b: Builder, x: Value, k: int) -> Value:
    """x[..., i, i + k] for all i (for k < 0, x[..., i - k, i])."""
    *batch, rows, columns = b.shape(x)
    length = _length(b, rows, columns, k)
    first = max(-k, 0)
    starts: list[Dim] = [*([0] * len(batch)), first, 0]
    x = b.slice(x, starts, [*batch, d.simplify(length + first), columns])
    shape = (*batch, length)
    x = b.retype(x, (*shape, columns))
    places = b.iota(DType.I64, shape, len(batch))
    if k > 0:
        places = b.add(places, b.constant(k, DType.I64))
    return b.gather(x, places, len(shape), len(shape))


def _with_diagonal(b: Builder, diagonal: Value, k: int, others: Value, shape: Shape) -> Value:
    """Matrices of `shape`: the diagonal on diagonal k, elements of `others` beside it."""
    return b.select(_on_diagonal(b, shape, k), _spread(b, diagonal, shape, k), others)


# -- making matrices --------------------------------------------------------------------------


@lower("MatrixDiag")
def matrix_diag(b: Builder, diagonal: Value) -> Value:
    """Square matrices with the given diagonals and zeros beside them."""
    shape = (*b.shape(diagonal), b.shape(diagonal)[-1])
    return _with_diagonal(b, diagonal, 0, b.constant(0, diagonal.type.dtype), shape)


@lower("Diag", dtypes=_DIAG)
def diag(b: Builder, diagonal: Value) -> Value:
    """y[i…, i…] = diagonal[i…], zeros beside it; dims are doubled"""
    dims = b.shape(diagonal)
    if not dims:
        raise UnsupportedError("the diagonal has no dims", b.source)
    return b.reshape(matrix_diag(b, b.reshape(diagonal, [d.product(dims)])), [*dims, *dims])


@lower("MatrixDiagV2", constants=[1], contents=[2, 3])
def matrix_diag_v2(
    b: Builder, diagonal: Value, k: Value, num_rows: Value, num_cols: Value, padding_value: Value
) -> Value:
    """Matrices with one given diagonal each, anywhere, and a repeated value beside it."""
    which = _one_diagonal(b, k)
    wanted = [content(b, v, "the size")[0] for v in (num_rows, num_cols)]
    for n in wanted:
        if n != -1:
            b.require_le(0, n, "the matrix has a size")
    *batch, length = b.shape(diagonal)
    if which and not isinstance(length, int):
        # TensorFlow's shape function counts an unknown length as -1.
        raise UnsupportedError("the length of a diagonal beside the main one is unknown", b.source)
    fewest = d.simplify(length - min(which, 0)), d.simplify(length + max(which, 0))
    if wanted == [-1, -1]:
        sizes: tuple[Dim, Dim] = (d.larger(*fewest), d.larger(*fewest))
    else:
        rows, columns = (f if w == -1 else w for f, w in zip(fewest, wanted, strict=True))
        sizes = (rows, columns)
    spare = [d.simplify(n - f) for n, f in zip(sizes, fewest, strict=True)]
    for left in spare:
        b.require_le(0, left, "the diagonal fits into the matrix")
    b.require_le(d.smaller(*spare), 0, "the diagonal fills the matrix")
    return _with_diagonal(b, diagonal, which, padding_value, (*batch, *sizes))


@lower("MatrixDiagV3", constants=[1], contents=[2, 3], ignores=["align"])
def matrix_diag_v3(
    b: Builder, diagonal: Value, k: Value, num_rows: Value, num_cols: Value, padding_value: Value
) -> Value:
    """As MatrixDiagV2."""
    return matrix_diag_v2(b, diagonal, k, num_rows, num_cols, padding_value)


# -- reading diagonals ------------------------------------------------------------------------


@lower("MatrixDiagPart")
def matrix_diag_part(b: Builder, x: Value) -> Value:
    """The main diagonals of matrices."""
    return _diagonal_of(b, x, 0)


@lower("DiagPart", dtypes=_DIAG)
def diag_part(b: Builder, x: Value) -> Value:
    """y[i…] = x[i…, i…]; dims are halved"""
    half = x.type.rank // 2
    if x.type.rank != 2 * half or not half:
        raise UnsupportedError(f"dims of rank {x.type.rank} can't be halved", b.source)
    for i in range(half):
        b.same_dim(x.type.shape[i], x.type.shape[half + i], "the halves of the dims")
    dims = b.shape(x)[:half]
    size = d.product(dims)
    return b.reshape(_diagonal_of(b, b.reshape(x, [size, size]), 0), dims)


@lower("MatrixDiagPartV2", constants=[1])
def matrix_diag_part_v2(b: Builder, x: Value, k: Value, padding_value: Value) -> Value:
    """One diagonal of each matrix; nothing is padded."""
    return _diagonal_of(b, x, _one_diagonal(b, k))


@lower("MatrixDiagPartV3", constants=[1], ignores=["align"])
def matrix_diag_part_v3(b: Builder, x: Value, k: Value, padding_value: Value) -> Value:
    """As MatrixDiagPartV2."""
    return _diagonal_of(b, x, _one_diagonal(b, k))


# -- changing matrices ------------------------------------------------------------------------


@lower("MatrixSetDiag")
def matrix_set_diag(b: Builder, x: Value, diagonal: Value) -> Value:
    """x with other main diagonals."""
    return _set_diagonal(b, x, diagonal, 0)


@lower("MatrixSetDiagV2", constants=[2])
def matrix_set_diag_v2(b: Builder, x: Value, diagonal: Value, k: Value) -> Value:
    """x with one diagonal of each matrix replaced."""
    return _set_diagonal(b, x, diagonal, _one_diagonal(b, k))


@lower("MatrixSetDiagV3", constants=[2], ignores=["align"])
def matrix_set_diag_v3(b: Builder, x: Value, diagonal: Value, k: Value) -> Value:
    """As MatrixSetDiagV2."""
    return _set_diagonal(b, x, diagonal, _one_diagonal(b, k))


def _set_diagonal(b: Builder, x: Value, diagonal: Value, k: int) -> Value:
    *batch, rows, columns = b.shape(x)
    length = _length(b, rows, columns, k)
    for ours, theirs in zip((*batch, length), b.shape(diagonal), strict=True):
        b.same_dim(ours, theirs, "one element for each place on the diagonal")
    diagonal = b.retype(diagonal, (*b.shape(x)[:-2], b.canonical(length)))
    return _with_diagonal(b, diagonal, k, x, b.shape(x))


@lower("MatrixBandPart", dtypes={"Tindex": INDICES})
def matrix_band_part(b: Builder, x: Value, num_lower: Value, num_upper: Value) -> Value:
    """Zeros beside a band of num_lower diagonals below the main one, num_upper above (-1: all)."""
    shape = b.shape(x)
    rows = b.iota(num_lower.type.dtype, shape, x.type.rank - 2)
    columns = b.iota(num_lower.type.dtype, shape, x.type.rank - 1)
    inside = []
    for limit, distance, size in (
        (num_lower, b.sub(rows, columns), shape[-2]),
        (num_upper, b.sub(columns, rows), shape[-1]),
    ):
        most = b.shape_value(size, limit.type.dtype)
        limit = b.checked(limit, b.compare("LE", limit, most))
        all_of_them = b.compare("LT", limit, number(b, 0, limit))
        inside.append(b.binary("or", all_of_them, b.compare("LE", distance, limit)))
    return b.select(b.binary("and", *inside), x, b.constant(0, x.type.dtype))


@lower("Cross", dtypes=NUMBERS)
def cross(b: Builder, x: Value, y: Value) -> Value:
    """The cross product of vectors of three elements."""
    for axis, (m, n) in enumerate(zip(b.shape(x), b.shape(y), strict=True)):
        b.same_dim(m, 3 if axis == x.type.rank - 1 else n, "vectors of three elements")
    y = b.retype(y, b.shape(x))

    def turned(value: Value, by: int) -> Value:
        places = b.constant([by % 3, (1 + by) % 3, (2 + by) % 3], DType.I32)
        return b.gather(value, places, value.type.rank - 1)

    return b.sub(b.mul(turned(x, 1), turned(y, 2)), b.mul(turned(x, 2), turned(y, 1)))
