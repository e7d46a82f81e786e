// The CPU kernel of BladeCluster.
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
    if (cluster_.empty()) cluster_ = name();
    fallback_ = std::make_unique<blade::Fallback>(std::move(fallback));
    counters_ = blade::ClusterCounters::For(cluster_);

    constants_.is_constant.assign(inputs_.size(), false);
    for (const int32_t index : constant_inputs) {
      OP_REQUIRES(ctx, index >= 0 && index < inputs_.size(),
                  absl::InvalidArgumentError(
                      absl::StrCat("BladeCluster ", cluster_, ": constant_inputs has ", index,
                                   ", the op has ", inputs_.size(), " inputs")));
      constants_.is_constant[index] = true;
    }
    packed_ = std::make_unique<blade::PackedConstants>(inputs_.size());
    constants_.packed = packed_.get();
    Load(ctx);
  }

  void Compute(OpKernelContext* ctx) override {
    if (executable_ != nullptr) {
      const int status =
          blade::OpCall(ctx, inputs_, executable_->n_inputs(), &constants_, counters_)(
              [this](const BladeHost& host, void* call, const BladeTensor* inputs) {
                return executable_->Run(host, call, inputs);
              });
      if (status == BLADE_OK) {
        counters_->CountLaunch();
        return;
      }
      CountFallback(executable_->Reason(status));
    } else {
      CountFallback(load_error_);
    }
    OP_REQUIRES_OK(ctx, fallback_->Run(ctx, inputs_));
  }

 private:
  // Sets executable_, or load_error_. A model must load on a machine that can't run its code.
  void Load(OpKernelConstruction* ctx) {
    // Not GetAttr: it copies, and executables are large.
    const tensorflow::AttrValue* attr = tensorflow::AttrSlice(ctx->def()).Find("executable");
    if (attr == nullptr) {
      load_error_ = "the node has no executable";
      return;
    }
    executable_ = blade::Executable::Load(attr->s(), &load_error_);
    if (executable_ == nullptr) return;
    // Inputs after the executable's are there for the fallback.
    if (executable_->n_inputs() > inputs_.size() ||
        executable_->n_outputs() != ctx->num_outputs()) {
      load_error_ = absl::StrCat("the executable has ", executable_->n_inputs(), " inputs and ",
                                 executable_->n_outputs(), " outputs, the node ", inputs_.size(),
                                 " and ", ctx->num_outputs());
      executable_ = nullptr;
      return;
    }
    load_error_ = Misfit(ctx);
    if (!load_error_.empty()) executable_ = nullptr;
  }

  // What the executable can't take or give, or "".
  std::string Misfit(OpKernelConstruction* ctx) const {
    const int n_inputs = executable_->n_inputs();
    for (int i = 0; i < n_inputs + ctx->num_outputs(); ++i) {
      const bool is_input = i < n_inputs;
      const int index = is_input ? i : i - n_inputs;
      const DataType type = is_input ? inputs_.dtype(index) : ctx->output_type(index);
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
  std::shared_ptr<const blade::Executable> executable_;
  std::string load_error_;  // why executable_ is null
  std::unique_ptr<blade::PackedConstants> packed_;
  blade::CallConstants constants_;
  blade::CallInputs inputs_;
  std::unique_ptr<blade::Fallback> fallback_;
  blade::ClusterCounters* counters_ = nullptr;
};

REGISTER_KERNEL_BUILDER(Name("BladeCluster").Device(tensorflow::DEVICE_CPU), BladeClusterOp);

}  // namespace
