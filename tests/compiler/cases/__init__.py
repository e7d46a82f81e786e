"""The corpus of differential cases: every supported op, in the forms and dtypes that matter.

    from tests.compiler.cases import CASES      # {name: Case}

Used against the interpreter in `tests/compiler/lower`, and against generated code.
"""

from __future__ import annotations

from tests.compiler.cases import (
    cells,
    convolutions,
    elementwise,
    filters,
    fused,
    gradients,
    halves,
    images,
    indexing,
    matrices,
    moves,
    nn,
    reductions,
    scatters,
    shapes,
)
from tests.compiler.values import Case

_FAMILIES = (
    elementwise,
    reductions,
    shapes,
    indexing,
    moves,
    matrices,
    scatters,
    nn,
    images,
    convolutions,
    gradients,
    fused,
    cells,
    filters,
)
_FULL = [case for family in _FAMILIES for case in family.cases()]
_ALL = [*_FULL, *halves.cases(_FULL)]
CASES: dict[str, Case] = {case.name: case for case in _ALL}

if len(CASES) != len(_ALL):
    raise ValueError("two cases have one name")
