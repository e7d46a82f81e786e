"""The IR: a straight-line SSA program over tensors with symbolic dims.

A program is what one cluster computes. Its text form (`str(program)`) is what `parser.parse`
reads and what tests are written in:

    program cluster_0(%x: i64[s0], %w: f32[128, 64]) -> (%2) {
      symbol s0 = dim(%x, 0)
      %0: f32[s0, 64] = gather(%w, %x, axis=0, batch_dims=0)  // lookup/GatherV2
      %1: f32[s0, 64] = exp(%0)
      %2: f32[s0, 64] = add(%0, %1)
    }
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sympy

from tf_blade.compiler.ir.dims import Dim, to_text
from tf_blade.compiler.ir.types import DType, TensorType


@dataclass(eq=False)
class Value:
    """One tensor: a parameter (op is None) or the result of an op."""

    name: str
    type: TensorType
    op: Op | None = None

    def __str__(self) -> str:
        return f"%{self.name}"


@dataclass(eq=False)
class Op:
    """One primitive applied to operands. Kinds, attributes and type rules are in `ops.py`.

    `source` names the TensorFlow nodes it came from, for messages and generated comments.
    """

    kind: str
    operands: list[Value]
    attrs: dict[str, Any]
    result: Value
    source: str = ""

    def __str__(self) -> str:
        arguments = [str(v) for v in self.operands]
        nested = [v for v in self.attrs.values() if isinstance(v, Program)]
        arguments += [
            f"{k}={_attr_text(v)}"
            for k, v in self.attrs.items()
            if v is not None and not isinstance(v, Program)
        ]
        text = f"{self.result}: {self.result.type} = {self.kind}({', '.join(arguments)})"
        text = f"{text}  // {' '.join(self.source.split())}" if self.source else text
        return "\n".join([text, *map(str, nested)])


@dataclass(frozen=True)
class InputDim:
    """A symbol's meaning: dimension `axis` of parameter `param`."""

    param: int
    axis: int


@dataclass(frozen=True)
class InputElement:
    """A symbol's meaning: element `index` (row-major) of the small integer parameter `param`."""

    param: int
    index: int


@dataclass(frozen=True)
class ComputedSize:
    """A symbol's meaning: the number that `value`, an i64 scalar of the program, turns out to be.

    Ops that mention the symbol come after the one that makes the value, which is never negative.
    at_most: its upper bound, in terms of symbols that are known before.
    """

    value: Value
    at_most: Dim


SymbolSource = InputDim | InputElement | ComputedSize


@dataclass(frozen=True)
class Constraint:
    """What must hold for this program to be the TensorFlow graph; otherwise the run is refused.

    kind: "eq" (left == right) or "le" (left <= right).
    """

    kind: str
    left: Dim
    right: Dim
    reason: str

    def __str__(self) -> str:
        sign = {"eq": "==", "le": "<="}[self.kind]
        reason = json.dumps(self.reason, ensure_ascii=False)
        return f"require {to_text(self.left)} {sign} {to_text(self.right)} {reason}"


@dataclass(eq=False)
class Program:
    """A cluster in IR form.

    Attributes:
      params: inputs in the order of the cluster op's inputs.
      constant_params: indices of params that are the same tensor in every call (weights).
      ops: in execution order.
      results: outputs in the order of the cluster op's outputs.
      symbols: where each symbol's value comes from.
      likely: values that symbols are likely to have, where sample inputs say so. Nothing that is
        computed depends on them.
      constraints: conditions to check as soon as their symbols are known, most of them before
        anything runs.
    """

    name: str
    params: list[Value] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    results: list[Value] = field(default_factory=list)
    symbols: dict[sympy.Symbol, SymbolSource] = field(default_factory=dict)
    constraints: list[Constraint] = field(default_factory=list)
    constant_params: set[int] = field(default_factory=set)
    likely: dict[sympy.Symbol, int] = field(default_factory=dict)

    def values(self) -> Iterator[Value]:
        yield from self.params
        for op in self.ops:
            yield op.result

    def users(self) -> dict[Value, list[Op]]:
        """For each value, the ops that read it (once for each time they do)."""
        found: dict[Value, list[Op]] = {v: [] for v in self.values()}
        for op in self.ops:
            for operand in op.operands:
                found[operand].append(op)
        return found

    def __str__(self) -> str:
        params = ", ".join(
            f"{v}: {v.type}" + (" constant" if i in self.constant_params else "")
            for i, v in enumerate(self.params)
        )
        results = ", ".join(str(v) for v in self.results)
        lines = [f"program {self.name}({params}) -> ({results}) {{"]
        for symbol, source in self.symbols.items():
            likely = f", likely {self.likely[symbol]}" if symbol in self.likely else ""
            lines.append(f"  symbol {symbol.name} = {self._source_text(source)}{likely}")
        lines += [f"  {c}" for c in self.constraints]
        lines += [f"  {line}" for op in self.ops for line in str(op).splitlines()]
        return "\n".join([*lines, "}"])

    def _source_text(self, source: SymbolSource) -> str:
        if isinstance(source, ComputedSize):
            return f"size({source.value}, {to_text(source.at_most)})"
        param = self.params[source.param]
        if isinstance(source, InputDim):
            return f"dim({param}, {source.axis})"
        return f"element({param}, {source.index})"

    def replace_values(self, replaced: Mapping[Value, Value]) -> None:
        """Takes other values for results and sizes, where `replaced` has one."""
        self.results = [replaced.get(v, v) for v in self.results]
        for symbol, source in self.symbols.items():
            if isinstance(source, ComputedSize) and source.value in replaced:
                self.symbols[symbol] = ComputedSize(replaced[source.value], source.at_most)


def _attr_text(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(_attr_text(v) for v in value) + "]"
    if isinstance(value, np.ndarray):
        if value.ndim == 0:
            return _scalar_text(value[()])
        return "[" + ", ".join(_attr_text(v) for v in value) + "]"
    if isinstance(value, DType):
        return value.value
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (int, sympy.Expr)):
        return to_text(value)
    if isinstance(value, (np.generic, float)):
        return _scalar_text(value)
    return str(value)


def _scalar_text(value: Any) -> str:
    """A number that reads back to the same bits."""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    number = float(value)
    if number != number or number in (float("inf"), float("-inf")):
        return {"nan": "nan", "inf": "inf", "-inf": "-inf"}[str(number)]
    if isinstance(value, np.float32):
        # The shortest text for f32, unless reading it by way of f64 rounds to a neighbour.
        short = str(value)
        return short if np.float32(float(short)) == value else repr(number)
    return repr(number)
