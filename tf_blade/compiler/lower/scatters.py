"""Updates put into a tensor at places that are given by index.

The primitive drops updates beside the tensor; where TensorFlow reports them the run is refused.
"""

from __future__ import annotations

from collections.abc import Callable

from tf_blade.compiler.ir import dims as d
from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.dims import Shape
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.ir.types import DType
from tf_blade.compiler.lower.elementwise import number
from tf_blade.compiler.lower.operands import constant, content
from tf_blade.compiler.lower.registry import FLOATS, INDICES, NUMBERS, lower
from tf_blade.errors import UnsupportedError


def between(b: Builder, x: Value, limit: Value) -> Value:
    """Whether 0 <= x < limit."""
    return b.binary("and", b.compare("GE", x, number(b, 0, x)), b.compare("LT", x, limit))


def _flat(b: Builder, indices: Value, shape: Shape) -> Value:
    """Index vectors [..., depth] into leading dims of `shape` as positions [count], checked."""
    *outer, depth = b.shape(indices)
    if not isinstance(depth, int) or not 1 <= depth <= len(shape):
        raise UnsupportedError("index vectors must have a known length, at least 1", b.source)
    count = d.product(outer)
    vectors = b.convert(b.reshape(indices, (count, depth)), DType.I64)
    flat: Value | None = None
    fits: Value | None = None
    for i, n in enumerate(shape[:depth]):
        size = b.shape_value(n, DType.I64)
        part = b.reshape(b.slice(vectors, [0, i], [count, i + 1]), [count])
        inside = between(b, part, size)
        fits = inside if fits is None else b.binary("and", fits, inside)
        flat = part if flat is None else b.add(b.mul(flat, size), part)
    assert flat is not None and fits is not None
    return b.checked(flat, fits)


def _scattered(b: Builder, tensor: Value, indices: Value, updates: Value, kind: str) -> Value:
    """Slices of a tensor changed at the index vectors in the last dim of indices."""
    shape = b.shape(tensor)
    flat = _flat(b, indices, shape)
    depth = int(indices.type.shape[-1])
    # TensorFlow reports updates of an empty tensor.
    asked = d.smaller(1, d.product(b.shape(indices)))
    b.require_le(asked, d.product(shape), "updates of an empty tensor")
    for ours, theirs in zip(
        (*b.shape(indices)[:-1], *shape[depth:]), b.shape(updates), strict=True
    ):
        b.same_dim(ours, theirs, "updates are of the size of what they update")
    rows = b.reshape(tensor, (d.product(shape[:depth]), *b.shape(tensor)[depth:]))
    flat_updates = b.reshape(updates, (*b.shape(flat), *b.shape(rows)[1:]))
    return b.reshape(b.scatter(rows, flat, flat_updates, kind), shape)


def _no_policy(b: Builder, policy: str) -> None:
    if policy not in ("", "DEFAULT", "ERROR"):
        raise UnsupportedError(f"policy {policy} for bad indices", b.source)


@lower("ScatterNd", dtypes={"T": NUMBERS, "Tindices": INDICES}, contents=[2])
def scatter_nd(
    b: Builder, indices: Value, updates: Value, shape: Value, *, bad_indices_policy: str
) -> Value:
    """Zeros with updates added at index vectors."""
    _no_policy(b, bad_indices_policy)
    dims = content(b, shape, "the shape")
    for n in dims:
        b.require_le(0, n, "the shape has no negative element")
    zeros = b.splat(0, updates.type.dtype, tuple(dims))
    return _scattered(b, zeros, indices, updates, "sum")


@lower("TensorScatterUpdate", dtypes={"Tindices": INDICES})
def tensor_scatter_update(
    b: Builder, tensor: Value, indices: Value, updates: Value, *, bad_indices_policy: str
) -> Value:
    """A tensor with updates put at index vectors; the last one for a place stays."""
    _no_policy(b, bad_indices_policy)
    return _scattered(b, tensor, indices, updates, "set")


def _tensor_scatter(kind: str) -> Callable[..., Value]:
    def lowering(
        b: Builder, tensor: Value, indices: Value, updates: Value, *, bad_indices_policy: str
    ) -> Value:
        _no_policy(b, bad_indices_policy)
        if kind in ("max", "min") and updates.type.dtype.is_float:
            # TensorFlow compares, so that an update of NaN changes nothing.
            weakest = number(b, float("-inf" if kind == "max" else "inf"), updates)
            updates = b.select(b.unary("is_nan", updates), weakest, updates)
        return _scattered(b, tensor, indices, updates, kind)

    lowering.__doc__ = f"The {kind} of a tensor and the updates, at index vectors."
    return lowering


for _op, _kind in {
    "TensorScatterAdd": "sum",
    "ScatterNdNonAliasingAdd": "sum",
    "TensorScatterMin": "min",
    "TensorScatterMax": "max",
}.items():
    lower(_op, dtypes={"T": NUMBERS, "Tindices": INDICES})(_tensor_scatter(_kind))


