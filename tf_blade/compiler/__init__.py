"""The dynamic-shape compiler: lower, rewrite, fuse, schedule, emit, build.

Rooms are imported by those who use them; `compile_program` is the way from a program to source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tf_blade.compiler.ir.program import Program


def compile_program(program: Program) -> str:
    """The C++ source of a verified program: fused, scheduled and printed."""
    from tf_blade.compiler.emit import emit
    from tf_blade.compiler.fuse import plan

    return emit(program, plan(program))
