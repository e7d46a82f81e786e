"""Steps that are kernels of their own: the printed function and the lines that call it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from tf_blade.compiler.emit import c
from tf_blade.compiler.emit.columns import column_reduce_function
from tf_blade.compiler.emit.kernels import kernel_function
from tf_blade.compiler.emit.likely import likely_sizes
from tf_blade.compiler.emit.nest import Function
from tf_blade.compiler.emit.scan import scan_function
from tf_blade.compiler.emit.scatter import scatter_function
from tf_blade.compiler.emit.scope import KernelText
from tf_blade.compiler.emit.top_k import top_k_function
from tf_blade.compiler.fuse.index import mul
from tf_blade.compiler.schedule.kernel import ColumnReduce, Kernel, Scan, Scatter, TopK

if TYPE_CHECKING:
    from tf_blade.compiler.emit.run import RunPrinter

# Kernels known to take fewer cycles than this are called without asking for threads.
INLINE_CYCLES = 20_000

KernelStep = Kernel | ColumnReduce | Scan | Scatter | TopK
# The C type and the name of what a kernel is given, each a field of its arguments.
Fields = list[tuple[str, str]]

_VALUE_NAME = re.compile(r"\b[pv]\d+(?=_|\b)")


def kernel_step(printer: RunPrinter, step: KernelStep, number: int) -> list[str]:
    """Prints the kernel of step `number`, unless one with the same text is there; the lines that
    call it."""
    text = KernelText(printer.names.__getitem__)
    if isinstance(step, ColumnReduce):
        function = column_reduce_function(step, text)
    elif isinstance(step, Scan):
        function = scan_function(step, text)
    elif isinstance(step, Scatter):
        function = scatter_function(step, text)
    elif isinstance(step, TopK):
        function = top_k_function(step, text)
    else:
        function = kernel_function(step, text)
    function.likely = likely_sizes(step, printer.program)
    return _kernel(printer, step, function, number)


def _kernel(printer: RunPrinter, step: KernelStep, function: Function, number: int) -> list[str]:
    name, kernel, fields = place_kernel(printer, step, function, number, _print_kernel)
    heading = printer.heading(step, f"{name} runs {kernel}") if kernel != name else []
    return [*heading, *_call(printer, function, kernel, name, fields)]


def place_kernel(
    printer: RunPrinter,
    step: KernelStep,
    function: Function,
    number: int,
    print_kernel: Callable[[RunPrinter, KernelStep, Function, str, Fields], None],
) -> tuple[str, str, Fields]:
    """Prints the kernel with `print_kernel`, unless one with the same text is there.

    Returns: the step's name, the kernel's (another's for equal texts), what it is given.
    """
    text = function.text
    same_group = [s for s in printer.schedule.steps[:number] if s.group is step.group]
    name = printer.prefix + step.group.name + (f"_part_{len(same_group)}" if same_group else "")
    printer.source.functions |= text.functions
    fields: Fields = []
    for value, written in text.buffers.items():
        kind = c.type_name(value.type.dtype)
        pointer = f"{printer.names[value]}_ptr"
        if value.op is not None and value.op.kind == "shape_value" and not written:
            pointer = printer.host_array(value)
        fields.append((f"{kind}*" if written else f"const {kind}*", pointer))
    fields += [("i64", symbol) for symbol in sorted(text.symbols, key=_natural)]
    if text.flags:
        fields.append(("i32*", "refused"))
    for value in text.data:
        printer.constant(value)
    for value, scratch in function.long_scratch.items():
        bytes_ = printer.room(mul(mul(scratch.rows, scratch.row), value.type.dtype.size))
        size = f"{printer.room(scratch.row)} > {scratch.capacity} ? {bytes_} : 0"
        printer.add_room(printer.names[value], c.type_name(value.type.dtype), size)
    body = [*function.body, str(function.likely)]
    neutral = "" if text.flags or text.data else _neutral(body, fields)
    same = printer.printed.get(neutral)
    if same is not None:
        return name, same, fields
    if neutral:
        printer.printed[neutral] = name
    print_kernel(printer, step, function, name, fields)
    return name, name, fields


def argument_struct(name: str, fields: Fields) -> list[str]:
    """The type of a kernel's arguments."""
    return [
        f"struct {name}_args {{",
        *(f"  {kind} {field_name};" for kind, field_name in fields),
        "};",
    ]


def _print_kernel(
    printer: RunPrinter, step: KernelStep, function: Function, name: str, fields: Fields
) -> None:
    lines = [*printer.heading(step, name), *argument_struct(name, fields), ""]
    header = f"KERNEL void {name}(const void* raw, BladeInt begin, BladeInt end) {{"
    cast = f"  const {name}_args& args = *static_cast<const {name}_args*>(raw);"
    likely = function.likely
    if likely:
        sizes = "".join(f", const i64 {symbol}" for symbol in likely)
        range_ = "BladeInt begin, BladeInt end"
        lines.append(f"INLINE void {name}_of(const {name}_args& args, {range_}{sizes}) {{")
    else:
        lines += [header, cast]
    for kind, field_name in fields:
        if field_name != "refused" and field_name not in likely:
            qualifier = " __restrict" if kind.endswith("*") else ""
            const = "const " if not kind.endswith("*") else ""
            lines.append(f"  {const}{kind}{qualifier} {field_name} = args.{field_name};")
    lines += [f"  {line}" for line in function.body]
    for (op, reason), flag in function.text.flags.items():
        refusal = printer.refusal(f"{op}: {reason}")
        store = f"__atomic_store_n(args.refused, {refusal}, __ATOMIC_RELAXED)"
        lines.append(f"  if ({flag}) {store};")
    uses = "\n".join(function.body)
    if "begin" not in uses:
        lines.append("  (void)begin, (void)end;")
    lines.append("}")
    if likely:
        known = " && ".join(f"args.{symbol} == {n}" for symbol, n in likely.items())
        numbers = "".join(f", {n}" for n in likely.values())
        others = "".join(f", args.{symbol}" for symbol in likely)
        lines += ["", header, cast]
        lines.append(f"  if ({known}) return {name}_of(args, begin, end{numbers});")
        lines += [f"  {name}_of(args, begin, end{others});", "}"]
    printer.source.kernels.append("\n".join(lines))


def _call(
    printer: RunPrinter, function: Function, kernel: str, name: str, fields: Fields
) -> list[str]:
    """Calls the printed function `kernel` for the step `name`."""
    if function.units == 0:
        return []
    lines = refuse_empty_takes(printer, function.text)
    values = ", ".join("&refused" if f == "refused" else f for _, f in fields)
    lines.append(f"const {kernel}_args {name}_values = {{{values}}};")
    units = printer.dim(function.units)
    cycles, known = _cycles(printer, function)
    total = known * function.units if isinstance(function.units, int) and known else None
    if total is not None and total < INLINE_CYCLES:
        lines.append(f"{kernel}(&{name}_values, 0, {units});")
    else:
        lines += [
            f"if ({units} > 0) {{",
            f"  host->parallel_for(ctx, {units}, {cycles}, {kernel}, &{name}_values);",
            "}",
        ]
    if function.text.flags:
        lines.append("if (refused != 0) return refused;")
    return lines


def refuse_empty_takes(printer: RunPrinter, text: KernelText) -> list[str]:
    """Lines that refuse the run where a gather would read from nothing."""
    lines: list[str] = []
    for (op, reason, extent), size in text.takes.items():
        if not (isinstance(extent, int) and extent > 0):
            refusal = printer.refusal(f"{op}: {reason}")
            lines.append(
                f"if ({printer.dim(extent)} == 0 && {printer.dim(size)} > 0) return {refusal};"
            )
    return lines


def _cycles(printer: RunPrinter, function: Function) -> tuple[str, float | None]:
    """C++ for the cycles of one unit, and their number when it is known."""
    constant = sum(f * n for f, n in function.unit_cost if isinstance(n, int))
    varying = [(f, n) for f, n in function.unit_cost if not isinstance(n, int)]
    parts = [f"{f:.2f} * (double){printer.dim(n)}" for f, n in varying]
    parts.append(f"{constant:.2f}")
    return " + ".join(parts), None if varying else constant


def _neutral(body: list[str], fields: Fields) -> str:
    """The kernel's text with its values numbered in order of appearance: equal texts are kernels
    that differ in what they are given only."""
    numbers: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        return numbers.setdefault(match[0], f"value{len(numbers)}")

    header = "\n".join(f"{kind} {name}" for kind, name in fields)
    return _VALUE_NAME.sub(number, "\n".join([header, *body]))


def _natural(symbol: str) -> tuple[str, int]:
    """s2 before s10."""
    head = symbol.rstrip("0123456789")
    return head, int(symbol[len(head) :] or 0)
