"""A program for tests of generated code: its text without its frame, and its sizes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tf_blade.compiler.ir.dims import evaluate
from tf_blade.compiler.ir.parser import parse
from tf_blade.compiler.ir.program import InputDim, Program
from tf_blade.compiler.ir.types import DType
from tf_blade.compiler.ir.verifier import verify

# Nothing, one, fewer than a vector, whole vectors, tails.
SIZES = (0, 1, 2, 3, 5, 8, 9, 17, 33, 64)


# What `plain)` and so on at the end of a dot_general stand for.
_PRODUCTS = {
    "plain)": "transpose_a=false, transpose_b=false, activation=none)",
    "plain_a)": "transpose_a=true, transpose_b=false, activation=none)",
    "plain_b)": "transpose_a=false, transpose_b=true, activation=none)",
    "relu)": "transpose_a=false, transpose_b=false, activation=relu)",
}


@dataclass(frozen=True)
class Example:
    """A program's text without its frame.

    signature: `(params) -> (results)`. body: what stands between the braces, without the symbols
    of the parameters' dims. sizes: what each symbol may be, SIZES if it isn't named. runs: how many
    combinations of sizes.
    """

    name: str
    signature: str
    body: str
    sizes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    runs: int = 8

    def program(self) -> Program:
        symbols: list[str] = []
        for param in self.signature.split("->")[0].strip(" ()").split("%")[1:]:
            name, dims = param.split(":")[0], param.split("[")[1].split("]")[0]
            for axis, dim in enumerate(x.strip() for x in dims.split(",")):
                if dim.isidentifier() and not any(s.split()[1] == dim for s in symbols):
                    symbols.append(f"symbol {dim} = dim(%{name}, {axis})")
        lines = [*symbols, *(_expanded(line.strip()) for line in self.body.strip().splitlines())]
        program = parse(f"program {self.name}{self.signature} {{\n" + "\n".join(lines) + "\n}")
        verify(program)
        return program

    def inputs(self, program: Program, rng: np.random.Generator) -> list[np.ndarray]:
        """Random inputs. Integers are drawn from 0 to 3, so that they can be indices."""
        choices = dict(self.sizes)
        sizes = {
            s: int(rng.choice(choices.get(s.name, SIZES)))
            for s, source in program.symbols.items()
            if isinstance(source, InputDim)
        }
        return [
            draw(rng, p.type.dtype, [evaluate(n, sizes) for n in p.type.shape])
            for p in program.params
        ]


def _expanded(line: str) -> str:
    if " = dot_general(" not in line:
        return line
    head, _, last = line.rpartition(" ")
    return f"{head} {_PRODUCTS.get(last, last)}"


def draw(rng: np.random.Generator, dtype: DType, shape: list[int]) -> np.ndarray:
    if dtype.is_float:
        return rng.standard_normal(shape).astype(dtype.numpy)
    if dtype is DType.BOOL:
        return rng.random(shape) < 0.6
    return rng.integers(0, 4, shape).astype(dtype.numpy)
