"""The IR's primitives as methods: each makes its operands fit and appends one op.

What that takes (types, dims that are equal, programs inside ops) is the builder's (`builder.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tf_blade.compiler.ir import dims as d
from tf_blade.compiler.ir.dims import Dim, Shape
from tf_blade.compiler.ir.program import Program, Value
from tf_blade.compiler.ir.types import DType
from tf_blade.errors import UnsupportedError


class Primitives(ABC):
    """Appends primitives to a program."""

    source: str

    @abstractmethod
    def op(self, kind: str, operands: Sequence[Value], /, **attrs: Any) -> Value: ...
    @abstractmethod
    def nested(
        self,
        name: str,
        operands: Sequence[Value],
        make: Callable[[list[Value]], Sequence[Value]],
    ) -> Program: ...
    @abstractmethod
    def size(self, count: Value, at_most: Dim) -> Dim: ...
    @abstractmethod
    def shape(self, value: Value) -> Shape: ...
    @abstractmethod
    def canonical(self, dim: Dim) -> Dim: ...
    @abstractmethod
    def canonical_types(self, program: Program) -> None: ...
    @abstractmethod
    def same_dim(self, a: Dim, b: Dim, why: str) -> Dim: ...
    @abstractmethod
    def require_le(self, a: Dim, b: Dim, why: str) -> None: ...
    @abstractmethod
    def retype(self, value: Value, shape: Sequence[Dim]) -> Value: ...
    @abstractmethod
    def broadcast_to(self, value: Value, shape: Shape) -> Value: ...
    @abstractmethod
    def broadcast_together(self, *values: Value) -> list[Value]: ...

    def constant(self, value: Any, dtype: DType | None = None) -> Value:
        array = np.asarray(value, dtype=dtype.numpy if dtype else None)
        return self.op("constant", [], value=array)

    def splat(self, value: Any, dtype: DType, shape: Shape) -> Value:
        """A tensor of one repeated value."""
        return self.broadcast_to(self.constant(value, dtype), tuple(shape))

    def shape_value(self, elements: Any, dtype: DType) -> Value:
        """A tensor of dims: `elements` is a (nested) sequence of dims, or one dim for a scalar."""
        array = np.empty(np.shape(elements), dtype=object)
        array[...] = elements
        flat = tuple(self.canonical(n) for n in array.flat)
        return self.op("shape_value", [], dtype=dtype, shape=array.shape, elements=flat)

    def convert(self, value: Value, dtype: DType) -> Value:
        return value if value.type.dtype is dtype else self.op("convert", [value], dtype=dtype)

    def compare(self, direction: str, a: Value, b: Value) -> Value:
        """Broadcasts, then compares elementwise; direction is one of EQ NE LT LE GT GE."""
        return self.op("compare", self.broadcast_together(a, b), direction=direction)

    def select(self, predicate: Value, on_true: Value, on_false: Value) -> Value:
        return self.op("select", self.broadcast_together(predicate, on_true, on_false))

    def checked(self, value: Value, condition: Value) -> Value:
        """The value; the run is refused where the condition (broadcast to it) doesn't hold."""
        return self.op("checked", [value, self.broadcast_to(condition, self.shape(value))])

    def unary(self, kind: str, value: Value) -> Value:
        return self.op(kind, [value])

    def binary(self, kind: str, a: Value, b: Value) -> Value:
        """Broadcasts as TensorFlow does, then applies the op."""
        return self.op(kind, self.broadcast_together(a, b))

    def add(self, a: Value, b: Value) -> Value:
        return self.binary("add", a, b)

    def sub(self, a: Value, b: Value) -> Value:
        return self.binary("sub", a, b)

    def mul(self, a: Value, b: Value) -> Value:
        return self.binary("mul", a, b)

    def div(self, a: Value, b: Value) -> Value:
        return self.binary("div", a, b)

    def broadcast_in_dim(self, value: Value, shape: Shape, dims: Sequence[int]) -> Value:
        return self.op("broadcast_in_dim", [value], shape=tuple(shape), dims=tuple(dims))

    def reshape(self, value: Value, shape: Sequence[Dim]) -> Value:
        """Equal element counts become a constraint where the algebra can't tell."""
        target = tuple(self.canonical(n) for n in shape)
        if target == self.shape(value):
            return value
        self.same_dim(d.product(self.shape(value)), d.product(target), "reshape keeps the size")
        target = tuple(self.canonical(n) for n in target)
        return self.op("reshape", [value], shape=target)

    def transpose(self, value: Value, perm: Sequence[int]) -> Value:
        if list(perm) == list(range(value.type.rank)):
            return value
        return self.op("transpose", [value], perm=tuple(int(p) for p in perm))

    def slice(
        self,
        value: Value,
        start: Sequence[Dim],
        limit: Sequence[Dim],
        stride: Sequence[int] | None = None,
    ) -> Value:
        """The caller makes sure that 0 <= start <= limit <= dim, by constraint where need be."""
        steps = tuple(stride) if stride else (1,) * value.type.rank
        return self.op(
            "slice",
            [value],
            start=tuple(self.canonical(n) for n in start),
            limit=tuple(self.canonical(n) for n in limit),
            stride=steps,
        )

    def reverse(self, value: Value, dims: Sequence[int]) -> Value:
        return self.op("reverse", [value], dims=tuple(dims)) if dims else value

    def concatenate(self, values: Sequence[Value], dim: int) -> Value:
        if len(values) == 1:
            return values[0]
        for other in values[1:]:
            for i in range(other.type.rank):
                if i != dim:
                    self.same_dim(values[0].type.shape[i], other.type.shape[i], "concatenated dims")
        first = self.shape(values[0])
        retyped = [
            self.retype(v, (*first[:dim], self.shape(v)[dim], *first[dim + 1 :])) for v in values
        ]
        return self.op("concatenate", retyped, dim=dim)

    def pad(self, value: Value, fill: Value, low: Sequence[Dim], high: Sequence[Dim]) -> Value:
        return self.op("pad", [value, fill], low=tuple(low), high=tuple(high))

    def iota(self, dtype: DType, shape: Shape, dim: int) -> Value:
        return self.op("iota", [], dtype=dtype, shape=tuple(shape), dim=dim)

    def gather(self, params: Value, indices: Value, axis: int, batch_dims: int = 0) -> Value:
        return self.op("gather", [params, indices], axis=axis, batch_dims=batch_dims)

    def reduce(self, kind: str, value: Value, dims: Sequence[int]) -> Value:
        """kind: sum, prod, max, min, and, or. No dims: the value itself."""
        return self.op("reduce", [value], kind=kind, dims=tuple(sorted(dims))) if dims else value

    def scan(
        self, kind: str, value: Value, dim: int, *, exclusive: bool = False, reverse: bool = False
    ) -> Value:
        """kind: sum, prod, logsumexp; see ops.py."""
        return self.op("scan", [value], kind=kind, dim=dim, exclusive=exclusive, reverse=reverse)

    def top_k(self, value: Value, k: int) -> Value:
        """Positions of the k largest elements in the last dim; see ops.py."""
        self.require_le(k, value.type.shape[-1], "there are k elements")
        return self.op("top_k", [value], k=k)

    def positions(self, mask: Value) -> Value:
        """Where the bool [n] is true, in order; how many there are becomes a fresh symbol."""
        (length,) = self.shape(mask)
        count = self.size(self.reduce("sum", self.convert(mask, DType.I64), [0]), length)
        return self.op("positions", [mask], shape=(count,))

    def first_equal(self, value: Value) -> Value:
        """Positions (i32) of the first element that equals each one; see ops.py."""
        self.require_le(value.type.shape[0], 2**31 - 1, "positions fit into 32 bits")
        return self.op("first_equal", [value])

    def scatter(self, target: Value, indices: Value, updates: Value, kind: str) -> Value:
        """Updates [u, *slice] put into rows of target [n, *slice]; see ops.py."""
        shape = (*self.shape(indices), *self.shape(target)[1:])
        for ours, theirs in zip(self.shape(updates), shape, strict=True):
            self.same_dim(ours, theirs, "updates are of the size of what they update")
        shape = (*self.shape(indices), *self.shape(target)[1:])
        return self.op("scatter", [target, indices, self.retype(updates, shape)], kind=kind)

    def dot_general(
        self,
        a: Value,
        b: Value,
        *,
        transpose_a: bool = False,
        transpose_b: bool = False,
        bias: Value | None = None,
        activation: str = "none",
    ) -> Value:
        """Matrix product over the last two dims (see ops.py); contracted dims are made equal."""
        k_a = a.type.shape[-2] if transpose_a else a.type.shape[-1]
        k_b = b.type.shape[-1] if transpose_b else b.type.shape[-2]
        self.same_dim(k_a, k_b, "contracted dims")
        if b.type.rank > 2:
            for x, y in zip(a.type.shape[:-2], b.type.shape[:-2], strict=True):
                self.same_dim(x, y, "batch dims")
        k = self.shape(a)[-2 if transpose_a else -1]
        n = self.shape(b)[-2 if transpose_b else -1]
        batch = self.shape(a)[:-2] if b.type.rank > 2 else ()
        b = self.retype(b, (*batch, n, k) if transpose_b else (*batch, k, n))
        operands = [a, b] if bias is None else [a, b, bias]
        return self.op(
            "dot_general",
            operands,
            transpose_a=transpose_a,
            transpose_b=transpose_b,
            activation=activation,
        )

    def dynamic_update(self, array: Value, index: Value, row: Value) -> Value:
        """The array [n, *row] with `row` in place of its row `index` (a scalar); see ops.py."""
        for ours, theirs in zip(self.shape(row), self.shape(array)[1:], strict=True):
            self.same_dim(ours, theirs, "a row is of the array's shape")
        return self.op("dynamic_update", [array, index, self.retype(row, self.shape(array)[1:])])

    def while_loop(
        self,
        initial: Sequence[Value],
        fixed: Sequence[Value],
        condition: Callable[[list[Value]], Sequence[Value]],
        body: Callable[[list[Value]], Sequence[Value]],
        *,
        min_trips: int = 0,
    ) -> list[Value]:
        """A loop; see loops.py. Gives the last values of what is carried.

        Args:
          initial: first values of what is carried.
          fixed: what both programs read besides.
          condition, body: append ops and return results, given the values of both, in order.
        """
        operands = [*initial, *fixed]
        test = self.nested("condition", operands, condition)

        def keep_shapes(params: list[Value]) -> list[Value]:
            results = body(params)
            return [self._of_shape(r, p) for p, r in zip(params, results, strict=False)]

        step = self.nested("body", operands, keep_shapes)
        for program in (test, step):
            self.canonical_types(program)
        loop = self.op("while", operands, min_trips=min_trips, condition=test, body=step)
        return [self.op("carried", [loop], index=i) for i in range(len(initial))]

    def _of_shape(self, value: Value, like: Value) -> Value:
        """The next value of `like`, of the same shape."""
        if value.type.rank != like.type.rank:
            raise UnsupportedError("a carried tensor changes its rank", self.source)
        for before, after in zip(self.shape(like), self.shape(value), strict=True):
            # Two symbols may be equal; a sum of dims is hardly ever what it was before.
            plain = all(isinstance(n, int) or n.is_Symbol for n in (before, after))
            if d.simplify(after - before) != 0 and not plain:
                raise UnsupportedError("a carried tensor changes its shape", self.source)
            self.same_dim(before, after, "a carried tensor keeps its shape")
        return self.retype(value, self.shape(like))

    def conv(
        self,
        x: Value,
        window: Value,
        *,
        strides: Sequence[int],
        dilations: Sequence[int],
        low: Sequence[Dim],
        sizes: Sequence[Dim],
        groups: int = 1,
    ) -> Value:
        """Convolution over the spatial dims of x (see ops.py); the channels are made to fit."""
        channels = window.type.shape[-2]
        self.same_dim(x.type.shape[-1], groups * channels, "channels of a convolution")
        return self.op(
            "conv",
            [x, window],
            strides=tuple(int(n) for n in strides),
            dilations=tuple(int(n) for n in dilations),
            low=tuple(self.canonical(n) for n in low),
            sizes=tuple(self.canonical(n) for n in sizes),
            groups=groups,
            activation="none",
        )

    def rfft(self, value: Value) -> Value:
        """[…, n] -> [2, …, n / 2 + 1], n known; see ops.py."""
        return self.op("rfft", [value])

    def irfft(self, real: Value, imaginary: Value, length: int) -> Value:
        """[…, length / 2 + 1] -> […, length]; see ops.py."""
        return self.op("irfft", [real, imaginary], length=length)
