"""The primitives of the IR: attributes, meaning and type rules, in StableHLO's terms.

Semantics are exact in `interpreter.py`; this table says what is legal and of what type the
result is. Elementwise ops want operands of one shape (`broadcast_in_dim` is explicit). Integers
wrap around, float max/min/sort of comparisons follow TensorFlow (max and min propagate NaN).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tf_blade.compiler.ir.dims import Dim, ceil_div, floor_mod, is_static, product, simplify
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.ir.types import DType, TensorType

UNARY = (
    "neg abs sign exp expm1 log log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh "
    "asinh acosh atanh logistic erf erfc floor ceil round not"
).split()
UNARY_TO_BOOL = "is_finite is_inf is_nan".split()
# rem: sign of the dividend (C's %, fmod). shift_right: arithmetic for signed, logical for unsigned.
BINARY = (
    "add sub mul div floor_div rem floor_mod pow max min atan2 and or xor shift_left shift_right"
).split()
ELEMENTWISE = frozenset(
    [*UNARY, *UNARY_TO_BOOL, *BINARY, "compare", "select", "convert", "checked"]
)
DIRECTIONS = ("EQ", "NE", "LT", "LE", "GT", "GE")
REDUCTIONS = ("sum", "prod", "max", "min", "and", "or")
SCATTERS = ("set", "sum", "prod", "max", "min")
SCANS = ("sum", "prod", "logsumexp")
# On float operands only.
FLOAT_ONLY = frozenset(
    "exp expm1 log log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh "
    "logistic erf erfc is_finite is_inf is_nan atan2".split()
)
# On integers only, on integers and bool.
INTEGER_ONLY = frozenset(["shift_left", "shift_right"])
BITWISE = frozenset(["and", "or", "xor", "not"])
# On anything but bool.
ARITHMETIC = frozenset([*UNARY, *BINARY]) - FLOAT_ONLY - INTEGER_ONLY - BITWISE


class IrError(ValueError):
    """An op that breaks the IR's rules: a bug in a lowering or a rewrite."""


@dataclass(frozen=True)
class OpSpec:
    """n_operands: exact count, or None for any. infer: result type from operands and attributes."""

    n_operands: int | None
    attrs: tuple[str, ...]
    infer: Callable[[list[Value], dict[str, Any]], TensorType]


def _same(operands: list[Value], attrs: dict[str, Any]) -> TensorType:
    first = operands[0].type
    for other in operands[1:]:
        _require(other.type == first, f"operands differ: {first} and {other.type}")
    return first


def _to_bool(operands: list[Value], attrs: dict[str, Any]) -> TensorType:
    return TensorType(DType.BOOL, _same(operands, attrs).shape)


def _compare(operands: list[Value], attrs: dict[str, Any]) -> TensorType:
    _require(not operands[0].type.dtype.is_half, "halves are converted first")
    _require(attrs["direction"] in DIRECTIONS, f"direction {attrs['direction']}")
    return _to_bool(operands, attrs)


def _select(operands: list[Value], attrs: dict[str, Any]) -> TensorType:
    predicate, on_true, on_false = (v.type for v in operands)
    _require(predicate.dtype is DType.BOOL, "the predicate is not bool")
    _require(on_true == on_false, f"branches differ: {on_true} and {on_false}")
    _require(predicate.shape == on_true.shape, "predicate and branches differ in shape")
    return on_true


def _convert(operands: list[Value], attrs: dict[str, Any]) -> TensorType:
    return TensorType(attrs["dtype"], operands[0].type.shape)


def _checked(operands: list[Value], attrs: dict[str, Any]) -> TensorType:
    """The first operand, unchanged; an element whose second operand is false refuses the run."""
    value, condition = operands[0].type, operands[1].type
    _require(condition == TensorType(DType.BOOL, value.shape), f"the condition is {condition}")
    return value


def _constant(operands: list[Value], attrs: dict[str, Any]) -> TensorType:
    value = attrs["value"]
    return TensorType(DType.from_numpy(value.dtype), tuple(value.shape))


def _iota(operands: list[Value], attrs: dict[str, Any]) -> TensorType:
    _require(0 <= attrs["dim"] < len(attrs["shape"]), "iota: dim out of range")
    return TensorType(attrs["dtype"], tuple(attrs["shape"]))


def _shape_value(operands: list[Value], attrs: dict[str, Any]) -> TensorType:
    _require(product(attrs["shape"]) == len(attrs["elements"]), "elements don't fill the shape")
    return TensorType(attrs["dtype"], tuple(attrs["shape"]))


