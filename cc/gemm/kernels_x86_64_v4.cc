// Tiles of 14 x 2 vectors of 64 bytes in 32 registers (AVX-512).
#define BLADE_GEMM_VECTOR_BYTES 64
#define BLADE_GEMM_ROWS 14
#define BLADE_GEMM_BLOCK 192
#define BLADE_GEMM_ISA "x86-64-v4"
#define BLADE_GEMM_TABLES FillKernelsX8664V4

#include "gemm/kernels_impl.h"
