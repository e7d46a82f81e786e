from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from tests.compiler.random_programs import Case, cases
from tf_blade.compiler.ir.parser import ParseError, parse
from tf_blade.compiler.ir.verifier import verify

EVERYTHING = """\
program cluster_0/part-1(%x: i64[s0], %w: f32[128, 64] constant, %e: i32[2]) -> (%4, %x) {
  symbol s0 = dim(%x, 0), likely 8
  symbol e1 = element(%e, 1)
  require e1 <= floor_div(4*s0 - 1, 3) "dense/Reshape: no \\"way\\" // out"
  require s0*(floor_mod(e1, s0) + 1) == 8 ""
  %0: f32[s0, 64] = gather(%w, %x, axis=0, batch_dims=0)  // lookup/GatherV2, lookup/Identity
  %1: f32[s0, 64] = exp(%0)
  %c.1: f32[2, 0] = constant(value=[[], []])
  %c.2: f32[5] = constant(value=[nan, -inf, inf, -0.0, 1e-45])
  %c.3: bool[2] = constant(value=[true, false])
  %c.4: u64[] = constant(value=18446744073709551615)
  %2: i32[2] = shape_value(dtype=i32, shape=[2], elements=[max(s0, e1), if_negative(e1, s0, -e1)])
  %3: bool[s0, 64] = compare(%0, %1, direction=LE)
  %4: f32[64] = reduce(%1, kind=max, dims=[0])
}"""


def test_reads_what_the_printer_writes():
    text = EVERYTHING.replace("s0*(floor_mod(e1, s0) + 1)", "s0*floor_mod(e1, s0) + s0")
    assert str(parse(text)) == text


def test_dims_become_canonical():
    assert "s0*floor_mod(e1, s0) + s0 == 8" in str(parse(EVERYTHING))


def test_comments_and_empty_lines_are_skipped():
    program = parse(
        """
        program p(%x: f32[2]) -> (%y) {
          // what y is

          %y: f32[2] = neg(%x)  // Neg
        }
        """
    )
    assert [op.source for op in program.ops] == ["Neg"]


def test_constants_have_the_declared_dtype():
    program = parse(EVERYTHING)
    values = {op.result.name: op.attrs["value"] for op in program.ops if op.kind == "constant"}
    assert values["c.1"].shape == (2, 0)
    assert values["c.2"].dtype == np.float32 and np.signbit(values["c.2"][3])
    assert values["c.3"].dtype == np.bool_
    assert values["c.4"] == np.uint64(2**64 - 1)


@given(cases())
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_round_trip_of_random_programs(case: Case):
    text = str(case.program)
    again = parse(text)
    verify(again)
    assert str(again) == text


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float64, np.int8, np.uint8, np.int64, np.uint64, np.bool_]
)
def test_constants_round_trip_bit_for_bit(dtype):
    from tf_blade.compiler.ir.builder import Builder

    bits = np.random.default_rng(0).integers(0, 256, 8 * 500, dtype=np.uint8)
    value = (bits % 2 == 0) if dtype is np.bool_ else bits.view(dtype)
    if value.dtype.kind == "f":
        value = value[~np.isnan(value)]
    builder = Builder("p")
    again = parse(str(builder.finish([builder.constant(value)])))
    assert again.ops[0].attrs["value"].tobytes() == value.tobytes()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%y: f32[2] = neg(%z)", "%z is not defined"),
        ("%x: f32[2] = neg(%x)", "%x is defined twice"),
        ("%y: f32[s9] = neg(%x)", "symbol s9 is not declared"),
        ("%y: f8[2] = neg(%x)", "f8"),
        ("%y: f32[2] = neg(%x, colour=red)", "no attribute: 'colour=red'"),
        ("%y: f32[2] = constant(value=[1, 2, 3])", r"shape \[3\] declared"),
        ("%y: f32[2**3] = neg(%x)", "no dim"),
        ("%y: f32[__import__('os')] = neg(%x)", "no dim"),
        ("symbol s0 = dim(%q, 0)", "%q is no parameter"),
        ("nonsense", "can't read 'nonsense'"),
    ],
)
def test_errors_quote_the_line(line, message):
    with pytest.raises(ParseError, match=message):
        parse(f"program p(%x: f32[2]) -> (%x) {{\n  {line}\n}}")


def test_a_text_without_end_is_refused():
    with pytest.raises(ParseError, match="doesn't end"):
        parse("program p(%x: f32[2]) -> (%x) {\n")
