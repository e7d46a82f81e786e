"""Emission for NVIDIA GPUs: a scheduled program as CUDA C++ kernels and a `run` that launches them.

The kernels' file is compiled by nvcc into an image for the device. The host's file is an executable
like any other (cc/blade_abi.h); its `run` asks its host for launches (cc/cuda/cuda_abi.h).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tf_blade.compiler.emit import c, executable_source
from tf_blade.compiler.emit.abi import header
from tf_blade.compiler.emit.cuda.calls import cuda_kernel_step
from tf_blade.compiler.emit.cuda.rows import KEPT_VERSIONS
from tf_blade.compiler.emit.prelude import prelude
from tf_blade.compiler.emit.run import RunPrinter
from tf_blade.compiler.fuse.plan import Plan
from tf_blade.compiler.ir.program import ComputedSize, InputElement, Program
from tf_blade.compiler.schedule import Schedule, schedule
from tf_blade.compiler.schedule.kernel import Kernel
from tf_blade.errors import UnsupportedError

_HERE = Path(__file__).parent
# What is printed into every source.
_DEVICE = ("lane_access", "reduce_block")
_HOST = ("take_temp", "loop_launch", "row_launch", "start", "refused")


@dataclass(frozen=True)
class CudaSource:
    """kernels: CUDA C++ for the device. host: C++ of the executable that launches them."""

    kernels: str
    host: str


def emit_cuda(program: Program, plan: Plan) -> CudaSource:
    """The program as CUDA source text. The same program gives the same text.

    Raises: UnsupportedError for a program with anything but loop and row_reduce kernels.
    """
    scheduled = schedule(plan)
    _require_supported(scheduled)
    source = RunPrinter(scheduled, cuda_kernel_step).print()
    comment = f"{program.name}: generated from\n\n{program}"
    device = [
        "\n".join(c.comment(comment)),
        prelude([*source.functions, *_DEVICE], _HERE / "device.h").rstrip(),
        *(data.replace(" const", " static __device__ const", 1) for data in source.data),
        *source.kernels,
    ]
    functions = {f for f in source.functions if f.startswith("dim_")}
    versions = ", ".join("{" + ", ".join(map(str, v)) + "}" for v in KEPT_VERSIONS)
    host = executable_source(
        program.name,
        comment=comment,
        kernels="\n\n".join(
            [
                header("cuda/cuda_abi.h"),
                f"#define ROW_VERSIONS {versions}",
                "namespace {",
                prelude([*functions, *_HOST], _HERE / "launch.h").rstrip(),
                *source.structs,
                "}  // namespace",
            ]
        ),
        run="\n".join(f"  {line}" if line else "" for line in source.run),
        n_inputs=len(program.params),
        n_outputs=len(program.results),
        refusals=source.refusals,
    )
    # CUDA's library has by these names what GCC has with a prefix; nvcc has the constants too.
    kernels = re.sub(r"\b__builtin_(?!inf|nan)(\w+)", r"\1", "\n\n".join(device))
    return CudaSource(kernels + "\n", host)


def _require_supported(scheduled: Schedule) -> None:
    if any(isinstance(s, InputElement) for s in scheduled.plan.program.symbols.values()):
        raise UnsupportedError("a size is an element of an input, which is on the device")
    if any(isinstance(s, ComputedSize) for s in scheduled.plan.program.symbols.values()):
        raise UnsupportedError("a size is computed on the device")
    for step in scheduled.steps:
        if not isinstance(step, Kernel) or step.group.kind not in ("loop", "row_reduce"):
            raise UnsupportedError(f"there is no CUDA printer for {step.group.kind} kernels")
    if scheduled.memory.copies:
        raise UnsupportedError("a result that repeats another one needs a copy on the device")


__all__ = ["CudaSource", "emit_cuda"]
