// Tiles of 6 x 2 vectors of 32 bytes in 16 registers (AVX2, FMA).
#define BLADE_GEMM_VECTOR_BYTES 32
#define BLADE_GEMM_ROWS 6
#define BLADE_GEMM_BLOCK 320
#define BLADE_GEMM_ISA "x86-64-v3"
#define BLADE_GEMM_TABLES FillKernelsX8664V3

#include "gemm/kernels_impl.h"
