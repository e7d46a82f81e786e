#include "cuda/cuda_host.h"

#include <algorithm>

#include "dtype_size.h"

namespace blade {

std::unique_ptr<CudaDevice> CudaDevice::Open(std::string* error) {
  const CudaDriver* driver = OpenCudaDriver(error);
  if (driver == nullptr) return nullptr;
  std::unique_ptr<CudaDevice> opened(new CudaDevice(*driver));
  CuHandle context = nullptr;
  char name[256] = {};
  CuResult result = driver->cuDeviceGet(&opened->device_, 0);
  if (result == 0) result = driver->cuDeviceGetName(name, sizeof(name) - 1, opened->device_);
  if (result == 0) result = driver->cuDevicePrimaryCtxRetain(&context, opened->device_);
  if (result == 0) result = driver->cuCtxSetCurrent(context);
  if (result == 0) result = driver->cuStreamCreate(&opened->stream_, 0);
  opened->name_ = name;
  *error = CudaError(*driver, result);
  return error->empty() ? std::move(opened) : nullptr;
}

CudaDevice::~CudaDevice() {
  if (stream_ == nullptr) return;
  driver_.cuStreamDestroy(stream_);
  driver_.cuDevicePrimaryCtxRelease(device_);
}

CudaBuffer::~CudaBuffer() {
  if (place_ != 0) device_->driver().cuMemFree(place_);
}

CudaBuffer::CudaBuffer(CudaBuffer&& other) noexcept
    : device_(other.device_), place_(other.place_), bytes_(other.bytes_) {
  other.place_ = 0;
  other.bytes_ = 0;
}

std::string CudaBuffer::Reserve(size_t bytes) {
  bytes = std::max<size_t>(bytes, 1);  // empty tensors have an address too
  if (bytes <= bytes_) return "";
  const CudaDriver& driver = device_->driver();
  if (place_ != 0) driver.cuMemFree(place_);
  place_ = 0;
  bytes_ = 0;
  const CuResult result = driver.cuMemAlloc(&place_, bytes);
  if (result == 0) bytes_ = bytes;
  return CudaError(driver, result);
}

std::unique_ptr<CudaRun> CudaRun::Load(const CudaDevice& device, const Executable& executable,
                                       const std::string& image,
                                       const std::vector<int>& output_dtypes, std::string* error) {
  std::unique_ptr<CudaRun> run(new CudaRun(device, executable));
  const CudaDriver& driver = device.driver();
  *error = CudaError(driver, driver.cuModuleLoadData(&run->module_, image.c_str()));
  if (error->empty()) *error = run->refused_.Reserve(sizeof(int));
  if (!error->empty()) return nullptr;
  for (int dtype : output_dtypes) run->outputs_.emplace_back(dtype, device);
  return run;
}

CudaRun::~CudaRun() {
  if (module_ == nullptr) return;
  device_.driver().cuStreamSynchronize(device_.stream());
  device_.driver().cuModuleUnload(module_);
}

int CudaRun::Execute(const std::vector<BladeTensor>& inputs) {
  error_.clear();
  const CudaDriver& driver = device_.driver();
  if (!Ok(driver.cuMemsetD8Async(refused_.place(), 0, sizeof(int), device_.stream()))) {
    return BLADE_HOST_ERROR;
  }
  BladeCudaHost host = {};
  host.base.abi_version = BLADE_ABI_VERSION;
  host.base.allocate_output = [](void* ctx, int index, int rank, const BladeInt* dims) {
    return static_cast<CudaRun*>(ctx)->AllocateOutput(index, rank, dims);
  };
  host.base.forward_input = [](void* ctx, int index, int input, int rank, const BladeInt* dims) {
    return static_cast<CudaRun*>(ctx)->ForwardInput(index, input, rank, dims);
  };
  host.base.allocate_temp = [](void* ctx, BladeInt bytes) {
    return static_cast<CudaRun*>(ctx)->AllocateTemp(bytes);
  };
  host.refused = static_cast<int*>(refused_.data());
  host.launch = [](void* ctx, const BladeLaunch* launch) {
    return static_cast<CudaRun*>(ctx)->Launch(*launch);
  };
  host.read_refused = [](void* ctx, int* refused) {
    return static_cast<CudaRun*>(ctx)->ReadRefused(refused);
  };
  return executable_.Run(host.base, this, inputs.data());
}

void* CudaRun::AllocateOutput(int index, int rank, const BladeInt* dims) {
  CudaOutput& output = outputs_.at(index);
  output.dims.assign(dims, dims + rank);
  output.input = -1;
  size_t bytes = static_cast<size_t>(SizeOf(output.dtype));
  for (BladeInt n : output.dims) bytes *= static_cast<size_t>(n);
  error_ = output.buffer.Reserve(bytes);
  return error_.empty() ? output.buffer.data() : nullptr;
}

void* CudaRun::AllocateTemp(BladeInt bytes) {
  error_ = temp_.Reserve(static_cast<size_t>(bytes));
  return error_.empty() ? temp_.data() : nullptr;
}

int CudaRun::ForwardInput(int index, int input, int rank, const BladeInt* dims) {
  CudaOutput& output = outputs_.at(index);
  output.dims.assign(dims, dims + rank);
  output.input = input;
  return BLADE_OK;
}

int CudaRun::Launch(const BladeLaunch& launch) {
  const std::string name = std::string(launch.kernel) + "_" + std::to_string(launch.lanes) + "x" +
                           std::to_string(launch.items) + "x" +
                           std::to_string(launch.threads_x * launch.threads_y);
  CuHandle& function = functions_[name];
  const CudaDriver& driver = device_.driver();
  if (function == nullptr && !Ok(driver.cuModuleGetFunction(&function, module_, name.c_str()))) {
    return BLADE_HOST_ERROR;
  }
  void* parameters[] = {const_cast<void*>(launch.args)};
  const CuResult result = driver.cuLaunchKernel(
      function, static_cast<unsigned>(launch.blocks_x), static_cast<unsigned>(launch.blocks_y), 1,
      launch.threads_x, launch.threads_y, 1, 0, device_.stream(), parameters, nullptr);
  return Ok(result) ? BLADE_OK : BLADE_HOST_ERROR;
}

int CudaRun::ReadRefused(int* refused) {
  const CudaDriver& driver = device_.driver();
  const bool read =
      Ok(driver.cuMemcpyDtoHAsync(refused, refused_.place(), sizeof(int), device_.stream())) &&
      Ok(driver.cuStreamSynchronize(device_.stream()));
  return read ? BLADE_OK : BLADE_HOST_ERROR;
}

bool CudaRun::Ok(CuResult result) {
  if (result != 0 && error_.empty()) error_ = CudaError(device_.driver(), result);
  return result == 0;
}

}  // namespace blade
