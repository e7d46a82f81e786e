"""Builds a Program, primitive by primitive (`primitives.py`), shape facts gathered on the way.

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
from tf_blade.compiler.ir.primitives import Primitives
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


class Builder(Primitives):
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

    # -- ops -----------------------------------------------------------------------

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

    def canonical_types(self, program: Program) -> None:
        """Writes the types of a program's values in canonical dims."""
        for value in program.values():
            self._canonical_operand(value)

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
        self.canonical_types(program)
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
