"""CUDA kernels and the lines of `run` that launch them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tf_blade.compiler.emit.cuda.function import DeviceFunction
from tf_blade.compiler.emit.cuda.lanes import NARROW, WIDE
from tf_blade.compiler.emit.cuda.loops import loop_function
from tf_blade.compiler.emit.cuda.rows import KEPT_VERSIONS, row_function
from tf_blade.compiler.emit.kernel_calls import (
    Fields,
    KernelStep,
    argument_struct,
    place_kernel,
    refuse_empty_takes,
)
from tf_blade.compiler.emit.nest import Function
from tf_blade.compiler.emit.scope import KernelText
from tf_blade.compiler.schedule.kernel import Kernel
from tf_blade.errors import UnsupportedError

if TYPE_CHECKING:
    from tf_blade.compiler.emit.run import RunPrinter

_THREADS = 256  # of other kernels
# Up to so many elements of so many arrays fit into the registers that a thread has when a
# multiprocessor has all its threads; the compiler, left alone, takes some more.
_FEW_ELEMENTS, _FEW_ARRAYS, _RESIDENT_THREADS = 8, 2, 2048


def cuda_kernel_step(printer: RunPrinter, step: KernelStep, number: int) -> list[str]:
    """Prints the kernel of step `number`; the lines that launch it."""
    assert isinstance(step, Kernel)
    text = KernelText(printer.names.__getitem__)
    rows = step.group.kind == "row_reduce"
    function = row_function(step, text) if rows else loop_function(step, text)
    if any(v.op is not None and v.op.kind == "shape_value" for v in text.buffers):
        raise UnsupportedError("an array of dims would have to be copied to the device")
    name, kernel, fields = place_kernel(printer, step, function, number, _print_kernel)
    return _launch(printer, function, kernel, name, fields, rows=rows)


def _print_kernel(
    printer: RunPrinter, step: KernelStep, function: Function, name: str, fields: Fields
) -> None:
    assert isinstance(function, DeviceFunction)
    struct = argument_struct(name, fields)
    printer.source.structs.append("\n".join(struct))
    lines = [*printer.heading(step, name), *struct, ""]
    if step.group.kind == "row_reduce":
        lines += _row_kernels(printer, function, name, fields)
    else:
        lines += _loop_kernels(printer, function, name, fields)
    printer.source.kernels.append("\n".join(lines))


def _function(
    printer: RunPrinter, function: DeviceFunction, header: str, body: list[str], fields: Fields
) -> list[str]:
    locals_ = [
        f"[[maybe_unused]] {kind}{' const' if kind.endswith('*') else ''} {name} = args.{name};"
        for kind, name in fields
        if name != "refused"
    ]
    refusals = [
        f"if ({flag}) *args.refused = {printer.refusal(f'{op}: {reason}')};"
        for (op, reason), flag in function.text.flags.items()
    ]
    return [f"{header} {{", *(f"  {x}" for x in (*locals_, *body, *refusals)), "}"]


def _loop_kernels(
    printer: RunPrinter, function: DeviceFunction, name: str, fields: Fields
) -> list[str]:
    header = f"INLINE void {name}_lanes(const {name}_args& args, i64 row, i64 first)"
    lines = ["template <int N>", *_function(printer, function, header, function.body, fields), ""]
    body = [
        f"const i64 rows = {printer.dim(function.units)}, width = {printer.dim(function.width)};",
        "const i64 whole = width / N * N, step = (i64)gridDim.x * blockDim.x;",
        "const i64 thread = (i64)blockIdx.x * blockDim.x + threadIdx.x;",
        "for (i64 row = (i64)blockIdx.y * blockDim.y + threadIdx.y; row < rows;",
        "     row += (i64)gridDim.y * blockDim.y) {",
        "#pragma unroll 1",
        "  for (i64 first = thread * N; first < whole; first += step * N)",
        f"    {name}_lanes<N>(args, row, first);",
        "#pragma unroll 1",
        "  for (i64 first = whole + thread; first < width; first += step)",
        f"    {name}_lanes<1>(args, row, first);",
        "}",
    ]
    header = f"INLINE void {name}_all(const {name}_args& args)"
    symbols = [(kind, field) for kind, field in fields if kind == "i64"]
    plain = DeviceFunction([], KernelText(printer.names.__getitem__), 0)
    lines += ["template <int N>", *_function(printer, plain, header, body, symbols)]
    for lanes in (WIDE, NARROW):
        lines += _entry(name, f"{name}_all<{lanes}>", lanes, 1, _THREADS)
    return lines


def _row_kernels(
    printer: RunPrinter, function: DeviceFunction, name: str, fields: Fields
) -> list[str]:
    lines: list[str] = []
    if function.kept:
        header = f"INLINE void {name}_kept(const {name}_args& args)"
        lines += ["template <int N, int ITEMS, int THREADS>"]
        lines += [*_function(printer, function, header, function.kept, fields), ""]
    header = f"INLINE void {name}_all(const {name}_args& args)"
    lines += ["template <int N, int THREADS>"]
    lines += _function(printer, function, header, function.body, fields)
    for lanes, items, threads in KEPT_VERSIONS if function.kept else ():
        few = lanes * items <= _FEW_ELEMENTS and function.kept_arrays <= _FEW_ARRAYS
        body = f"{name}_kept<{lanes}, {items}, {threads}>"
        blocks = f", {min(32, _RESIDENT_THREADS // threads)}" if few else ""
        lines += _entry(name, body, lanes, items, threads, blocks)
    for lanes in (WIDE, NARROW):
        lines += _entry(name, f"{name}_all<{lanes}, {_THREADS}>", lanes, 0, _THREADS)
    return lines


def _entry(
    name: str, function: str, lanes: int, items: int, threads: int, blocks: str = ""
) -> list[str]:
    return [
        f'extern "C" __global__ void __launch_bounds__({threads}{blocks})',
        f"{name}_{lanes}x{items}x{threads}(const {name}_args args) {{ {function}(args); }}",
    ]


def _launch(
    printer: RunPrinter,
    function: DeviceFunction,
    kernel: str,
    name: str,
    fields: Fields,
    *,
    rows: bool,
) -> list[str]:
    lines = refuse_empty_takes(printer, function.text)
    values = ", ".join("refused_place(host)" if f == "refused" else f for _, f in fields)
    lines.append(f"const {kernel}_args {name}_values = {{{values}}};")
    units, width = printer.dim(function.units), printer.dim(function.width)
    aligned = "true"
    if function.strides:
        joined = " | ".join(printer.dim(n) for n in function.strides)
        aligned = f"({joined}) % {WIDE} == 0"
    kept = f", {str(bool(function.kept)).lower()}" if rows else ""
    choose = "row_launch" if rows else "loop_launch"
    condition = f"{units} > 0" if rows else f"{units} > 0 && {width} > 0"
    lines += [
        f"if ({condition}) {{",
        f'  const BladeLaunch launch = {choose}("{kernel}", {units}, {width}, {aligned}{kept},',
        f"                                         &{name}_values);",
        "  if (start(host, ctx, launch) != 0) return BLADE_HOST_ERROR;",
        "}",
    ]
    if function.text.flags:
        lines.append("if (const int reason = refusal(host, ctx)) return reason;")
    return lines
