"""Names shared by everything that looks at graphs: the argument op, tensor types."""

from __future__ import annotations

from dataclasses import dataclass, field

import tensorflow as tf

# The op name of a function argument's node (TensorFlow's own executor uses the same).
ARG = "_Arg"

Shape = tuple[int | None, ...] | None  # None: unknown rank; a None entry: unknown dim


@dataclass(frozen=True)
class TensorInfo:
    """What is known before running about one tensor: its dtype and partly known shape.

    likely: the shape that it has in the sample inputs, as far as that is known; a hint.
    """

    dtype: tf.DType
    shape: Shape
    likely: Shape = field(default=None, compare=False)

    @property
    def rank(self) -> int | None:
        return None if self.shape is None else len(self.shape)

    def __str__(self) -> str:
        if self.shape is None:
            return f"{self.dtype.name}[*]"
        return f"{self.dtype.name}[{','.join('?' if d is None else str(d) for d in self.shape)}]"
