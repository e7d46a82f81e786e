"""Expressions as C++: one function for each distinct stream or dense part."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tf_blade.feature_column.spec import Expr, Stream

TYPES = {
    "i32": "int",
    "i64": "BladeInt",
    "f32": "float",
    "f64": "double",
    "bool": "bool",
    "string": "View",
}
_UNSIGNED = {"i32": "U32", "i64": "U64"}
_SIGNS = {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "and": "&&",
    "or": "||",
}
_ARITHMETIC = {"add": "+", "sub": "-", "mul": "*", "div": "/"}


def stream_body(stream: Stream, hashed: bool, vocabularies: Sequence[str]) -> str:
    """The body of an EvaluateStream (plan.h).

    Args:
      hashed: the stream is a part of a cross: a string's fingerprint stands for it.
      vocabularies: C++ names of the lookup's vocabularies.
    """
    loop = _Loop({}, vocabularies)
    ids = loop.name(stream.ids)
    if hashed and stream.ids.dtype == "string":
        ids = f"static_cast<BladeInt>(Fingerprint64({ids}))"
    stores = [f"e.ids[i] = {ids};"]
    if stream.keep is not None:
        stores.append(f"e.keep[i] = {loop.name(stream.keep)};")
    if stream.weight is not None:
        stores.append(f"e.weights[i] = {loop.name(stream.weight)};")
    return loop.text(stores)


def dense_body(expr: Expr, numbers: Mapping[int, int], vocabularies: Sequence[str]) -> str:
    """The body of an EvaluateDense; `numbers` says which value each input is."""
    loop = _Loop(numbers, vocabularies)
    return loop.text([f"out[i] = {loop.name(expr)};"])


class _Loop:
    """A loop over elements that computes each distinct expression once."""

    def __init__(self, numbers: Mapping[int, int], vocabularies: Sequence[str]) -> None:
        self._numbers = numbers
        self._vocabularies = vocabularies
        self._before: list[str] = []
        self._inside: list[str] = []
        self._names: dict[Expr, str] = {}

    def text(self, stores: list[str]) -> str:
        inside = "\n".join(f"    {line}" for line in [*self._inside, *stores])
        before = "".join(f"  {line}\n" for line in self._before)
        return f"{before}  for (BladeInt i = 0; i < n; ++i) {{\n{inside}\n  }}\n  return true;"

    def name(self, expr: Expr) -> str:
        """The variable, or literal, that holds the expression's value."""
        if expr.op == "const":
            return literal(expr)
        if expr not in self._names:
            args = [self.name(arg) for arg in expr.args]
            name = f"t{len(self._names)}"
            text = self._compute(expr, args, name)
            self._inside.append(f"const {TYPES[expr.dtype]} {name} = {text};")
            self._names[expr] = name
        return self._names[expr]

    def _compute(self, expr: Expr, args: list[str], name: str) -> str:
        op, dtype = expr.op, expr.dtype
        of = expr.args[0].dtype if expr.args else dtype
        if op == "value":
            return self._value(expr)
        if op == "constants":
            of_type = f"static_cast<{TYPES[dtype]}>"
            items = ", ".join(f"{of_type}({_number(item)})" for item in expr.constants)
            self._before.append(f"static const {TYPES[dtype]} {name}_of[] = {{{items}}};")
            return f"{name}_of[(begin + i) % {len(expr.constants)}]"
        if op == "require":
            self._inside.append(f"if (!{args[0]}) return false;")
            return args[1]
        if op == "as_string":
            self._inside.append(f"char {name}_text[kMaxDecimal];")
            return f"Decimal({args[0]}, {name}_text)"
        if op == "hash_fast":
            return f"static_cast<BladeInt>(Fingerprint64({args[0]}) % {expr.buckets}u)"
        if op == "hash_strong":
            keys = ", ".join(f"{key % 2**64}u" for key in expr.key)
            return f"static_cast<BladeInt>(SipHash24({args[0]}, {keys}) % {expr.buckets}u)"
        if op == "find":
            return f"Find({self._vocabularies[expr.at]}, {args[0]}, {int64(expr.scalar)})"
        if op == "bucketize":
            bounds = ", ".join(_float(b) for b in expr.boundaries)
            self._before.append(f"static const float {name}_bounds[] = {{{bounds or '0'}}};")
            return f"Bucket({name}_bounds, {len(expr.boundaries)}, {args[0]})"
        if op == "cast":
            return (
                f"{args[0]} != 0" if dtype == "bool" else f"static_cast<{TYPES[dtype]}>({args[0]})"
            )
        if op in ("eq", "ne") and of == "string":
            return f"{'!' if op == 'ne' else ''}Equal({args[0]}, {args[1]})"
        if op in _SIGNS:
            return f"{args[0]} {_SIGNS[op]} {args[1]}"
        if op == "not":
            return f"!{args[0]}"
        if op == "select":
            return f"{args[0]} ? {args[1]} : {args[2]}"
        if op in ("floor_mod", "floor_div") and of in _UNSIGNED:
            if expr.args[1].op != "const" or expr.args[1].scalar == 0:
                self._inside.append(f"if ({args[1]} == 0) return false;")
            return f"{_FUNCTIONS[op]}<{TYPES[of]}>({args[0]}, {args[1]})"
        if op in _FUNCTIONS:
            return f"{_FUNCTIONS[op]}({', '.join(args)})"
        if of in _UNSIGNED:  # wraps around, where a signed overflow would be undefined
            casts = [f"static_cast<{_UNSIGNED[of]}>({arg})" for arg in args]
            if op == "abs":
                return f"{args[0]} < 0 ? static_cast<{TYPES[of]}>(0 - {casts[0]}) : {args[0]}"
            whole = f"0 - {casts[0]}" if op == "neg" else f" {_ARITHMETIC[op]} ".join(casts)
            return f"static_cast<{TYPES[of]}>({whole})"
        if op == "abs":
            return f"__builtin_fabs{'f' if of == 'f32' else ''}({args[0]})"
        return f"-{args[0]}" if op == "neg" else f"{args[0]} {_ARITHMETIC[op]} {args[1]}"

    def _value(self, expr: Expr) -> str:
        number = self._numbers.get(expr.at, expr.at)
        kind = "TString" if expr.dtype == "string" else TYPES[expr.dtype]
        line = f"const {kind}* v{number} = static_cast<const {kind}*>(values[{number}]) + begin;"
        if line not in self._before:
            self._before.append(line)
        return f"ViewOf(v{number}[i])" if expr.dtype == "string" else f"v{number}[i]"


