// Tiles of 8 x 2 vectors of 16 bytes in 32 registers (NEON).
#define BLADE_GEMM_VECTOR_BYTES 16
#define BLADE_GEMM_ROWS 8
#define BLADE_GEMM_BLOCK 256
#define BLADE_GEMM_ISA "aarch64"
#define BLADE_GEMM_TABLES FillKernelsAArch64

#include "gemm/kernels_impl.h"