def _broadcast_in_dim(operands: list[Value], attrs: dict[str, Any]) -> TensorType:
    source, shape, dims = operands[0].type, tuple(attrs["shape"]), attrs["dims"]
    _require(len(dims) == source.rank, "dims must name every operand dim")
    _require(list(dims) == sorted(set(dims)), "dims must increase")
    for i, d in enumerate(dims):
        _require(
            source.shape[i] == 1 or source.shape[i] == shape[d],
            f"operand dim {source.shape[i]} does not broadcast to {shape[d]}",
        )
    return TensorType(source.dtype, shape)


def _reshape(operands: list[Value], attrs: dict[str, Any]) -> TensorType:
    result = TensorType(operands[0].type.dtype, tuple(attrs["shape"]))
    sizes = operands[0].type.size, result.size
    # Symbolic sizes may be equal for reasons the algebra can't see; a constraint then says so.
    _require(
        sizes[0] == sizes[1] or not (is_static(sizes[0]) and is_static(sizes[1])),
        f"sizes differ: {operands[0].type} to {result}",
    )
    return result


def _transpose(operands: list[Value], attrs: dict[str, Any]) -> TensorType:
    source, perm = operands[0].type, attrs["perm"]
    _require(sorted(perm) == list(range(source.rank)), f"{perm} is no permutation")
    return TensorType(source.dtype, tuple(source.shape[p] for p in perm))


def _slice(operands: list[Value], attrs: dict[str, Any]) -> TensorType:
    """Elements start, start + stride, … below limit, in each dim; 0 <= start, limit <= dim."""
    source = operands[0].type
    starts, limits, strides = attrs["start"], attrs["limit"], attrs["stride"]
    _require(len(starts) == len(limits) == len(strides) == source.rank, "slice: wrong rank")
    _require(all(is_static(s) and s > 0 for s in strides), "strides must be positive integers")
    shape: list[Dim] = []
    for i in range(source.rank):
        extent = simplify(limits[i] - starts[i])
        shape.append(extent if strides[i] == 1 else ceil_div(extent, strides[i]))
    return TensorType(source.dtype, tuple(shape))


def _reverse(operands: list[Value], attrs: dict[str, Any]) -> TensorType:
    source = operands[0].type
    _require(all(0 <= d < source.rank for d in attrs["dims"]), "reverse: dim out of range")
    return source


def _concatenate(operands: list[Value], attrs: dict[str, Any]) -> TensorType:
    dim, first = attrs["dim"], operands[0].type
    _require(0 <= dim < first.rank, "concatenate: dim out of range")
    total: Dim = 0
    for value in operands:
        kind = value.type
        same = kind.dtype == first.dtype and kind.rank == first.rank
        _require(
            same and all(i == dim or kind.shape[i] == first.shape[i] for i in range(first.rank)),
            f"operands differ: {first} and {kind}",
        )
        total = total + kind.shape[dim]
    shape = list(first.shape)
    shape[dim] = simplify(total)
    return TensorType(first.dtype, tuple(shape))


def _pad(operands: list[Value], attrs: dict[str, Any]) -> TensorType:
    """operands: tensor, scalar. low and high elements of the scalar around each dim (>= 0)."""
    source, value = operands[0].type, operands[1].type
    _require(value == TensorType(source.dtype, ()), "the padding value must be a scalar")
    low, high = attrs["low"], attrs["high"]
    _require(len(low) == len(high) == source.rank, "pad: wrong rank")
    shape = tuple(simplify(d + low[i] + high[i]) for i, d in enumerate(source.shape))
    return TensorType(source.dtype, shape)


def _gather(operands: list[Value], attrs: dict[str, Any]) -> TensorType:
    """TensorFlow's GatherV2: params, indices; an index outside [0, dim) refuses the run."""
    params, indices = operands[0].type, operands[1].type
    axis, batch = attrs["axis"], attrs["batch_dims"]
    _require(indices.dtype in (DType.I32, DType.I64), "indices must be i32 or i64")
    _require(0 <= batch <= axis < params.rank and batch <= indices.rank, "gather: bad axis")
    _require(params.shape[:batch] == indices.shape[:batch], "gather: batch dims differ")
    shape = params.shape[:axis] + indices.shape[batch:] + params.shape[axis + 1 :]
    return TensorType(params.dtype, shape)


