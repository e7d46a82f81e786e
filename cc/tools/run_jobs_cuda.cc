// Runs executables with CUDA kernels: run_jobs_cuda FILE, a file as in jobs.h.
//
// Repeated runs are timed by events, in turn with copies of as many bytes as inputs and outputs
// have: "us" and "copy_us" are microseconds of one run and of one copy, for each of the repeats.
#include <cstdio>

#include "cuda/cuda_host.h"
#include "dtype_size.h"
#include "tools/jobs.h"

namespace blade {
namespace {

// Runs between two events: long enough that launches overlap.
constexpr int kBatch = 20;

const CudaDevice& Device() {
  static std::string error;
  static const std::unique_ptr<CudaDevice> device = CudaDevice::Open(&error);
  if (device == nullptr) Die(error);
  return *device;
}

void Check(CuResult result) {
  if (result != 0) Die(CudaError(Device().driver(), result));
}

// Microseconds of one call, of kBatch of them.
template <class Call>
float Timed(const Call& call) {
  const CudaDriver& driver = Device().driver();
  CuHandle start, end;
  float milliseconds = 0;
  Check(driver.cuEventCreate(&start, 0));
  Check(driver.cuEventCreate(&end, 0));
  Check(driver.cuEventRecord(start, Device().stream()));
  for (int i = 0; i < kBatch; ++i) call();
  Check(driver.cuEventRecord(end, Device().stream()));
  Check(driver.cuEventSynchronize(end));
  Check(driver.cuEventElapsedTime(&milliseconds, start, end));
  Check(driver.cuEventDestroy(start));
  Check(driver.cuEventDestroy(end));
  return milliseconds * 1e3f / kBatch;
}

std::string Numbers(const char* name, const std::vector<float>& numbers) {
  std::string text = std::string(", \"") + name + "\": [";
  for (size_t i = 0; i < numbers.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(numbers[i]);
  }
  return text + "]";
}

std::string Times(CudaRun& run, const std::vector<BladeTensor>& inputs, size_t bytes, int repeats) {
  const CudaDriver& driver = Device().driver();
  CudaBuffer from(Device()), to(Device());
  if (!from.Reserve(bytes / 2).empty() || !to.Reserve(bytes / 2).empty()) Die("no memory to copy");
  Check(driver.cuMemsetD8Async(from.place(), 1, bytes / 2, Device().stream()));
  std::vector<float> runs, copies;
  for (int i = 0; i <= repeats; ++i) {
    const float copy = Timed([&] {
      Check(driver.cuMemcpyDtoDAsync(to.place(), from.place(), bytes / 2, Device().stream()));
    });
    const float one = Timed([&] {
      if (run.Execute(inputs) != 0) Die("a repeated run failed: " + run.error());
    });
    if (i == 0) continue;  // warming up
    copies.push_back(copy);
    runs.push_back(one);
  }
  return Numbers("us", runs) + Numbers("copy_us", copies);
}

void Run(Job& job) {
  const CudaDriver& driver = Device().driver();
  std::vector<CudaBuffer> buffers;
  std::vector<BladeTensor> inputs;
  size_t moved = 0;
  for (JobInput& input : job.inputs) {
    buffers.emplace_back(Device());
    if (!buffers.back().Reserve(input.bytes).empty()) Die("no memory for an input");
    Check(driver.cuMemcpyHtoDAsync(buffers.back().place(), input.data.data(), input.bytes,
                                   Device().stream()));
    inputs.push_back({buffers.back().data(), input.dims.data(), static_cast<int>(input.dims.size()),
                      input.dtype});
    moved += input.bytes;
  }
  std::vector<int> dtypes;
  for (const JobOutput& output : job.outputs) dtypes.push_back(output.dtype);
  std::string error;
  const auto run = CudaRun::Load(Device(), *job.executable, ReadFile(job.image), dtypes, &error);
  if (run == nullptr) Die(job.image + ": " + error);
  const int status = run->Execute(inputs);
  if (status != 0 && !run->error().empty()) Die(run->error());
  std::vector<std::vector<BladeInt>> dims;
  for (size_t i = 0; status == 0 && i < job.outputs.size(); ++i) {
    const CudaOutput& output = run->outputs()[i];
    size_t bytes = static_cast<size_t>(SizeOf(output.dtype));
    for (BladeInt n : output.dims) bytes *= static_cast<size_t>(n);
    std::string content(bytes, '\0');
    const CuPointer place =
        output.input < 0 ? output.buffer.place() : buffers[output.input].place();
    Check(driver.cuMemcpyDtoHAsync(&content[0], place, bytes, Device().stream()));
    Check(driver.cuStreamSynchronize(Device().stream()));
    WriteFile(job.outputs[i].file, content.data(), bytes);
    dims.push_back(output.dims);
    moved += bytes;
  }
  std::string more = ", \"device\": \"" + Device().name() + "\"";
  if (status == 0 && job.repeats > 0) more += Times(*run, inputs, moved, job.repeats);
  std::fputs(ResultLine(job, status, dims, more).c_str(), stdout);
}

}  // namespace
}  // namespace blade

int main(int argc, char** argv) {
  if (argc != 2) blade::Die("usage: run_jobs_cuda FILE");
  blade::RunJobs(argv[1], blade::Run);
  return 0;
}
