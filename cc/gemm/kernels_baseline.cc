// Tiles of 4 x 2 vectors of 16 bytes in 16 registers (SSE2). Compiled without ISA flags, so it
// also serves any machine that has no table of its own.
#define BLADE_GEMM_VECTOR_BYTES 16
#define BLADE_GEMM_ROWS 4
#define BLADE_GEMM_BLOCK 256
#define BLADE_GEMM_ISA "baseline"
#define BLADE_GEMM_TABLES FillKernelsBaseline

#include "gemm/kernels_impl.h"
