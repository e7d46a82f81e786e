// Runs executables on this processor: run_jobs FILE, a file as in jobs.h.
#include <cstdio>

#include "host_standalone.h"
#include "thread_pool.h"
#include "tools/jobs.h"

namespace blade {
namespace {

constexpr int kThreads = 2;

void Run(Job& job) {
  static ThreadPool pool(kThreads);
  std::vector<BladeTensor> inputs;
  for (JobInput& input : job.inputs) {
    const int rank = static_cast<int>(input.dims.size());
    inputs.push_back({input.data.data(), input.dims.data(), rank, input.dtype});
  }
  std::vector<int> dtypes;
  for (const JobOutput& output : job.outputs) dtypes.push_back(output.dtype);
  StandaloneRun run(*job.executable, dtypes, &pool);
  const int status = run.Execute(inputs);
  std::vector<std::vector<BladeInt>> dims;
  for (size_t i = 0; status == 0 && i < job.outputs.size(); ++i) {
    const StandaloneOutput& output = run.outputs()[i];
    size_t bytes = static_cast<size_t>(SizeOf(output.dtype));
    for (BladeInt n : output.dims) bytes *= static_cast<size_t>(n);
    const void* data = output.input < 0 ? output.buffer.data() : inputs[output.input].data;
    WriteFile(job.outputs[i].file, data, bytes);
    dims.push_back(output.dims);
  }
  std::fputs(ResultLine(job, status, dims).c_str(), stdout);
}

}  // namespace
}  // namespace blade

int main(int argc, char** argv) {
  if (argc != 2) blade::Die("usage: run_jobs FILE");
  blade::RunJobs(argv[1], blade::Run);
  return 0;
}
