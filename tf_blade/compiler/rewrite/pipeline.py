"""The rewrites of a program, in order, repeated until none applies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

from tf_blade.compiler.ir.loops import nested_programs
from tf_blade.compiler.ir.program import Program
from tf_blade.compiler.ir.verifier import verify
from tf_blade.compiler.rewrite import (
    algebra,
    broadcasts,
    concatenations,
    convolutions,
    epilogue,
    fold,
    layout,
    normalize,
    products,
    splits,
)
from tf_blade.compiler.rewrite.cse import share_common
from tf_blade.compiler.rewrite.dce import drop_dead
from tf_blade.compiler.rewrite.hoist import hoist_products
from tf_blade.compiler.rewrite.rules import RewriteLog, RuleSet

# Rounds of the pipeline before it stops short of a fixed point. Real programs need two or three.
MAX_ROUNDS = 10


@dataclass(frozen=True)
class Pass:
    """One named rewrite of a program, in place; `run` says whether it changed anything."""

    name: str
    run: Callable[[Program, RewriteLog], bool]


def _rules(rules: RuleSet) -> Pass:
    return Pass(rules.name, rules.apply)


def _drop_dead(program: Program, log: RewriteLog) -> bool:
    changed = drop_dead(program)
    if changed:
        log.applied["dce"] += 1
    return changed


PIPELINE: tuple[Pass, ...] = (
    # What isn't needed needs no rewriting, and doesn't count as a use.
    Pass("dce", _drop_dead),
    # Known values first: the identities after it look for constants.
    _rules(fold.rules),
    # Identities, then data movement: an identity gone brings two transposes together.
    _rules(products.rules + algebra.rules),
    _rules(layout.rules),
    # On reshapes and slices in their shortest form.
    _rules(convolutions.rules),
    # Broadcasts sink below elementwise ops, which makes new constant subexpressions: next round.
    _rules(broadcasts.rules),
    # Then, on broadcasts from the smallest operands: they must follow into the split dims.
    _rules(splits.rules),
    # Behind both, which bring ops of one shape together.
    _rules(concatenations.rules),
    # On canonical broadcasts, too: each row's sum is spread over its row.
    _rules(normalize.rules),
    # Equal ops become one before uses are counted for the epilogues.
    Pass("cse", share_common),
    # Last, on canonical broadcasts: a bias is `broadcast_in_dim` of a vector, a relu `max` with 0.
    _rules(epilogue.rules),
    # On products with their biases: they go before the loop together.
    Pass("hoist", hoist_products),
)


def rewrite(
    program: Program, log: RewriteLog | None = None, *, verify_each: bool = False
) -> Program:
    """Simplifies the program, in place, and returns it, its values numbered anew.

    It computes what it did: integers and data movement bit for bit, floats to the rounding of
    sums (a bias is added before the product is rounded; a softmax multiplies by its sum's inverse).
    It refuses the same runs: where a rule drops what may be an error in TensorFlow, it is declined.

    Args:
      log: takes what was applied and what was declined, with reasons.
      verify_each: check the IR's rules after every pass (tests).
    """
    log = log if log is not None else RewriteLog()
    for op in program.ops:
        for nested in nested_programs(op):
            rewrite(nested, log)
    for _ in range(MAX_ROUNDS):
        changed = False
        log.declined.clear()
        for step in PIPELINE:
            changed |= step.run(program, log)
            if verify_each:
                verify(program)
        if not changed:
            break
    renumber(program)
    return program


def renumber(program: Program) -> None:
    """Names results 0, 1, 2, … in order, past the names of parameters."""
    taken = {v.name for v in program.params}
    names: Iterator[str] = (str(n) for n in count() if str(n) not in taken)
    for op in program.ops:
        op.result.name = next(names)
