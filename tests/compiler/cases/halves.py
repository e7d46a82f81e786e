"""Cases of half precision: cases of f32 with another dtype, and conversions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import cycle, product

import numpy as np
import tensorflow as tf

from tests.compiler.values import Arg, Case, anything, between

HALVES = ("bf16", "f16")

# TensorFlow, too, computes these in f32 and rounds once; both may round to either side.
_ROUNDED_ONCE = """
    Abs.f32 Neg.f32 Sign.f32 Square.f32 Exp.f32 Expm1.f32 Log.f32 Log1p.f32 Sqrt.f32 Rsqrt.f32
    Reciprocal.f32 Sin.f32 Atan.f32 Tanh.f32 Sigmoid.f32 Erf.f32 Floor.f32 Relu.f32 Relu6.f32
    Elu.f32 IsNan.f32 IsInf.f32 AddV2.f32 Sub.f32 Mul.f32 RealDiv.f32 Maximum.f32
    Minimum.f32 Pow.f32 SquaredDifference.f32 Greater.f32 LessEqual.f32 Equal.f32
    NotEqual.f32 Add.broadcast_1 BiasAdd.f32.NHWC ClipByValue.f32.tensors Select.f32.rows
    SelectV2.f32.broadcast LeakyRelu.f32.0.2 Max.f32.rows Max.f32.special Min.f32.columns
    ArgMax.f32.0 TopKV2.f32.3 MaxPool.valid.f32.special LowerBound.f32 TensorScatterMax.rows.f32
    SegmentMax.f32.int32
""".split()
_MOVED = """
    Identity ConcatV2.columns.1 Pack.1 Unpack.1 Split.static Transpose.1 Reshape.split_last
    Tile.static Pad.static PadV2.static MirrorPad.REFLECT StridedSlice.step
    StridedSlice.fed_range Slice.fed GatherV2.rows.i32 GatherV2.axis GatherNd.slices ReverseV2.0
    Roll.static Fill.f32.static ZerosLike.f32 OnesLike.f32 MatrixBandPart.f32 MatrixDiag.f32
    TensorScatterUpdate.rows.f32 DepthToSpace.f32 SpaceToBatchND.static
""".split()
# TensorFlow rounds what it adds up, or what it computes on the way, to halves.
_ROUNDED_OFTEN = """
    Sum.f32.rows Sum.f32.columns Mean.f32.middle Cumsum.f32.rows.00 SegmentSum.f32.int32
    UnsortedSegmentSum.matrix AddN.f32 AvgPool.valid.f32.finite Softmax.f32.matrix
    Softplus.f32 LogSoftmax.f32.static layer_norm gelu TensorScatterAdd.rows.f32
""".split()


def cases(full: Iterable[Case]) -> Iterator[Case]:
    """full: the cases of other dtypes."""
    by_name = {case.name: case for case in full}
    dtypes = cycle(HALVES)
    for name in (*_ROUNDED_ONCE, *_MOVED):
        yield _of_halves(by_name[name], next(dtypes), ulps=1)
    for name in _ROUNDED_OFTEN:
        dtype = next(dtypes)
        # Up to a hundred sums of up to about ten, each rounded by half a unit.
        units = 2**-8 if dtype == "bf16" else 2**-11
        yield _of_halves(by_name[name], dtype, ulps=8, absolute=64 * units)
    yield from _conversions()


def _of_halves(case: Case, dtype: str, ulps: float, absolute: float = 0) -> Case:
    args = tuple(replace(arg, dtype=dtype) if arg.dtype == "f32" else arg for arg in case.args)
    return replace(
        case, name=f"{dtype}.{case.name}", args=args, ulps=ulps, relative=0, absolute=absolute
    )


def _conversions() -> Iterator[Case]:
    tf_dtypes = {"bf16": tf.bfloat16, "f16": tf.float16, "f32": tf.float32, "f64": tf.float64}
    tf_dtypes |= {"i32": tf.int32, "i64": tf.int64, "u8": tf.uint8, "bool": tf.bool}
    for source, target in product(tf_dtypes, repeat=2):
        if source in HALVES or target in HALVES:
            whole = target in ("i32", "i64", "u8")  # beyond their range C++ has its way
            arg = Arg(source, ("n", "m"), between(0, 250) if whole else anything)
            to = tf_dtypes[target]
            yield Case(f"Cast.{source}.{target}", lambda x, to=to: tf.cast(x, to), (arg,))
    for half in HALVES:
        constant = [1.0, -2.5, np.inf, np.nan, 3e-6]

        def constants(x, to=tf_dtypes[half], constant=constant):
            fixed = tf.constant(np.array(constant, to.as_numpy_dtype))
            return fixed, x * fixed, tf.concat([x, fixed], 0)

        yield Case(f"{half}.constants", constants, (Arg(half, (5,), anything),), ulps=1)