# Functions of `arithmetic.h`.
_FUNCTIONS = {
    "floor_mod": "FloorMod",
    "floor_div": "FloorDiv",
    "maximum": "Maximum",
    "minimum": "Minimum",
}


def literal(expr: Expr) -> str:
    """A constant's C++ text."""
    scalar = expr.scalar
    if expr.dtype == "string":
        assert isinstance(scalar, bytes)
        return f"View{{{string(scalar)}, {len(scalar)}}}"
    if expr.dtype == "bool":
        return "true" if scalar else "false"
    if expr.dtype in ("i32", "i64"):
        return f"{TYPES[expr.dtype]}{{{int64(scalar)}}}"
    return f"static_cast<{TYPES[expr.dtype]}>({_double(scalar)})"


def string(data: bytes) -> str:
    """A C++ string literal of any bytes, in lines of moderate length."""
    pieces = [data[i : i + 64] for i in range(0, len(data), 64)] or [b""]
    return " ".join(f'"{"".join(_character(c) for c in piece)}"' for piece in pieces)


def _character(code: int) -> str:
    # Three octal digits end by themselves; '?' could begin a trigraph.
    plain = 32 <= code < 127 and chr(code) not in '"\\?'
    return chr(code) if plain else f"\\{code:03o}"


def bool_text(value: bool) -> str:
    return "true" if value else "false"


def int64(value: object) -> str:
    """An integer's C++ text."""
    assert isinstance(value, int)
    # The smallest integer has no literal of its own.
    return f"(-{2**63 - 1} - 1)" if value == -(2**63) else str(int(value))


def _number(value: int | float) -> str:
    return _double(value) if isinstance(value, float) else int64(value)


def _float(value: float) -> str:
    return f"static_cast<float>({_double(value)})"


def _double(value: object) -> str:
    assert isinstance(value, int | float)
    number = float(value)
    if math.isnan(number):
        return '__builtin_nan("")'
    if math.isinf(number):
        return f"{'-' if number < 0 else ''}__builtin_inf()"
    return number.hex()
