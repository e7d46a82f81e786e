from __future__ import annotations

import numpy as np
import pytest

from tf_blade.compiler.ir.ops import IrError
from tf_blade.compiler.ir.parser import parse
from tf_blade.compiler.ir.program import InputDim, InputElement, Op, Program, Value
from tf_blade.compiler.ir.types import DType, TensorType
from tf_blade.compiler.ir.verifier import verify

GOOD = """
program p(%x: f32[s0, 4], %n: i32[2]) -> (%2) {
  symbol s0 = dim(%x, 0)
  symbol e1 = element(%n, 1)
  require e1 <= s0 "why"
  %0: f32[s0, 4] = exp(%x)  // model/Exp
  %1: f32[s0, 4] = add(%0, %x)
  %2: f32[e1, 4] = slice(%1, start=[0, 0], limit=[e1, 4], stride=[1, 1])
}
"""


def good() -> Program:
    program = parse(GOOD)
    verify(program)
    return program


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("f32[s0, 4] = exp", "f64[s0, 4] = exp", r"model/Exp.*the result is f32\[s0, 4\]"),
        ("exp(%x)", "exp(%n)", r"exp: needs a float, has i32\[2\]"),
        ("exp(%x)", "exp(%x, dim=1)", "attributes"),
        ("add(%0, %x)", "add(%0)", r"takes 2 operands, has 1.*|2 operands"),
        ("= add(", "= plus(", "'plus' is no op"),
        ("stride=[1, 1]", "stride=[0, 1]", "strides must be positive"),
        ("symbol s0 = dim(%x, 0)", "symbol s0 = dim(%x, 2)", "symbol s0 is dim 2 of %x"),
        ("element(%n, 1)", "element(%n, 2)", "symbol e1 is element 2 of %n"),
        ("element(%n, 1)", "element(%x, 1)", "symbol e1 is element 1 of %x"),
    ],
)
def test_broken_texts(old, new, message):
    assert old in GOOD
    with pytest.raises(IrError, match=f"program p: .*{message}"):
        verify(parse(GOOD.replace(old, new)))


def broken(change) -> Program:
    program = good()
    change(program)
    return program


def drop_symbol(p: Program) -> None:
    p.symbols = {s: v for s, v in p.symbols.items() if s.name != "s0"}


def swap_ops(p: Program) -> None:
    p.ops[0], p.ops[1] = p.ops[1], p.ops[0]


def same_name(p: Program) -> None:
    p.ops[1].result.name = "0"


def foreign_result(p: Program) -> None:
    p.results.append(Value("9", TensorType(DType.F32, ())))


def list_attribute(p: Program) -> None:
    p.ops[2].attrs["start"] = [0, 0]


def numpy_attribute(p: Program) -> None:
    p.ops[2].attrs["start"] = (np.int64(0), 0)


def param_source(p: Program) -> None:
    p.symbols[next(iter(p.symbols))] = InputDim(5, 0)


def element_of_nothing(p: Program) -> None:
    p.symbols[next(iter(p.symbols))] = InputElement(1, 7)


def stolen_result(p: Program) -> None:
    p.ops[0].result.op = p.ops[1]


def constant_param(p: Program) -> None:
    p.constant_params = {3}


def newline_in_name(p: Program) -> None:
    p.ops[0].result.name = "a b"


def unexpanded_dim(p: Program) -> None:
    s0 = next(iter(p.symbols))
    p.ops[0].result.type = TensorType(DType.F32, (2 * (s0 + 1) - s0 - 2, 4))
    p.ops[0].attrs["wrong"] = ((s0 + 1) * (s0 + 2),)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (drop_symbol, "nothing binds s0"),
        (swap_ops, "%0 is not defined before it"),
        (same_name, "two values are called %0"),
        (foreign_result, "result %9 is not defined"),
        (list_attribute, "attribute start: list instead of a tuple"),
        (numpy_attribute, "attribute start: int64 instead of"),
        (param_source, "comes from parameter 5"),
        (element_of_nothing, "element 7 of %n"),
        (stolen_result, "the result belongs to another op"),
        (constant_param, r"constant parameters \[3\]"),
        (newline_in_name, "'a b' is no value name"),
        (unexpanded_dim, "not in canonical form"),
    ],
)
def test_broken_programs(change, message):
    with pytest.raises(IrError, match=message):
        verify(broken(change))


def test_the_op_of_a_parameter_is_none():
    program = good()
    program.params[0].op = Op("exp", [], {}, program.params[0])
    with pytest.raises(IrError, match="parameter %x has an op"):
        verify(program)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("f32[2] = and(%f, %f)", "and: needs an integer or bool"),
        ("f32[2] = shift_left(%f, %f)", "shift_left: needs an integer"),
        ("bool[2] = add(%b, %b)", "add: needs a number"),
        ("bool[] = reduce(%b, kind=sum, dims=[0])", "sum of bool"),
        ("f32[] = reduce(%f, kind=or, dims=[0])", "or of f32"),
    ],
)
def test_each_kind_takes_its_dtypes(line, message):
    with pytest.raises(IrError, match=message):
        verify(parse(f"program p(%f: f32[2], %b: bool[2]) -> (%r) {{\n%r: {line}\n}}"))
