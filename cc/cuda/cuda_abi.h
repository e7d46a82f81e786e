// What an executable with CUDA kernels asks of its host besides blade_abi.h.
//
// Its `run` is called with the base of a BladeCudaHost. Inputs, outputs and temporaries are then
// memory of the device, aligned to 256 bytes, and kernels run in order, after `run` has returned.
// This header is printed into generated sources, after blade_abi.h.
#ifndef BLADE_CUDA_ABI_H_
#define BLADE_CUDA_ABI_H_

// A launch of the kernel `KERNEL_LxIxT` of the device's image, for L lanes, I items and T threads:
// each thread has `items` times `lanes` elements in registers; 0 items: any number, in memory.
typedef struct BladeLaunch {
  const char* kernel;
  int lanes, items;
  BladeInt blocks_x, blocks_y;
  int threads_x, threads_y;
  const void* args;  // the kernel's only parameter
} BladeLaunch;

typedef struct BladeCudaHost {
  BladeHost base;
  // Memory of the device: a number, 0 when `run` begins, that kernels set to refuse these inputs.
  int* refused;
  // Starts a kernel. 0 on success.
  int (*launch)(void* ctx, const BladeLaunch* launch);
  // Waits for all kernels and reads `refused`. 0 on success.
  int (*read_refused)(void* ctx, int* refused);
} BladeCudaHost;

#endif  // BLADE_CUDA_ABI_H_
