#include "cuda/driver.h"

#include <dlfcn.h>

namespace blade {
namespace {

struct Opened {
  CudaDriver driver = {};
  std::string error;
};

template <class Function>
void Find(void* library, const char* name, Function** function, std::string* error) {
  *function = reinterpret_cast<Function*>(dlsym(library, name));
  if (*function == nullptr && error->empty()) {
    *error = std::string("the CUDA driver is too old: it has no ") + name;
  }
}

Opened Open() {
  Opened opened;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    opened.error = "there is no CUDA driver (libcuda.so.1)";
    return opened;
  }
  CudaDriver& d = opened.driver;
  // A function whose types have changed has the suffix of its version, which cuda.h hides.
#define BLADE_FIND(name, suffix) Find(library, #name suffix, &d.name, &opened.error)
  BLADE_FIND(cuInit, "");
  BLADE_FIND(cuGetErrorString, "");
  BLADE_FIND(cuDeviceGet, "");
  BLADE_FIND(cuDeviceGetName, "");
  BLADE_FIND(cuDevicePrimaryCtxRetain, "");
  BLADE_FIND(cuDevicePrimaryCtxRelease, "_v2");
  BLADE_FIND(cuCtxSetCurrent, "");
  BLADE_FIND(cuStreamCreate, "");
  BLADE_FIND(cuStreamDestroy, "_v2");
  BLADE_FIND(cuStreamSynchronize, "");
  BLADE_FIND(cuEventCreate, "");
  BLADE_FIND(cuEventDestroy, "_v2");
  BLADE_FIND(cuEventRecord, "");
  BLADE_FIND(cuEventSynchronize, "");
  BLADE_FIND(cuEventElapsedTime, "");
  BLADE_FIND(cuMemAlloc, "_v2");
  BLADE_FIND(cuMemFree, "_v2");
  BLADE_FIND(cuMemsetD8Async, "");
  BLADE_FIND(cuMemcpyHtoDAsync, "_v2");
  BLADE_FIND(cuMemcpyDtoHAsync, "_v2");
  BLADE_FIND(cuMemcpyDtoDAsync, "_v2");
  BLADE_FIND(cuModuleLoadData, "");
  BLADE_FIND(cuModuleUnload, "");
  BLADE_FIND(cuModuleGetFunction, "");
  BLADE_FIND(cuLaunchKernel, "");
#undef BLADE_FIND
  if (opened.error.empty()) {
    const CuResult result = d.cuInit(0);
    if (result != 0) opened.error = CudaError(d, result);
  }
  return opened;
}

}  // namespace

const CudaDriver* OpenCudaDriver(std::string* error) {
  static const Opened opened = Open();
  *error = opened.error;
  return opened.error.empty() ? &opened.driver : nullptr;
}

std::string CudaError(const CudaDriver& driver, CuResult result) {
  if (result == 0) return "";
  const char* text = nullptr;
  if (driver.cuGetErrorString(result, &text) != 0 || text == nullptr) {
    return "CUDA error " + std::to_string(result);
  }
  return text;
}

}  // namespace blade
