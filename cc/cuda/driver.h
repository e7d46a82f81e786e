// The CUDA driver, opened when it is first needed: nothing links against it, and no header of
// CUDA's is needed. Only what cuda_host.cc uses is here.
#ifndef BLADE_CUDA_DRIVER_H_
#define BLADE_CUDA_DRIVER_H_

#include <cstddef>
#include <string>

namespace blade {

// As in cuda.h; all handles are pointers.
using CuResult = int;  // 0: success
using CuDevice = int;
using CuPointer = unsigned long long;
using CuHandle = void*;

// The driver's functions. Members have the names of cuda.h, without the suffixes of versions.
struct CudaDriver {
  CuResult (*cuInit)(unsigned flags);
  CuResult (*cuGetErrorString)(CuResult error, const char** text);
  CuResult (*cuDeviceGet)(CuDevice* device, int ordinal);
  CuResult (*cuDeviceGetName)(char* name, int size, CuDevice device);
  CuResult (*cuDevicePrimaryCtxRetain)(CuHandle* context, CuDevice device);
  CuResult (*cuDevicePrimaryCtxRelease)(CuDevice device);
  CuResult (*cuCtxSetCurrent)(CuHandle context);
  CuResult (*cuStreamCreate)(CuHandle* stream, unsigned flags);
  CuResult (*cuStreamDestroy)(CuHandle stream);
  CuResult (*cuStreamSynchronize)(CuHandle stream);
  CuResult (*cuEventCreate)(CuHandle* event, unsigned flags);
  CuResult (*cuEventDestroy)(CuHandle event);
  CuResult (*cuEventRecord)(CuHandle event, CuHandle stream);
  CuResult (*cuEventSynchronize)(CuHandle event);
  CuResult (*cuEventElapsedTime)(float* milliseconds, CuHandle start, CuHandle end);
  CuResult (*cuMemAlloc)(CuPointer* place, size_t bytes);
  CuResult (*cuMemFree)(CuPointer place);
  CuResult (*cuMemsetD8Async)(CuPointer place, unsigned char value, size_t bytes, CuHandle stream);
  CuResult (*cuMemcpyHtoDAsync)(CuPointer to, const void* from, size_t bytes, CuHandle stream);
  CuResult (*cuMemcpyDtoHAsync)(void* to, CuPointer from, size_t bytes, CuHandle stream);
  CuResult (*cuMemcpyDtoDAsync)(CuPointer to, CuPointer from, size_t bytes, CuHandle stream);
  CuResult (*cuModuleLoadData)(CuHandle* module, const void* image);
  CuResult (*cuModuleUnload)(CuHandle module);
  CuResult (*cuModuleGetFunction)(CuHandle* function, CuHandle module, const char* name);
  CuResult (*cuLaunchKernel)(CuHandle function, unsigned blocks_x, unsigned blocks_y,
                             unsigned blocks_z, unsigned threads_x, unsigned threads_y,
                             unsigned threads_z, unsigned shared_bytes, CuHandle stream,
                             void** parameters, void** extra);
};

// The driver, initialised; null with a one-line reason in *error when there is none. Thread-safe;
// the driver stays open.
const CudaDriver* OpenCudaDriver(std::string* error);

// "" for success, else what the driver says of the error.
std::string CudaError(const CudaDriver& driver, CuResult result);

}  // namespace blade

#endif  // BLADE_CUDA_DRIVER_H_