def _reduce(operands: list[Value], attrs: dict[str, Any]) -> TensorType:
    """Over `dims`, which go away. An empty reduction gives the kind's neutral element."""
    source, dims = operands[0].type, attrs["dims"]
    _require(attrs["kind"] in REDUCTIONS, f"reduction {attrs['kind']}")
    _require(list(dims) == sorted(set(dims)), "dims must increase")
    _require(all(0 <= d < source.rank for d in dims), "reduce: dim out of range")
    logical = attrs["kind"] in ("and", "or")
    _require(logical == (source.dtype is DType.BOOL), f"{attrs['kind']} of {source.dtype.value}")
    shape = tuple(d for i, d in enumerate(source.shape) if i not in dims)
    return TensorType(source.dtype, shape)


def _scatter(operands: list[Value], attrs: dict[str, Any]) -> TensorType:
    """operands: target [n, *slice], indices [u], updates [u, *slice].

    For each u in order, target[indices[u]] becomes kind(target[indices[u]], updates[u]); an update
    whose index lies outside [0, n) is dropped. kind: "set" or one of sum, prod, max, min.
    """
    target, indices, updates = (v.type for v in operands)
    _require(attrs["kind"] in SCATTERS, f"scatter of kind {attrs['kind']}")
    _require(indices.dtype in (DType.I32, DType.I64), "indices must be i32 or i64")
    _require(target.rank >= 1 and indices.rank == 1, f"ranks {target.rank} and {indices.rank}")
    wanted = TensorType(target.dtype, (*indices.shape, *target.shape[1:]))
    _require(updates == wanted, f"updates are {updates}, expected {wanted}")
    _require(attrs["kind"] == "set" or target.dtype is not DType.BOOL, "arithmetic on bool")
    return target


def _scan(operands: list[Value], attrs: dict[str, Any]) -> TensorType:
    """Along `dim`, each element becomes the reduction of those up to it; exclusive: of those before
    it; reverse: counted from the end. Floats are added up in their own type, in order."""
    source = operands[0].type
    _require(0 <= attrs["dim"] < source.rank, "scan: dim out of range")
    _require(attrs["kind"] in SCANS, f"scan of kind {attrs['kind']}")
    _require(attrs["kind"] != "logsumexp" or source.dtype.is_float, "logsumexp of integers")
    _require(source.dtype is not DType.BOOL, "scan of bool")
    return source


def _top_k(operands: list[Value], attrs: dict[str, Any]) -> TensorType:
    """Positions (i32) of the k largest elements in the last dim, the largest first, of equal ones
    the one with the lower position. Fewer than k elements are not legal; a NaN refuses the run."""
    source, k = operands[0].type, attrs["k"]
    _require(source.rank >= 1 and source.dtype is not DType.BOOL, f"top_k of {source}")
    _require(is_static(k) and k >= 1, "k must be a positive integer")
    return TensorType(DType.I32, (*source.shape[:-1], k))


def _positions(operands: list[Value], attrs: dict[str, Any]) -> TensorType:
    """Where a bool [n] is true, in order. The shape is [how many], which must be right."""
    source = operands[0].type
    _require(source.dtype is DType.BOOL and source.rank == 1, f"positions of {source}")
    _require(len(attrs["shape"]) == 1, f"shape {attrs['shape']}")
    return TensorType(DType.I64, tuple(attrs["shape"]))


def _first_equal(operands: list[Value], attrs: dict[str, Any]) -> TensorType:
    """For each element of x [n], the position of the first that equals it; a NaN is its own."""
    source = operands[0].type
    _require(source.rank == 1 and not source.dtype.is_half, f"first_equal of {source}")
    return TensorType(DType.I32, source.shape)


def _dot_general(operands: list[Value], attrs: dict[str, Any]) -> TensorType:
    """Matrix product over the last two dims, with equal leading batch dims.

    operands: a [*batch, m, k] (k, m when transpose_a), b [*batch, k, n] (n, k when transpose_b)
    or b [k, n] shared by the whole batch, and optionally a bias [n]. activation: "none", "relu".
    """
    a, b = operands[0].type, operands[1].type
    _require(a.dtype == b.dtype and a.dtype.is_float, f"operands {a} and {b}")
    _require(a.rank >= 2 and b.rank in (2, a.rank), f"ranks {a.rank} and {b.rank}")
    if b.rank > 2:
        _require(a.shape[:-2] == b.shape[:-2], f"batch dims differ: {a} and {b}")
    m, ka = a.shape[-2:] if not attrs["transpose_a"] else reversed(a.shape[-2:])
    kb, n = b.shape[-2:] if not attrs["transpose_b"] else reversed(b.shape[-2:])
    _require(ka == kb, f"contracted dims differ: {a} and {b}")
    _require(len(operands) in (2, 3), "dot_general takes two or three operands")
    if len(operands) == 3:
        _require(operands[2].type == TensorType(a.dtype, (n,)), "the bias must be [n]")
    _require(attrs["activation"] in ("none", "relu"), f"activation {attrs['activation']}")
    return TensorType(a.dtype, (*a.shape[:-2], m, n))


