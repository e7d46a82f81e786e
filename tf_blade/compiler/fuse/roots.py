"""Which values get storage of their own (roots); all others are computed where they are read.

Roots are what must exist (results, operands of library calls, reductions, concatenations) and what
is better computed once: dear values that several kernels, or one kernel at several places, need.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from tf_blade.compiler.fuse import cost
from tf_blade.compiler.fuse.matrices import base, operand_root
from tf_blade.compiler.fuse.products import product_of
from tf_blade.compiler.fuse.scalar import INDEX_KINDS, splat_value
from tf_blade.compiler.ir.ops import ELEMENTWISE
from tf_blade.compiler.ir.program import Op, Program, Value
from tf_blade.compiler.ir.sizes import computed_sizes, live_ops
from tf_blade.steps import Description, Steps

# Never inlined into their readers.
ANCHORS = frozenset(
    "reduce dot_general conv rfft irfft concatenate pad scan scatter top_k positions "
    "first_equal dynamic_update while carried".split()
)
# They move no data, or are written out where they are read.
_NEVER_STORED = frozenset(["reshape", "constant", "shape_value"])
# A use: the root that reads, and the index mappings on the way to it.
Use = tuple[Value, tuple[int, ...]]
# Two uses are as many as matter; a few more are kept because they may turn out to be one.
_MOST_USES = 6


@dataclass
class Roots:
    """roots: in program order. reasons: why each is one, for the plan's text."""

    roots: list[Value] = field(default_factory=list)
    reasons: dict[Value, str] = field(default_factory=dict)


def find_roots(program: Program, steps: Steps | None = None) -> Roots:
    """The roots of a program.

    Args:
      steps: watches and limits which values are none, but computed where they are read.
    """
    program = replace(program, ops=live_ops(program)[0])
    required = _required(program)
    chosen = dict(required)
    # What is dear to compute twice depends on what is in memory, and the reverse: settle in rounds.
    for _ in range(2):
        uses = _uses(program, chosen)
        chosen = {**required, **_worth_storing(program, required, uses)}
    uses = _uses(program, chosen)
    for value, reason in list(chosen.items()):
        if reason == "several uses" and len(uses.get(value, ())) < 2:
            del chosen[value]
    if steps is not None:
        _limit_inlining(program, chosen, steps)
    found = Roots(reasons=chosen)
    found.roots = [op.result for op in program.ops if op.result in chosen]
    return found


def _limit_inlining(program: Program, chosen: dict[Value, str], steps: Steps) -> None:
    """Makes roots of the values that `steps` doesn't allow to be inlined."""
    users = program.users()
    for op in program.ops:
        if op.result in chosen or op.kind in _NEVER_STORED:
            continue
        if not steps.allow("inline", op.kind, partial(_describe, op, users[op.result])):
            chosen[op.result] = "inlined no more"


def _describe(op: Op, readers: list[Op]) -> Description:
    inside = "\n".join(str(reader) for reader in readers)
    return f"{op}\n{inside}", f"{op.result} is computed where it is read", op.source


def _required(program: Program) -> dict[Value, str]:
    reasons: dict[Value, str] = {}

    def require(value: Value, reason: str) -> None:
        value = base(value)
        if value.op is not None:
            reasons.setdefault(value, reason)

    for result in program.results:
        require(result, "result")
    for size in computed_sizes(program).values():
        require(size.value, "size")
    users = program.users()
    products = []
    for op in program.ops:
        if op.kind == "dot_general":
            products.append(_written(op, users, reasons))
            require(products[-1], op.kind)
            for operand in op.operands[:2]:
                require(operand_root(operand), "matrix operand")
            for operand in op.operands[2:]:
                require(operand, "bias")
        elif op.kind == "conv":
            require(op.result, op.kind)
            for operand in op.operands:
                require(operand, "operand of a convolution")
        elif op.kind in ANCHORS or op.kind == "checked":
            # A check looks at every element, whichever of them are read.
            require(op.result, op.kind)
        if op.kind == "scatter":
            require(op.operands[1], "indices")
        if op.kind in ("dynamic_update", "while", "rfft", "irfft", "positions", "first_equal"):
            for operand in op.operands:
                require(operand, f"operand of {op.kind}")
    _add_residuals(products, users, reasons)
    return reasons


def _written(product: Op, users: dict[Value, list[Op]], results: dict[Value, str]) -> Value:
    """What a matrix product writes: its transpose or a multiple when nothing else reads it."""
    reader = _reader(product.result, users, results)
    if reader is not None and reader.kind != "add":
        found = product_of(reader.result)
        if found is not None and found.op is product:
            return reader.result
    return product.result


