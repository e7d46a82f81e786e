"""Cases of gradients, losses and simulated quantisation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tests.compiler.cases.raw import raw
from tests.compiler.values import Arg, Case, Values, anything, below, between, computed, finite

F = ("f32", "f64")
INF, NAN = float("inf"), float("nan")
SHARP = (0.0, -0.0, INF, -INF, NAN)
CLOSE: dict[str, Any] = {"relative": 2e-5, "absolute": 1e-5}

# op: values of the first and the second input, attributes.
ACTIVATIONS: dict[str, tuple[Values, Values, dict[str, float]]] = {
    "ReluGrad": (anything, anything, {}),
    "Relu6Grad": (anything, between(-3, 9, 0.0, 6.0), {}),
    "LeakyReluGrad": (anything, anything, {"alpha": 0.3}),
    "EluGrad": (finite, between(-1, 2, 0.0, -0.0), {}),
    "SeluGrad": (finite, between(-1.7, 2, 0.0, -0.0), {}),
    "SoftplusGrad": (finite, between(-20, 20), {}),
    "SoftsignGrad": (finite, finite, {}),
    "SigmoidGrad": (between(0, 1), finite, {}),
    "TanhGrad": (between(-1, 1), finite, {}),
    "InvGrad": (between(-2, 2, *SHARP), between(-2, 2, *SHARP), {}),
    "ReciprocalGrad": (between(-2, 2, *SHARP), between(-2, 2, *SHARP), {}),
    "RsqrtGrad": (between(0, 2, *SHARP), between(-2, 2, *SHARP), {}),
    "SqrtGrad": (between(0, 2, *SHARP), between(-2, 2, *SHARP), {}),
}


def cases() -> Iterator[Case]:
    for op, (first, second, attrs) in ACTIVATIONS.items():
        for dtype in F:
            args = (Arg(dtype, ("n", "m"), first), Arg(dtype, ("n", "m"), second))
            yield Case(f"{op}.{dtype}", raw(op, **attrs), args, ulps=16)
    for dtype in (*F, "i32"):
        for data_format, dims in {"NHWC": ("n", "m", 3), "NCHW": ("n", 3, "m", 2)}.items():
            yield Case(
                f"BiasAddGrad.{dtype}.{data_format}",
                raw("BiasAddGrad", data_format=data_format),
                (Arg(dtype, dims, finite),),
                **CLOSE,
            )
    yield from _losses()
    yield from _quantized()


def _losses() -> Iterator[Case]:
    for dtype in F:
        features = Arg(dtype, ("n", "m"), between(-20, 20))
        yield Case(
            f"SoftmaxCrossEntropyWithLogits.{dtype}",
            raw("SoftmaxCrossEntropyWithLogits"),
            (features, Arg(dtype, ("n", "m"), between(0, 1, 0.0, 0.0, 1.0))),
            sizes=(1, 2, 5, 17),
            **CLOSE,
        )
        for index in ("i32", "i64"):
            yield Case(
                f"SparseSoftmaxCrossEntropyWithLogits.{dtype}.{index}",
                raw("SparseSoftmaxCrossEntropyWithLogits"),
                (features, Arg(index, ("n",), below("m", out_of_range=0.3))),
                sizes=(1, 2, 5, 17),
                **CLOSE,
            )


def _quantized() -> Iterator[Case]:
    x = Arg("f32", ("n", "m", 3), between(-9, 9, 0.0, INF, -INF, NAN))
    for bits in (4, 8):
        for narrow in (False, True):
            attrs = {"num_bits": bits, "narrow_range": narrow}
            yield Case(
                f"FakeQuantWithMinMaxArgs.{bits}.{int(narrow)}",
                raw("FakeQuantWithMinMaxArgs", min=-5.0, max=6.5, **attrs),
                (x,),
                ulps=2,
            )
            low, high = between(-6, 1, 0.0), between(1.5, 7)
            yield Case(
                f"FakeQuantWithMinMaxVars.{bits}.{int(narrow)}",
                raw("FakeQuantWithMinMaxVars", **attrs),
                (x, Arg("f32", (), low), Arg("f32", (), high)),
                ulps=2,
            )
            yield Case(
                f"FakeQuantWithMinMaxVarsPerChannel.{bits}.{int(narrow)}",
                raw("FakeQuantWithMinMaxVarsPerChannel", **attrs),
                (x, Arg("f32", (3,), low), Arg("f32", (3,), high)),
                ulps=2,
            )
    nothing = Arg("f32", (), computed(lambda rng, dims: np.float32(0)))
    yield Case(
        "FakeQuantWithMinMaxVars.zero", raw("FakeQuantWithMinMaxVars"), (x, nothing, nothing)
    )
    yield Case(
        "FakeQuantWithMinMaxVars.weights",
        lambda x: tf.quantization.fake_quant_with_min_max_vars(x, -1.0, 1.0),
        (x,),
        ulps=2,
    )
