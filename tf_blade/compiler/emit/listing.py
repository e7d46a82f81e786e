"""What the calling thread does over a whole tensor: listing true elements, finding equal ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tf_blade.compiler.emit import c
from tf_blade.compiler.schedule.kernel import FirstEqual, Positions

if TYPE_CHECKING:
    from tf_blade.compiler.emit.run import RunPrinter


def positions_call(printer: RunPrinter, step: Positions) -> list[str]:
    """Lines that list where a mask is true."""
    (root,) = step.group.roots
    assert root.op is not None
    (mask,) = root.op.operands
    printer.source.functions.add("list_positions")
    length, count = printer.dim(mask.type.size), printer.dim(root.type.size)
    return [
        *c.comment(f"{step.group.name}: {root.op}"),
        f"list_positions({printer.buffer(mask)}, {length}, {printer.pointer(root)}, {count});",
    ]


def first_equal_call(printer: RunPrinter, step: FirstEqual) -> list[str]:
    """Lines that find the first of equal elements."""
    (root,) = step.group.roots
    assert root.op is not None
    (x,) = root.op.operands
    printer.source.functions.add("find_first_equal")
    places = printer.dim(step.table.type.size)
    return [
        *c.comment(f"{step.group.name}: {root.op}"),
        f"find_first_equal({printer.buffer(x)}, {printer.dim(x.type.size)}, "
        f"{printer.pointer(step.table)}, {places}, {printer.pointer(root)});",
    ]
