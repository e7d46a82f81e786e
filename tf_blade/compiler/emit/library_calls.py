"""Steps that the host's libraries run: matrix products and convolutions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tf_blade.compiler.emit import c
from tf_blade.compiler.emit.conv import conv_call
from tf_blade.compiler.emit.gemm import Batch, gemm_call
from tf_blade.compiler.fuse.matrices import base
from tf_blade.compiler.ir.dims import Dim
from tf_blade.compiler.ir.types import DType
from tf_blade.compiler.schedule.kernel import Conv, Gemm

if TYPE_CHECKING:
    from tf_blade.compiler.emit.run import RunPrinter

_ACTIVATIONS = {"none": "BLADE_ACTIVATION_NONE", "relu": "BLADE_ACTIVATION_RELU"}


def gemm_step(printer: RunPrinter, step: Gemm) -> list[str]:
    """Lines that call the host's gemm, in a loop where the batch needs one."""
    (root,) = step.group.roots
    roots, constants = printer.schedule.plan.roots, printer.constant_inputs
    call = gemm_call(root, step.product, printer.program, roots, constants)
    kind = c.type_name(root.type.dtype)
    name = f"{printer.prefix}{step.group.name}_call"
    outer, inner = call.batch[:-1], call.batch[-1:]
    counters = [f"b{i}" for i in range(len(outer))]

    def place(pointer: str, offset: Dim, strides: list[Dim]) -> str:
        terms = [printer.dim(offset)] if offset != 0 else []
        terms += [
            f"{counter} * {printer.dim(stride)}"
            for counter, stride in zip(counters, strides, strict=True)
            if stride != 0
        ]
        return " + ".join([pointer, *terms])

    batch = inner[0] if inner else Batch(1, 0, 0, 0)
    a, b, out, end = call.a, call.b, call.c, call.epilogue
    fields = {
        "dtype": "BLADE_F64" if root.type.dtype is DType.F64 else "BLADE_F32",
        "transpose_a": int(call.transpose_a),
        "transpose_b": int(call.transpose_b),
        "batch": printer.dim(batch.count),
        "m": printer.dim(call.m),
        "n": printer.dim(call.n),
        "k": printer.dim(call.k),
        "a": place(printer.pointer(a.buffer), a.offset, [x.a for x in outer]),
        "lda": printer.dim(a.leading),
        "a_stride": printer.dim(batch.a),
        "b": place(printer.pointer(b.buffer), b.offset, [x.b for x in outer]),
        "ldb": printer.dim(b.leading),
        "b_stride": printer.dim(batch.b),
        "c": place(f"{printer.names[root]}_ptr", 0, [x.c for x in outer]),
        "ldc": printer.dim(out.leading),
        "c_stride": printer.dim(batch.c),
        "bias": printer.pointer(base(end.bias)) if end.bias is not None else "nullptr",
        "activation": _ACTIVATIONS[end.activation],
        "scale": repr(end.scale),
        "residual": "nullptr"
        if end.residual is None
        else place(printer.pointer(base(end.residual)), 0, [x.c for x in outer]),
        "b_constant_input": str(call.constant_input),
    }
    lines = [f"BladeGemm {name} = {{}};"]
    lines += [f"{name}.{key} = {value};" for key, value in fields.items() if value != 0]
    run = f"if (host->gemm(ctx, &{name}) != 0) return BLADE_HOST_ERROR;"
    if isinstance(call.k, int) and call.k > 0:
        lines.append(run)
    else:
        printer.source.functions.add("add_bias_only")
        lines += [
            f"if ({printer.dim(call.k)} == 0) {{",
            f"  add_bias_only<{kind}>(&{name});",
            f"}} else {run}",
        ]
    for counter, loop in reversed(list(zip(counters, outer, strict=True))):
        header = f"for (i64 {counter} = 0; {counter} < {printer.dim(loop.count)}; ++{counter})"
        lines = [f"{header} {{", *(f"  {line}" for line in lines), "}"]
    size = root.type.size
    if not (isinstance(size, int) and size > 0):
        lines = [f"if ({printer.dim(size)} > 0) {{", *(f"  {line}" for line in lines), "}"]
    return [*printer.heading(step, printer.prefix + step.group.name), *lines]


def conv_step(printer: RunPrinter, step: Conv) -> list[str]:
    """Lines that call the host's conv."""
    (root,) = step.group.roots
    call = conv_call(root)
    name = f"{printer.prefix}{step.group.name}_call"
    fields = {
        "dtype": "BLADE_F64" if root.type.dtype is DType.F64 else "BLADE_F32",
        **{key: printer.dim(n) for key, n in call.sizes.items()},
        "x": printer.pointer(call.x),
        "filter": printer.pointer(call.window),
        "bias": printer.pointer(call.bias) if call.bias is not None else "nullptr",
        "y": f"{printer.names[root]}_ptr",
        "activation": _ACTIVATIONS[call.activation],
        "filter_constant_input": str(printer.constant_input(call.window)),
    }
    lines = [f"BladeConv {name} = {{}};"]
    lines += [f"{name}.{key} = {value};" for key, value in fields.items()]
    lines.append(f"if (host->conv(ctx, &{name}) != 0) return BLADE_HOST_ERROR;")
    size = root.type.size
    if not (isinstance(size, int) and size > 0):
        lines = [f"if ({printer.dim(size)} > 0) {{", *(f"  {line}" for line in lines), "}"]
    return [*printer.heading(step, printer.prefix + step.group.name), *lines]
