"""All ops without rows of their own, by a case of the compiler's corpus at several sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from tests.compiler.cases import CASES
from tests.compiler.harness import draw_inputs
from tests.compiler.values import Case
from tests.conformance_ops.behaviour import Behaviour
from tf_blade.compiler.lower.registry import LOWERINGS

# Passes on the graph may leave nothing of them to compile.
_GONE = frozenset("Const Identity PreventGradient Rank Snapshot StopGradient".split())
# Why they stay in TensorFlow unless they are within a loop.
_OUTSIDE = dict.fromkeys(("DeepCopy", "GuaranteeConst"), "is stateful")


def rows(others: Iterable[Behaviour]) -> list[Behaviour]:
    """A row for each op that the compiler knows and no row of `others` is about."""
    covered = {row.op for row in others}
    return [_row(op, case) for op, case in _cases() if op not in covered]


def _cases() -> Iterator[tuple[str, Case]]:
    """An op and a case of it that TensorFlow can run as it is."""
    by_op: dict[str, list[Case]] = {}
    for name, case in CASES.items():
        if case.plain is None:
            by_op.setdefault(name.partition(".")[0], []).append(case)
    for op in LOWERINGS:
        if op in by_op:
            yield op, by_op[op][0]


def _row(op: str, case: Case) -> Behaviour:
    sizes = sorted(case.sizes)
    feeds = {f"size {n}": _inputs(case, n) for n in (sizes[0], sizes[len(sizes) // 2], sizes[-1])}
    dims = [[n if isinstance(n, int) else None for n in arg.dims] for arg in case.args]
    rtol = max(1e-5, case.relative)
    return Behaviour(
        f"{op}.of_corpus",
        case.function,
        feeds,
        dims=dims,
        outside=_OUTSIDE.get(op, ""),
        gone=op in _GONE,
        rtol=rtol,
    )


def _inputs(case: Case, size: int) -> Sequence[np.ndarray]:
    return draw_inputs(case, dict.fromkeys(case.named_dims, size), seed=size)