@lower("TensorScatterSub", dtypes={"T": NUMBERS, "Tindices": INDICES})
def tensor_scatter_sub(
    b: Builder, tensor: Value, indices: Value, updates: Value, *, bad_indices_policy: str
) -> Value:
    """A tensor less the updates at index vectors."""
    _no_policy(b, bad_indices_policy)
    return _scattered(b, tensor, indices, b.unary("neg", updates), "sum")


@lower("SparseToDense", dtypes={"Tindices": INDICES}, contents=[1])
def sparse_to_dense(
    b: Builder,
    sparse_indices: Value,
    output_shape: Value,
    sparse_values: Value,
    default_value: Value,
    *,
    validate_indices: bool,
) -> Value:
    """A repeated value, and others at index vectors."""
    dims = content(b, output_shape, "the shape")
    for n in dims:
        b.require_le(0, n, "the shape has no negative element")
    rank, shape = sparse_indices.type.rank, b.shape(sparse_indices)
    count = shape[0] if rank else 1
    depth = shape[1] if rank == 2 else 1
    b.same_dim(depth, len(dims), "index vectors have one element for each dim")
    flat = _flat(b, b.reshape(sparse_indices, (count, len(dims))), tuple(dims))
    if validate_indices:
        places = b.iota(DType.I64, b.shape(flat), 0)
        first = b.constant(0, DType.I64)
        before = b.binary("max", b.sub(places, b.constant(1, DType.I64)), first)
        rises = b.compare("GT", flat, b.gather(flat, before, 0))
        flat = b.checked(flat, b.binary("or", b.compare("EQ", places, first), rises))
    if sparse_values.type.rank:
        b.same_dim(b.shape(sparse_values)[0], b.shape(flat)[0], "one value for each index")
    values = b.broadcast_to(sparse_values, b.shape(flat))
    default = b.broadcast_to(default_value, (d.product(dims),))
    return b.reshape(b.scatter(default, flat, values, "set"), dims)


def _stitched(b: Builder, *operands: Value) -> Value:
    """Slices of several tensors put where constant indices say; the last one for a place stays."""
    half = len(operands) // 2
    places, parts = [], []
    for indices, data in zip(operands[:half], operands[half:], strict=True):
        places += constant(b, indices, "the indices").reshape(-1).tolist()
        rank = indices.type.rank
        for ours, theirs in zip(b.shape(indices), b.shape(data), strict=False):
            b.same_dim(ours, theirs, "one slice for each index")
        count = d.product(b.shape(indices))
        parts.append(b.reshape(data, (count, *b.shape(data)[rank:])))
    if sorted(set(places)) != list(range(len(set(places)))):
        raise UnsupportedError("places that nothing is written to", b.source)
    joined = b.concatenate(parts, 0)
    last = {place: i for i, place in enumerate(places)}
    order = [last[place] for place in range(len(last))]
    return b.gather(joined, b.constant(order, DType.I32), 0)


lower("DynamicStitch", "ParallelDynamicStitch")(_stitched)


# -- counting ---------------------------------------------------------------------------------


def _counted(b: Builder, values: Value, size: Value, weights: Value, binary: bool) -> Value:
    """[rows, size]: for each row of values, how often each number below size is among them."""
    rows, columns = b.shape(values)
    (bins,) = content(b, size, "the number of bins")
    b.require_le(0, bins, "the number of bins is not negative")
    values = b.checked(values, b.compare("GE", values, number(b, 0, values)))
    wide, limit = b.convert(values, DType.I64), b.shape_value(bins, DType.I64)
    start = b.mul(b.iota(DType.I64, (rows, columns), 0), limit)
    beyond = b.constant(-1, DType.I64)
    places = b.select(b.compare("LT", wide, limit), b.add(start, wide), beyond)
    total = d.product([rows, columns])
    if 0 in b.shape(weights) or binary:
        parts = b.splat(1, weights.type.dtype, (total,))
    else:
        same = d.product(b.shape(weights))
        b.same_dim(same, total, "one weight for each value")
        parts = b.reshape(weights, (total,))
    zeros = b.splat(0, weights.type.dtype, (d.simplify(rows * bins),))
    found = b.scatter(zeros, b.reshape(places, (total,)), parts, "set" if binary else "sum")
    return b.reshape(found, (rows, bins))


@lower("Bincount", dtypes=FLOATS | INDICES, contents=[1])
def bincount(b: Builder, arr: Value, size: Value, weights: Value) -> Value:
    """How often each number below size occurs, or the sum of its weights."""
    flat = b.reshape(arr, (1, d.product(b.shape(arr))))
    found = _counted(b, flat, size, weights, binary=False)
    return b.reshape(found, b.shape(found)[1:])


@lower("DenseBincount", dtypes={"T": FLOATS | INDICES, "Tidx": INDICES}, contents=[1])
def dense_bincount(
    b: Builder, x: Value, size: Value, weights: Value, *, binary_output: bool
) -> Value:
    """In each row, how often each number below size occurs, or the sum of its weights."""
    if x.type.rank not in (1, 2):
        raise UnsupportedError(f"values of rank {x.type.rank}", b.source)
    rows = b.shape(x)[:-1]
    values = b.reshape(x, (d.product(rows), b.shape(x)[-1]))
    found = _counted(b, values, size, weights, binary_output)
    return b.reshape(found, (*rows, b.shape(found)[1]))
