from __future__ import annotations

from tests.compiler.rewrite.programs import check
from tf_blade.compiler.rewrite.dce import drop_dead


def test_ops_that_nothing_reads_are_dropped_with_what_only_they_read():
    before = """
        %x: f32[s0]
        %0: f32[s0] = exp(%x)
        %1: f32[s0] = neg(%0)
        %2: f32[s0] = abs(%0)
        %3: f32[s0] = tanh(%x)
    """
    check(drop_dead, before, "%x: f32[s0]\n%3: f32[s0] = tanh(%x)")


def test_everything_read_stays():
    """Parameters too, even those that nothing reads: they are the cluster's inputs."""
    before = """program p(%x: f32[2], %unused: f32[2]) -> (%0, %1) {
        %0: f32[2] = exp(%x)
        %1: f32[2] = neg(%0)
    }"""
    check(drop_dead, before)
