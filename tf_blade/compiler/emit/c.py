"""How types, names, numbers and dims are written in C++."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from tf_blade.compiler.ir.dims import Dim, FloorDiv, FloorMod, IfNegative, Larger, Smaller
from tf_blade.compiler.ir.program import Program, Value
from tf_blade.compiler.ir.types import DType

# Text that a C string literal holds as it is.
_PLAIN = re.compile(r"[ !#->@-\[\]-~]*")
# The functions of the dims' language, by the prelude's names.
_DIM_FUNCTIONS = {
    FloorDiv: "dim_floor_div",
    FloorMod: "dim_floor_mod",
    Larger: "dim_max",
    Smaller: "dim_min",
    IfNegative: "dim_if_negative",
}
DIM_FUNCTIONS = tuple(_DIM_FUNCTIONS.values())


def type_name(dtype: DType) -> str:
    """f32, i64, …: typedefs of the prelude. Halves are their bits."""
    return dtype.value


def literal(number: Any, dtype: DType) -> str:
    """The number as a C++ expression of the dtype's type, exact to the bit."""
    if dtype is DType.BOOL:
        return "true" if number else "false"
    if dtype.is_half:
        return f"({type_name(dtype)}){int(np.asarray(number, dtype.numpy).view(np.uint16))}"
    if dtype.is_integer:
        value = int(number)
        if dtype is DType.I64 and value == -(2**63):
            return "((i64)(-9223372036854775807 - 1))"
        if dtype is DType.I32 and value == -(2**31):
            return "((i32)(-2147483647 - 1))"
        suffix = {DType.U32: "u", DType.U64: "ull", DType.I64: "ll"}.get(dtype, "")
        text = f"{value}{suffix}"
        if dtype in (DType.I32, DType.U32):
            return text if value >= 0 else f"({text})"
        return f"({type_name(dtype)}){text}" if value >= 0 else f"({type_name(dtype)})({text})"
    return _float_literal(float(number), dtype)


def _float_literal(value: float, dtype: DType) -> str:
    suffix = "f" if dtype is DType.F32 else ""
    if np.isnan(value):
        return f'__builtin_nan{suffix}("")'
    if np.isinf(value):
        text = f"__builtin_inf{suffix}()"
        return text if value > 0 else f"(-{text})"
    shortest = str(np.float32(value)) if dtype is DType.F32 else repr(value)
    if "." not in shortest and "e" not in shortest:
        shortest += ".0"
    return f"{shortest}{suffix}" if not shortest.startswith("-") else f"({shortest}{suffix})"


def dim(value: Dim) -> str:
    """A dim as an expression of type BladeInt; safe to put into any larger expression."""
    text = _dim(value)
    return text if re.fullmatch(r"\w+|\w+\([^()]*\)", text) else f"({text})"


def _dim(value: Dim) -> str:
    if isinstance(value, int) or value.is_Integer:
        number = int(value)
        return str(number) if -(2**31) < number < 2**31 else f"{number}ll"
    if value.is_Symbol:
        return str(value.name)
    if value.is_Add:
        text = ""
        for term in value.as_ordered_terms():
            part = _dim(term)
            if not text:
                text = part
            else:
                text += f" - {part[1:]}" if part.startswith("-") else f" + {part}"
        return text
    if value.is_Mul:
        coefficient, rest = value.as_coeff_mul()
        factors = [dim(a) for a in rest]
        if coefficient == -1:
            return "-" + " * ".join(factors)
        if coefficient != 1:
            factors.insert(0, _dim(coefficient))
        return " * ".join(factors)
    if value.is_Pow:
        return " * ".join([dim(value.base)] * int(value.exp))
    return f"{_DIM_FUNCTIONS[type(value)]}({', '.join(_dim(a) for a in value.args)})"


def comment(text: str) -> list[str]:
    """Lines of a // comment; a backslash at a line's end would continue it."""
    return [f"// {line.rstrip(chr(92))}" for line in text.splitlines()]


def string(text: str) -> str:
    """A C string literal."""
    if _PLAIN.fullmatch(text):
        return f'"{text}"'
    escaped = "".join(
        c if 32 <= ord(c) < 127 and c not in '"\\?' else "".join(f"\\{b:03o}" for b in c.encode())
        for c in text
    )
    return f'"{escaped}"'


class Names:
    """C++ identifiers for values: v7 for %7, the name itself where it can't clash."""

    def __init__(self, program: Program) -> None:
        self._of: dict[Value, str] = {}
        self._used: set[str] = set()
        self._nested = 0
        for value in program.values():
            self._add(value)

    def _add(self, value: Value) -> None:
        plain = re.sub(r"\W", "_", value.name)
        name = plain if re.fullmatch(r"p\d+", plain) else f"v{plain}"
        if not re.fullmatch(r"[pv]\d+(_parts)?", name):
            name = f"v_{plain}"
        while name in self._used:
            name += "_"
        self._used.add(name)
        self._of[value] = name

    def nest(self, program: Program) -> None:
        """Names the values of a program inside an op: numbered from 1000, from 2000, …"""
        self._nested += 1
        for number, value in enumerate(program.values(), 1000 * self._nested):
            self._of[value] = name = f"{'p' if value.op is None else 'v'}{number}"
            self._used.add(name)

    def __getitem__(self, value: Value) -> str:
        if value not in self._of:
            self._add(value)
        return self._of[value]
