"""Kernels with a version for likely sizes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.compiler.batch import compile_batch
from tests.compiler.emit.example import Example
from tests.compiler.emit.programs import EXAMPLES
from tests.compiler.emit.test_generated_code import compare
from tf_blade.compiler import compile_program
from tf_blade.compiler.ir.dims import dimension_symbol
from tf_blade.compiler.ir.program import Program

NAMES = ("softmax", "layer_norm_of_a_residual", "reductions_of_rows", "reductions_of_columns")


def example(name: str) -> Example:
    return next(e for e in EXAMPLES if e.name == name)


def program(name: str, **likely: int) -> Program:
    made = example(name).program()
    made.likely = {dimension_symbol(symbol): n for symbol, n in likely.items()}
    return made


def test_a_version_of_a_kernel_is_for_the_likely_length_of_its_rows():
    source = compile_program(program("softmax", a=3, b=48))
    assert "if (args.b == 48) return row_reduce_0_of(args, begin, end, 48);" in source
    assert "args.a ==" not in source  # how many rows there are makes no difference


@pytest.mark.parametrize(
    "name,length", [("softmax", 16), ("softmax", 50), ("softmax", 272), ("flat", 48)]
)
def test_other_kernels_have_none(name: str, length: int):
    assert "_of(args" not in compile_program(program(name, b=length))


def test_sizes_that_differ_from_the_likely_ones_are_computed_too():
    programs = [program(name, a=3, b=48) for name in NAMES]
    hosts = compile_batch([compile_program(p) for p in programs], optimize="-O3")
    rng = np.random.default_rng(1)
    for made, host in zip(programs, hosts, strict=True):
        for rows, columns in ((3, 48), (5, 48), (3, 47), (2, 0), (0, 48), (1, 700)):
            sizes = (("a", (rows,)), ("b", (columns,)))
            inputs = replace(example(made.name), sizes=sizes).inputs(made, rng)
            compare(made, inputs, host.run(inputs, [v.type.dtype for v in made.results]))
