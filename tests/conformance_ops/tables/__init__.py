"""The tables, by family of ops."""

from __future__ import annotations

from collections.abc import Sequence

from tests.conformance_ops.behaviour import Behaviour
from tests.conformance_ops.tables import (
    arithmetic,
    complexes,
    convolutions,
    loops,
    making,
    matrices,
    others,
    picking,
    reductions,
    shapes,
    sparse,
)

TABLES: dict[str, Sequence[Behaviour]] = {
    "arithmetic": arithmetic.ROWS,
    "complexes": complexes.ROWS,
    "convolutions": convolutions.ROWS,
    "loops": loops.ROWS,
    "making": making.ROWS,
    "matrices": matrices.ROWS,
    "picking": picking.ROWS,
    "reductions": reductions.ROWS,
    "shapes": shapes.ROWS,
    "sparse": sparse.ROWS,
}
TABLES["others"] = others.rows(row for rows in TABLES.values() for row in rows)