def _reader(value: Value, users: dict[Value, list[Op]], stored: Container[Value]) -> Op | None:
    """The op that is alone in reading the value, if that isn't stored."""
    readers = users[value]
    return readers[0] if len(readers) == 1 and value not in stored else None


def _add_residuals(
    products: Sequence[Value], users: dict[Value, list[Op]], reasons: dict[Value, str]
) -> None:
    """Lets a product write a sum that must be in memory, with what it is added to there as well."""
    for written in products:
        others = {v: reason for v, reason in reasons.items() if v is not written}
        reader = _reader(written, users, others)
        while reader is not None and reader.kind == "reshape":
            reader = _reader(reader.result, users, others)
        if reader is None or reader.kind != "add" or reader.result not in reasons:
            continue
        found = product_of(reader.result, others)
        residual = base(found.epilogue.residual) if found and found.epilogue.residual else None
        if residual is not None and (residual.op is None or _has_elements(residual, others)):
            del reasons[written]


def _has_elements(value: Value, stored: Container[Value]) -> bool:
    """Whether the value is in memory; constants and shapes are written out where they are read."""
    return value in stored and value.op is not None and value.op.kind not in _NEVER_STORED


def _uses(program: Program, roots: dict[Value, str]) -> dict[Value, set[Use]]:
    """For each value, the places it is needed at."""
    uses: dict[Value, set[Use]] = {}
    for number, op in reversed(list(enumerate(program.ops))):
        mine: set[Use] = {(op.result, ())} if op.result in roots else uses.get(op.result, set())
        for position, operand in enumerate(op.operands):
            seen = mine
            if op.kind in INDEX_KINDS and op.kind != "reshape":
                step = number * 4 + position
                seen = {(root, (*path, step)) for root, path in mine}
            known = uses.setdefault(operand, set())
            if len(known) < _MOST_USES:
                known |= seen
    return uses


def _worth_storing(
    program: Program, required: dict[Value, str], uses: dict[Value, set[Use]]
) -> dict[Value, str]:
    """Values that are dear and needed more than once, or in a loop that repeats them."""
    chosen: dict[Value, str] = {}
    # What computing a value takes: the values computed for it and the ones read from memory.
    parts: dict[Value, frozenset[Value]] = {p: frozenset([p]) for p in program.params}
    own: dict[Value, float] = {p: cost.LOAD for p in program.params}

    def store(value: Value, reason: str) -> None:
        value = base(value)
        if value.op is not None and value.op.kind not in ("constant", "shape_value"):
            chosen.setdefault(value, reason)
            parts[value], own[value] = frozenset([value]), cost.LOAD

    def total(value: Value) -> float:
        return sum(own[v] for v in parts[value])

    for op in program.ops:
        result = op.result
        if _repeats(op) and total(op.operands[0]) > cost.CHEAP:
            store(op.operands[0], "repeated by a broadcast")
        if op.kind == "gather":
            if total(op.operands[0]) > cost.CHEAP:
                store(op.operands[0], "read in any order")
            if total(op.operands[1]) > 2 * cost.CHEAP:
                store(op.operands[1], "indices")
        own[result] = _own_cost(op)
        parts[result] = frozenset([result]).union(*(parts[v] for v in op.operands))
        if result in required:
            parts[result], own[result] = frozenset([result]), cost.LOAD
        elif op.kind == "reshape":
            parts[result] = parts[op.operands[0]]
        elif len(parts[result]) > cost.LONGEST:
            store(result, "long expression")
        elif total(result) > cost.CHEAP and len(uses.get(result, ())) > 1:
            store(result, "several uses")
    return chosen


def _own_cost(op: Op) -> float:
    if op.kind in ELEMENTWISE:
        return cost.of_op(op)
    if op.kind == "gather":
        return cost.TAKEN
    return cost.LOAD if op.kind == "constant" and splat_value(op.result) is None else 0.0


def _repeats(op: Op) -> bool:
    """Whether the broadcast repeats its operand in an outer loop: the expression would be computed
    again in each iteration. New inner dims don't matter: code moves out of inner loops."""
    if op.kind != "broadcast_in_dim":
        return False
    source, shape, dims = op.operands[0].type.shape, op.attrs["shape"], op.attrs["dims"]
    kept = [dim for n, dim in zip(source, dims, strict=True) if n != 1]
    if not kept:
        return False
    new = [i for i, n in enumerate(shape) if i not in kept and n != 1]
    return bool(new) and min(new) < max(kept)
