"""What kernels ask memory for ahead."""

from __future__ import annotations

import re

from tests.compiler.emit.example import Example
from tests.compiler.emit.programs import EXAMPLES
from tf_blade.compiler import compile_program
from tf_blade.compiler.emit.prefetch import LONGEST, prefetches
from tf_blade.compiler.emit.scope import KernelText, Scope
from tf_blade.compiler.fuse import plan
from tf_blade.compiler.schedule import schedule
from tf_blade.compiler.schedule.kernel import Kernel


def asked_for(name: str) -> list[tuple[list[str], list[str]]]:
    """For each pass of an example's only kernel, what it reads and writes ahead."""
    program = next(e for e in EXAMPLES if e.name == name).program()
    (kernel,) = schedule(plan(program)).steps
    assert isinstance(kernel, Kernel)
    text = KernelText(lambda value: f"v{value.name}")
    found = [prefetches(kernel, p, text, Scope()) for p in kernel.passes]
    return [
        ([str(value) for value, _, _ in f.reads], [str(value) for value, _ in f.writes])
        for f in found
    ]


def test_a_softmax_reads_the_next_row_ahead_and_writes_its_own():
    assert asked_for("softmax_of_long_rows") == [([], []), (["%x"], ["%8"]), ([], [])]


def test_scratch_is_near_and_needs_no_asking():
    """%0, the sum of both operands, is a result: it is written by the first pass, which nothing
    runs before, and read again from the cache."""
    assert asked_for("layer_norm_of_a_residual") == [([], []), (["%y", "%x"], ["%18"]), ([], [])]


def test_element_wise_loops_are_left_to_the_hardware():
    assert asked_for("flat") == [([], [])]


def test_nothing_is_asked_for_past_the_last_row():
    program = next(e for e in EXAMPLES if e.name == "softmax_of_long_rows").program()
    (kernel,) = schedule(plan(program)).steps
    assert isinstance(kernel, Kernel)
    row = Scope()
    prefetches(kernel, kernel.passes[1], KernelText(lambda value: f"v{value.name}"), row)
    assert row.lines == ["const i64 vx_next = i0 + 1 < end ? b : 0;"]


def test_rows_longer_than_the_cache_ask_for_nothing():
    """Known ones in no code, others where their length is known."""
    example = next(e for e in EXAMPLES if e.name == "softmax_of_long_rows")
    assert f"if (b <= {LONGEST}) {{" in compile_program(example.program())
    for length, asks in ((LONGEST, True), (LONGEST + 1, False)):
        body = re.sub(r"\bb\b", str(length), example.body)
        signature = re.sub(r"\bb\b", str(length), example.signature)
        source = compile_program(Example("known", signature, body).program())
        assert ("__builtin_prefetch" in source) == asks
