"""Element types and tensor types of the IR."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import ml_dtypes
import numpy as np

from tf_blade.compiler.ir.dims import Dim, Shape, product, to_text


class DType(Enum):
    """Element types. Values are the names in IR text.

    Halves (f16, bf16) are for memory only: they are moved and converted, arithmetic is done in f32.
    """

    F32 = "f32"
    F64 = "f64"
    F16 = "f16"
    BF16 = "bf16"
    I8 = "i8"
    I16 = "i16"
    I32 = "i32"
    I64 = "i64"
    U8 = "u8"
    U16 = "u16"
    U32 = "u32"
    U64 = "u64"
    BOOL = "bool"

    @property
    def numpy(self) -> np.dtype:
        return _INFO[self][0]

    @property
    def tf_enum(self) -> int:
        """TensorFlow's DataType enum value, also BladeDType's."""
        return _INFO[self][1]

    @property
    def size(self) -> int:
        """Bytes an element."""
        return self.numpy.itemsize

    @property
    def is_float(self) -> bool:
        """Whether arithmetic is done on floats of this type."""
        return self in (DType.F32, DType.F64)

    @property
    def is_half(self) -> bool:
        return self in (DType.F16, DType.BF16)

    @property
    def is_integer(self) -> bool:
        return not (self.is_float or self.is_half or self is DType.BOOL)

    @property
    def is_signed(self) -> bool:
        return self.is_float or self.is_half or self.value.startswith("i")

    @classmethod
    def from_tf_enum(cls, value: int) -> DType | None:
        """The IR's dtype for a TensorFlow DataType, or None when the IR has none."""
        return _BY_ENUM.get(value)

    @classmethod
    def from_numpy(cls, dtype: np.dtype) -> DType:
        return _BY_NUMPY[np.dtype(dtype)]


_INFO: dict[DType, tuple[np.dtype, int]] = {
    DType.F32: (np.dtype(np.float32), 1),
    DType.F64: (np.dtype(np.float64), 2),
    DType.I32: (np.dtype(np.int32), 3),
    DType.U8: (np.dtype(np.uint8), 4),
    DType.I16: (np.dtype(np.int16), 5),
    DType.I8: (np.dtype(np.int8), 6),
    DType.I64: (np.dtype(np.int64), 9),
    DType.BOOL: (np.dtype(np.bool_), 10),
    DType.BF16: (np.dtype(ml_dtypes.bfloat16), 14),
    DType.U16: (np.dtype(np.uint16), 17),
    DType.F16: (np.dtype(np.float16), 19),
    DType.U32: (np.dtype(np.uint32), 22),
    DType.U64: (np.dtype(np.uint64), 23),
}
_BY_ENUM = {enum: dtype for dtype, (_, enum) in _INFO.items()}
_BY_NUMPY = {numpy: dtype for dtype, (numpy, _) in _INFO.items()}


@dataclass(frozen=True)
class TensorType:
    """dtype and shape of a value; the rank is always known, dims may be symbolic."""

    dtype: DType
    shape: Shape

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> Dim:
        """Number of elements."""
        return product(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype.value}[{', '.join(to_text(d) for d in self.shape)}]"
