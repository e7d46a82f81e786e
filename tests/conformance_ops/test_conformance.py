"""Every row of every table does what plain TensorFlow does, in every way it is run."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from tests.conformance_ops import tables
from tests.conformance_ops.behaviour import Behaviour
from tests.conformance_ops.runners import (
    RUNNERS,
    Answer,
    Optimised,
    Plain,
    SessionRunner,
    Table,
    build,
    reasons,
)

ROWS = [(name, row) for name, rows in tables.TABLES.items() for row in rows]


@functools.cache
def table_of(name: str) -> Table:
    return build(tables.TABLES[name])


@functools.cache
def prepared(name: str, way: Any) -> SessionRunner:
    made: SessionRunner = way(table_of(name))
    return made


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize(("table", "row"), ROWS, ids=[row.name for _, row in ROWS])
def test_does_what_tensorflow_does(table: str, row: Behaviour, runner: str):
    way = RUNNERS[runner]
    for special, feed in row.feeds.items():
        want = prepared(table, way.compared_with).answer(row, feed)
        got = prepared(table, way).answer(row, feed)
        compare(f"{row.name}, {special}", row, want, got)


def compare(where: str, row: Behaviour, want: Answer, got: Answer) -> None:
    assert (got.error, got.message) == (want.error, want.message), where
    assert len(got.arrays) == len(want.arrays)
    for ours, theirs in zip(got.arrays, want.arrays, strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape, where
        np.testing.assert_allclose(ours, theirs, rtol=row.rtol, atol=1e-6, err_msg=where)


@pytest.mark.parametrize(("table", "row"), ROWS, ids=[row.name for _, row in ROWS])
def test_runs_where_the_table_says(table: str, row: Behaviour):
    """Inside a cluster, or in TensorFlow for the reason given: or nothing would be compared."""
    runner = prepared(table, Optimised)
    assert isinstance(runner, Optimised)
    number = list(tables.TABLES[table]).index(row)
    nodes = {
        node.name
        for node in table_of(table).graph_def.node
        if node.op == row.op and node.name.startswith(f"row{number}/")
    }
    assert nodes, f"{row.name}: its function makes no {row.op}"
    left_out = reasons(runner.report)
    # What goes in as a call is named after the loop, or the first node of complex numbers.
    inside = {name.removesuffix("/loop").removesuffix("/complex") for name in runner.clustered}
    found = {name: left_out.get(name, "") for name in nodes if name not in inside}
    if row.outside:
        assert found and all(row.outside in reason for reason in found.values()), found
    elif not row.gone:
        assert not found, found


def test_rows_have_names_of_their_own():
    names = [row.name for _, row in ROWS]
    assert len(names) == len(set(names))


def test_errors_are_compared():
    """Rows that never raise would show little: most tables are about errors."""
    raised = sum(
        bool(prepared(table, Plain).answer(row, feed).error)
        for table, row in ROWS
        for feed in row.feeds.values()
    )
    assert raised >= 100
