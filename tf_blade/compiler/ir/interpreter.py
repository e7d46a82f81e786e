"""Runs a program on numpy arrays: the reference for the IR's semantics (`semantics.py`).

Slow and plain on purpose. It answers as an executable does: with the results, or by refusing.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np
import sympy

from tf_blade.compiler.ir.dims import Dim, evaluate, symbols_of, to_text
from tf_blade.compiler.ir.loops import MAX_TRIPS, TOO_FEW_TRIPS, TOO_MANY_TRIPS
from tf_blade.compiler.ir.ops import IrError
from tf_blade.compiler.ir.program import (
    ComputedSize,
    Constraint,
    InputDim,
    Op,
    Program,
    Value,
)
from tf_blade.compiler.ir.semantics import RULES, Refused
from tf_blade.compiler.ir.types import TensorType

__all__ = ["Refused", "bind_symbols", "run", "run_op"]

Symbols = MutableMapping[sympy.Symbol, int]


def run(program: Program, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The program's results for `inputs` (one array for each parameter, in order).

    Raises:
      Refused: a dim differs from the one compiled for, a constraint doesn't hold, an integer is
        divided by zero, or a gather's index is out of range.
      ValueError: the inputs' number or dtypes are not the program's.
      IrError: an op's result is not of its declared type: the program is wrong.
    """
    arrays = [np.asarray(x) for x in inputs]
    symbols = bind_symbols(program, arrays)
    with np.errstate(all="ignore"):
        return _run(program, arrays, symbols)


def _run(program: Program, arrays: Sequence[np.ndarray], symbols: Symbols) -> list[np.ndarray]:
    values: dict[Value, np.ndarray] = dict(zip(program.params, arrays, strict=True))
    carried: dict[Value, list[np.ndarray]] = {}  # by the results of loops
    for op in program.ops:
        operands = [values[v] for v in op.operands]
        if op.kind == "while":
            values[op.result], carried[op.result] = _run_loop(op, operands, symbols)
        elif op.kind == "carried":
            values[op.result] = carried[op.operands[0]][op.attrs["index"]]
        else:
            values[op.result] = run_op(op, operands, symbols)
        _bind_sizes(program, op.result, values[op.result], symbols)
    return [values[v] for v in program.results]


def _bind_sizes(program: Program, value: Value, array: np.ndarray, symbols: Symbols) -> None:
    """Symbols that `value` is the number of, and the constraints that are about them."""
    for symbol, source in program.symbols.items():
        if not (isinstance(source, ComputedSize) and source.value is value):
            continue
        symbols[symbol] = number = int(array)
        if not 0 <= number <= _value(source.at_most, symbols):
            raise IrError(f"{symbol} is {number}, at most {to_text(source.at_most)}")
        for constraint in program.constraints:
            if symbol in _symbols_of(constraint):
                _check(constraint, symbols)


def _symbols_of(constraint: Constraint) -> set[sympy.Symbol]:
    return symbols_of(constraint.left) | symbols_of(constraint.right)


def _check(constraint: Constraint, symbols: Symbols) -> None:
    """Raises Refused if the constraint doesn't hold; leaves it if a symbol isn't known yet."""
    if not _symbols_of(constraint) <= symbols.keys():
        return
    left, right = _value(constraint.left, symbols), _value(constraint.right, symbols)
    if not (left == right if constraint.kind == "eq" else left <= right):
        raise Refused(f"{constraint} does not hold: {left} and {right}")


def _run_loop(
    op: Op, operands: Sequence[np.ndarray], symbols: Symbols
) -> tuple[np.ndarray, list[np.ndarray]]:
    """The number of iterations, and the last values of what is carried."""
    condition, body = op.attrs["condition"], op.attrs["body"]
    n = len(body.results)
    current, fixed = list(operands[:n]), list(operands[n:])
    trips = 0
    while _run(condition, [*current, *fixed], symbols)[0]:
        if trips == MAX_TRIPS:
            raise Refused(f"{op.source or op.result}: {TOO_MANY_TRIPS}")
        current = _run(body, [*current, *fixed], symbols)
        trips += 1
    if trips < op.attrs["min_trips"]:
        raise Refused(f"{op.source or op.result}: {TOO_FEW_TRIPS}")
    return np.asarray(trips, np.int64), current


def bind_symbols(program: Program, inputs: Sequence[np.ndarray]) -> dict[sympy.Symbol, int]:
    """What each symbol is for these inputs, every check on inputs and constraints passed. Sizes
    that the program computes are left out, with the constraints about them.

    Raises Refused and ValueError as `run` does.
    """
    if len(inputs) != len(program.params):
        raise ValueError(
            f"{program.name} has {len(program.params)} inputs, {len(inputs)} were given"
        )
    for param, array in zip(program.params, inputs, strict=True):
        if array.dtype != param.type.dtype.numpy:
            raise ValueError(f"input {param} is {array.dtype}, expected {param.type}")
        if array.ndim != param.type.rank:
            raise Refused(f"input {param} has rank {array.ndim}, compiled for {param.type}")
    symbols: dict[sympy.Symbol, int] = {}
    for symbol, source in program.symbols.items():
        if isinstance(source, ComputedSize):
            continue
        array = inputs[source.param]
        if isinstance(source, InputDim):
            symbols[symbol] = array.shape[source.axis]
        elif source.index < array.size:
            symbols[symbol] = int(array.flat[source.index])
        else:
            raise Refused(f"input {program.params[source.param]} has no element {source.index}")
    for param, array in zip(program.params, inputs, strict=True):
        for axis, dim in enumerate(param.type.shape):
            if _value(dim, symbols) != array.shape[axis]:
                raise Refused(
                    f"dim {axis} of input {param} is {array.shape[axis]}, compiled for {param.type}"
                )
    for constraint in program.constraints:
        _check(constraint, symbols)
    return symbols


def run_op(
    op: Op, operands: Sequence[np.ndarray], symbols: Mapping[sympy.Symbol, int]
) -> np.ndarray:
    """One op's result. Raises Refused and IrError, naming the op, as `run` does."""
    attrs = {k: _resolve(v, symbols) for k, v in op.attrs.items()}
    try:
        result = np.asarray(RULES[op.kind](*operands, **attrs))
    except Refused as refusal:
        raise Refused(f"{op.source or op.result}: {refusal.reason}") from None
    except (IrError, ValueError) as error:
        raise IrError(f"{op}: {error}") from error
    expected = _shape(op.result.type, symbols)
    if result.dtype != op.result.type.dtype.numpy or result.shape != expected:
        raise IrError(f"{op}: got {result.dtype}{list(result.shape)}, declared {list(expected)}")
    return result


def _value(dim: Dim, symbols: Mapping[sympy.Symbol, int]) -> int:
    try:
        return evaluate(dim, symbols)
    except ValueError:
        # All symbols are bound, so a floor_div or floor_mod in it divides by zero.
        raise Refused(f"{to_text(dim)} divides by zero") from None


def _shape(kind: TensorType, symbols: Mapping[sympy.Symbol, int]) -> tuple[int, ...]:
    return tuple(_value(n, symbols) for n in kind.shape)


def _resolve(attr: Any, symbols: Mapping[sympy.Symbol, int]) -> Any:
    """The attribute with every dim in it evaluated."""
    if isinstance(attr, (tuple, list)):
        return tuple(_resolve(x, symbols) for x in attr)
    return _value(attr, symbols) if isinstance(attr, sympy.Expr) else attr
