"""Executables written by hand, as generated code would be, for tests of what runs them."""

from __future__ import annotations

import functools
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tf_blade.compiler.build.container import pack

ABI_HEADER = Path(__file__).resolve().parents[2] / "cc" / "blade_abi.h"
ABI_VERSION = 5
BASE_ISA = "aarch64" if platform.machine() == "aarch64" else "x86-64-v2"

# y = a + b (equal shapes; f32), a again as one row, and a copy of c plus one (f32, any shape).
ADD = """
struct Work { const float* a; const float* b; float* y; };
static void add(const void* args, BladeInt begin, BladeInt end) {
  const Work* w = (const Work*)args;
  for (BladeInt i = begin; i < end; ++i) w->y[i] = w->a[i] + w->b[i];
}
static int run(const BladeHost* host, void* ctx, const BladeTensor* in) {
  if (in[0].rank != in[1].rank) return 1;
  BladeInt n = 1;
  for (int d = 0; d < in[0].rank; ++d) {
    if (in[0].dims[d] != in[1].dims[d]) return 2;
    n *= in[0].dims[d];
  }
  float* y = (float*)host->allocate_output(ctx, 0, in[0].rank, in[0].dims);
  if (!y) return BLADE_OUT_OF_MEMORY;
  if (host->forward_input(ctx, 1, 0, 1, &n)) return BLADE_HOST_ERROR;
  float* temp = (float*)host->allocate_temp(ctx, n * sizeof(float));
  if (!temp) return BLADE_OUT_OF_MEMORY;
  Work first = {(const float*)in[0].data, (const float*)in[1].data, temp};
  host->parallel_for(ctx, n, COST, add, &first);
  for (BladeInt i = 0; i < n; ++i) y[i] = temp[i];
  return BLADE_OK;
}
static const char* const refusals[] = {"Add (head/add): ranks differ",
                                       "Add (head/add): input dims differ"};
#define INPUTS 2
#define OUTPUTS 2
#define REFUSALS 2
"""

# y = relu(x * w + bias): x [m, k], w [k, n], bias [n], all f32. w may be a constant.
DENSE = """
static int run(const BladeHost* host, void* ctx, const BladeTensor* in) {
  BladeInt m = in[0].dims[0], k = in[0].dims[1], n = in[1].dims[1];
  if (in[1].dims[0] != k) return 1;
  BladeInt dims[2] = {m, n};
  float* y = (float*)host->allocate_output(ctx, 0, 2, dims);
  if (!y) return BLADE_OUT_OF_MEMORY;
  BladeGemm g = {BLADE_F32, 0, 0, 1, m, n, k, in[0].data, k, 0, in[1].data, n, 0, y, n, 0,
                 in[2].data, BLADE_ACTIVATION_RELU, 1, nullptr, 1};
  return host->gemm(ctx, &g) ? BLADE_HOST_ERROR : BLADE_OK;
}
static const char* const refusals[] = {"MatMul (dense/MatMul): inner dims differ"};
#define INPUTS 3
#define OUTPUTS 1
#define REFUSALS 1
"""

# Asks for an output no machine can hold.
HUGE = """
static int run(const BladeHost* host, void* ctx, const BladeTensor* in) {
  BladeInt n = (BladeInt)1 << 60;
  return host->allocate_output(ctx, 0, 1, &n) ? BLADE_OK : BLADE_OUT_OF_MEMORY;
}
static const char* const refusals[] = {""};
#define INPUTS 1
#define OUTPUTS 1
#define REFUSALS 0
"""

_TABLE = """
static const BladeVariant variants[] = {{"ISA", run}};
extern "C" __attribute__((visibility("default"))) const BladeExecutable* blade_executable(void) {
  static const BladeExecutable e = {BLADE_ABI_VERSION, INPUTS, OUTPUTS, 1, variants,
                                    REFUSALS, refusals, "NAME"};
  return &e;
}
"""

_FLAGS = ["-x", "c++", "-O1", "-shared", "-fPIC", "-fvisibility=hidden"]


@functools.cache
def shared_object(source: str, name: str = "tiny", isa: str = BASE_ISA, cost: str = "4.0") -> bytes:
    """Compiles a program above and gives the bytes of the shared object."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    table = _TABLE.replace("NAME", name).replace("ISA", isa)
    text = f'#include "{ABI_HEADER}"\n#define COST {cost}\n{source}\n{table}'
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "program.so"
        subprocess.run(
            [compiler, *_FLAGS, "-o", str(output), "-"],
            input=text.encode(),
            check=True,
        )
        return output.read_bytes()


def executable(source: str, name: str = "tiny", cost: str = "4.0") -> bytes:
    """The container of a program above, for this machine."""
    return pack(ABI_VERSION, [BASE_ISA], shared_object(source, name, cost=cost))
