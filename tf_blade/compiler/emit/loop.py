"""A while op as a C++ loop around the steps of its condition and its body.

What is carried lives in two buffers by turns: an iteration reads the one and writes the other. An
array of which the body only replaces a row is updated where it is. Room for the temporaries of an
iteration is made once, together with that of the program around the loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tf_blade.compiler.emit import c
from tf_blade.compiler.fuse.index import mul
from tf_blade.compiler.fuse.matrices import base
from tf_blade.compiler.ir.loops import MAX_TRIPS, TOO_FEW_TRIPS, TOO_MANY_TRIPS
from tf_blade.compiler.ir.program import Program
from tf_blade.compiler.schedule.kernel import RowUpdate, WhileLoop
from tf_blade.compiler.schedule.schedule import Schedule

if TYPE_CHECKING:
    from tf_blade.compiler.emit.run import RunPrinter


def row_update(printer: RunPrinter, step: RowUpdate) -> list[str]:
    """Lines that replace a row; the rest of the array is copied unless it is updated in place."""
    (root,) = step.group.roots
    assert root.op is not None
    array, index, row = root.op.operands
    old, new = printer.buffer(array), f"{printer.names[root]}_ptr"
    at = f"{printer.prefix}{step.group.name}_at"
    row_bytes = printer.dim(mul(row.type.size, row.type.dtype.size))
    refusal = printer.refusal(f"{root.op.source or root}: index out of range")
    printer.source.functions.add("copy_bytes")
    size = printer.dim(root.type.shape[0])
    return [
        *c.comment(f"{step.group.name}: {root.op}"),
        f"const i64 {at} = (i64){printer.buffer(index)}[0];",
        f"if ({at} < 0 || {at} >= {size}) return {refusal};",
        f"if ({new} != {old}) copy_bytes({new}, {old}, {row_bytes} * {size});",
        f"copy_bytes(reinterpret_cast<char*>({new}) + {at} * {row_bytes}, "
        f"{printer.buffer(row)}, {row_bytes});",
    ]


def while_loop(printer: RunPrinter, step: WhileLoop) -> list[str]:
    """Lines that run the loop."""
    return _Loop(printer, step).lines()


@dataclass
class _Carried:
    """A carried value in C++.

    bytes: of all its elements. room: for them, where that isn't known when memory is taken.
    current: a variable, the pointer to its elements. result: the buffer where they must be in the
    end, or "" if nobody reads them. first, second: the buffers to write to by turns; `second` is
    "" if an iteration writes nothing or writes in place.
    """

    kind: str
    bytes: str
    room: str
    initial: str
    current: str
    result: str
    first: str = ""
    second: str = ""


class _Loop:
    def __init__(self, printer: RunPrinter, step: WhileLoop) -> None:
        root, *results = step.group.roots
        assert root.op is not None
        self.printer = printer
        self.op = root.op
        self.condition: Program = root.op.attrs["condition"]
        self.body: Program = root.op.attrs["body"]
        self.results = {v.op.attrs["index"]: v for v in results if v.op is not None}
        self.name = f"{printer.prefix}{step.group.name}"
        self.step = step
        self.where = root.op.source or str(root)
        printer.source.functions.add("copy_bytes")

    def lines(self) -> list[str]:
        printer, trips = self.printer, f"{self.name}_trips"
        inputs = [printer.buffer(v) for v in self.op.operands]
        carried = [
            self._carried(i, text) for i, text in enumerate(inputs[: len(self.body.results)])
        ]
        current = [*(x.current for x in carried), *inputs[len(carried) :]]
        test = self._nested("condition", self.step.condition)
        body = self._nested("body", self.step.body)
        test_steps, body_steps = test.steps(), body.steps()
        lines = c.comment(f"{self.name}: {self.where}")
        for each in carried:
            if each.first and not each.second:
                lines.append(f"copy_bytes({each.first}, {each.initial}, {each.bytes});")
            start = each.initial if each.second or not each.first else each.first
            lines.append(f"const {each.kind}* {each.current} = {start};")
        lines += [*test.shape_arrays(), *body.shape_arrays()]
        inside = [
            f"bool {self.name}_holds = false;",
            *_block([*self._pointers(test, current), *self._holds(test), *test_steps]),
            f"if (!{self.name}_holds) break;",
            f"if ({trips} == {MAX_TRIPS}) "
            f"return {printer.refusal(f'{self.where}: {TOO_MANY_TRIPS}')};",
            *self._pointers(body, current),
            *self._buffers(body, carried),
            *body_steps,
            *self._moves(body, carried),
        ]
        lines += [f"i64 {trips} = 0;", *_block(inside, f"for (;; ++{trips})")]
        if self.op.attrs["min_trips"]:
            refusal = printer.refusal(f"{self.where}: {TOO_FEW_TRIPS}")
            lines.append(f"if ({trips} < {self.op.attrs['min_trips']}) return {refusal};")
        for each in carried:
            if each.result:
                copy = f"copy_bytes({each.result}, {each.current}, {each.bytes});"
                lines.append(f"if ({each.current} != {each.result}) {copy}")
        if self.op.result in printer.memory.stored:
            lines.append(f"{printer.names[self.op.result]}_ptr[0] = {trips};")
        return lines

    def _carried(self, index: int, initial: str) -> _Carried:
        kind = self.body.params[index].type
        found = _Carried(
            c.type_name(kind.dtype),
            self.printer.dim(mul(kind.size, kind.dtype.size)),
            self.printer.room(mul(kind.size, kind.dtype.size)),
            initial,
            f"{self.name}_value_{index}",
            f"{self.printer.names[self.results[index]]}_ptr" if index in self.results else "",
        )
        if base(self.body.results[index]) is self.body.params[index]:
            return found  # it stays what it is
        found.first = found.result or self._room(f"{self.name}_first_{index}", found)
        if not _is_updated_in_place(self.body, index):
            found.second = self._room(f"{self.name}_second_{index}", found)
        return found

    def _room(self, name: str, of: _Carried) -> str:
        self.printer.add_room(name, of.kind, of.room)
        return f"{name}_ptr"

    def _nested(self, name: str, schedule: Schedule) -> RunPrinter:
        inputs = None
        if name == "body":
            inputs = {
                index: self.printer.constant_input(operand)
                for index, operand in enumerate(self.op.operands)
                if index >= len(self.body.results)
            }
        return self.printer.nested(schedule, f"{self.name}_{name}_", inputs or {})

    def _pointers(self, nested: RunPrinter, current: list[str]) -> list[str]:
        lines: list[str] = []
        for param, pointer in zip(nested.program.params, current, strict=True):
            kind, name = c.type_name(param.type.dtype), nested.names[param]
            lines.append(f"[[maybe_unused]] const {kind}* const {name}_ptr = {pointer};")
        return lines

    def _holds(self, test: RunPrinter) -> list[str]:
        """Where the condition's answer goes."""
        holds = f"{self.name}_holds"
        if test.memory.forwards:
            return [f"{holds} = {test.buffer(base(test.program.results[0]))}[0];"]
        (root,) = test.memory.outputs
        return [f"bool* const {test.names[root]}_ptr = &{holds};"]

    def _buffers(self, body: RunPrinter, carried: list[_Carried]) -> list[str]:
        """What the iteration writes."""
        lines: list[str] = []
        for each in carried:
            if each.first:
                turn = f"{each.current} == {each.first} ? {each.second} : {each.first}"
                place = turn if each.second else each.first
                lines.append(f"{each.kind}* const {each.current}_next = {place};")
        for root, index in body.memory.outputs.items():
            if carried[index].first:
                kind, name = c.type_name(root.type.dtype), body.names[root]
                lines.append(f"{kind}* const {name}_ptr = {carried[index].current}_next;")
        return lines

    def _moves(self, body: RunPrinter, carried: list[_Carried]) -> list[str]:
        """Results that are nothing new, then the step from the old values to the next."""
        lines: list[str] = []
        for index in [*body.memory.copies, *body.memory.forwards]:
            if carried[index].first:
                source = body.buffer(base(body.program.results[index]))
                each = carried[index]
                lines.append(f"copy_bytes({each.current}_next, {source}, {each.bytes});")
        return lines + [f"{x.current} = {x.current}_next;" for x in carried if x.first]


def _is_updated_in_place(body: Program, index: int) -> bool:
    """Whether the body makes of parameter `index` nothing but itself with a row replaced, after
    (fuse.plan) all that reads it."""
    result, param = body.results[index], body.params[index]
    if result.op is None or result.op.kind != "dynamic_update":
        return False
    updates = [op for op in body.ops if op.kind == "dynamic_update" and param in op.operands]
    read_after = any(result in op.operands for op in body.ops)
    kept = any(base(other) is param for other in body.results)
    once = sum(base(other) is result for other in body.results) == 1
    return (
        result.op.operands[0] is param and len(updates) == 1 and once and not (read_after or kept)
    )


def _block(lines: list[str], header: str = "") -> list[str]:
    return [f"{header} {{".lstrip(), *(f"  {line}" if line else "" for line in lines), "}"]
