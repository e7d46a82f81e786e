// The CPU kernel of BladeCluster.
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "blade_abi.h"
#include "call_inputs.h"
#include "counters.h"
#include "executable.h"
#include "fallback.h"
#include "gemm/packed_b.h"
#include "host_standalone.h"
#include "op_call.h"
#include "pending_executable.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace {

using tensorflow::DataType;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;

class BladeClusterOp : public OpKernel {
 public:
  explicit BladeClusterOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    std::vector<int32_t> constant_inputs;
    tensorflow::NameAttrList fallback;
    OP_REQUIRES_OK(ctx, inputs_.Init(ctx));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("constant_inputs", &constant_inputs));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("fallback", &fallback));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("cluster", &cluster_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("find_repeats", &products_.find_repeats));
    if (cluster_.empty()) cluster_ = name();
    fallback_ = std::make_unique<blade::Fallback>(std::move(fallback));
    counters_ = blade::ClusterCounters::For(cluster_);

    products_.is_constant.assign(inputs_.size(), false);
    for (const int32_t index : constant_inputs) {
      OP_REQUIRES(ctx, index >= 0 && index < inputs_.size(),
                  absl::InvalidArgumentError(
                      absl::StrCat("BladeCluster ", cluster_, ": constant_inputs has ", index,
                                   ", the op has ", inputs_.size(), " inputs")));
      products_.is_constant[index] = true;
    }
    packed_ = std::make_unique<blade::PackedConstants>(inputs_.size());
    products_.packed = packed_.get();
    Load(ctx);
  }

  void Compute(OpKernelContext* ctx) override {
    State state = state_.load(std::memory_order_acquire);
    if (state == kPending && pending_->done()) state = Settle();
    if (state == kReady) {
      const int status =
          blade::OpCall(ctx, inputs_, executable_->n_inputs(), &products_, counters_, &history_)(
              [this](const BladeHost& host, void* call, const BladeTensor* inputs) {
                return executable_->Run(host, call, inputs);
              });
      if (status == BLADE_OK) {
        counters_->CountLaunch();
        return;
      }
      CountFallback(executable_->Reason(status));
    } else if (state == kRefused) {
      CountFallback(load_error_);
    } else {
      counters_->CountFallback("it is being compiled");  // as it should be: nothing to warn of
    }
    OP_REQUIRES_OK(ctx, fallback_->Run(ctx, inputs_));
  }

 private:
  // Only kPending changes, once.
  enum State { kPending, kReady, kRefused };

  // Sets state_, and executable_ or load_error_. A model must load on a machine that can't run its
  // code.
  void Load(OpKernelConstruction* ctx) {
    // Not GetAttr: it copies, and executables are large.
    const tensorflow::AttrValue* attr = tensorflow::AttrSlice(ctx->def()).Find("executable");
    std::string key;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("pending", &key));
    if (attr != nullptr && attr->s().empty() && !key.empty()) {
      pending_ = blade::PendingExecutable::For(key);
      if (pending_->done()) Settle();
      return;
    }
    if (attr == nullptr) {
      load_error_ = "the node has no executable";
    } else {
      executable_ = blade::Executable::Load(attr->s(), &load_error_);
    }
    state_ = Check();
  }

  // Takes what has come of the pending executable.
  State Settle() {
    tensorflow::mutex_lock lock(settling_);
    if (state_.load(std::memory_order_relaxed) == kPending) {
      executable_ = pending_->executable();
      load_error_ = pending_->error();
      state_.store(Check(), std::memory_order_release);
    }
    return state_.load(std::memory_order_relaxed);
  }

  // Drops an executable that doesn't fit the node, and says so in load_error_.
  State Check() {
    if (executable_ != nullptr) load_error_ = Misfit();
    if (!load_error_.empty()) executable_ = nullptr;
    return executable_ != nullptr ? kReady : kRefused;
  }

  // What the executable can't take or give, or "".
  std::string Misfit() const {
    const int n_inputs = executable_->n_inputs();
    // Inputs after the executable's are there for the fallback.
    if (n_inputs > inputs_.size() || executable_->n_outputs() != num_outputs()) {
      return absl::StrCat("the executable has ", n_inputs, " inputs and ", executable_->n_outputs(),
                          " outputs, the node ", inputs_.size(), " and ", num_outputs());
    }
    for (int i = 0; i < n_inputs + num_outputs(); ++i) {
      const bool is_input = i < n_inputs;
      const int index = is_input ? i : i - n_inputs;
      const DataType type = is_input ? inputs_.dtype(index) : output_type(index);
      // Lookups take strings, and variables by their resource.
      const bool looked_up = type == tensorflow::DT_STRING || type == tensorflow::DT_RESOURCE;
      if (blade::SizeOf(type) == 0 && !(is_input && looked_up)) {
        return absl::StrCat(is_input ? "input " : "output ", index, " has dtype ",
                            tensorflow::DataTypeString(type), ", which has no compiled form");
      }
    }
    return "";
  }

  void CountFallback(const std::string& cause) {
    if (!counters_->CountFallback(cause)) return;
    LOG(WARNING) << "tf-blade: cluster '" << cluster_ << "' runs in TensorFlow: " << cause
                 << ". Said once; tf_blade.library.counters() has the numbers.";
  }

  std::string cluster_;
  blade::PendingExecutable* pending_ = nullptr;
  tensorflow::mutex settling_;
  std::atomic<State> state_{kPending};
  // Neither changes once state_ isn't kPending any more.
  std::shared_ptr<const blade::Executable> executable_;
  std::string load_error_;  // why executable_ is null
  std::unique_ptr<blade::PackedConstants> packed_;
  blade::CallProducts products_;
  blade::CallInputs inputs_;
  blade::CallHistory history_;
  std::unique_ptr<blade::Fallback> fallback_;
  blade::ClusterCounters* counters_ = nullptr;
};

REGISTER_KERNEL_BUILDER(Name("BladeCluster").Device(tensorflow::DEVICE_CPU), BladeClusterOp);

}  // namespace
