// One call of a compiled op: TensorFlow as a host of the ABI in cc/blade_abi.h.
#ifndef TF_BLADE_OPS_OP_CALL_H_
#define TF_BLADE_OPS_OP_CALL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "blade_abi.h"
#include "call_inputs.h"
#include "counters.h"
#include "crew.h"
#include "gemm/gemm.h"
#include "gemm/packed_b.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_var.h"

namespace blade {

// What one kernel's matrix products need to know.
struct CallProducts {
  std::vector<bool> is_constant;      // by input: whether it is the same tensor in every call
  PackedConstants* packed = nullptr;  // what was packed of those
  bool find_repeats = true;           // look for columns that are the same in every row
};

// What one kernel's calls tell those that follow: whether to ask other threads for help at once,
// before the first loop is reached, and whether its tables were taken care of. Thread-safe.
struct CallHistory {
  std::atomic<int64_t> size{-1};  // of the last call with parallel loops, as OpCall::Size; or -1
  std::atomic<int> helpers{0};    // that it asked for
  std::atomic<bool> moving_tables{false};  // to huge pages, or moved
};

// The inputs as the ABI has them, and the host's functions. Lives as long as one Compute.
//
// A variable's resource arrives as the variable's value. The value is held, not copied: TensorFlow
// replaces the buffer of a variable that is assigned meanwhile. Where it updates the buffer in
// place (a variable in copy-on-read mode), the variable stays locked for reading until the call is
// over, as ResourceGather does.
class OpCall {
 public:
  // Args:
  //   sources: of the op's inputs.
  //   n_inputs: the executable's; further inputs of the op are for its fallback only.
  //   products: may be null, where there are none.
  //   history: of the same kernel.
  OpCall(tensorflow::OpKernelContext* ctx, const CallInputs& sources, int n_inputs,
         const CallProducts* products, ClusterCounters* counters, CallHistory* history);
  ~OpCall();
  OpCall(const OpCall&) = delete;
  OpCall& operator=(const OpCall&) = delete;

  static const BladeHost kHost;

  // Calls run(host, ctx, inputs), which returns what BladeRun returns, and passes that on. When it
  // isn't 0, the context has no outputs.
  template <class Run>
  int operator()(Run&& run) {
    const int taken = TakeInputs();
    if (taken != BLADE_OK) return taken;
    return Finish(run(kHost, this, inputs_.data()));
  }

 private:
  int TakeInputs();
  // Holds the values of all variables among the inputs. False if one has none.
  bool TakeVariables(int count);
  // Has the tables of the first call moved to huge pages, by a thread that nobody waits for.
  void MoveTables() const;
  int Finish(int status);

  void* AllocateOutput(int index, int rank, const BladeInt* dims);
  int ForwardInput(int index, int input, int rank, const BladeInt* dims);
  void* AllocateTemp(BladeInt bytes);
  // Elements of the first input that isn't the same in each call: how large the call is.
  int64_t Size() const;
  // Threads that may work on this call.
  int Threads() const;
  // Has some thread of TensorFlow's intra-op pool call a function.
  auto Scheduler() const {
    tensorflow::thread::ThreadPool* pool = ctx_->device()->tensorflow_cpu_worker_threads()->workers;
    return [pool](auto f) { pool->Schedule(std::move(f)); };
  }
  void ParallelFor(BladeInt total, double cost_cycles, BladeBody body, const void* args);
  // B of a product, packed, if it is an input that is the same in every call.
  const PackedB* Packed(const BladeGemm& gemm) const;
  GemmHost ProductHost();
  int Gemm(const BladeGemm& gemm);
  int Conv(const BladeConv& conv);

  tensorflow::OpKernelContext* const ctx_;
  const CallInputs& sources_;
  const int n_inputs_;
  const CallProducts* const products_;
  ClusterCounters* const counters_;
  CallHistory* const history_;
  absl::InlinedVector<const tensorflow::Tensor*, 16> tensors_;  // of the executable's inputs
  absl::InlinedVector<BladeTensor, 16> inputs_;
  absl::InlinedVector<BladeInt, 64> dims_;
  absl::InlinedVector<tensorflow::Tensor, 1> copies_;  // of inputs that are not aligned
  std::vector<tensorflow::core::RefCountPtr<tensorflow::Var>> variables_;
  std::vector<tensorflow::Tensor> values_;  // of the variables, in the same order
  std::vector<tensorflow::Var*> locked_;
  tensorflow::Tensor temp_;
  std::shared_ptr<Crew> crew_;  // null until it is called
  int64_t size_ = 0;
  int helpers_ = 0;  // that the loops asked for
};

}  // namespace blade

#endif  // TF_BLADE_OPS_OP_CALL_H_
