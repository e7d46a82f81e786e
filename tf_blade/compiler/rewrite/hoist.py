"""Work of a loop's iterations that can be done at once before the loop.

    while: … x_t = gather(x, t); y_t = dot_general(x_t, w) …
        ->  y = dot_general(x, w); while: … y_t = gather(y, t) …

if t counts through all of x, and x and w stay the same: a recurrent layer's products with its
inputs are one product with as many rows as there are steps, for which w is read once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count

from tf_blade.compiler.ir.dims import Dim
from tf_blade.compiler.ir.loops import counters, nested_programs
from tf_blade.compiler.ir.ops import infer_type
from tf_blade.compiler.ir.program import Op, Program, Value
from tf_blade.compiler.rewrite.dce import drop_dead
from tf_blade.compiler.rewrite.rules import RewriteLog, fresh_names
from tf_blade.steps import Description

# Swaps the first two dims: what recurrent layers do to go through the second one.
_SWAPPED = (1, 0, 2)


def hoist_products(program: Program, log: RewriteLog | None = None) -> bool:
    """Moves such products out of the program's loops, in place; says whether there were any."""
    log = log if log is not None else RewriteLog()
    changed = False
    for loop in [op for op in program.ops if op.kind == "while"]:
        names = fresh_names(program)
        for product in list(_products(loop)):
            if log.allow("hoist", partial(_describe, loop, product)):
                _hoist(program, loop, product, names)
                changed = True
        changed |= _drop_unread(loop)
    return changed


@dataclass(frozen=True)
class _Product:
    """A product in a body. rows: the body's parameter that it takes a row of. index: of which."""

    op: Op
    rows: Value
    index: Value


def _products(loop: Op) -> Iterator[_Product]:
    body = loop.attrs["body"]
    for op in body.ops:
        if op.kind != "dot_general" or op.attrs["transpose_a"]:
            continue
        row, *fixed = op.operands
        if row.op is None or row.op.kind != "gather" or row.type.rank < 2:
            continue
        rows, index = row.op.operands
        if index.op is not None and index.op.kind == "checked":
            index = index.op.operands[0]  # what counts through all rows is none outside
        plain = row.op.attrs["axis"] == 0 and index.type.rank == 0 and fixed[0].type.rank == 2
        if plain and all(_outside(loop, v) is not None for v in (rows, *fixed)):
            limit = rows.type.shape[0]
            if any(index is body.params[i] for i in _counting_to(loop, limit)):
                yield _Product(op, rows, index)


def _outside(loop: Op, value: Value) -> Value | None:
    """What the body's value is before the loop, if it stays that: an operand, or a constant."""
    body = loop.attrs["body"]
    if value.op is not None:
        return value if value.op.kind == "constant" else None
    index = body.params.index(value)
    return loop.operands[index] if index >= len(body.results) else None


def _counting_to(loop: Op, limit: Dim) -> Iterator[int]:
    """Which carried values count 0, 1, 2, … as long as they are below `limit`."""
    condition, body = loop.attrs["condition"], loop.attrs["body"]
    for index, bound in counters(condition, body):
        start = loop.operands[index].op
        if start is None or start.kind != "constant" or start.attrs["value"] != 0:
            continue
        if bound.op is None:
            bound = loop.operands[condition.params.index(bound)]
        if bound.op is None or bound.op.kind not in ("shape_value", "constant"):
            continue
        known = bound.op.attrs
        last = known["elements"][0] if "elements" in known else int(known["value"])
        if last == limit:
            yield index


def _hoist(program: Program, loop: Op, product: _Product, names: Iterator[str]) -> None:
    body: Program = loop.attrs["body"]
    place = program.ops.index(loop)

    def before(kind: str, operands: list[Value], **attrs: object) -> Value:
        nonlocal place
        result = Value(next(names), infer_type(kind, operands, attrs))
        result.op = Op(kind, operands, attrs, result, product.op.source)
        program.ops.insert(place, result.op)
        place += 1
        return result

    operands: list[Value] = []
    for value in (product.rows, *product.op.operands[1:]):
        found = _outside(loop, value)
        assert found is not None
        if found.op is not None and found.op in body.ops:
            found = before("constant", [], **found.op.attrs)
        operands.append(found)
    rows, axis = operands[0].op, 0
    if rows is not None and rows.kind == "transpose" and rows.attrs["perm"] == _SWAPPED:
        operands[0], axis = rows.operands[0], 1
    made = before("dot_general", operands, **product.op.attrs)
    loop.operands.append(made)
    for nested in nested_programs(loop):
        taken = {v.name for v in nested.values()}
        name = next(f"p{n}" for n in count(len(nested.params)) if f"p{n}" not in taken)
        nested.params.append(Value(name, made.type))
    product.op.kind = "gather"
    product.op.operands = [body.params[-1], product.index]
    product.op.attrs = {"axis": axis, "batch_dims": 0}
    drop_dead(body)


def _drop_unread(loop: Op) -> bool:
    """Takes out the operands that neither the condition nor the body reads."""
    programs = list(nested_programs(loop))
    first = len(loop.attrs["body"].results)
    read: set[Value] = set()
    for program in programs:
        read.update(program.results, *(op.operands for op in program.ops))
    unread = [
        i
        for i in range(first, len(loop.operands))
        if not any(program.params[i] in read for program in programs)
    ]
    for values in (loop.operands, *(program.params for program in programs)):
        values[:] = [v for i, v in enumerate(values) if i not in unread]
    return bool(unread)


def _describe(loop: Op, product: _Product) -> Description:
    text, *_ = str(loop).splitlines()
    return f"{text}\n  {product.op}", "before the loop", product.op.source
