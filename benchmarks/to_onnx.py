"""`python -m benchmarks.to_onnx …`: tf2onnx's converter with one op more than it knows.

`tf.nn.gelu` becomes Erfc, which tf2onnx 1.17 has no handler for; ONNX has Erf.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tf2onnx import convert
from tf2onnx.handler import tf_op


@tf_op("Erfc")
class Erfc:
    """erfc(x) = 1 - erf(x)."""

    @classmethod
    def version_9(cls, ctx: Any, node: Any, **kwargs: Any) -> None:
        dtype = ctx.get_dtype(node.output[0])
        shape = ctx.get_shape(node.output[0])
        (x,), (y,) = node.input, node.output
        ctx.remove_node(node.name)
        kind = np.float64 if dtype == 11 else np.float32  # onnx.TensorProto.DOUBLE
        one = ctx.make_const(f"{node.name}_one", np.array(1, kind))
        erf = ctx.make_node("Erf", [x])
        inputs = [one.output[0], erf.output[0]]
        ctx.make_node("Sub", inputs, outputs=[y], shapes=[shape], dtypes=[dtype])


if __name__ == "__main__":
    convert.main()
