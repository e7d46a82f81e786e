"""The largest elements of each row, and whether a given one is among them."""

from __future__ import annotations

from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.ir.types import DType
from tf_blade.compiler.lower.elementwise import number
from tf_blade.compiler.lower.operands import content
from tf_blade.compiler.lower.registry import INDICES, NUMBERS, DTypes, lower
from tf_blade.compiler.lower.scatters import between
from tf_blade.errors import UnsupportedError

# Longer lists are better served by TensorFlow's heap and sort.
_LONGEST = 64
_POSITIONS: DTypes = INDICES | {DType.I16}


@lower("TopKV2", dtypes={"T": NUMBERS, "Tk": _POSITIONS, "index_type": _POSITIONS}, contents=[1])
def top_k_v2(b: Builder, x: Value, k: Value, *, sorted: bool, index_type: DType) -> list[Value]:
    """The k largest elements of each row and their positions, the largest first."""
    (count,) = content(b, k, "k")
    if not sorted:
        raise UnsupportedError("the largest elements in an order of TensorFlow's choice", b.source)
    if not isinstance(count, int) or not 1 <= count <= _LONGEST:
        raise UnsupportedError(f"k is {count}: not known to be 1 to {_LONGEST}", b.source)
    positions = b.top_k(x, count)
    last = x.type.rank - 1
    return [b.gather(x, positions, last, last), b.convert(positions, index_type)]


@lower("InTopK", dtypes=INDICES)
def in_top_k(b: Builder, predictions: Value, targets: Value, *, k: int) -> Value:
    """Whether fewer than k classes have a larger prediction than the target; false without one."""
    return in_top_k_v2(b, predictions, targets, number(b, k, targets))


@lower("InTopKV2", dtypes=INDICES)
def in_top_k_v2(b: Builder, predictions: Value, targets: Value, k: Value) -> Value:
    """Whether fewer than k classes have a larger prediction than the target; false without one."""
    count = b.same_dim(b.shape(predictions)[0], b.shape(targets)[0], "one target for each row")
    predictions = b.retype(predictions, (count, b.shape(predictions)[1]))
    targets = b.retype(targets, (count,))
    shape = b.shape(predictions)
    classes = b.shape_value(shape[1], targets.type.dtype)
    known = between(b, targets, classes)
    # Picked by comparing positions: a target beside the classes picks nothing.
    places = b.iota(targets.type.dtype, shape, 1)
    hit = b.compare("EQ", b.broadcast_in_dim(targets, shape, [0]), places)
    picked = b.reduce("sum", b.select(hit, predictions, number(b, 0, predictions)), [1])
    larger = b.compare("GT", predictions, b.broadcast_in_dim(picked, shape, [0]))
    better = b.reduce("sum", b.convert(larger, targets.type.dtype), [1])
    finite = b.reduce("and", b.unary("is_finite", predictions), [1])
    return b.binary("and", b.binary("and", known, finite), b.compare("LT", better, k))