def _conv(operands: list[Value], attrs: dict[str, Any]) -> TensorType:
    """Convolution, channels last: at every place, the sum over a window of x times the filter.

    operands: x [batch, *spatial, groups * channels], filter [*window, channels, groups * filters]
    and optionally a bias [groups * filters]. For each spatial dim: `sizes`, of the result; window i
    begins at i * stride - low, and its places are `dilation` apart. Outside of x are zeros. The
    filters of a group see the group's channels. activation: "none", "relu".
    """
    x, window = operands[0].type, operands[1].type
    rank = x.rank - 2
    _require(1 <= rank <= 3 and window.rank == x.rank, f"operands {x} and {window}")
    _require(x.dtype == window.dtype and x.dtype.is_float, f"operands {x} and {window}")
    sizes, steps = attrs["sizes"], (attrs["strides"], attrs["dilations"])
    _require(all(len(of) == rank for of in (sizes, attrs["low"], *steps)), "conv: wrong rank")
    positive = all(is_static(n) and n > 0 for of in steps for n in of)
    _require(positive, "strides and dilations must be positive integers")
    channels, filters, groups = window.shape[-2], window.shape[-1], attrs["groups"]
    _require(all(map(is_static, window.shape[:-1])), "the window's size must be known")
    _require(x.shape[-1] == groups * channels and channels > 0, f"{groups} groups of {channels}")
    _require(simplify(floor_mod(filters, groups)) == 0, f"{filters} filters in {groups} groups")
    _require(len(operands) in (2, 3), "conv takes two or three operands")
    if len(operands) == 3:
        _require(operands[2].type == TensorType(x.dtype, (filters,)), "the bias must be [filters]")
    _require(attrs["activation"] in ("none", "relu"), f"activation {attrs['activation']}")
    return TensorType(x.dtype, (x.shape[0], *sizes, filters))


