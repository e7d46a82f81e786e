// A host for executables with CUDA kernels: one device, one stream.
#ifndef BLADE_CUDA_CUDA_HOST_H_
#define BLADE_CUDA_CUDA_HOST_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "blade_abi.h"
// After the header that it builds upon.
#include "cuda/cuda_abi.h"
#include "cuda/driver.h"
#include "executable.h"

namespace blade {

// The first device, with a stream. Not thread-safe.
class CudaDevice {
 public:
  // Null with a one-line reason in *error when there is no device to be had.
  static std::unique_ptr<CudaDevice> Open(std::string* error);
  ~CudaDevice();
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  const CudaDriver& driver() const { return driver_; }
  CuHandle stream() const { return stream_; }
  const std::string& name() const { return name_; }

 private:
  explicit CudaDevice(const CudaDriver& driver) : driver_(driver) {}

  const CudaDriver& driver_;
  CuDevice device_ = 0;
  CuHandle stream_ = nullptr;
  std::string name_;
};

// Memory of the device; grows, and keeps its address otherwise.
class CudaBuffer {
 public:
  explicit CudaBuffer(const CudaDevice& device) : device_(&device) {}
  ~CudaBuffer();
  CudaBuffer(CudaBuffer&& other) noexcept;
  CudaBuffer& operator=(CudaBuffer&&) = delete;

  // Makes room for `bytes`, whose contents are undefined. "" or an error.
  std::string Reserve(size_t bytes);
  CuPointer place() const { return place_; }
  void* data() const { return reinterpret_cast<void*>(place_); }

 private:
  const CudaDevice* device_;
  CuPointer place_ = 0;
  size_t bytes_ = 0;
};

struct CudaOutput {
  explicit CudaOutput(int type, const CudaDevice& device) : dtype(type), buffer(device) {}
  int dtype;
  std::vector<BladeInt> dims;
  CudaBuffer buffer;  // unless the output is an input
  int input = -1;     // the input whose elements this output has, or -1
};

// An executable with the image of its kernels, loaded on a device, and its outputs.
class CudaRun {
 public:
  // Null with a one-line reason in *error when the image doesn't suit the device. `device` and
  // `executable` must outlive the run. `output_dtypes` as in StandaloneRun.
  static std::unique_ptr<CudaRun> Load(const CudaDevice& device, const Executable& executable,
                                       const std::string& image,
                                       const std::vector<int>& output_dtypes, std::string* error);
  ~CudaRun();
  CudaRun(const CudaRun&) = delete;
  CudaRun& operator=(const CudaRun&) = delete;

  // Starts everything on the device's stream; `inputs` are in the device's memory. Returns what
  // Executable::Run returns; error() then has what the driver said, if it was that.
  int Execute(const std::vector<BladeTensor>& inputs);

  const std::vector<CudaOutput>& outputs() const { return outputs_; }
  const std::string& error() const { return error_; }

 private:
  CudaRun(const CudaDevice& device, const Executable& executable)
      : device_(device), executable_(executable), temp_(device), refused_(device) {}

  void* AllocateOutput(int index, int rank, const BladeInt* dims);
  void* AllocateTemp(BladeInt bytes);
  int ForwardInput(int index, int input, int rank, const BladeInt* dims);
  int Launch(const BladeLaunch& launch);
  int ReadRefused(int* refused);
  // Keeps the first error. True for success.
  bool Ok(CuResult result);

  const CudaDevice& device_;
  const Executable& executable_;
  CuHandle module_ = nullptr;
  std::map<std::string, CuHandle> functions_;
  std::vector<CudaOutput> outputs_;
  CudaBuffer temp_;
  CudaBuffer refused_;
  std::string error_;
};

}  // namespace blade

#endif  // BLADE_CUDA_CUDA_HOST_H_
