"""Versions of a kernel for likely sizes.

Where the sample inputs say how long rows will be, a kernel is compiled a second time with that
length as a constant: its loops have no ends to look for, and short ones become straight code.

    if (args.s1 == 128) return row_reduce_0_of(args, begin, end, 128);
    row_reduce_0_of(args, begin, end, args.s1);
"""

from __future__ import annotations

from tf_blade.compiler.ir.dims import product, symbols_of
from tf_blade.compiler.ir.program import Program
from tf_blade.compiler.schedule.kernel import Kernel, Step
from tf_blade.compiler.shape import Facts

# Lengths that are worth it. One thread with AVX-512, time for any length over that of a known one:
# softmax 1.6 at 32, 1.3 at 128, 1.15 at 256, nothing from 384 on; a normalisation 1.4, 1.3 and 1.1.
# Whole vectors only: where the last one is masked most lengths gain as much, but GCC 12 spoils some
# (softmax 0.6 at 63, 127 and 200).
_LENGTHS = range(32, 257, 16)


def likely_sizes(step: Step, program: Program) -> dict[str, int]:
    """The likely sizes that a kernel gets a version for, by the symbols' names; often none."""
    if not (isinstance(step, Kernel) and step.group.kind == "row_reduce" and step.passes):
        return {}
    length = product([v.extent for v in step.passes[0].loops])
    if isinstance(length, int) or Facts(program).likely(length) not in _LENGTHS:
        return {}
    return {str(s): program.likely[s] for s in sorted(symbols_of(length), key=str)}
