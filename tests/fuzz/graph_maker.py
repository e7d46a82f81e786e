"""A random graph that grows step by step, with what is known of its values.

The steps, and what they know of bounds and rounding, are those of random IR programs
(`tests/compiler/random_programs`). What the IR has no ops for is a `Call`: a branch, a loop, a
function, an op of the corpus. Its results are params to the IR's builder; the ops that belong to
one of its bodies are a `Block` of their own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sympy
from hypothesis import strategies as st

from tests.compiler.random_programs.maker import DTYPES, Fact, Maker, param_data
from tf_blade.compiler.ir.dims import Dim, Shape, evaluate, is_static
from tf_blade.compiler.ir.program import ComputedSize, Op, Value
from tf_blade.compiler.ir.types import DType

# Vectors of any width need dims beyond 16, and remainders.
SIZES = (1, 2, 3, 5, 8, 17, 33)
Draw = Callable[[np.random.Generator, tuple[int, ...], dict[str, int]], np.ndarray]


@dataclass(eq=False)
class Block:
    """Ops and calls in order: the graph, or the body of a branch, loop or function."""

    items: list[Op | Call] = field(default_factory=list)
    results: list[Value] = field(default_factory=list)


@dataclass(eq=False)
class Call:
    """Something that the IR has no op for.

    Attributes:
      build: TensorFlow tensors from those of `inputs`; gets a function for each of `blocks` (from
        the tensors of the block's params to those of its results).
      params: for each block the values that stand for its arguments; others it sees from outside.
    """

    name: str
    inputs: list[Value]
    build: Callable[[list[Any], list[Callable[..., Any]]], Sequence[Any]]
    blocks: list[Block] = field(default_factory=list)
    params: list[list[Value]] = field(default_factory=list)
    results: list[Value] = field(default_factory=list)


@dataclass(eq=False)
class Placeholder:
    """An input. draw: makes its elements, for a shape and the sizes of the named dims."""

    value: Value
    draw: Draw
    static: list[int | None]  # what TensorFlow is told of its shape
    free: bool = False  # a run may give it a dim of 1 where others have more


class GraphMaker(Maker):
    """Grows a graph; `root` is what came about."""

    exact_powers = False  # TensorFlow's are off by an ulp now and then

    def __init__(self, draw: st.DrawFn) -> None:
        super().__init__(draw, DTYPES, empty_dims=False)
        self.symbol_sizes = [self.choose(SIZES) for _ in self.symbol_sizes]
        # A run may have empty tensors; what is known of values must then hold without elements.
        self.empty_runs = self.integer(0, 4) == 4
        self.root = Block()
        self.placeholders: list[Placeholder] = []
        self.called: list[str] = []
        self.named: dict[str, sympy.Symbol] = {}  # dims that a run draws sizes for
        self._block = self.root
        self._taken = 0

    # -- inputs ---------------------------------------------------------------------------

    def param(self) -> None:
        super().param()
        value = self.builder.program.params[-1]
        dtype = value.type.dtype
        self.placeholder(value, lambda rng, shape, dims: param_data(rng, dtype, list(shape)))
        self.placeholders[-1].free = True
        self.named.update({f"d{i}": symbol for i, symbol in self.symbols.items()})

    def element(self, value: int) -> sympy.Symbol:
        symbol = super().element(value)
        param = self.builder.program.params[-1]

        def draw(rng: np.random.Generator, shape: tuple[int, ...], dims: dict[str, int]) -> Any:
            # Mostly what fits the largest sizes; else anything up to that.
            return [value if rng.random() < 0.7 else rng.integers(0, value + 1)]

        self.placeholder(param, draw)
        return symbol

    def placeholder(self, value: Value, draw: Draw) -> None:
        """Has a new param of the builder be an input of the graph."""
        static = [n if is_static(n) else None for n in value.type.shape]
        self.placeholders.append(Placeholder(value, draw, static))

    def foreign(
        self,
        dtype: DType,
        shape: Sequence[Dim | None],
        fact: Fact,
        sizes: Sequence[int] | None = None,
    ) -> Value:
        """A value that no op of the IR computes. A dim that is None in `shape` is one of its own,
        of the size in `sizes`."""
        static = [n if is_static(n) else None for n in shape]
        value = self.builder.param(dtype, static)
        for i, n in enumerate(shape):
            if n is None:
                assert sizes is not None
                self.bindings[value.type.shape[i]] = sizes[i]
            elif not is_static(n):
                self.bindings[value.type.shape[i]] = self.sizes((n,))[0]
                self.builder.same_dim(n, value.type.shape[i], "as it was made")
        return self.keep(value, fact)

    def size_in(self, dim: Dim, bindings: Mapping[sympy.Symbol, int]) -> int:
        """A dim's size in a run."""
        return evaluate(self.builder.canonical(dim), bindings)

    # -- blocks ---------------------------------------------------------------------------

    def flush(self) -> None:
        """Puts the ops since the last time into the block at work."""
        ops = self.builder.program.ops
        self._block.items += ops[self._taken :]
        self._taken = len(ops)

    @contextlib.contextmanager
    def block(self) -> Iterator[Block]:
        """Steps in here belong to a body: what they make isn't seen outside."""
        self.flush()
        outside, values = self._block, list(self.values)
        self._block = inside = Block()
        try:
            yield inside
            self.flush()
        finally:
            self._block, self.values = outside, values

    def call(self, call: Call) -> None:
        self.flush()
        self._block.items.append(call)
        self.called.append(call.name)

    def prune(self, block: Block) -> set[Value]:
        """Drops what the block's results don't need; the values that they do need.

        TensorFlow computes, and reports errors of, what a body captures but doesn't use; a graph
        without it is no wrong one.
        """
        needed, kept = set(block.results), list[Op | Call]()
        for item in reversed(block.items):
            if isinstance(item, Op):
                if item.result in needed:
                    kept.append(item)
                    needed.update(item.operands, self._in_dims(tuple(item.attrs.values())))
            elif needed & set(item.results):
                kept.append(item)
                needed.update(item.inputs)
                for inner, params in zip(item.blocks, item.params, strict=True):
                    needed |= self.prune(inner) - set(params)
        block.items = kept[::-1]
        return needed

    def _in_dims(self, attr: Any) -> set[Value]:
        """The params that dims in attributes come from."""
        if isinstance(attr, tuple):
            return {value for part in attr for value in self._in_dims(part)}
        program, dim = self.builder.program, attr
        if isinstance(attr, sympy.Expr):
            dim = self.builder.canonical(attr)
        if not isinstance(dim, sympy.Expr):
            return set()
        sources = (program.symbols[s] for s in dim.free_symbols)
        return {
            s.value if isinstance(s, ComputedSize) else program.params[s.param] for s in sources
        }

    @property
    def nested(self) -> bool:
        return self._block is not self.root

    def like(self, dtype: DType, shape: Shape, fallback: Value) -> Value:
        """A value of that type, a late one where there is one."""
        found = [v for v in self.values if v.type.dtype is dtype and self.shape(v) == shape]
        return found[-1] if found else fallback

    # -- facts ----------------------------------------------------------------------------

    def may_be_empty(self, value: Value) -> bool:
        unknown = not all(is_static(n) for n in self.shape(value))
        return super().may_be_empty(value) or (self.empty_runs and unknown)

    def results(self) -> list[Value]:
        """What the graph's outputs are: leaves, and now and then something that is used, too."""
        self.flush()
        read: set[Value] = set()
        stack: list[Block] = [self.root]
        while stack:
            for item in stack.pop().items:
                read.update(item.operands if isinstance(item, Op) else item.inputs)
                if isinstance(item, Call):
                    stack += item.blocks
        inputs = {p.value for p in self.placeholders}
        leaves = [v for v in self.values if v not in read and v not in inputs]
        found = leaves[-12:] or [self.values[-1]]
        if self.flag():
            found.append(self.choose(self.values))
        self.root.results = list(dict.fromkeys(found))
        self.prune(self.root)
        return self.root.results
