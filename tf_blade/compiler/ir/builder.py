"""Builds a Program: one method a primitive, shape facts gathered on the way.

Two dims that TensorFlow requires to be equal (or that broadcasting lets us assume equal) become
one dim from then on, and the equality becomes a constraint that the executable checks before it
runs. Contents of small integer tensors are followed symbolically (`content.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import sympy

from tf_blade.compiler.ir import content as contents
from tf_blade.compiler.ir import dims as d
from tf_blade.compiler.ir.dims import Dim, Shape
from tf_blade.compiler.ir.loops import nested_programs
from tf_blade.compiler.ir.ops import infer_type
from tf_blade.compiler.ir.program import (
    ComputedSize,
    Constraint,
    InputDim,
    InputElement,
    Op,
    Program,
    Value,
)
from tf_blade.compiler.ir.sizes import live_ops, upper_bound
from tf_blade.compiler.ir.types import DType, TensorType
from tf_blade.errors import UnsupportedError


class Builder:
    """Appends ops to a program. `source` (set by the caller) names the TensorFlow node at work."""

    def __init__(self, name: str) -> None:
        self.program = Program(name)
        self.source = ""
        self._contents: dict[Value, contents.Content] = {}
        self._equal: dict[sympy.Symbol, Dim] = {}
        self._names = 0
        self._depth = 0  # of programs inside ops
        self._computes_sizes = False

    # -- parameters and results -----------------------------------------------------------

    def param(
        self,
        dtype: DType,
        shape: Sequence[int | None],
        *,
        constant: bool = False,
        likely: Sequence[int | None] | None = None,
    ) -> Value:
        """The next input. A None dim becomes a fresh symbol `s<n>`; the elements of a small
        integer input become symbols `e<n>` when somebody asks for its content.

        likely: what the dims are likely to be, where that is known.
        """
        index = len(self.program.params)
        dims: list[Dim] = []
        for axis, size in enumerate(shape):
            if size is None:
                symbol = d.dimension_symbol(f"s{len(self.program.symbols)}")
                self.program.symbols[symbol] = InputDim(index, axis)
                found = likely[axis] if likely is not None else None
                if found is not None:
                    self.program.likely[symbol] = found
                dims.append(symbol)
            else:
                dims.append(int(size))
        value = Value(f"p{index}", TensorType(dtype, tuple(dims)))
        self.program.params.append(value)
        if constant:
            self.program.constant_params.add(index)
        return value

    def size(self, count: Value, at_most: Dim) -> Dim:
        """A fresh symbol `n<n>` for the number that an i64 scalar turns out to be.

        Raises UnsupportedError inside of loops, whose shapes are those of the program around them.
        """
        if self._depth:
            raise UnsupportedError("a size that depends on data, in a loop", self.source)
        symbol = d.dimension_symbol(f"n{len(self.program.symbols)}")
        self.program.symbols[symbol] = ComputedSize(count, self.canonical(at_most))
        self._computes_sizes = True
        return symbol

    def content(self, value: Value) -> contents.Content | None:
        """What an integer tensor holds: an object array of dims of its shape, or None if unknown.

        For a small integer parameter this makes one symbol for each element.
        """
        if value in self._contents:
            known = self._contents[value]
            canonical = np.empty(known.shape, dtype=object)
            for index in np.ndindex(known.shape):
                canonical[index] = self.canonical(known[index])
            return canonical
        kind = value.type
        if value in self.program.params and kind.dtype in (DType.I32, DType.I64):
            if not all(d.is_static(n) for n in kind.shape) or kind.size > contents.MAX_ELEMENTS:
                return None
            index = self.program.params.index(value)
            elements = np.empty(int(kind.size), dtype=object)
            for i in range(elements.size):
                symbol = d.element_symbol(f"e{len(self.program.symbols)}")
                self.program.symbols[symbol] = InputElement(index, i)
                elements[i] = symbol
            self._contents[value] = elements.reshape(kind.shape)
            return self._contents[value]
        return None

    def same_content(self, value: Value, as_of: Value) -> None:
        """`value` holds what another value does: a parameter inside an op, and its operand."""
        known = self.content(as_of) if self._may_ask(as_of) else None
        if known is not None:
            self._contents[value] = known

    def static_content(self, value: Value) -> np.ndarray | None:
        """Like content, as an int64 array, when every element is a plain integer."""
        found = value.op.attrs["value"] if value.op and value.op.kind == "constant" else None
        if found is not None and found.dtype.kind in "iu":
            return found.astype(np.int64)
        if value.op is None:
            return None  # asking for a parameter's elements would make symbols for nothing
        symbolic = self.content(value)
        if symbolic is None or not all(isinstance(x, int) for x in symbolic.flat):
            return None
        return symbolic.astype(np.int64)

    def finish(self, results: Sequence[Value]) -> Program:
        """The program: dims made canonical, shape arithmetic replaced by `shape_value`, dead ops
        dropped."""
        self.program.results = list(results)
        self._finish(self.program)
        # The constraints keep the symbols as they came: they are what defines the equalities.
        unique = {(c.kind, c.left, c.right): c for c in self.program.constraints}
        self.program.constraints = list(unique.values())
        return self.program

    def _finish(self, program: Program) -> None:
        self._materialise_contents(program)
        self._drop_dead(program)
        self._canonicalise(program)
        for op in program.ops:
            for nested in nested_programs(op):
                self._finish(nested)

    # -- shape facts ----------------------------------------------------------------------

    def canonical(self, dim: Dim) -> Dim:
        """The dim with every symbol replaced by what it was found equal to."""
        if isinstance(dim, int):
            return dim
        while True:
            known = {s: self._equal[s] for s in dim.free_symbols if s in self._equal}
            if not known:
                return d.simplify(dim)
            dim = d.substitute(dim, known)
            if isinstance(dim, int):
                return dim

    def shape(self, value: Value) -> Shape:
        """The value's shape in canonical dims."""
        return tuple(self.canonical(n) for n in value.type.shape)

    def same_dim(self, a: Dim, b: Dim, why: str) -> Dim:
        """One dim for two that must be equal; records the constraint. Raises UnsupportedError when
        they can't be."""
        a, b = self.canonical(a), self.canonical(b)
        if a == b:
            return a
        if isinstance(a, int) and isinstance(b, int):
            raise UnsupportedError(f"dims {a} and {b} differ: {why}", self.source)
        self.program.constraints.append(
            Constraint("eq", a, b, f"{self.source}: {why}" if self.source else why)
        )
        # Keep the simpler side: an integer, then a symbol that was there first.
        if isinstance(a, int) or (not isinstance(b, int) and not b.is_Symbol):
            a, b = b, a
        if not isinstance(a, int) and a.is_Symbol:
            if not isinstance(b, int) and b.is_Symbol and self._age(a) < self._age(b):
                a, b = b, a
            if isinstance(b, int) or (a not in b.free_symbols and self._is_known_with(b, a)):
                self._equal[a] = b
                return b
        return b

    def require_le(self, a: Dim, b: Dim, why: str) -> None:
        """Records that a <= b must hold."""
        a, b = self.canonical(a), self.canonical(b)
        difference = d.simplify(b - a)
        if isinstance(difference, int):
            if difference < 0:
                raise UnsupportedError(f"{d.to_text(a)} > {d.to_text(b)}: {why}", self.source)
            return
        if difference.is_nonnegative:
            return
        self.program.constraints.append(
            Constraint("le", a, b, f"{self.source}: {why}" if self.source else why)
        )

    def _age(self, symbol: sympy.Symbol) -> tuple[bool, int]:
        """Symbols that are known earlier compare less."""
        computed = isinstance(self.program.symbols[symbol], ComputedSize)
        return computed, list(self.program.symbols).index(symbol)

    def _is_known_with(self, dim: sympy.Expr, symbol: sympy.Symbol) -> bool:
        """Whether the dim can stand for the symbol wherever that is mentioned."""
        sizes = [s for s in dim.free_symbols if isinstance(self.program.symbols[s], ComputedSize)]
        return all(self._age(s) <= self._age(symbol) for s in sizes)

    def broadcast_shapes(self, *shapes: Shape) -> Shape:
        """The shape that TensorFlow's broadcasting gives; unknown dims are assumed equal."""
        rank = max(len(s) for s in shapes)
        result: list[Dim] = []
        for axis in range(-rank, 0):
            dim: Dim = 1
            for shape in shapes:
                if -axis > len(shape):
                    continue
                other = self.canonical(shape[axis])
                if other == 1:
                    continue
                dim = other if dim == 1 else self.same_dim(dim, other, "dims that broadcast")
            result.append(dim)
        return tuple(self.canonical(n) for n in result)

    def broadcast_to(self, value: Value, shape: Shape) -> Value:
        """The value broadcast to `shape` as TensorFlow would (trailing dims aligned)."""
        shape = tuple(self.canonical(n) for n in shape)
        if self.shape(value) == shape:
            return value
        offset = len(shape) - value.type.rank
        if offset < 0:
            raise UnsupportedError(
                f"can't broadcast {value.type} to rank {len(shape)}", self.source
            )
        for i, n in enumerate(self.shape(value)):
            if n != 1:
                self.same_dim(n, shape[offset + i], "dims that broadcast")
        # What was just found equal may have renamed dims, or be equal beyond the algebra's sight.
        shape = tuple(self.canonical(n) for n in shape)
        aligned = [n if n == 1 else shape[offset + i] for i, n in enumerate(self.shape(value))]
        value = self.retype(value, aligned)
        if offset == 0 and tuple(aligned) == shape:
            return value
        return self.broadcast_in_dim(value, shape, range(offset, len(shape)))

    def retype(self, value: Value, shape: Sequence[Dim]) -> Value:
        """The value with its dims written as `shape`, which are known to be equal to its own
        (by a constraint) though the algebra can't tell."""
        target = tuple(self.canonical(n) for n in shape)
        return value if target == self.shape(value) else self.op("reshape", [value], shape=target)

    def broadcast_together(self, *values: Value) -> list[Value]:
        """The values broadcast to their common shape."""
        shape = self.broadcast_shapes(*(v.type.shape for v in values))
        return [self.broadcast_to(v, shape) for v in values]

    # -- primitives -----------------------------------------------------------------------

    def op(self, kind: str, operands: Sequence[Value], /, **attrs: Any) -> Value:
        """Appends one primitive; dims in attributes are made canonical first."""
        operands = [self._canonical_operand(v) for v in operands]
        result_type = infer_type(kind, operands, attrs)
        result_type = TensorType(
            result_type.dtype, tuple(self.canonical(n) for n in result_type.shape)
        )
        bounded = not self._computes_sizes or upper_bound(result_type.size, self.program.symbols)
        if bounded is None:
            raise UnsupportedError(f"no bound of the size of {result_type}", self.source)
        result = Value(f"{self._names}", result_type)
        self._names += 1
        result.op = Op(kind, operands, attrs, result, self.source)
        self.program.ops.append(result.op)
        self._follow_content(result.op)
        return result

    def _canonical_operand(self, value: Value) -> Value:
        shape = self.shape(value)
        if shape != value.type.shape:
            value.type = TensorType(value.type.dtype, shape)
        return value

    def _follow_content(self, op: Op) -> None:
        kind = op.result.type
        if not kind.dtype.is_integer or not all(d.is_static(n) for n in kind.shape):
            return
        if kind.size > contents.MAX_ELEMENTS:
            return
        if op.kind == "constant":
            self._contents[op.result] = op.attrs["value"].astype(object)  # Python's integers
        elif op.kind == "shape_value":
            array = np.empty(len(op.attrs["elements"]), dtype=object)
            array[:] = op.attrs["elements"]
            self._contents[op.result] = array.reshape(op.attrs["shape"])
        elif op.kind in contents.RULES:
            known = [self.content(v) if self._may_ask(v) else None for v in op.operands]
            result = contents.evaluate(op.kind, known, op.attrs)
            if result is not None and kind.dtype in (DType.I32, DType.I64):
                self._contents[op.result] = result

    def _may_ask(self, value: Value) -> bool:
        # Only i32/i64 of at most 16 elements are taken for shapes; more are data.
        kind = value.type
        small = all(d.is_static(n) for n in kind.shape) and kind.size <= 16
        return value in self._contents or (value in self.program.params and small)

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
            for value in program.values():
                self._canonical_operand(value)
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

    def nested(
        self,
        name: str,
        operands: Sequence[Value],
        make: Callable[[list[Value]], Sequence[Value]],
    ) -> Program:
        """A program inside an op: a parameter for each operand, and the ops that `make` appends."""
        nested, outer, source = Program(name), self.program.ops, self.source
        nested.params = [Value(f"p{i}", v.type) for i, v in enumerate(operands)]
        self.program.ops = nested.ops
        self._depth += 1
        try:
            nested.results = list(make(list(nested.params)))
        finally:
            self.program.ops, self.source = outer, source
            self._depth -= 1
        return nested

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

    # -- finishing ------------------------------------------------------------------------

    def _materialise_contents(self, program: Program) -> None:
        """Shape arithmetic whose result is known symbolically becomes one shape_value.

        What depends on elements of inputs is computed as it is written: they may be any numbers,
        and their sums and products wrap around at 32 bits.
        """
        for op in program.ops:
            known = self._contents.get(op.result)
            if known is None or op.kind in ("constant", "shape_value"):
                continue
            if any(self._has_element(n) for n in known.flat):
                continue
            op.kind = "shape_value"
            op.operands = []
            op.attrs = {
                "dtype": op.result.type.dtype,
                "shape": known.shape,
                "elements": tuple(known.flat),
            }

    def _has_element(self, dim: Dim) -> bool:
        symbols = () if isinstance(dim, int) else dim.free_symbols
        return any(isinstance(self.program.symbols.get(s), InputElement) for s in symbols)

    @staticmethod
    def _drop_dead(program: Program) -> None:
        program.ops, sizes = live_ops(program)
        for symbol, source in list(program.symbols.items()):
            if isinstance(source, ComputedSize) and symbol not in sizes:
                del program.symbols[symbol]

    def _canonicalise(self, program: Program) -> None:
        for value in program.values():
            value.type = TensorType(value.type.dtype, self.shape(value))
        for op in program.ops:
            op.attrs = {k: self._canonical_attr(v) for k, v in op.attrs.items()}
        for symbol, source in program.symbols.items():
            if isinstance(source, ComputedSize):
                at_most = self.canonical(source.at_most)
                program.symbols[symbol] = ComputedSize(source.value, at_most)

    def _canonical_attr(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(self._canonical_attr(v) for v in value)
        return self.canonical(value) if isinstance(value, sympy.Expr) else value
