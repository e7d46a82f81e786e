"""Dead code elimination: ops whose results nothing reads go away.

An op that could have refused the run goes with the rest: TensorFlow doesn't run what isn't
fetched either.
"""

from __future__ import annotations

from tf_blade.compiler.ir.program import Op, Program


def drop_dead(program: Program) -> bool:
    """Removes unread ops in place; says whether there were any."""
    live = set(program.results)
    kept: list[Op] = []
    for op in reversed(program.ops):
        if op.result in live:
            live.update(op.operands)
            kept.append(op)
    changed = len(kept) < len(program.ops)
    program.ops = kept[::-1]
    return changed
