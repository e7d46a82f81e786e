"""Which kernels have a version for short rows, and at which sizes it runs."""

from __future__ import annotations

import pytest

from tests.compiler.emit.example import Example
from tf_blade.compiler import compile_program

BIAS = """%0: f32[a, {b}] = broadcast_in_dim(%v, shape=[a, {b}], dims=[1])
        %1: f32[a, {b}] = add(%x, %0)"""


def source(signature: str, body: str) -> str:
    return compile_program(Example("program", signature, body).program())


def with_bias(width: str) -> str:
    return source(f"(%x: f32[a, {width}], %v: f32[{width}]) -> (%1)", BIAS.format(b=width))


def test_rows_of_unknown_length_have_both_versions():
    text = with_bias("b")
    assert "if (b > 0 && b <= 128 && a >= 8)" in text
    assert "repeat_row(v_v_tile" in text
    assert "for (i64 i0 = begin; i0 < end; ++i0)" in text or "i64 unit = begin" in text


def test_rows_known_to_be_short_only_look_at_how_many_there_are():
    assert "if (a >= 8)" in with_bias("23")


@pytest.mark.parametrize("width", ["129", "48"])
def test_rows_that_are_long_or_whole_vectors_have_one_version(width: str):
    assert "repeat_row" not in with_bias(width)


def test_what_depends_on_the_row_alone_is_not_repeated_for_each_element():
    text = source(
        "(%x: f32[a, b], %v: f32[a]) -> (%1)",
        """%0: f32[a, b] = broadcast_in_dim(%v, shape=[a, b], dims=[0])
        %1: f32[a, b] = add(%x, %0)""",
    )
    assert "repeat_row" not in text and "join_rows" not in text


def test_rows_that_lie_apart_are_joined_while_they_are_very_short():
    text = source(
        "(%x: f32[a, c, b]) -> (%1)",
        """%0: f32[c, a, b] = transpose(%x, perm=[1, 0, 2])
        %1: f32[c, a, b] = tanh(%0)""",
    )
    assert "if (b > 0 && b <= 24 && a >= 8)" in text
    assert "join_rows(v_x_tile" in text


def test_rows_are_turned_into_columns_in_registers_where_their_elements_are_neighbours():
    reduced = """%0: f32[a] = reduce(%x, kind=max, dims=[{dims}])
        %1: f32[{shape}] = broadcast_in_dim(%0, shape=[{shape}], dims=[0])
        %2: f32[{shape}] = sub(%x, %1)"""
    text = source("(%x: f32[a, b]) -> (%2)", reduced.format(dims="1", shape="a, b"))
    assert "columns_of_rows<64>(v_x_tile" in text and "rows_of_columns<64>(v2_ptr" in text
    text = source(
        "(%x: f32[a, b, 3, c]) -> (%0)", "%0: f32[a, 3] = reduce(%x, kind=sum, dims=[1, 3])"
    )
    assert "columns_of_rows" not in text and "v_x_tile[at + lane] = v_x_ptr[rows_at" in text


def test_short_runs_of_several_groups_are_done_side_by_side():
    text = source(
        "(%x: f32[a, b, 8, c]) -> (%0)", "%0: f32[a, 8] = reduce(%x, kind=sum, dims=[1, 3])"
    )
    assert "if (c > 0 && c <= 16 && b <= 2048)" in text
    assert "columns_of_rows" not in text


@pytest.mark.parametrize(
    "shape, kept",
    [("a, b, 3, c", "a, 3"), ("a, b, 8, 17", "a, 8"), ("a, b, d, c", "a, d")],
    ids=["few groups", "long runs", "an unknown number of groups"],
)
def test_other_runs_are_done_one_by_one(shape: str, kept: str):
    text = source(
        f"(%x: f32[{shape}]) -> (%0)", f"%0: f32[{kept}] = reduce(%x, kind=sum, dims=[1, 3])"
    )
    assert "v0_part + " not in text


def test_groups_whose_elements_are_no_neighbours_are_not_done_side_by_side():
    text = source(
        "(%x: f32[a, 8, b, c]) -> (%1)",
        """%0: f32[a, b, 8, c] = transpose(%x, perm=[0, 2, 1, 3])
        %1: f32[a, 8] = reduce(%0, kind=sum, dims=[1, 3])""",
    )
    assert "v1_part + " not in text
