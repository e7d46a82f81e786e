// The CPU kernel of BladeLookup.
#include <memory>
#include <string>
#include <utility>

#include "blade_abi.h"
#include "call_inputs.h"
#include "counters.h"
#include "fallback.h"
#include "lookup/lookup.h"
#include "op_call.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;

class BladeLookupOp : public OpKernel {
 public:
  explicit BladeLookupOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    tensorflow::NameAttrList fallback;
    OP_REQUIRES_OK(ctx, inputs_.Init(ctx));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("fallback", &fallback));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("columns", &columns_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("find_repeats", &find_repeats_));
    if (columns_.empty()) columns_ = name();
    fallback_ = std::make_unique<blade::Fallback>(std::move(fallback));
    counters_ = blade::ClusterCounters::For(columns_);
    Load(ctx);
  }

  void Compute(OpKernelContext* ctx) override {
    std::string cause = load_error_;
    if (lookup_ != nullptr) {
      const int status =
          blade::OpCall(ctx, inputs_, lookup_->n_inputs(), nullptr, counters_, &history_)(
              [this](const BladeHost& host, void* call, const BladeTensor* inputs) {
                return lookup_->Run(host, call, inputs, find_repeats_);
              });
      if (status == BLADE_OK) {
        counters_->CountLaunch();
        return;
      }
      cause = lookup_->Reason(status);
    }
    if (counters_->CountFallback(cause)) {
      LOG(WARNING) << "tf-blade: the columns of '" << columns_ << "' run in TensorFlow: " << cause
                   << ". Said once; tf_blade.library.counters() has the numbers.";
    }
    absl::Status status = fallback_->Run(ctx, inputs_);
    if (!status.ok()) {
      // The same error, with the column's name.
      status = absl::Status(status.code(), absl::StrCat(status.message(), " (", cause, ")"));
    }
    OP_REQUIRES_OK(ctx, status);
  }

 private:
  // Sets lookup_, or load_error_. A model must load, whatever its lookup says.
  void Load(OpKernelConstruction* ctx) {
    // Not GetAttr: it copies, and lookups hold vocabularies.
    const tensorflow::AttrValue* attr = tensorflow::AttrSlice(ctx->def()).Find("lookup");
    if (attr == nullptr) {
      load_error_ = "the node has no lookup";
      return;
    }
    lookup_ = blade::Lookup::Parse(attr->s(), &load_error_);
    if (lookup_ == nullptr) return;
    if (lookup_->n_inputs() > inputs_.size() || lookup_->n_outputs() != ctx->num_outputs()) {
      load_error_ =
          absl::StrCat("the lookup has ", lookup_->n_inputs(), " inputs and ", lookup_->n_outputs(),
                       " outputs, the node ", inputs_.size(), " and ", ctx->num_outputs());
      lookup_ = nullptr;
    }
  }

  std::string columns_;
  bool find_repeats_ = true;
  std::shared_ptr<const blade::Lookup> lookup_;
  std::string load_error_;  // why lookup_ is null
  blade::CallInputs inputs_;
  blade::CallHistory history_;
  std::unique_ptr<blade::Fallback> fallback_;
  blade::ClusterCounters* counters_ = nullptr;
};

REGISTER_KERNEL_BUILDER(Name("BladeLookup").Device(tensorflow::DEVICE_CPU), BladeLookupOp);

}  // namespace
