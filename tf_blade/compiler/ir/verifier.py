"""Checks that a program keeps the IR's rules: after lowering and after each rewrite in tests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import sympy

from tf_blade.compiler.ir.dims import Dim, simplify, symbols_of, to_text
from tf_blade.compiler.ir.loops import nested_programs
from tf_blade.compiler.ir.ops import IrError, infer_type, same_type
from tf_blade.compiler.ir.program import ComputedSize, InputDim, Op, Program, Value
from tf_blade.compiler.ir.sizes import computed_sizes, mentioned
from tf_blade.compiler.ir.types import DType, TensorType

_VALUE_NAME = re.compile(r"[\w.]+")
_PROGRAM_NAME = re.compile(r"[\w./-]+")


def verify(program: Program) -> None:
    """Raises IrError, naming the op and the TensorFlow nodes it came from, on the first rule that
    the program breaks: names are unique, values are defined before use, declared types are the
    inferred ones, every symbol has a source that exists, attributes are in canonical form."""
    try:
        _verify_names(program)
        _verify_symbols(program)
        _verify_ops(program, program)
        _verify_order(program)
    except IrError as error:
        raise IrError(f"program {program.name}: {error}") from None


def _verify_names(program: Program) -> None:
    if not _PROGRAM_NAME.fullmatch(program.name):
        raise IrError(f"{program.name!r} is no program name")
    seen: set[str] = set()
    for value in program.values():
        if not _VALUE_NAME.fullmatch(value.name):
            raise IrError(f"{value.name!r} is no value name")
        if value.name in seen:
            raise IrError(f"two values are called {value}")
        seen.add(value.name)


def _verify_symbols(program: Program) -> None:
    names = [symbol.name for symbol in program.symbols]
    if len(names) != len(set(names)):
        raise IrError(f"two symbols of one name among {names}")
    for symbol, source in program.symbols.items():
        if isinstance(source, ComputedSize):
            _verify_size(program, symbol, source)
            continue
        if not 0 <= source.param < len(program.params):
            raise IrError(f"symbol {symbol} comes from parameter {source.param}, which isn't there")
        param = program.params[source.param]
        if isinstance(source, InputDim):
            if not 0 <= source.axis < param.type.rank:
                raise IrError(f"symbol {symbol} is dim {source.axis} of {param}: {param.type}")
            if not symbol.is_nonnegative:
                raise IrError(f"symbol {symbol} is a dim and must be declared nonnegative")
        else:
            size = param.type.size
            known = isinstance(size, int) and 0 <= source.index < size
            if not known or param.type.dtype not in (DType.I32, DType.I64):
                raise IrError(f"symbol {symbol} is element {source.index} of {param}: {param.type}")
    for constraint in program.constraints:
        if constraint.kind not in ("eq", "le"):
            raise IrError(f"constraint of kind {constraint.kind!r}")
        for dim in (constraint.left, constraint.right):
            _verify_dim(program, dim, f"'{constraint}': ")
    bad = [i for i in program.constant_params if not 0 <= i < len(program.params)]
    if bad:
        raise IrError(f"constant parameters {bad} aren't there")


def _verify_size(program: Program, symbol: sympy.Symbol, source: ComputedSize) -> None:
    value = source.value
    if value.op not in program.ops or value.type != TensorType(DType.I64, ()):
        raise IrError(f"symbol {symbol} is {value}: {value.type}, no i64[] of an op")
    if not symbol.is_nonnegative:
        raise IrError(f"symbol {symbol} is a size and must be declared nonnegative")
    _verify_dim(program, source.at_most, f"bound of {symbol}: ")


def _verify_order(program: Program) -> None:
    """What mentions a computed size comes after the op that makes it."""
    unknown = {size.value: symbol for symbol, size in computed_sizes(program).items()}
    if not unknown:
        return
    for param in program.params:
        _verify_known(param, set().union(*map(symbols_of, param.type.shape)), unknown)
    for op in program.ops:
        _verify_known(op.result, mentioned(op), unknown)
        unknown.pop(op.result, None)


def _verify_known(
    value: Value, symbols: set[sympy.Symbol], unknown: dict[Value, sympy.Symbol]
) -> None:
    early = sorted(s.name for s in symbols & set(unknown.values()))
    if early:
        raise IrError(f"{value} mentions {', '.join(early)}, which is computed later")


def _verify_nested(outer: Program, nested: Program) -> None:
    """A program inside an op: its dims are those of the outermost program."""
    if nested.symbols or nested.constraints:
        raise IrError(f"{nested.name} has symbols or constraints of its own")
    try:
        _verify_names(nested)
        _verify_ops(nested, outer)
    except IrError as error:
        raise IrError(f"{nested.name}: {error}") from None


def _verify_ops(program: Program, outer: Program) -> None:
    """outer: the program that binds the symbols."""
    defined: set[Value] = set()
    for param in program.params:
        if param.op is not None:
            raise IrError(f"parameter {param} has an op")
        _verify_type(outer, param.type, f"parameter {param}: ")
        defined.add(param)
    for op in program.ops:
        try:
            _verify_op(op, outer, defined)
        except IrError as error:
            raise IrError(f"{_where(op)}: {error}") from None
        defined.add(op.result)
    for result in program.results:
        if result not in defined:
            raise IrError(f"result {result} is not defined")


def _where(op: Op) -> str:
    text, *_ = str(op).splitlines()
    return f"'{text}'" if op.source else f"'{text}' (no source)"


def _verify_op(op: Op, outer: Program, defined: set[Value]) -> None:
    if op.result.op is not op:
        raise IrError("the result belongs to another op")
    for operand in op.operands:
        if operand not in defined:
            raise IrError(f"{operand} is not defined before it")
    for nested in nested_programs(op):
        _verify_nested(outer, nested)
    for name, attr in op.attrs.items():
        for leaf in _leaves(attr, name):
            _verify_dim(outer, leaf, f"attribute {name}: ")
    _verify_type(outer, op.result.type)
    inferred = infer_type(op.kind, op.operands, op.attrs)
    if not same_type(inferred, op.result.type):
        raise IrError(f"the result is {inferred}")


def _verify_type(program: Program, kind: TensorType, where: str = "") -> None:
    for dim in kind.shape:
        _verify_dim(program, dim, where)
        if isinstance(dim, int) and dim < 0:
            raise IrError(f"{where}negative dim in {kind}")


def _verify_dim(program: Program, dim: Dim, where: str) -> None:
    if isinstance(dim, int):
        return
    unbound = symbols_of(dim) - program.symbols.keys()
    if unbound:
        names = ", ".join(sorted(s.name for s in unbound))
        raise IrError(f"{where}nothing binds {names} in {to_text(dim)}")
    if simplify(dim) != dim or dim.is_Integer:
        raise IrError(f"{where}{to_text(dim)} is not in canonical form")


def _leaves(attr: Any, name: str) -> Iterator[Dim]:
    """The dims in an attribute; raises when it holds anything that isn't canonical."""
    if isinstance(attr, tuple):
        for item in attr:
            yield from _leaves(item, name)
    elif isinstance(attr, (bool, DType, str, Program)):
        return
    elif isinstance(attr, (int, sympy.Expr)):
        yield attr
    elif not isinstance(attr, np.ndarray):
        kind = type(attr).__name__
        raise IrError(f"attribute {name}: {kind} instead of a tuple, int, dim or array")
