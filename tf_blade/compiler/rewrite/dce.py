"""Dead code elimination: ops whose results nothing reads go away.

An op that could have refused the run goes with the rest: TensorFlow doesn't run what isn't
fetched either.
"""

from __future__ import annotations

from tf_blade.compiler.ir.program import ComputedSize, Program
from tf_blade.compiler.ir.sizes import live_ops


def drop_dead(program: Program) -> bool:
    """Removes unread ops in place; says whether there were any."""
    kept, sizes = live_ops(program)
    changed = len(kept) < len(program.ops)
    program.ops = kept
    for symbol, source in list(program.symbols.items()):
        if isinstance(source, ComputedSize) and symbol not in sizes:
            del program.symbols[symbol]
    return changed
