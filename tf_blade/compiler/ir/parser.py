"""Reads the IR's text form, exactly what `str(program)` prints.

    program NAME(%p: TYPE [constant], …) -> (%result, …) {
      symbol s0 = dim(%p, 0)
      symbol e1 = element(%p, 3), likely 7
      symbol n2 = size(%name, DIM)
      require DIM == DIM "reason"
      %name: TYPE = kind(%operand, …, attribute=value, …)  // source
    }

The programs that an op runs stand in the lines after it. Empty lines and lines that are only a
comment are skipped. Declared types are believed, so that a test can write a wrong program:
`verifier.verify` checks them.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import sympy

from tf_blade.compiler.ir.dims import (
    FUNCTIONS,
    Dim,
    dimension_symbol,
    element_symbol,
    simplify,
)
from tf_blade.compiler.ir.program import (
    ComputedSize,
    Constraint,
    InputDim,
    InputElement,
    Op,
    Program,
    SymbolSource,
    Value,
)
from tf_blade.compiler.ir.types import DType, TensorType

_HEADER = re.compile(
    r"program (?P<name>[\w./-]+)\((?P<params>.*?)\) -> \((?P<results>[^)]*)\) \{$", re.DOTALL
)
_SYMBOL = re.compile(r"symbol (\w+) = (dim|element)\(%([\w.]+), (\d+)\)(?:, likely (\d+))?")
_SIZE = re.compile(r"symbol (\w+) = size\(%([\w.]+), (.+)\)")
_REQUIRE = re.compile(r'require (.+?) (==|<=) (.+?) (".*")')
_OP = re.compile(r"%(?P<name>[\w.]+): (?P<type>\w+\[.*?\]) = (?P<kind>\w+)\((?P<arguments>.*)\)")
_PARAM = re.compile(r"%(?P<name>[\w.]+): (?P<type>\w+\[.*\])(?P<constant> constant)?")
_TYPE = re.compile(r"(\w+)\[(.*)\]")


class ParseError(ValueError):
    """The text is no IR program; the message quotes the line."""


def parse(text: str) -> Program:
    """The program that `text` spells. Raises ParseError."""
    head, separator, body = text.strip().partition("{\n")
    header = _HEADER.match(head + separator.strip())
    if header is None:
        raise ParseError(f"no program header: {head.strip()[:200]!r}")
    lines = [line.strip() for line in body.splitlines()]
    if not lines or lines[-1] != "}":
        raise ParseError("the text doesn't end with '}'")
    return _Parser(header["name"]).program(header["params"], header["results"], lines[:-1])


class _Parser:
    def __init__(self, name: str) -> None:
        self.result = Program(name)
        self.values: dict[str, Value] = {}
        self.symbols: dict[str, sympy.Symbol] = {}

    def program(self, params: str, results: str, lines: list[str]) -> Program:
        lines = [line for line in lines if line and not line.startswith("//")]
        param_texts = _split(params)
        # Parameter types use symbols that the lines below them declare by parameter name.
        names = [_match(_PARAM, p)["name"] for p in param_texts]
        sizes = [m for line in lines if (m := _SIZE.fullmatch(line))]
        self.symbols.update((m[1], dimension_symbol(m[1])) for m in sizes)
        sources = self._symbols([x for x in lines if not _SIZE.fullmatch(x)], names)
        for index, text in enumerate(param_texts):
            match = _match(_PARAM, text)
            value = Value(match["name"], self._type(match["type"]))
            self._define(value, text)
            self.result.params.append(value)
            if match["constant"]:
                self.result.constant_params.add(index)
        self.result.symbols = sources
        rest = iter(lines)
        for line in rest:
            if line.startswith("require "):
                self._constraint(line)
            elif line.startswith("program "):
                self._nested(line, rest)
            elif not line.startswith("symbol "):
                self._op(line)
        for size in sizes:
            value = self._value(f"%{size[2]}", size[0])
            at_most = self._dim(size[3])
            self.result.symbols[self.symbols[size[1]]] = ComputedSize(value, at_most)
        self.result.results = [self._value(name, results) for name in _split(results)]
        return self.result

    def _nested(self, head: str, rest: Iterator[str]) -> None:
        """A program that the op before it runs: its attribute of that name."""
        header, depth, lines = _match(_HEADER, head), 1, list[str]()
        while depth:
            line = next(rest, None)
            if line is None:
                raise ParseError(f"program {header['name']} has no end")
            depth += (line.startswith("program ")) - (line == "}")
            lines.append(line)
        parser = _Parser(header["name"])
        parser.symbols = self.symbols
        nested = parser.program(header["params"], header["results"], lines[:-1])
        if not self.result.ops:
            raise ParseError(f"no op runs program {nested.name}")
        self.result.ops[-1].attrs[nested.name] = nested

    def _symbols(self, lines: list[str], params: list[str]) -> dict[sympy.Symbol, SymbolSource]:
        sources: dict[sympy.Symbol, SymbolSource] = {}
        for line in lines:
            if not line.startswith("symbol "):
                continue
            name, kind, param, number, likely = _match(_SYMBOL, line).groups()
            if param not in params:
                raise ParseError(f"%{param} is no parameter: {line}")
            make, source = (
                (dimension_symbol, InputDim) if kind == "dim" else (element_symbol, InputElement)
            )
            self.symbols[name] = make(name)
            sources[self.symbols[name]] = source(params.index(param), int(number))
            if likely is not None:
                self.result.likely[self.symbols[name]] = int(likely)
        return sources

    def _constraint(self, line: str) -> None:
        left, sign, right, reason = _match(_REQUIRE, line).groups()
        kind = {"==": "eq", "<=": "le"}[sign]
        self.result.constraints.append(
            Constraint(kind, self._dim(left), self._dim(right), json.loads(reason))
        )

    def _op(self, line: str) -> None:
        code, _, source = line.partition("//")
        match = _match(_OP, code.strip())
        kind = self._type(match["type"])
        operands: list[Value] = []
        attrs: dict[str, Any] = {}
        for text in _split(match["arguments"]):
            if text.startswith("%"):
                operands.append(self._value(text, line))
                continue
            name, sign, value = text.partition("=")
            if not sign or name not in _ATTRS:
                raise ParseError(f"no attribute: {text!r} in {line}")
            try:
                attrs[name] = _ATTRS[name](self, value, kind)
            except ParseError:
                raise
            except (ValueError, KeyError, OverflowError) as error:
                raise ParseError(f"{name}: {error} in {line}") from None
        result = Value(match["name"], kind)
        result.op = Op(match["kind"], operands, attrs, result, source.strip())
        self._define(result, line)
        self.result.ops.append(result.op)

    def _define(self, value: Value, line: str) -> None:
        if value.name in self.values:
            raise ParseError(f"{value} is defined twice: {line}")
        self.values[value.name] = value

    def _value(self, text: str, line: str) -> Value:
        if text[:1] != "%" or text[1:] not in self.values:
            raise ParseError(f"{text} is not defined: {line}")
        return self.values[text[1:]]

    def _type(self, text: str) -> TensorType:
        dtype, dims = _match(_TYPE, text).groups()
        try:
            return TensorType(DType(dtype), tuple(self._dim(d) for d in _split(dims)))
        except ValueError as error:
            raise ParseError(f"{text}: {error}") from None

    def _dim(self, text: str) -> Dim:
        try:
            return simplify(self._expression(ast.parse(text.strip(), mode="eval").body))
        except (SyntaxError, TypeError) as error:
            raise ParseError(f"no dim: {text!r} ({error})") from None

    def _expression(self, node: ast.expr) -> Dim:
        """+ - * of integers and symbols, and the functions of dims.py."""
        match node:
            case ast.Constant(value=int(number)):
                return number
            case ast.Name(id=name):
                if name not in self.symbols:
                    raise ParseError(f"symbol {name} is not declared")
                return self.symbols[name]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._expression(operand)
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() as sign, right=right):
                a, b = self._expression(left), self._expression(right)
                if isinstance(sign, ast.Mult):
                    return a * b
                return a + b if isinstance(sign, ast.Add) else a - b
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
                return FUNCTIONS[name](*(sympy.sympify(self._expression(a)) for a in args))
        raise ParseError(f"no dim: {ast.unparse(node)!r}")

    def _dims(self, text: str, _: TensorType) -> tuple[Dim, ...]:
        if not (text.startswith("[") and text.endswith("]")):
            raise ParseError(f"no list of dims: {text!r}")
        return tuple(self._dim(d) for d in _split(text[1:-1]))

    def _integer(self, text: str, _: TensorType) -> int:
        return int(text)

    def _boolean(self, text: str, _: TensorType) -> bool:
        return {"true": True, "false": False}[text]

    def _word(self, text: str, _: TensorType) -> str:
        return text

    def _dtype(self, text: str, _: TensorType) -> DType:
        return DType(text)

    def _array(self, text: str, kind: TensorType) -> np.ndarray:
        words = {"nan": "NaN", "inf": "Infinity"}
        elements = json.loads(re.sub(r"nan|inf", lambda m: words[m[0]], text))
        array = np.array(elements, dtype=kind.dtype.numpy)
        # Text can't tell [0, 3] from [0].
        if array.size == 0 and 0 in kind.shape:
            return array.reshape([int(n) for n in kind.shape])
        if array.shape != kind.shape:
            raise ParseError(f"a constant of shape {list(array.shape)} declared {kind}")
        return array


_ATTRS: dict[str, Callable[[_Parser, str, TensorType], Any]] = {
    **dict.fromkeys(
        (
            "shape",
            "elements",
            "dims",
            "perm",
            "start",
            "limit",
            "stride",
            "strides",
            "dilations",
            "low",
            "high",
            "sizes",
        ),
        _Parser._dims,
    ),
    **dict.fromkeys(
        ("dim", "axis", "batch_dims", "k", "groups", "index", "min_trips", "length"),
        _Parser._integer,
    ),
    **dict.fromkeys(("transpose_a", "transpose_b", "exclusive", "reverse"), _Parser._boolean),
    **dict.fromkeys(("kind", "direction", "activation"), _Parser._word),
    "dtype": _Parser._dtype,
    "value": _Parser._array,
}


def _match(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    match = pattern.fullmatch(text)
    if match is None:
        raise ParseError(f"can't read {text!r}")
    return match


def _split(text: str) -> list[str]:
    """The parts between commas that are outside brackets."""
    parts: list[str] = []
    depth = start = 0
    for i, character in enumerate(text):
        if character in "[(":
            depth += 1
        elif character in "])":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return [*parts, last] if last or parts else []