def _rfft(operands: list[Value], attrs: dict[str, Any]) -> TensorType:
    """The discrete Fourier transform of real numbers along the last dim, of known length n: the
    first n / 2 + 1 numbers of it. Dim 0 of the result is 2: the real and the imaginary parts."""
    source = operands[0].type
    _require(source.dtype is DType.F32 and source.rank >= 1, f"rfft of {source}")
    length = source.shape[-1]
    _require(is_static(length) and length > 0, "the length must be a positive integer")
    return TensorType(source.dtype, (2, *source.shape[:-1], length // 2 + 1))


def _irfft(operands: list[Value], attrs: dict[str, Any]) -> TensorType:
    """operands: real parts, imaginary parts. The inverse of rfft, for a result of `length`.
    Imaginary parts that those of real numbers don't have are left out of account."""
    source, length = _same(operands, attrs), attrs["length"]
    _require(source.dtype is DType.F32 and source.rank >= 1, f"irfft of {source}")
    _require(is_static(length) and length > 0, "the length must be a positive integer")
    _require(source.shape[-1] == length // 2 + 1, f"irfft of {source} to {length}")
    return TensorType(source.dtype, (*source.shape[:-1], length))


def _dynamic_update(operands: list[Value], attrs: dict[str, Any]) -> TensorType:
    """operands: array [n, *row], index [], row. The array with `row` in place of its row `index`;
    an index outside [0, n) refuses the run."""
    array, index, row = (v.type for v in operands)
    _require(index.dtype in (DType.I32, DType.I64) and index.rank == 0, f"the index is {index}")
    _require(array.rank >= 1, "dynamic_update of a scalar")
    _require(row == TensorType(array.dtype, array.shape[1:]), f"a row {row} of {array}")
    return array


def _while(operands: list[Value], attrs: dict[str, Any]) -> TensorType:
    """See loops.py. Fewer iterations than min_trips or more than loops.MAX_TRIPS refuse the run."""
    condition, body = attrs["condition"], attrs["body"]
    for program in (condition, body):
        _require(len(program.params) == len(operands), f"{program.name}: wrong parameters")
        for param, operand in zip(program.params, operands, strict=True):
            _require(
                same_type(param.type, operand.type), f"{program.name}: {param} isn't {operand}"
            )
    test = [v.type for v in condition.results]
    _require(test == [TensorType(DType.BOOL, ())], "the condition must give one bool")
    _require(len(body.results) <= len(operands), "more results than parameters")
    for param, result in zip(body.params, body.results, strict=False):
        _require(same_type(param.type, result.type), f"{param} becomes {result.type}")
    return TensorType(DType.I64, ())


def _carried(operands: list[Value], attrs: dict[str, Any]) -> TensorType:
    """operands: the result of a while. What its value `index` is in the end."""
    loop = operands[0].op
    _require(loop is not None and loop.kind == "while", "carried by no loop")
    assert loop is not None
    _require(0 <= attrs["index"] < len(loop.attrs["body"].results), "carried: index out of range")
    return loop.operands[attrs["index"]].type


def same_type(a: TensorType, b: TensorType) -> bool:
    """Equal dtypes and dims, whatever form the dims are in."""
    return (
        a.dtype is b.dtype
        and a.rank == b.rank
        and all(m == n or simplify(m - n) == 0 for m, n in zip(a.shape, b.shape, strict=True))
    )


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise IrError(message)


OPS: dict[str, OpSpec] = {
    **{kind: OpSpec(1, (), _same) for kind in UNARY},
    **{kind: OpSpec(1, (), _to_bool) for kind in UNARY_TO_BOOL},
    **{kind: OpSpec(2, (), _same) for kind in BINARY},
    "compare": OpSpec(2, ("direction",), _compare),
    "select": OpSpec(3, (), _select),
    "convert": OpSpec(1, ("dtype",), _convert),
    "checked": OpSpec(2, (), _checked),
    "constant": OpSpec(0, ("value",), _constant),
    "iota": OpSpec(0, ("dtype", "shape", "dim"), _iota),
    "shape_value": OpSpec(0, ("dtype", "shape", "elements"), _shape_value),
    "broadcast_in_dim": OpSpec(1, ("shape", "dims"), _broadcast_in_dim),
    "reshape": OpSpec(1, ("shape",), _reshape),
    "transpose": OpSpec(1, ("perm",), _transpose),
    "slice": OpSpec(1, ("start", "limit", "stride"), _slice),
    "reverse": OpSpec(1, ("dims",), _reverse),
    "concatenate": OpSpec(None, ("dim",), _concatenate),
    "pad": OpSpec(2, ("low", "high"), _pad),
    "gather": OpSpec(2, ("axis", "batch_dims"), _gather),
    "reduce": OpSpec(1, ("kind", "dims"), _reduce),
    "scatter": OpSpec(3, ("kind",), _scatter),
    "scan": OpSpec(1, ("kind", "dim", "exclusive", "reverse"), _scan),
    "top_k": OpSpec(1, ("k",), _top_k),
    "positions": OpSpec(1, ("shape",), _positions),
    "first_equal": OpSpec(1, (), _first_equal),
    "dot_general": OpSpec(None, ("transpose_a", "transpose_b", "activation"), _dot_general),
    "conv": OpSpec(None, ("strides", "dilations", "low", "sizes", "groups", "activation"), _conv),
    "rfft": OpSpec(1, (), _rfft),
    "irfft": OpSpec(2, ("length",), _irfft),
    "dynamic_update": OpSpec(3, (), _dynamic_update),
    "while": OpSpec(None, ("min_trips", "condition", "body"), _while),
    "carried": OpSpec(1, ("index",), _carried),
}


# Kinds, the dtypes they need in words, and as a predicate.
_DTYPES: tuple[tuple[frozenset[str], str, Callable[[DType], bool]], ...] = (
    (FLOAT_ONLY, "a float", lambda dtype: dtype.is_float),
    (INTEGER_ONLY, "an integer", lambda dtype: dtype.is_integer),
    (BITWISE, "an integer or bool", lambda dtype: dtype.is_integer or dtype is DType.BOOL),
    (ARITHMETIC, "a number", lambda dtype: dtype.is_integer or dtype.is_float),
)


def infer_type(kind: str, operands: list[Value], attrs: dict[str, Any]) -> TensorType:
    """The result type. Raises IrError, naming the op, when operands or attributes are illegal."""
    spec = OPS.get(kind)
    if spec is None:
        raise IrError(f"'{kind}' is no op of the IR")
    if spec.n_operands is not None and len(operands) != spec.n_operands:
        raise IrError(f"{kind}: takes {spec.n_operands} operands, has {len(operands)}")
    if set(attrs) != set(spec.attrs):
        raise IrError(f"{kind}: attributes {sorted(attrs)}, expected {sorted(spec.attrs)}")
    for kinds, needed, legal in _DTYPES:
        if kind in kinds and not legal(operands[0].type.dtype):
            raise IrError(f"{kind}: needs {needed}, has {operands[0].type}")
    try:
        return spec.infer(operands, attrs)
    except IrError as error:
        raise IrError(f"{kind}: {error}") from None
