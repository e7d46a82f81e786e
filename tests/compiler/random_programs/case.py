"""A random program with inputs, and how its results compare with the reference's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tf_blade.compiler.ir.interpreter import Refused, run
from tf_blade.compiler.ir.program import Program


@dataclass
class Case:
    """A program, inputs for it, and how much each float result may differ from the reference."""

    program: Program
    inputs: list[np.ndarray]
    tolerances: list[float] = field(default_factory=list)

    def expected(self) -> list[np.ndarray] | None:
        """The reference's results, or None when it refuses."""
        try:
            return run(self.program, self.inputs)
        except Refused:
            return None

    def check(self, results: Sequence[np.ndarray]) -> None:
        """Raises AssertionError unless `results` are the reference's within the tolerances."""
        expected = run(self.program, self.inputs)
        assert len(results) == len(expected)
        for value, got, want, tolerance in zip(
            self.program.results, results, expected, self.tolerances, strict=True
        ):
            assert got.dtype == want.dtype, f"{value}: {got.dtype} instead of {want.dtype}"
            np.testing.assert_allclose(
                got, want, rtol=0, atol=tolerance, err_msg=f"{value} of\n{self.program}"
            )

    def __repr__(self) -> str:
        with np.printoptions(threshold=20):
            inputs = "\n".join(
                f"{p} = {x!r}" for p, x in zip(self.program.params, self.inputs, strict=True)
            )
        return f"\n{self.program}\n{inputs}\n"


def with_special_values(case: Case, seed: int) -> Case:
    """The case with NaN, infinities and negative zero sprinkled over its float inputs; the
    tolerances mean nothing then."""
    random = np.random.default_rng(seed)
    special = [np.nan, np.inf, -np.inf, -0.0]
    inputs = []
    for array in case.inputs:
        if array.dtype.kind == "f" and array.size:
            array = array.copy()
            where = random.random(array.shape) < 0.4
            array[where] = random.choice(special, int(where.sum()))
        inputs.append(array)
    return replace(case, inputs=inputs)
