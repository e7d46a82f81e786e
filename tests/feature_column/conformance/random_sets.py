"""Sets of columns: several kinds under one layer, as a model has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.feature_column.conformance.case import ColumnCase, Features
from tests.feature_column.conformance.columns import column_cases

# Kinds that `input_layer` takes beside others.
KINDS = {
    case.name: case
    for case in column_cases()
    if "input_layer" in case.layers and not case.scope and case.name != "together"
}
# Those that no value makes fail, so that one doesn't hide what the others do.
TOLERANT = {
    name: case
    for name, case in KINDS.items()
    if name != "weighted_dense"  # its weights must be as many as its values that aren't missing
    and all(feature.takes == "all" for feature in case.features.values())
    and not any(feature.filled for feature in case.features.values())
}


def column_set(kinds: Sequence[str]) -> ColumnCase:
    """All these kinds as one case; one may come twice. Feature f of the i-th becomes "k{i}_f"."""

    def parts(prefix: str) -> list[tuple[str, ColumnCase]]:
        return [(f"{prefix}k{index}_", KINDS[kind]) for index, kind in enumerate(kinds)]

    def columns(prefix: str) -> list[Any]:
        return [column for part, case in parts(prefix) for column in case.columns(part)]

    features: Features = {
        prefix + name: feature.renamed(prefix)
        for prefix, case in parts("")
        for name, feature in case.features.items()
    }
    return ColumnCase("columns", features, columns, ("input_layer",))
