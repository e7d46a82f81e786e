// A host without TensorFlow: for the Python module, tests and tools.
#ifndef BLADE_HOST_STANDALONE_H_
#define BLADE_HOST_STANDALONE_H_

#include <functional>
#include <utility>
#include <vector>

#include "aligned_buffer.h"
#include "blade_abi.h"
#include "dtype_size.h"
#include "executable.h"
#include "gemm/gemm.h"
#include "gemm/packed_b.h"
#include "thread_pool.h"

namespace blade {

// An output of StandaloneRun::Execute.
struct StandaloneOutput {
  int dtype = 0;
  std::vector<BladeInt> dims;
  AlignedBuffer buffer;  // unless the output is an input
  int input = -1;        // the input whose elements this output has, or -1
};

// One run of an executable, or of something else that has its `run`, on a thread pool. Not
// thread-safe; make one a call.
class StandaloneRun {
 public:
  using Program = std::function<int(const BladeHost&, void* ctx, const BladeTensor* inputs)>;

  // `output_dtypes` has the BladeDType of each output, which executables don't declare. `pool` may
  // be null: one thread.
  StandaloneRun(const Executable& executable, const std::vector<int>& output_dtypes,
                ThreadPool* pool);
  StandaloneRun(Program program, int n_inputs, const std::vector<int>& output_dtypes,
                ThreadPool* pool);

  // Lets products with `inputs` pack them into `packed`. The caller promises that these inputs are
  // the same memory with the same contents in every run that uses `packed`.
  void UseConstants(std::vector<int> inputs, PackedConstants* packed) {
    constant_inputs_ = std::move(inputs);
    constants_ = packed;
  }

  // Inputs whose number isn't n_inputs are the caller's mistake. Returns what Executable::Run
  // returns; outputs() is complete when that is 0.
  int Execute(const std::vector<BladeTensor>& inputs);

  std::vector<StandaloneOutput>& outputs() { return outputs_; }

  // BLADE_EVENT_REPEATED_ROWS of the last run.
  BladeInt repeated_rows() const { return repeated_rows_; }

 private:
  static const BladeHost kHost;

  void* AllocateOutput(int index, int rank, const BladeInt* dims);
  int ForwardInput(int index, int input, int rank, const BladeInt* dims);
  void ParallelFor(BladeInt total, double cost_cycles, BladeBody body, const void* args);
  // B of a product, packed, if it is one of the constants.
  const PackedB* Packed(const BladeGemm& gemm);
  GemmHost ProductHost();
  int Gemm(const BladeGemm& gemm);
  int Conv(const BladeConv& conv);

  const Program program_;
  const int n_inputs_;
  ThreadPool* pool_;
  std::vector<int> constant_inputs_;
  PackedConstants* constants_ = nullptr;
  const BladeTensor* inputs_ = nullptr;
  std::vector<StandaloneOutput> outputs_;
  AlignedBuffer temp_;
  BladeInt repeated_rows_ = 0;
};

}  // namespace blade

#endif  // BLADE_HOST_STANDALONE_H_
